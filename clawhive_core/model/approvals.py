"""A person's answer to one exact call, and the sentence about the input that they edited."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal, cast

from clawhive_core.model.canonical import canonical_text, preview
from clawhive_core.model.late import dataclass

ApprovalState = Literal["pending", "approved", "denied", "expired", "drifted", "consumed"]
ApprovalScope = Literal["once", "step", "task", "session", "always"]
_MAX_PLACES = 10
_MAX_VALUE = 200
_NOTHING = object()


@dataclass(frozen=True, slots=True)
class Approval:
    """One call that a person must answer, bound to a digest of exactly that call."""

    approval_id: str
    digest: str
    """SHA-256 over contract, canonical arguments, capabilities, principal and bound files."""
    state: ApprovalState
    run_id: str
    step_id: str
    tool: str
    risk: str
    principal: str
    capabilities: tuple[str, ...]
    sinks: Mapping[str, Any]
    """The arguments that say where data or money goes, with their values."""
    preview: str
    diff: str
    """The change as a unified diff; empty where the tool proposes none."""
    created_at: str
    expires_at: str
    """RFC 3339, UTC."""
    step: str
    """The step of the plan or loop: its items and nested calls share what is granted for it."""
    resolved_by: str | None = None
    reason: str | None = None
    scope: ApprovalScope | None = None
    """For how long the answer is; None where nobody has answered."""
    grants: tuple[Mapping[str, Any], ...] = ()
    """The grants of the answer, each as CapabilityGrant.to_dict()."""
    edited: bool = False
    """Whether the person changed the input; the other fields say what it is now."""
    trace_id: str = ""
    task_id: str = ""
    conversation_id: str = ""
    seq: int = 0
    """The event that asked for it."""
    edited_seq: int | None = None
    """The event that changed its input, where a person did."""
    destinations: tuple[Mapping[str, Any], ...] = ()
    """The origin of each value of `sinks`: `argument`, `kind`, `value`, `source` (None where it is
    unknown), `tainted`, and `seen_in`, the untrusted output that named it first."""

    def to_dict(self) -> dict[str, Any]:
        """Return the approval as JSON."""
        return {
            "approval_id": self.approval_id,
            "state": self.state,
            "run_id": self.run_id,
            "step_id": self.step_id,
            "tool": self.tool,
            "risk": self.risk,
            "principal": self.principal,
            "capabilities": list(self.capabilities),
            "sinks": dict(self.sinks),
            "preview": self.preview,
            "diff": self.diff,
            "created_at": self.created_at,
            "expires_at": self.expires_at,
            "resolved_by": self.resolved_by,
            "reason": self.reason,
            "scope": self.scope,
            "grants": [dict(each) for each in self.grants],
            "edited": self.edited,
            "destinations": [dict(each) for each in self.destinations],
        }


def edits(asked: Mapping[str, Any], executed: Mapping[str, Any]) -> str:
    """Return how two inputs differ, empty where they do not; the same for equal inputs.

    Each place is a JSON pointer (RFC 6901) with the value that stands there now.
    """
    found = list(_places(asked, executed, ""))
    if not found:
        return ""
    shown = [f"{place} {_now(value)}" for place, value in found[:_MAX_PLACES]]
    if len(found) > _MAX_PLACES:
        shown.append(f"and {len(found) - _MAX_PLACES} more places")
    return f"A person edited the input before approving the call: {'; '.join(shown)}."


def changed(asked: Mapping[str, Any], executed: Mapping[str, Any]) -> list[Any]:
    """Return the values of an input that differ from those that were asked for."""
    return [value for _, value in _places(asked, executed, "") if value is not _NOTHING]


def _places(before: Any, after: Any, place: str) -> Iterator[tuple[str, Any]]:
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        one, other = cast("Mapping[str, Any]", before), cast("Mapping[str, Any]", after)
        for key in sorted({*one, *other}):
            inner = key.replace("~", "~0").replace("/", "~1")
            yield from _places(one.get(key, _NOTHING), other.get(key, _NOTHING), f"{place}/{inner}")
    elif before is _NOTHING or after is _NOTHING or canonical_text(before) != canonical_text(after):
        yield place, after


def _now(value: Any) -> str:
    if value is _NOTHING:
        return "is left out"
    return f"is now {preview(canonical_text(value), _MAX_VALUE)}"
