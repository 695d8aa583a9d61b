"""Ownership of runs: taken, kept, cancelled and recovered under a fence that only rises."""

from __future__ import annotations

from contextlib import suppress
from typing import Any
from urllib.parse import unquote

from clawhive_core.errors import RunBusy, RunError
from clawhive_core.execution.files.nofollow import sweep
from clawhive_core.model.events import Event
from clawhive_core.model.records import RunRecord
from clawhive_core.model.runs import ENDED
from clawhive_core.protocols.ledger import (
    EXECUTED,
    AgentsBelow,
    InvocationsWhere,
    Ledger,
    RunIs,
    RunsWhere,
    SessionAt,
    Unmet,
)
from clawhive_core.runs.record.lineage import children_of, total_usage

STOPPED = frozenset({"waiting_approval", "interrupted"})
"""The states of a run that somebody may go on with."""

_TRIES = 3
"""The number of times that a cancellation begins anew where the run changes its owner meanwhile."""


def start_refused(run_id: str, error: Unmet) -> RunError:
    """Return the error of whoever wanted to take a run and could not.

    It is `run_busy`; `not_resumable` of a run that has ended; `session_busy`; `too_many_agents`.
    """
    if isinstance(error.expectation, AgentsBelow):
        return RunError(
            f"the task has started {error.expectation.most} sub-agents, which is the most it may",
            code="too_many_agents",
            fix="do the rest without one; the user may raise `agents_total` under [limits]",
        )
    if isinstance(error.expectation, SessionAt):
        session = error.expectation.conversation_id
        return RunBusy(
            f"another turn of the session {session} was answered while this one began",
            place=session,
            code="session_busy",
            fix="ask again: what was said there meanwhile is then part of it",
        )
    if isinstance(error.expectation, RunIs) and (status := error.found[0]) in ENDED:
        return run_ended(run_id, str(status))
    return run_busy(run_id)


def run_busy(run_id: str) -> RunBusy:
    """Return the error of whoever wants to execute a run that is being executed."""
    return RunBusy(
        f"run {run_id} is being executed by a living process",
        place=run_id,
        fix="wait until it ends, or: clawhive runs cancel RUN",
    )


def taken_over(run_id: str) -> RunBusy:
    """Return the error of an executor that stood still for too long."""
    return RunBusy(
        f"run {run_id} was interrupted or taken over while this process did not answer; what it "
        "did since is not on record",
        place=run_id,
        fix="clawhive runs show RUN",
    )


def run_ended(run_id: str, status: str) -> RunError:
    """Return the error of whoever wants to change a run that is over."""
    return RunError(
        f"run {run_id} has ended: {status}",
        code="not_resumable",
        place=run_id,
        fix="start it again with `clawhive run`; `clawhive runs show RUN` tells how it ended",
    )


def fence_of(log: Ledger, run_id: str) -> int:
    """Return the fence of a recorded run."""
    return run_of(log, run_id).fence


def run_of(log: Ledger, run_id: str) -> RunRecord:
    """Return a recorded run."""
    (run,) = log.find(RunsWhere(run_id=run_id))
    return run


def cancel(log: Ledger, run_id: str) -> bool:
    """Tell a run's living executor to cancel it; whether there is one.

    Raises:
        RunError: `not_resumable`: the run has ended.
        RunBusy: It changes its owner at each try.
    """
    for _ in range(_TRIES):
        recover(log)
        run = run_of(log, run_id)
        if run.status in ENDED:
            raise run_ended(run_id, run.status)
        with suppress(Unmet):
            if run.status in EXECUTED:
                log.request_cancel(run_id, run.fence)
                return True
            _end_cancelled(log, run)
            cancel_below(log, run_id)
            return False
    raise RunBusy(f"run {run_id} was taken up meanwhile", place=run_id, fix="cancel it again")


def cancel_below(log: Ledger, run_id: str) -> None:
    """Cancel the runs that a run started and that have not ended, once it has ended itself."""
    if not (children := children_of(log, run_id)):
        return
    if not any(run.status in ENDED for run in log.find(RunsWhere(run_id=run_id))):
        return
    for child in children:
        if child.status not in ENDED:
            with suppress(RunError):  # it ended meanwhile
                cancel(log, child.run_id)


def _end_cancelled(log: Ledger, run: RunRecord) -> None:
    """End a run that nobody executes."""
    body: dict[str, Any] = {
        "output": None,
        "output_preview": "",
        "error": {"code": "cancelled", "message": "the run was cancelled"},
        "usage": total_usage(log, run.run_id).to_dict(),
        "artifacts": [],
    }
    event = _event(run, "run.end", body, "cancelled")
    log.append_now(event, expects=(RunIs(run.run_id, STOPPED, run.fence),))


def _event(run: RunRecord, kind: str, body: dict[str, Any], status: str) -> Event:
    return Event(
        kind,
        body,
        run.trace_id,
        run.run_id,
        run.task_id,
        conversation_id=run.conversation_id,
        principal=run.principal,
        status=status,
    )


def recover(log: Ledger) -> list[str]:
    """Mark every active run without a living executor as interrupted; return their ids."""
    if not (runs := _executed(log)):
        return []
    living = {each.worker for each in log.workers() if each.is_alive} | {log.worker}
    found: list[str] = []
    for run in runs:
        if run.worker in living:
            continue
        if _interrupt(log, run, "the process that ran it ended without finishing it"):
            found.append(run.run_id)
            _sweep(log, run.run_id)
    return found


def _sweep(log: Ledger, run_id: str) -> None:
    """Discard the half-written files of calls whose process ended in the midst of them."""
    for call in log.find(InvocationsWhere(run_id, status="unknown")):
        for text in call.requested_capabilities:
            if text.startswith("fs.write:/") and "*" not in text:
                sweep(unquote(text.partition(":")[2], errors="surrogateescape"))


def interrupt_own(log: Ledger, reason: str) -> list[str]:
    """Mark the runs that this process executes as interrupted, before it ends; return their ids."""
    mine = [run for run in _executed(log) if run.worker == log.worker]
    return [run.run_id for run in mine if _interrupt(log, run, reason)]


def _executed(log: Ledger) -> list[RunRecord]:
    return [run for status in sorted(EXECUTED) for run in log.find(RunsWhere(status))]


def _interrupt(log: Ledger, run: RunRecord, reason: str) -> bool:
    """Record that nobody executes a run any more; False where somebody was quicker."""
    body = {"reason": reason, "fence": run.fence + 1}
    event = _event(run, "run.status", body, "interrupted")
    try:
        log.append_now(event, expects=(RunIs(run.run_id, EXECUTED, run.fence),))
    except Unmet:
        return False
    return True
