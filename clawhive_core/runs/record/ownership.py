"""Who executes a run: taken, kept, cancelled and recovered under a fence that only rises."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from clawhive_core.errors import RunBusy, RunError
from clawhive_core.events.leases import is_alive
from clawhive_core.events.log import EventLog
from clawhive_core.model.events import Event
from clawhive_core.model.records import ActiveRun
from clawhive_core.model.runs import ENDED
from clawhive_core.protocols.ledger import (
    EXECUTED,
    AgentsBelow,
    Expectation,
    RunFree,
    RunIs,
    SessionAt,
    Unmet,
)
from clawhive_core.runs.record.lineage import children_of, used_so_far

STOPPED = frozenset({"waiting_approval", "interrupted"})
"""The states of a run that somebody may go on with."""

_TRIES = 3
"""How often a cancellation begins anew where the run goes from hand to hand meanwhile."""

_ACTIVE = (
    "SELECT run_id, trace_id, task_id, conversation_id, principal, fence, worker FROM runs"
    " WHERE status IN ('pending', 'running')"
)


def admits(run_id: str, trace_id: str, most: int) -> tuple[Expectation, ...]:
    """Return what the start of a sub-agent's run expects.

    Args:
        run_id: The run.
        trace_id: What it has in common with every run of its task.
        most: How many sub-agents the task may start in all.
    """
    return RunFree(run_id), AgentsBelow(trace_id, most)


def not_taken(run_id: str, error: Unmet) -> RunError:
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
        return ended(run_id, str(status))
    return busy(run_id)


def busy(run_id: str) -> RunBusy:
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


def ended(run_id: str, status: str) -> RunError:
    """Return the error of whoever wants to change a run that is over."""
    return RunError(
        f"run {run_id} has ended: {status}",
        code="not_resumable",
        place=run_id,
        fix="start it again with `clawhive run`; `clawhive runs show RUN` tells how it ended",
    )


def fence_of(log: EventLog, run_id: str) -> int:
    """Return the fence of a recorded run."""
    return int(log.read("SELECT fence FROM runs WHERE run_id = ?", (run_id,))[0][0])


def cancel(log: EventLog, run_id: str) -> bool:
    """Tell a run's living executor to cancel it; whether there is one.

    Raises:
        RunError: `not_resumable`: the run has ended.
        RunBusy: It goes from hand to hand.
    """
    for _ in range(_TRIES):
        recover(log)
        (row,) = log.read("SELECT status, fence FROM runs WHERE run_id = ?", (run_id,))
        status, fence = str(row[0]), int(row[1])
        if status in ENDED:
            raise ended(run_id, status)
        with suppress(Unmet):
            if status in EXECUTED:
                log.request_cancel(run_id, fence)
                return True
            _end_cancelled(log, run_id, fence)
            cancel_below(log, run_id)
            return False
    raise RunBusy(f"run {run_id} was taken up meanwhile", place=run_id, fix="cancel it again")


def cancel_below(log: EventLog, run_id: str) -> None:
    """Cancel the runs that a run started and that have not ended, once it has ended itself."""
    if not (children := children_of(log, run_id)):
        return
    rows = log.read("SELECT status FROM runs WHERE run_id = ?", (run_id,))
    if not rows or rows[0][0] not in ENDED:
        return
    for child in children:
        if child.status not in ENDED:
            with suppress(RunError):  # it ended meanwhile
                cancel(log, child.run_id)


def _end_cancelled(log: EventLog, run_id: str, fence: int) -> None:
    """End a run that nobody executes."""
    row = log.read("SELECT * FROM runs WHERE run_id = ?", (run_id,))[0]
    body: dict[str, Any] = {
        "output": None,
        "output_preview": "",
        "error": {"code": "cancelled", "message": "the run was cancelled"},
        "usage": used_so_far(log, run_id).to_dict(),
        "artifacts": [],
    }
    ids = {key: row[key] for key in ("trace_id", "task_id", "conversation_id", "principal")}
    event = Event("run.end", body, run_id=run_id, status="cancelled", **ids)
    log.append_now(event, expects=(RunIs(run_id, STOPPED, fence),))


def recover(log: EventLog) -> list[str]:
    """Mark every active run without a living executor as interrupted; return their ids."""
    if not (rows := log.read(_ACTIVE)):
        return []
    living = {each.worker for each in log.workers() if is_alive(each)} | {log.worker}
    found: list[str] = []
    for run in (ActiveRun(*row) for row in rows):
        if run.worker in living:
            continue
        body = {
            "reason": "the process that ran it ended without finishing it",
            "fence": run.fence + 1,
        }
        event = Event(
            "run.status",
            body,
            run_id=run.run_id,
            trace_id=run.trace_id,
            task_id=run.task_id,
            conversation_id=run.conversation_id,
            principal=run.principal,
            status="interrupted",
        )
        try:
            log.append_now(event, expects=(RunIs(run.run_id, EXECUTED, run.fence),))
        except Unmet:
            continue  # somebody was quicker
        found.append(run.run_id)
    return found
