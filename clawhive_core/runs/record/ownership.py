"""Who owns a run: a row with a heartbeat, taken by compare-and-swap."""

from __future__ import annotations

import sqlite3
import time
from contextlib import suppress
from functools import wraps
from pathlib import Path
from typing import Any

from clawhive_core.errors import RunBusy, RunError
from clawhive_core.events.log import EventLog, Within
from clawhive_core.model.events import Event
from clawhive_core.model.runs import ENDED
from clawhive_core.runs.record.lineage import children_of, used_so_far
from clawhive_core.runs.record.owner import Owner
from clawhive_core.storage.faults import storage_error

_ACTIVE = ("pending", "running")


def _within_log(work: Within) -> Within:
    """Make SQLite's own failure in a part of a transaction the log's failure, with its fix."""

    @wraps(work)
    def guarded(connection: sqlite3.Connection) -> None:
        try:
            work(connection)
        except sqlite3.Error as error:
            path = connection.execute("PRAGMA database_list").fetchone()[2]
            raise storage_error(error, Path(path)) from error

    return guarded


def claim(run_id: str, owner: Owner) -> Within:
    """Return the part of a transaction that takes a run.

    Raises:
        RunBusy: (when it runs) a living process owns it.
    """

    @_within_log
    def take(connection: sqlite3.Connection) -> None:
        now = time.time()
        row = connection.execute(
            "SELECT host, pid, process_start, heartbeat FROM run_owners WHERE run_id = ?", (run_id,)
        ).fetchone()
        if row is not None:
            other = Owner(row[0], row[1], row[2])
            if other != owner and other.is_alive(row[3], now):
                raise RunBusy(
                    f"run {run_id} is owned by process {other.pid}, which is alive",
                    place=run_id,
                    fix="wait until it ends, or end that process",
                )
        connection.execute(
            "INSERT OR REPLACE INTO run_owners VALUES(?, ?, ?, ?, ?, 0)",
            (run_id, owner.host, owner.pid, owner.process_start, now),
        )

    return take


def admit(run_id: str, owner: Owner, trace_id: str, most: int) -> Within:
    """Return the part of a transaction that takes a new sub-agent's run.

    Args:
        run_id: The run.
        owner: Who runs it.
        trace_id: What it has in common with every run of its task.
        most: How many sub-agents the task may start in all.

    Raises:
        RunError: (when it runs) `too_many_agents`: the task started as many.
    """
    take = claim(run_id, owner)

    @_within_log
    def check(connection: sqlite3.Connection) -> None:
        sql = "SELECT count(*) FROM runs WHERE trace_id = ? AND parent_run_id IS NOT NULL"
        if connection.execute(sql, (trace_id,)).fetchone()[0] >= most:
            raise RunError(
                f"the task has started {most} sub-agents, which is the most it may",
                code="too_many_agents",
                fix="do the rest without one; the user may raise `agents_total` under [limits]",
            )
        take(connection)

    return check


def take_up(run_id: str, owner: Owner) -> Within:
    """Return the part of a transaction that takes a run which waits or was interrupted.

    Raises:
        RunBusy: (when it runs) a living process owns it.
        RunError: (when it runs) `not_resumable`: it has ended.
    """
    take = claim(run_id, owner)

    @_within_log
    def check(connection: sqlite3.Connection) -> None:
        row = connection.execute("SELECT status FROM runs WHERE run_id = ?", (run_id,)).fetchone()
        if row[0] in {"waiting_approval", "interrupted"}:
            take(connection)
            return
        if row[0] in _ACTIVE:
            raise busy(run_id)
        raise ended(run_id, row[0])

    return check


def busy(run_id: str) -> RunBusy:
    """Return the error of whoever wants to execute a run that is being executed."""
    return RunBusy(
        f"run {run_id} is being executed by a living process",
        place=run_id,
        fix="wait until it ends, or: clawhive runs cancel RUN",
    )


