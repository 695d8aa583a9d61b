"""The users of a skill, or of one of its tools: imports, tasks, and agents of the configuration."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from clawhive_core.capabilities import contains, parse
from clawhive_core.config.config import Config
from clawhive_core.diagnostics.files import shown_path
from clawhive_core.errors import CapabilityError
from clawhive_core.model.late import dataclass
from clawhive_core.skills.contracts.skill import Skill
from clawhive_core.skills.documents.document import Document
from clawhive_core.skills.documents.place import InvalidSkill, KeyPath, Place
from clawhive_core.skills.documents.text import TEXT_FILE, read_skill_text
from clawhive_core.skills.graphs.graph import Edge, SkillGraph, place_fields


@dataclass(frozen=True, slots=True)
class Target:
    """The target of a question: a skill, one tool of it, or a tool that no skill has."""

    skill: str | None
    tool: str | None = None

    @property
    def name(self) -> str:
        """The canonical name."""
        return ".".join(part for part in (self.skill, self.tool) if part is not None)

    def is_tool(self, name: str) -> bool:
        """Whether a tool's canonical name means it, or a tool of the skill."""
        if self.tool is None:
            return name.rpartition(".")[0] == self.skill
        return name == self.name


@dataclass(frozen=True, slots=True)
class Importer:
    """A skill that imports from the target, or from a skill that does."""

    skill: str
    via: str
    """The skill that it imports from, one step nearer to the target."""
    edge: Edge
    depth: int
    """The number of imports that lead from it to the target, 1 for its own."""
    place: Place
    """The place where the tool that is asked about is imported, else the import."""

    def to_dict(self) -> dict[str, Any]:
        """Return the importer as JSON."""
        return {
            "skill": self.skill,
            "via": self.via,
            "depth": self.depth,
            "tools": list(self.edge.names),
            "min_version": self.edge.min_version or None,
            "satisfied": self.edge.satisfied,
            **place_fields(self.place),
        }


Kind = Literal["step", "requires", "run_type", "replacement"]


@dataclass(frozen=True, slots=True)
class Use:
    """Something of a contract that names the target, other than an import."""

    kind: Kind
    skill: str
    tool: str
    place: Place
    where: str = ""
    """`TASK.STEP` of a step."""

    def to_dict(self) -> dict[str, Any]:
        """Return the use as JSON."""
        return {
            "kind": self.kind,
            "skill": self.skill,
            "tool": self.tool,
            "where": self.where or None,
            **place_fields(self.place),
        }


def importers_of(target: Target, graph: SkillGraph) -> list[Importer]:
    """Return each skill that would miss the target, once, the nearest first.

    Of several ways to the target the shortest is shown; a tool is imported from its skill by name,
    everything further away by any tool.
    """
    if target.skill is None:
        return []
    users: dict[str, list[Edge]] = {}
    for edge in graph.edges:
        users.setdefault(edge.provider, []).append(edge)
    found: dict[str, Importer] = {}
    waiting = deque([(target.skill, 1)])
    while waiting:
        name, depth = waiting.popleft()
        for edge in users.get(name, ()):
            place = _import_place(edge, target.tool if depth == 1 else None)
            if place is None or edge.consumer in found or edge.consumer == target.skill:
                continue
            found[edge.consumer] = Importer(edge.consumer, name, edge, depth, place)
            waiting.append((edge.consumer, depth + 1))
    return list(found.values())


def _import_place(edge: Edge, tool: str | None) -> Place | None:
    """Return where a tool is imported, None where it is not; the import for any tool."""
    if tool is None:
        return edge.place
    return next((each.place for each in edge.tools if each.name == tool), None)


def uses_of(target: Target, skills: Sequence[Skill]) -> list[Use]:
    """Return what else in contracts names the target, in the order of the skills' ids.

    The steps of task types, `requires.tools`, `allowed_run_types`, and `replacement` of what is
    deprecated. What a skill says of itself counts for one of its tools, not for the whole skill.
    """
    found: list[Use] = []
    for skill in sorted(skills, key=lambda each: each.id):
        if target.tool is not None or skill.id != target.skill:
            found += _steps(target, skill)
            found += _named(target, skill)
    return found


def _steps(target: Target, skill: Skill) -> Iterator[Use]:
    for task in skill.tasks.values():
        for index, step in enumerate(task.steps):
            if target.is_tool(step["tool"]):
                place = contract_place(skill, ("tasks", task.name, "steps", index, "tool"))
                yield Use("step", skill.id, step["tool"], place, f"{task.name}.{step['name']}")


def _named(target: Target, skill: Skill) -> Iterator[Use]:
    requires = skill.requires
    for name, place in zip(requires.tools, requires.tool_places, strict=True):
        if target.is_tool(name):
            yield Use("requires", skill.id, name, place)
    for each in skill.allowed_run_types or ():
        name = each.name if "." in each.name else f"{skill.id}.{each.name}"
        if target.is_tool(name):
            yield Use("run_type", skill.id, name, each.place)
    for entry in skill.exports.deprecated:
        name = entry.replacement
        name = name if "." in name or not name else f"{skill.id}.{name}"
        if target.is_tool(name):
            yield Use("replacement", skill.id, name, entry.replacement_place or entry.place)


def contract_place(skill: Skill, path: KeyPath) -> Place:
    """Return where a value of a skill's contract stands; the file alone where it cannot be read."""
    file = skill.manifest or skill.file
    try:
        document, above = _document(skill)
    except InvalidSkill:
        return Place(shown_path(file))
    return Place(shown_path(file)) if document is None else document.place((*above, *path))


def _document(skill: Skill) -> tuple[Document | None, KeyPath]:
    """Return the document that holds a contract, and the keys that lead to it."""
    if skill.manifest is None or skill.manifest.name != TEXT_FILE:
        return (None, ()) if skill.manifest is None else (Document.load(skill.manifest), ())
    text = read_skill_text(skill.manifest)
    metadata: Any = text.values.get("metadata")
    inside = isinstance(metadata, Mapping) and "clawhive" in metadata
    return text.document, ("metadata", "clawhive") if inside else ()


_LISTS = ("allow", "sub_agent.allowed_tools")


@dataclass(frozen=True, slots=True)
class Naming:
    """A key of an agent's configuration that names something."""

    agent: str
    key: str
    """Such as `agents.NAME.skills`."""

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON."""
        return {"agent": self.agent, "key": self.key}


def agents_naming(config: Config, target: Target, tools: Sequence[str]) -> Iterator[Naming]:
    """Yield the keys of agents that name a target, by agent.

    An agent without lists may use everything and names nothing, like the pattern `*`.

    Args:
        config: The configuration.
        target: A skill or a tool.
        tools: The canonical names of the target's tools and task types.
    """
    for agent in sorted(config.section("agents")):
        key = f"agents.{agent}"
        if target.skill is not None and target.skill in (config.get(f"{key}.skills") or ()):
            yield Naming(agent, f"{key}.skills")
        for name in _LISTS:
            if any(_covers(each, tools) for each in config.get(f"{key}.{name}") or ()):
                yield Naming(agent, f"{key}.{name}")
        if not {*tools}.isdisjoint(config.get(f"{key}.when") or ()):
            yield Naming(agent, f"{key}.when")


def _covers(pattern: str, tools: Sequence[str]) -> bool:
    if pattern.startswith("*"):
        return False
    try:
        wanted = parse(f"tool.call:{pattern}")
        return any(contains(wanted, parse(f"tool.call:{tool}")) for tool in tools)
    except CapabilityError:  # the run says so, where the agent is used
        return False
