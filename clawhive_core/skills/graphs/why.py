"""The reasons that a skill is there, or is not: its users, and what keeps it from being loaded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from clawhive_core.diagnostics.files import shown_path
from clawhive_core.diagnostics.finding import Finding
from clawhive_core.diagnostics.suggestions import nearest
from clawhive_core.errors import UnknownId
from clawhive_core.model.late import dataclass
from clawhive_core.skills.discovery.skill_set import Entry, SkillSet
from clawhive_core.skills.graphs.graph import SkillGraph
from clawhive_core.skills.graphs.users import Importer, Naming, Target, Use, importers_of, uses_of

_GATES = frozenset({"CH0404", "CH0612"})
"""The notes that say why a skill is not for this machine, or not without its provider."""


@dataclass(frozen=True, slots=True)
class Reason:
    """One link of the chain that ends at what keeps a skill from being loaded."""

    skill: str
    state: str
    message: str
    depth: int = 0
    """The number of imports that lead to it from the skill that is asked about."""
    code: str | None = None
    place: str | None = None
    fix: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the reason as JSON."""
        return {
            "skill": self.skill,
            "state": self.state,
            "message": self.message,
            "depth": self.depth,
            "code": self.code,
            "place": self.place,
            "fix": self.fix,
        }


@dataclass(frozen=True, slots=True)
class Why:
    """The answer about one skill or tool."""

    target: Target
    state: str
    """Of the skill; `missing` for a name that is only imported, `tool` for a tool of no skill."""
    version: str = ""
    api_version: str = ""
    reasons: tuple[Reason, ...] = ()
    importers: tuple[Importer, ...] = ()
    uses: tuple[Use, ...] = ()
    agents: tuple[Naming, ...] = ()
    shadowed: tuple[str, ...] = ()
    """The files of skills with the same id that come later in the search path."""

    @property
    def removable(self) -> bool:
        """Whether nothing that was found names it."""
        return not (self.importers or self.uses or self.agents)

    def to_dict(self) -> dict[str, Any]:
        """Return the object of `skills why --json` (schema `skills-why/1`)."""
        return {
            "schema": "skills-why/1",
            "name": self.target.name,
            "skill": self.target.skill,
            "tool": self.target.tool,
            "state": self.state,
            "version": self.version or None,
            "api_version": self.api_version or None,
            "reasons": [each.to_dict() for each in self.reasons],
            "imported_by": [each.to_dict() for each in self.importers],
            "used_by": [each.to_dict() for each in self.uses],
            "agents": [each.to_dict() for each in self.agents],
            "shadowed": list(self.shadowed),
            "removable": self.removable,
        }


def target_of(name: str, found: SkillSet, graph: SkillGraph) -> Target:
    """Return what SKILL, SKILL.TOOL, SKILL.TASK or the name of a required tool means.

    Raises:
        UnknownId: Nothing is called so, and nothing imports or requires it.
    """
    if any(node.id == name for node in graph.nodes):
        return Target(name)
    owner, _, tool = name.rpartition(".")
    imported = {each for edge in graph.edges if edge.provider == owner for each in edge.names}
    entry = _entry(owner, found)
    own = set[str]() if entry is None else _own_names(entry)
    if tool in own | imported:
        return Target(owner, tool)
    required = {each.tool for each in graph.needs}
    if name in required:
        return Target(None, name)
    known = [node.id for node in graph.nodes] if entry is None else []
    close = nearest(name, [*known, *(f"{owner}.{each}" for each in own | imported), *required])
    said = "no skill and no tool is called" if entry is None else f"`{owner}` has no tool called"
    raise UnknownId(
        f"{said} `{tool if entry else name}`",
        place=name,
        fix=f"did you mean `{close}`?" if close else "list them: clawhive skills graph",
    )


def why(target: Target, found: SkillSet, graph: SkillGraph, agents: Iterable[Naming] = ()) -> Why:
    """Return who uses a target, and why its skill is not loaded where it is not."""
    entries = {each.skill.id: each for each in found.entries if each.state != "shadowed"}
    entry = entries.get(target.skill or "")
    answer = Why(
        target,
        "tool" if target.skill is None else "missing",
        importers=tuple(importers_of(target, graph)),
        uses=tuple(uses_of(target, [each.skill for each in entries.values()])),
        agents=tuple(agents),
    )
    if entry is None:
        return answer
    return replace(
        answer,
        state=entry.state,
        version=entry.skill.version,
        api_version=entry.skill.exports.api_version,
        reasons=tuple(reasons_of(entry, entries)),
        shadowed=tuple(
            shown_path(each.skill.file)
            for each in found.by_state("shadowed")
            if each.skill.id == target.skill
        ),
    )


def _entry(name: str, found: SkillSet) -> Entry | None:
    there = (each for each in found.entries if each.state != "shadowed" and each.skill.id == name)
    return next(there, None)


def _own_names(entry: Entry) -> set[str]:
    exports = entry.skill.exports
    return {*exports.names(), *(each.tool for each in exports.deprecated), *entry.skill.tasks}


def reasons_of(entry: Entry, entries: Mapping[str, Entry]) -> Iterator[Reason]:
    """Yield what keeps a skill from being loaded: its own mistakes, then those of its providers.

    Each skill is looked at once, however many ways lead to it.
    """
    waiting, seen = [(entry, 0)], {entry.skill.id}
    while waiting:
        each, depth = waiting.pop()
        if each.state == "loaded":
            continue
        yield from _own_reasons(each, depth)
        for name in sorted(_needed(each) & entries.keys() - seen, reverse=True):
            seen.add(name)
            waiting.append((entries[name], depth + 1))


def _needed(entry: Entry) -> set[str]:
    """Return the skills that a skill imports from, or requires a tool of."""
    owners = {name.rpartition(".")[0] for name in entry.skill.requires.tools}
    return owners | {each.skill for each in entry.skill.imports}


def _own_reasons(entry: Entry, depth: int) -> Iterator[Reason]:
    name, state = entry.skill.id, entry.state
    told = [each for each in entry.findings if _keeps_out(each, entry)]
    for finding in told:
        fix = None if finding.fix is None else finding.fix.title
        yield Reason(name, state, finding.message, depth, finding.code, finding.place, fix)
    if not told:
        path, fix = shown_path(entry.skill.file), entry.next_step or None
        yield Reason(name, state, entry.reason, depth, place=path, fix=fix)


def _keeps_out(finding: Finding, entry: Entry) -> bool:
    if entry.state == "disabled":
        return False
    gates = entry.state == "gated" and finding.code in _GATES
    return finding.severity == "error" or gates or finding.message == entry.reason
