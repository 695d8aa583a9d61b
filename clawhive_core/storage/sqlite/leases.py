"""The lease of this worker: one row beside the log, renewed by a thread while it executes runs."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from clawhive_core.errors import ClawHiveError
from clawhive_core.model.ids import new_id
from clawhive_core.model.late import dataclass
from clawhive_core.model.records import WorkerRecord

LEASE_SECONDS = 15.0
"""The seconds for which a worker that says nothing keeps its runs."""
_BEATS = 3
"""The number of renewals of a lease within the time that it holds."""
_FORGOTTEN_SECONDS = 86_400

# The store's clock, in Unix seconds: that of the machine that has the file.
_NOW = "(julianday('now') - 2440587.5) * 86400.0"
_RENEW = f"INSERT OR REPLACE INTO leases VALUES(?, ?, ?, ?, {_NOW} + ?)"
_FORGET = f"DELETE FROM leases WHERE until < {_NOW} - {_FORGOTTEN_SECONDS}"  # noqa: S608 - constants
LEASES = f"SELECT worker, host, pid, process_start, until - {_NOW} FROM leases"  # noqa: S608 - a constant
"""Every worker's lease, as the columns of a `WorkerRecord`."""
OWNERS = """
    SELECT r.run_id, r.fence, c.run_id IS NOT NULL
    FROM json_each(?) AS mine JOIN runs AS r ON r.run_id = mine.value
    LEFT JOIN cancel_requests AS c ON c.run_id = r.run_id AND c.fence = r.fence
"""
"""Some runs, as the columns of an `Ownership`."""


@dataclass(frozen=True, slots=True)
class Process:
    """A process of a machine."""

    host: str
    """Machine, boot and process namespace: within one of these, process ids mean something."""
    pid: int
    process_start: str

    @classmethod
    def me(cls) -> Process:
        """Return this process."""
        return _me(os.getpid())


def worker_record(
    worker: str, host: str, pid: int, process_start: str, seconds_left: float
) -> WorkerRecord:
    """Return the worker of a lease; of this boot and namespace it is known whether it is gone."""
    is_gone = host == _host() and _process_start(pid) != process_start
    is_alive = seconds_left > 0 and not is_gone
    return WorkerRecord(worker, host, pid, process_start, seconds_left, is_alive)


class Lease:
    """The lease of one worker, who is an open log; taken with its first run.

    Args:
        seconds: How long it holds after each beat.
    """

    def __init__(self, seconds: float) -> None:
        self.worker = new_id("worker")
        self._seconds = seconds
        self._renewed = 0.0
        self._thread: threading.Thread | None = None
        self._ending = threading.Event()

    @property
    def is_fresh(self) -> bool:
        """Whether it was renewed so lately that it outlasts what is begun now."""
        return self._thread is not None and time.monotonic() - self._renewed < self._seconds / 2

    def renew(self, connection: sqlite3.Connection) -> None:
        """Write that it holds from now on; a part of a transaction."""
        if self._thread is None:
            connection.execute(_FORGET)
        me = Process.me()
        row = (self.worker, me.host, me.pid, me.process_start, self._seconds)
        connection.execute(_RENEW, row)
        self._renewed = time.monotonic()

    def keep(self, beat: Callable[[], object]) -> None:
        """Have a thread beat until `end`: a run may block its event loop for longer than it holds.

        Args:
            beat: Commits `renew`; what it cannot write is tried again with the next beat.
        """
        if self._thread is None:
            self._thread = threading.Thread(
                target=self._beat, args=(beat,), name="clawhive-lease", daemon=True
            )
            self._thread.start()

    def end(self, drop: Callable[[Callable[[sqlite3.Connection], None]], object]) -> None:
        """Stop beating and give the lease up.

        Args:
            drop: Commits what it is given.
        """
        if self._thread is None or self._ending.is_set():
            return
        self._ending.set()
        self._thread.join()
        with suppress(ClawHiveError):  # it lapses by itself
            drop(self._drop)

    def _drop(self, connection: sqlite3.Connection) -> None:
        connection.execute("DELETE FROM leases WHERE worker = ?", (self.worker,))

    def _beat(self, beat: Callable[[], object]) -> None:
        while not self._ending.wait(self._seconds / _BEATS):
            with suppress(ClawHiveError):
                beat()


@lru_cache(maxsize=1)
def _me(pid: int) -> Process:
    """Return this process, read once: a forked child has another id."""
    return Process(_host(), pid, _process_start(pid) or "")


def _host() -> str:
    boot = _read("/proc/sys/kernel/random/boot_id")[:8]
    return f"{os.uname().nodename}/{boot}/{_link('/proc/self/ns/pid')}"


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
