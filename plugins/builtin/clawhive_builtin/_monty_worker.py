"""The worker processes of the engine `monty`: started, held, fenced, killed."""

from __future__ import annotations

import os
import signal
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from clawhive_core import SandboxUnavailable

if TYPE_CHECKING:
    from pydantic_monty import Monty

    from clawhive_core import Limit

GRACE = 0.5
"""Seconds past the deadline after which the worker is killed from outside."""
WORKER_ITSELF = 512 << 20
"""Bytes of address space that a worker takes without any program."""
UNCOUNTED = 10_000_000
"""A bound of requests that no program meets: they are counted here."""


class Worker:
    """A running worker, by a handle that no later process can inherit.

    Args:
        pid: The id of the process, which must be running.
    """

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._handle = os.pidfd_open(pid) if hasattr(os, "pidfd_open") else None

    def kill(self) -> None:
        """Kill the process; nothing happens where it has ended."""
        with suppress(ProcessLookupError):
            if self._handle is not None:
                signal.pidfd_send_signal(self._handle, signal.SIGKILL)
            else:
                os.kill(self._pid, signal.SIGKILL)

    def release(self) -> None:
        """Let go of the handle."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None

    def fence(self, memory: int) -> None:
        """Take from the process what it never needs: memory beyond its limit, children, files."""
        import resource

        if not hasattr(resource, "prlimit"):
            return
        for kind, value in (
            (resource.RLIMIT_AS, memory),
            (resource.RLIMIT_NPROC, 0),
            (resource.RLIMIT_FSIZE, 0),
            (resource.RLIMIT_CORE, 0),
        ):
            with suppress(OSError, ValueError):
                resource.prlimit(self._pid, kind, (value, value))


@contextmanager
def start_pool(seconds: float | None = None) -> Generator[Monty]:
    """Start one worker, gone at the end of the block.

    Args:
        seconds: How long one request may take before the worker is killed.

    Raises:
        SandboxUnavailable: The worker cannot be started.
    """
    from pydantic_monty import Monty

    try:
        pool = Monty(
            min_processes=1,
            max_processes=1,
            request_timeout=seconds,
            feed_duration_limit_grace=GRACE,
        )
        pool.__enter__()
    except (OSError, RuntimeError) as error:
        raise not_started(error) from error
    try:
        yield pool
    finally:
        pool.__exit__(None, None, None)


def not_started(error: Exception) -> SandboxUnavailable:
    """Return that no worker can be started here."""
    return SandboxUnavailable(
        f"the engine `monty` cannot start: {error}",
        fix='install it again: pip install --force-reinstall "pydantic-monty>=1.4,<2"',
    )


def no_worker() -> SandboxUnavailable:
    """Return that a worker ended before it was used."""
    return SandboxUnavailable(
        "the worker of the engine `monty` ended before its program began",
        fix="run it again; `clawhive doctor` tells whether the engine works here",
    )


def limit_behind(kind: BaseException, message: str) -> Limit | None:
    """Return the limit that the worker itself enforced, by the engine's own words."""
    if isinstance(kind, TimeoutError) and "time limit exceeded" in message:
        return "wall"
    if isinstance(kind, MemoryError) and "memory limit" in message:
        return "memory"
    if isinstance(kind, OSError) and "disk write limit" in message:
        return "files"
    return None
