"""The rows that a ledger's queries return, as typed values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any, Generic, TypeVar

from clawhive_core.model.grants import CapabilityGrant
from clawhive_core.model.late import dataclass

T_co = TypeVar("T_co", covariant=True)


class Page(Generic[T_co]):
    """One part of the answer to a query, and the way to the rest; it iterates over its items.

    Args:
        items: Some of what was asked for, in order.
        next: What to pass as `after` for those that follow; None where there are none.
        total: How many there are in all pages; None where that was not asked for.
    """

    __slots__ = ("items", "next", "total")

    def __init__(self, items: Sequence[T_co], next: str | None, total: int | None) -> None:
        self.items = items
        self.next = next
        self.total = total

    def __iter__(self) -> Iterator[T_co]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)

    def __repr__(self) -> str:
        return f"Page({len(self.items)} of {self.total}, next={self.next!r})"


class _Record:
    __slots__ = ()

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON."""
        return {each.name: getattr(self, each.name) for each in fields(self)}  # pyright: ignore[reportArgumentType] - every record is a dataclass


@dataclass(frozen=True, slots=True)
class RunRecord(_Record):
    """A run as it is by now."""

    run_id: str
    trace_id: str
    task_id: str
    parent_run_id: str | None
    """The run that started it."""
    conversation_id: str
    principal: str
    task_type: str | None
    title: str
    status: str
    started_at: str
    """RFC 3339, UTC."""
    ended_at: str | None
    error: Mapping[str, Any] | None
    artifacts: str
    """The folder of its files."""
    seq: int
    """The event that began it."""
    fence: int
    """The number of times that it was taken or interrupted."""
    worker: str | None
    """The worker that executes it, where one does."""


@dataclass(frozen=True, slots=True)
class StepRecord(_Record):
    """A step of a run, through its own end or its latest call."""

    step_id: str
    run_id: str
    name: str
    label: str
    ordinal: int
    action: str
    status: str
    error: Mapping[str, Any] | None
    trace_id: str
    provider_id: str | None
    capability_level: str | None
    input_preview: str | None
    """None for a turn of a model."""
    output_preview: str | None
    """None before its end, and where it was refused."""
    seq: int
    """The first event of it."""


@dataclass(frozen=True, slots=True)
class InvocationRecord(_Record):
    """A call: what was asked, decided and answered."""

    invocation_id: str
    run_id: str
    step_id: str
    trace_id: str
    tool: str
    provider_id: str | None
    principal: str
    capability_level: str | None
    risk: str | None
    requested_capabilities: Sequence[Any]
    granted_capabilities: Sequence[Any]
    decision: str | None
    approval_required: bool
    approval_result: str | None
    start_at: str
    end_at: str | None
    status: str
    error: Mapping[str, Any] | None
    input_preview: str
    output_preview: str | None
    """None before its end, and where it was refused."""
    parent_invocation_id: str | None
    seq: int
    """The event that began it."""


@dataclass(frozen=True, slots=True)
class GrantRecord(_Record):
    """A grant of a task, a step or a session, ended or not."""

    grant_id: str
    capability: str
    subject: str
    scope: str
    scope_id: str
    issuer: str
    mode: str
    expires_at: str | None
    parent_grant: str | None
    uses: int | None
    uses_left: int | None
    delegate: str | None
    issued_at: str
    ended_at: str | None


@dataclass(frozen=True, slots=True)
class WorkerRecord:
    """A process that executes runs, and how long its lease on them holds."""

    worker: str
    host: str
    """Machine, boot and process namespace: within one of these, process ids mean something."""
    pid: int
    process_start: str
    seconds_left: float
    """On the store's clock; none are left of a lease that lapsed."""
    is_alive: bool
    """Whether it may still execute its runs: its lease says so, and its process is not known to
    be gone. That a process is there proves nothing, as it may stand still for ever."""


@dataclass(frozen=True, slots=True)
class Ownership:
    """Under which fence a run is, and whether somebody wants its end."""

    run_id: str
    fence: int
    cancel: bool


@dataclass(frozen=True, slots=True)
class RightRecord:
    """A grant that stands."""

    grant: CapabilityGrant
    uses_left: int | None
    issued_at: str

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON."""
        row = self.grant.to_dict()
        return {**row, "uses_left": self.uses_left, "issued_at": self.issued_at}


@dataclass(frozen=True, slots=True)
class RevocationRecord:
    """That a grant was taken back."""

    grant_id: str
    seq: int
    """The event."""


@dataclass(frozen=True, slots=True)
class QuotaRecord:
    """The number of calls of a tool by a user in the window of the last one."""

    user_id: str
    tool: str
    seconds: int
    """The length of the window."""
    since: int
    """Its beginning, in Unix seconds."""
    used: int


def goes_on(last: int, since: int, seconds: int) -> bool:
    """Return whether a claim of a quota counts in the window of the last one.

    Of two processes the one that writes later may have looked at the clock before: a claim of the
    window before counts in the later one. Anything further ahead was a wrong clock's.

    Args:
        last: When the window of the last claim began, in Unix seconds.
        since: When this claim's began.
        seconds: The length of both.
    """
    return since <= last <= since + seconds


@dataclass(frozen=True, slots=True)
class ValueRecord:
    """A value that a tool keeps, as it is stored: `Ledger.load` gives the value itself."""

    key: str
    value: Any
    stored_at: str


@dataclass(frozen=True, slots=True)
class BodyRecord:
    """A body that is kept outside its row."""

    type: str
    """`json`, `text` or `bytes`."""
    data: Any
    """Its bytes; None where only the digest is left, and anything where somebody changed it."""


@dataclass(frozen=True, slots=True)
class Difference(_Record):
    """A difference between records of one kind and what the events give."""

    table: str
    missing: int
    """Those that the log gives and that are not there."""
    extra: int
    """Those that are there and that the log does not give."""


@dataclass(frozen=True, slots=True)
class Pruned(_Record):
    """The old bodies that were removed, or would be."""

    before: str
    bodies: int
    bytes: int
    waiting_runs: int
    """Runs that began before the moment and have not ended: they keep everything."""
    dry_run: bool = False
