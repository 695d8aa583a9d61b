"""The graph of a set of skills: what imports what, and which tools they require besides."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import Any, Literal

from clawhive_core.diagnostics.finding import Finding
from clawhive_core.model.late import dataclass
from clawhive_core.skills.checks.cycles import components
from clawhive_core.skills.checks.required import KnownTools
from clawhive_core.skills.contracts.skill import Deprecation, Import, Skill, State
from clawhive_core.skills.discovery.skill_set import Entry, SkillSet
from clawhive_core.skills.documents.place import Named, Place

Where = tuple[str | None, int | None, int | None]


@dataclass(frozen=True, slots=True)
class Node:
    """A skill of the graph, or a name that is imported and that no skill has."""

    id: str
    state: State | Literal["missing"]
    version: str = ""
    api_version: str = ""
    reason: str = ""
    source: str = ""
    path: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return the node as JSON."""
        return {
            "id": self.id,
            "state": self.state,
            "reason": self.reason or None,
            "version": self.version or None,
            "api_version": self.api_version or None,
            "source": self.source or None,
            "path": self.path or None,
        }


@dataclass(frozen=True, slots=True)
class Edge:
    """One import: who imports, from whom, what, and whether that is there."""

    consumer: str
    provider: str
    place: Place
    tools: tuple[Named, ...] = ()
    min_version: str = ""
    satisfied: bool = True
    """Whether the provider is loaded and nothing about the import is an error."""
    deprecated: tuple[Deprecation, ...] = ()
    """The provider's words on the imported tools that will go."""
    problems: tuple[Finding, ...] = ()
    """The findings at the places of this import, the notes left out."""
    in_cycle: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the imported tools, each once."""
        return tuple(dict.fromkeys(tool.name for tool in self.tools))

    def to_dict(self) -> dict[str, Any]:
        """Return the edge as JSON."""
        return {
            "consumer": self.consumer,
            "provider": self.provider,
            "tools": list(self.names),
            "min_version": self.min_version or None,
            "satisfied": self.satisfied,
            "cycle": self.in_cycle,
            "deprecated": [
                {
                    "tool": each.tool,
                    "removal_date": each.removal_date.isoformat(),
                    "replacement": each.replacement or None,
                }
                for each in self.deprecated
            ],
            "problems": [
                {"code": each.code, "severity": each.severity, "message": each.message}
                for each in self.problems
            ],
            **place_fields(self.place),
        }


@dataclass(frozen=True, slots=True)
class Need:
    """A tool that a skill requires, and who offers it."""

    consumer: str
    tool: str
    place: Place
    provider: str | None = None
    """The skill that exports it or has a task type of the name; None for a provider's tool."""
    offered: bool | None = None
    """None where a plugin lists its tools only when it runs."""

    def to_dict(self) -> dict[str, Any]:
        """Return the requirement as JSON."""
        return {
            "skill": self.consumer,
            "tool": self.tool,
            "provider": self.provider,
            "offered": self.offered,
            **place_fields(self.place),
        }


