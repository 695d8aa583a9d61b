"""The renewed offer to a running model, after the catalog changed or a core tool enabled some."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from clawhive_core.execution.recorded import full
from clawhive_core.model.events import Blob, Event
from clawhive_core.model.late import dataclass
from clawhive_core.model.tools import ToolDef
from clawhive_core.runs.offering.enabling import Brought, SkillTools

if TYPE_CHECKING:
    from clawhive_core.protocols.ledger import Ledger
    from clawhive_core.runs.run import RunRequest


@dataclass(frozen=True, slots=True)
class Renewed:
    """The offer to an agent under another revision of the catalog."""

    revision: str
    tools: tuple[ToolDef, ...]
    skills: SkillTools
    polling: frozenset[str]

    def to_dict(self) -> dict[str, Any]:
        """Return it as the log holds it."""
        return {
            "catalog_revision": self.revision,
            "tools": Blob([[each.name, each.description, each.parameters] for each in self.tools]),
            "skills": Blob(self.skills.to_dict()),
            "polling": sorted(self.polling),
        }

    @classmethod
    def from_event(cls, log: Ledger, event: Event) -> Renewed:
        """Return what the body of a `tools.changed` says."""
        body: Mapping[str, Any] = full(log, event.body)
        tools = tuple(ToolDef(*each) for each in body["tools"])
        skills = SkillTools.from_dict(body["skills"])
        return cls(body["catalog_revision"], tools, skills, frozenset(body["polling"]))


def enabled_in(log: Ledger, event: Event) -> Brought:
    """Return the tools that a `tools.enabled` of a core tool's result brought."""
    body: Mapping[str, Any] = full(log, event.body)
    left_out = tuple((str(name), str(why)) for name, why in body["left_out"])
    return Brought(tuple(ToolDef(*each) for each in body.get("defs", ())), left_out)


class ToolSource(Protocol):
    """The source of a running model's tools: the catalog of today, or the record."""

    def renewed(self, request: RunRequest, revision: str, step_id: str) -> Renewed | None:
        """Return what is offered from a turn on, None where the revision is still the current."""
        ...

    def named(self, request: RunRequest, names: Sequence[str], step_id: str) -> Brought:
        """Return the tools of these names, as far as the agent may have them."""
        ...


class NoSource:
    """Brings nothing: a replay with one side live, a loop that is given its tools."""

    def renewed(self, request: RunRequest, revision: str, step_id: str) -> Renewed | None:
        """Return nothing."""
        del request, revision, step_id

    def named(self, request: RunRequest, names: Sequence[str], step_id: str) -> Brought:
        """Return nothing."""
        del request, names, step_id
        return Brought()


@dataclass(frozen=True, slots=True)
class ToolsOfRun:
    """A source, as the loop of one run asks it."""

    renewed: Callable[[str, str], Renewed | None]
    named: Callable[[Sequence[str], str], Brought]


def _unchanged(revision: str, step_id: str) -> None:
    del revision, step_id


def _nothing(names: Sequence[str], step_id: str) -> Brought:
    del names, step_id
    return Brought()


NO_TOOLS = ToolsOfRun(_unchanged, _nothing)
"""Brings nothing: a run that is to make no call."""