def ended(run_id: str, status: str) -> RunError:
    """Return the error of whoever wants to change a run that is over."""
    return RunError(
        f"run {run_id} has ended: {status}",
        code="not_resumable",
        place=run_id,
        fix="start it again with `clawhive run`; `clawhive runs show RUN` tells how it ended",
    )


def release(run_id: str) -> Within:
    """Return the part of a transaction that gives a run up."""

    @_within_log
    def drop(connection: sqlite3.Connection) -> None:
        connection.execute("DELETE FROM run_owners WHERE run_id = ?", (run_id,))

    return drop


def broken_off(run_id: str, owner: Owner) -> Within:
    """Return the part of a transaction that gives up a run whose taking was broken off.

    Raises:
        RunError: (when it runs) `cancelled`: it was not taken.
    """
    drop = release(run_id)

    @_within_log
    def check(connection: sqlite3.Connection) -> None:
        row = connection.execute(
            "SELECT o.host, o.pid, o.process_start FROM runs JOIN run_owners o USING (run_id)"
            " WHERE run_id = ? AND status = 'running'",
            (run_id,),
        ).fetchone()
        if row is None or Owner(*row) != owner:
            raise RunError("the run was not taken", code="cancelled", place=run_id)
        drop(connection)

    return check


def cancel(log: EventLog, run_id: str) -> bool:
    """Tell a run's living owner to cancel it; whether there is one.

    Raises:
        RunError: `not_resumable`: the run has ended.
    """
    found: list[bool] = []

    @_within_log
    def ask(connection: sqlite3.Connection) -> None:
        row = connection.execute("SELECT status FROM runs WHERE run_id = ?", (run_id,)).fetchone()
        if row[0] not in {*_ACTIVE, "waiting_approval", "interrupted"}:
            raise ended(run_id, row[0])
        rows = connection.execute("UPDATE run_owners SET cancel = 1 WHERE run_id = ?", (run_id,))
        found.append(rows.rowcount > 0)

    recover(log)
    log.append_now(within=ask)
    if found[0]:
        return True
    _end_cancelled(log, run_id)
    cancel_below(log, run_id)
    return False


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


def _end_cancelled(log: EventLog, run_id: str) -> None:
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

    @_within_log
    def still_stopped(connection: sqlite3.Connection) -> None:
        now = connection.execute("SELECT status FROM runs WHERE run_id = ?", (run_id,)).fetchone()
        if now[0] not in {"waiting_approval", "interrupted"}:
            raise RunBusy(
                f"run {run_id} was taken up meanwhile", place=run_id, fix="cancel it again"
            )

    event = Event("run.end", body, run_id=run_id, status="cancelled", **ids)
    log.append_now(event, within=still_stopped)


class _Recovered(Exception):
    """Another process was quicker, or the owner lives."""


def recover(log: EventLog) -> list[str]:
    """Mark every active run without a living owner as interrupted; return their ids."""
    rows = log.read(
        "SELECT r.run_id, r.trace_id, r.task_id, r.conversation_id, r.principal, o.host, o.pid,"
        " o.process_start, o.heartbeat FROM runs r LEFT JOIN run_owners o USING (run_id)"
        " WHERE r.status IN (?, ?)",
        _ACTIVE,
    )
    found: list[str] = []
    for row in rows:
        if row[5] is not None and Owner(row[5], row[6], row[7]).is_alive(row[8], time.time()):
            continue
        event = Event(
            "run.status",
            {"reason": "the process that ran it ended without finishing it"},
            run_id=row[0],
            trace_id=row[1],
            task_id=row[2],
            conversation_id=row[3],
            principal=row[4],
            status="interrupted",
        )
        try:
            log.append_now(event, within=_still_active(row[0]))
        except _Recovered:
            continue
        found.append(row[0])
    return found


def _still_active(run_id: str) -> Within:
    @_within_log
    def check(connection: sqlite3.Connection) -> None:
        row = connection.execute("SELECT status FROM runs WHERE run_id = ?", (run_id,)).fetchone()
        if row is None or row[0] not in _ACTIVE:
            raise _Recovered
        connection.execute("DELETE FROM run_owners WHERE run_id = ?", (run_id,))

    return check
