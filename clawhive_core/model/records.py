"""What a ledger's queries return: rows as typed values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any, Generic, TypeVar

from clawhive_core.model.late import dataclass

T_co = TypeVar("T_co", covariant=True)


class Page(Generic[T_co]):
    """What one answer of a query holds, and how to get at the rest; it iterates over its items.

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
    """How often it was taken or interrupted."""
    worker: str | None
    """Who executes it, where somebody does."""


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
    input_preview: str
    output_preview: str
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
    output_preview: str
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
