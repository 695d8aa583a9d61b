"""A process that runs something, and whether it is still there."""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path

from clawhive_core.model.late import dataclass

STALE_SECONDS = 60.0
"""After how long without a heartbeat an owner on another machine counts as gone."""


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
        return _owner(os.getpid())

    def is_alive(self, heartbeat: float, now: float) -> bool:
        """Whether the process still runs: by its id on this machine, else by its heartbeat."""
        if self.host != _host():
            return now - heartbeat < STALE_SECONDS
        return _process_start(self.pid) == self.process_start


@lru_cache(maxsize=1)
def _owner(pid: int) -> Owner:
    """Return this process, read once: a forked child has another id."""
    return Owner(_host(), pid, _process_start(pid) or "")


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
