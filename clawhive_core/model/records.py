"""What a ledger's queries return: rows as typed values."""

from __future__ import annotations

from clawhive_core.model.late import dataclass


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


@dataclass(frozen=True, slots=True)
class ActiveRun:
    """A run that is being executed, as the log says, and who does it."""

    run_id: str
    trace_id: str
    task_id: str
    conversation_id: str
    principal: str
    fence: int
    worker: str | None
