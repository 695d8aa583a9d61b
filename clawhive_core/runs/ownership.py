"""Who owns a run: a row with a heartbeat, taken by compare-and-swap."""

from __future__ import annotations

import os
import platform
import sqlite3
import time
from dataclasses import dataclass
from functools import wraps
from pathlib import Path

import anyio

from clawhive_core.errors import RunBusy
from clawhive_core.events.log import EventLog, Within
from clawhive_core.model.events import Event
from clawhive_core.storage.faults import storage_error

HEARTBEAT_SECONDS = 5.0
STALE_SECONDS = 60.0
"""After how long without a heartbeat an owner on another machine counts as gone."""

_ACTIVE = ("pending", "running")


@dataclass(frozen=True, slots=True)
class Owner:
    """A process that runs something."""

    host: str
    """Machine, boot and process namespace: within one of these, process ids mean something."""
    pid: int
    process_start: str

    @classmethod
    def me(cls) -> Owner:
        """Return this process."""
        return cls(_host(), os.getpid(), _process_start(os.getpid()) or "")

    def is_alive(self, heartbeat: float, now: float) -> bool:
        """Whether the process still runs: by its id on this machine, else by its heartbeat."""
        if self.host != _host():
            return now - heartbeat < STALE_SECONDS
        return _process_start(self.pid) == self.process_start


def _host() -> str:
    return "/".join(
        (platform.node(), _read("/proc/sys/kernel/random/boot_id")[:8], _link("/proc/self/ns/pid"))
    )


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="ascii").strip()
    except OSError:
        return ""


def _link(path: str) -> str:
    try:
        return str(Path(path).readlink())
    except OSError:
        return ""


def _process_start(pid: int) -> str | None:
    """Return when a process started, so that a reused id is not mistaken; None where none runs."""
    stat = _read(f"/proc/{pid}/stat")
    if stat:
        fields = stat.rpartition(")")[2].split()
        return None if fields[0] in {"Z", "X"} else fields[19]
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return None
    except OSError:
        return ""
    return ""


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


def release(run_id: str) -> Within:
    """Return the part of a transaction that gives a run up."""

    @_within_log
    def drop(connection: sqlite3.Connection) -> None:
        connection.execute("DELETE FROM run_owners WHERE run_id = ?", (run_id,))

    return drop


async def beat(log: EventLog, run_id: str, seconds: float = HEARTBEAT_SECONDS) -> None:
    """Renew a run's heartbeat until cancelled."""

    @_within_log
    def renew(connection: sqlite3.Connection) -> None:
        connection.execute(
            "UPDATE run_owners SET heartbeat = ? WHERE run_id = ?", (time.time(), run_id)
        )

    while True:
        await anyio.sleep(seconds)
        await log.append(within=renew)


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