@dataclass(frozen=True, slots=True)
class SkillGraph:
    """Skills, imports and required tools, each sorted: equal sets make equal graphs."""

    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...] = ()
    needs: tuple[Need, ...] = ()
    cycles: tuple[tuple[str, ...], ...] = ()
    """The skills that import each other in cycles, those of each component together."""

    @classmethod
    def of(cls, found: SkillSet, known: KnownTools) -> SkillGraph:
        """Return the graph of a set, in time linear in its imports.

        Args:
            found: The set, as every start finds it.
            known: The tools of providers.
        """
        entries = {each.skill.id: each for each in found.entries if each.state != "shadowed"}
        edges = [edge for entry in entries.values() for edge in _edges(entry, entries)]
        missing = dict.fromkeys(each.provider for each in edges if each.provider not in entries)
        nodes = [_node(entry) for entry in entries.values()]
        nodes += [Node(name, "missing", reason="no skill is called so") for name in missing]
        tied, cycles = _with_cycles(edges)
        needs = [need for entry in entries.values() for need in _needs(entry, entries, known)]
        return cls(
            tuple(sorted(nodes, key=lambda each: each.id)),
            tuple(sorted(tied, key=_edge_key)),
            tuple(sorted(needs, key=lambda each: (each.consumer, each.tool))),
            cycles,
        )

    def only_cycles(self) -> SkillGraph:
        """Return what is in a cycle, an import of itself too."""
        edges = tuple(each for each in self.edges if each.in_cycle)
        return self._part(edges, {each.consumer for each in edges}, ())

    def below(self, names: Collection[str]) -> SkillGraph:
        """Return these skills and everything that they import from, directly or not."""
        targets: dict[str, list[str]] = {}
        for edge in self.edges:
            targets.setdefault(edge.consumer, []).append(edge.provider)
        seen, waiting = set(names), list(names)
        while waiting:
            new = [each for each in targets.get(waiting.pop(), ()) if each not in seen]
            seen.update(new)
            waiting += new
        edges = tuple(each for each in self.edges if each.consumer in seen)
        return self._part(edges, seen, tuple(each for each in self.needs if each.consumer in seen))

    def _part(
        self, edges: tuple[Edge, ...], names: Collection[str], needs: tuple[Need, ...]
    ) -> SkillGraph:
        nodes = tuple(each for each in self.nodes if each.id in names)
        return replace(
            self,
            nodes=nodes,
            edges=edges,
            needs=needs,
            cycles=tuple(each for each in self.cycles if each[0] in names),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the object of `skills graph --json` (schema `skills-graph/1`)."""
        return {
            "schema": "skills-graph/1",
            "skills": [each.to_dict() for each in self.nodes],
            "imports": [each.to_dict() for each in self.edges],
            "requires": [each.to_dict() for each in self.needs],
            "cycles": [list(each) for each in self.cycles],
        }


def place_fields(place: Place) -> dict[str, Any]:
    """Return a place as the keys of a JSON object."""
    return {"file": place.file, "line": place.line, "column": place.column}


def _node(entry: Entry) -> Node:
    skill = entry.skill
    return Node(
        skill.id,
        entry.state,
        skill.version,
        skill.exports.api_version,
        entry.reason,
        skill.source,
        str(skill.file),
    )


def _edges(entry: Entry, entries: Mapping[str, Entry]) -> Iterator[Edge]:
    if not entry.skill.imports:
        return
    said: dict[Where, list[Finding]] = {}
    for finding in entry.findings:
        said.setdefault((finding.file, finding.line, finding.column), []).append(finding)
    for each in entry.skill.imports:
        yield _edge(entry.skill, each, said, entries.get(each.skill))


def _edge(
    skill: Skill, each: Import, said: Mapping[Where, list[Finding]], provider: Entry | None
) -> Edge:
    places = [each.place, *(tool.place for tool in each.tools)]
    places += [] if each.version_place is None else [each.version_place]
    problems = tuple(
        finding
        for place in dict.fromkeys(places)
        for finding in said.get((place.file, place.line, place.column), ())
        if finding.severity != "note"
    )
    names = {tool.name for tool in each.tools}
    going = () if provider is None else provider.skill.exports.deprecated
    broken = any(finding.severity == "error" for finding in problems)
    loaded = provider is not None and provider.state == "loaded"
    return Edge(
        skill.id,
        each.skill,
        each.place,
        each.tools,
        each.min_version,
        satisfied=loaded and not broken,
        deprecated=tuple(entry for entry in going if entry.tool in names),
        problems=problems,
    )


def _edge_key(edge: Edge) -> tuple[str, str, str, int, int]:
    place = edge.place
    return edge.consumer, edge.provider, place.file, place.line or 0, place.column or 0


def _with_cycles(edges: list[Edge]) -> tuple[list[Edge], tuple[tuple[str, ...], ...]]:
    targets: dict[str, list[str]] = {}
    for edge in edges:
        targets.setdefault(edge.consumer, []).append(edge.provider)
    found = components(targets)
    member = {name: number for number, component in enumerate(found) for name in component}
    tied = [
        replace(edge, in_cycle=True)
        if edge.consumer == edge.provider
        or member.get(edge.consumer, -1) == member.get(edge.provider, -2)
        else edge
        for edge in edges
    ]
    return tied, tuple(sorted(tuple(sorted(component)) for component in found))


def _needs(entry: Entry, entries: Mapping[str, Entry], known: KnownTools) -> Iterator[Need]:
    requires = entry.skill.requires
    for name, place in zip(requires.tools, requires.tool_places, strict=True):
        owner, _, tool = name.rpartition(".")
        provider = entries.get(owner)
        exported = provider is not None and (
            tool in provider.skill.exports.names() or tool in provider.skill.tasks
        )
        if exported and provider is not None:
            there: bool | None = provider.state == "loaded"
        else:
            there = True if name in known.names else (False if known.complete else None)
        yield Need(entry.skill.id, name, place, owner if exported else None, offered=there)
