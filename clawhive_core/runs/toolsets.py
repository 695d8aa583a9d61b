"""The tools that a running model is offered, and those that skills and results enable.

A skill is active when the user names it for the run, or when its text was opened in the
conversation. What each would enable is settled and recorded as the run starts, so that a run which
is repeated or goes on offers the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any

from clawhive_core.events.kinds import TOOLS_ENABLED
from clawhive_core.execution.recorded import resolve_blobs
from clawhive_core.execution.scope import Enabled
from clawhive_core.model.events import Blob, Event
from clawhive_core.model.late import dataclass
from clawhive_core.model.tools import Enablement, ToolDef
from clawhive_core.protocols.ledger import Ledger
from clawhive_core.runs.record.lineage import start_of


@dataclass(frozen=True, slots=True)
class Toolset:
    """The tools that a skill or a result enables, and those of it that are left out."""

    tools: tuple[ToolDef, ...] = ()
    left_out: tuple[tuple[str, str], ...] = ()
    """The other tools that it names, each with why it is not offered."""

    def to_dict(self) -> dict[str, Any]:
        """Return it as the log holds it."""
        tools = [[each.name, each.description, each.parameters] for each in self.tools]
        return {"tools": tools, "left_out": list(map(list, self.left_out))}

    @property
    def missing(self) -> str:
        """The tools that are left out, as a sentence, empty where none is."""
        if not self.left_out:
            return ""
        return f"Not offered: {', '.join(f'`{name}` ({why})' for name, why in self.left_out)}."

    @property
    def note(self) -> str:
        """The note that a model reads with the skill's text."""
        names = ", ".join(f"`{tool.name}`" for tool in self.tools)
        new = f"Offered from now on, for this skill: {names}." if names else ""
        return " ".join(part for part in (new, self.missing) if part)


@dataclass(frozen=True, slots=True)
class SkillTools:
    """The skills of one run, and the tools that they enable."""

    active: tuple[str, ...] = ()
    """The skills that the user named for the run."""
    opened: tuple[str, ...] = ()
    """Those that were active in the conversation before."""
    toolsets: Mapping[str, Toolset] = field(default_factory=dict[str, Toolset])
    """By skill, the tools that it enables; skills that enable and lack nothing are left out."""
    bounded: bool = False
    """Whether the model may call only what it is offered: its agent begins with a list of tools."""

    def to_dict(self) -> dict[str, Any]:
        """Return it as the log holds it."""
        return {
            "active": list(self.active),
            "opened": list(self.opened),
            "brings": {name: toolset.to_dict() for name, toolset in self.toolsets.items()},
            "bounded": self.bounded,
        }

    @classmethod
    def from_dict(cls, value: Mapping[str, Any] | None) -> SkillTools:
        """Return what `to_dict` wrote; older runs have none."""
        if value is None:
            return cls()
        toolsets = {
            name: Toolset(
                tuple(ToolDef(*each) for each in row["tools"]),
                tuple((name, why) for name, why in row["left_out"]),
            )
            for name, row in value["brings"].items()
        }
        return cls(tuple(value["active"]), tuple(value["opened"]), toolsets, value["bounded"])

    @property
    def further_tools(self) -> tuple[ToolDef, ...]:
        """All tools that skills could enable."""
        return tuple(tool for each in self.toolsets.values() for tool in each.tools)

    def at_start(self, tools: tuple[ToolDef, ...]) -> tuple[ToolDef, ...]:
        """Return tools, and behind them what the skills that are active from the start enable."""
        found = {tool.name: tool for tool in tools}
        for name in (*self.opened, *self.active):
            for tool in self.toolsets[name].tools if name in self.toolsets else ():
                found.setdefault(tool.name, tool)
        return tools if len(found) == len(tools) else tuple(found.values())


@dataclass(frozen=True, slots=True)
class Offer:
    """The tools and skills that a model is offered under one revision of the catalog."""

    revision: str = ""
    tools: tuple[ToolDef, ...] = ()
    skills: SkillTools = field(default_factory=SkillTools)
    """The relations of skills with the tools."""
    polling: frozenset[str] = frozenset()
    """The tools that may well answer the same call differently."""
    instructions: str = ""
    """The part of the loop's system prompt that is not its own: the skills."""

    def to_dict(self) -> dict[str, Any]:
        """Return it as a `tools.changed` holds it: without the instructions, which stay."""
        return {
            "catalog_revision": self.revision,
            "tools": Blob([[each.name, each.description, each.parameters] for each in self.tools]),
            "skills": Blob(self.skills.to_dict()),
            "polling": sorted(self.polling),
        }

    @classmethod
    def from_event(cls, log: Ledger, event: Event) -> Offer:
        """Return what the body of a `tools.changed` says."""
        body: Mapping[str, Any] = resolve_blobs(log, event.body)
        tools = tuple(ToolDef(*each) for each in body["tools"])
        skills = SkillTools.from_dict(body["skills"])
        return cls(body["catalog_revision"], tools, skills, frozenset(body["polling"]))


@dataclass(slots=True)
class OfferedTools:
    """The tools that a loop's model is offered, from turn to turn."""

    tools: tuple[ToolDef, ...]
    skills: SkillTools
    enabled: Enabled | None
    """The tools that it may call, None where these are all that its agent sees."""
    _enabled_later: dict[str, ToolDef] = field(default_factory=dict[str, ToolDef])
    """The tools that results enabled, by name."""
    _opened: list[str] = field(default_factory=list[str])
    _expiry: dict[str, int] = field(default_factory=dict[str, int])
    """The turn from which a tool is gone."""

    @classmethod
    def of(cls, offer: Offer) -> OfferedTools:
        """Return what a loop begins with."""
        return cls(offer.tools, offer.skills, _callable_tools(offer.tools, offer.skills))

    def enabled_by(
        self, enables: Enablement, tools_named: Callable[[Sequence[str]], Toolset]
    ) -> Toolset | None:
        """Return the tools that a result enables, None where it enables none."""
        found = self.skills.toolsets.get(enables.skill, Toolset())
        if enables.names:
            more = tools_named(enables.names)
            known = {tool.name for tool in found.tools}
            tools = tuple(tool for tool in more.tools if tool.name not in known)
            found = Toolset((*found.tools, *tools), (*found.left_out, *more.left_out))
        return None if found == Toolset() else found

    def enable(self, toolset: Toolset, enables: Enablement) -> None:
        """Offer the tools that a result enables from the next turn on."""
        if enables.skill:
            self._opened.append(enables.skill)
        for tool in toolset.tools:
            self._enabled_later[tool.name] = tool
            if enables.expires_at_turn is not None:
                self._expiry[tool.name] = enables.expires_at_turn
            else:
                self._expiry.pop(tool.name, None)
        self._add(toolset.tools)

    def expire(self, turn: int) -> None:
        """Take away what may be had up to a turn."""
        gone = {name for name, turn_gone in self._expiry.items() if turn_gone <= turn}
        if not gone:
            return
        for name in gone:
            del self._expiry[name], self._enabled_later[name]
        self.tools = tuple(tool for tool in self.tools if tool.name not in gone)
        if self.enabled is not None:
            self.enabled.names -= gone

    def update(self, offer: Offer) -> bool:
        """Offer what another revision of the catalog has; whether that is anything else."""
        before, enabled = self.tools, self.enabled
        self.tools, self.skills = offer.tools, offer.skills
        self.enabled = _callable_tools(offer.tools, offer.skills)
        for name in self._opened:
            toolset = offer.skills.toolsets.get(name, Toolset())
            self._enabled_later.update({tool.name: tool for tool in toolset.tools})
        self._add(tuple(self._enabled_later.values()))
        return (before, enabled) != (self.tools, self.enabled)

    def _add(self, tools: Sequence[ToolDef]) -> None:
        known = {tool.name for tool in self.tools}
        self.tools += tuple(tool for tool in tools if tool.name not in known)
        if self.enabled is not None:
            self.enabled.names.update(tool.name for tool in tools)


def _callable_tools(tools: Sequence[ToolDef], skills: SkillTools) -> Enabled | None:
    """Return what a model may call that is offered these tools."""
    if not skills.bounded:
        return None
    enabled = Enabled({tool.name for tool in tools})
    for name, toolset in sorted(skills.toolsets.items()):
        for tool in toolset.tools:
            enabled.skills.setdefault(tool.name, []).append(name)
    return enabled


def active_before(log: Ledger, run_id: str | None) -> tuple[str, ...]:
    """Return the skills that were active in a conversation at the end of a run of it."""
    if run_id is None:
        return ()
    recorded = SkillTools.from_dict(resolve_blobs(log, start_of(log, run_id).get("skills")))
    opened = [
        str(stored.event.body["skill"])
        for stored in log.events(run_id=run_id)
        if stored.event.kind == TOOLS_ENABLED and stored.event.body["skill"]
    ]
    return tuple(dict.fromkeys((*recorded.opened, *recorded.active, *opened)))


def enabled_toolset(log: Ledger, event: Event) -> Toolset:
    """Return the tools that a `tools.enabled` of a core tool's result enabled."""
    body: Mapping[str, Any] = resolve_blobs(log, event.body)
    left_out = tuple((str(name), str(why)) for name, why in body["left_out"])
    return Toolset(tuple(ToolDef(*each) for each in body.get("defs", ())), left_out)


@dataclass(frozen=True, slots=True)
class RunToolSource:
    """A source, as the loop of one run asks it."""

    updated_offer: Callable[[str, str], Offer | None]
    tools_named: Callable[[Sequence[str], str], Toolset]


def _unchanged(revision: str, step_id: str) -> None:
    del revision, step_id


def _nothing(names: Sequence[str], step_id: str) -> Toolset:
    del names, step_id
    return Toolset()


NO_TOOLS = RunToolSource(_unchanged, _nothing)
"""The source of a run that is to make no call: it has none."""
