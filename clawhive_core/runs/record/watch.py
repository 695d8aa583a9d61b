"""One watch a process over its runs: who wants one cancelled, what was revoked, that they live."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

import anyio

from clawhive_core.errors import ClawHiveError, RunError
from clawhive_core.events.log import EventLog
from clawhive_core.model.late import dataclass
from clawhive_core.runs.record.aside import stopped

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, Task, TimerHandle

HEARTBEAT_SECONDS = 5.0
POLL_SECONDS = 0.5
"""How often a process looks whether somebody wants one of its runs cancelled."""

_CANCELLED = "SELECT run_id FROM run_owners WHERE cancel = 1"
_RENEW = "UPDATE run_owners SET heartbeat = ? WHERE run_id IN (SELECT value FROM json_each(?))"


@dataclass(frozen=True, slots=True)
class Watched:
    """A run that is executed here."""

    ask: Callable[[], None]
    """Asks it to end."""
    look: Callable[[], None]
    """Called at each look at the log."""


class Watch:
    """Looks at the log for all runs of a process at once, and renews their heartbeats together.

    Args:
        log: The project's log.
        seconds: How often heartbeats are renewed.
        look: Called once at each look, whatever runs there are.
    """

    def __init__(
        self,
        log: EventLog,
        seconds: float = HEARTBEAT_SECONDS,
        look: Callable[[], None] = lambda: None,
    ) -> None:
        self._log = log
        self._also = look
        self._seconds = seconds
        self._runs: dict[str, Watched] = {}
        self._first: TimerHandle | None = None
        self._task: Task[None] | None = None

    @asynccontextmanager
    async def owned(
        self, run_id: str, look: Callable[[], None] = lambda: None
    ) -> AsyncGenerator[Callable[[], None]]:
        """Watch a run while the body executes it; cancel the body when somebody asks for it.

        Whoever is in this process asks by what it gives. `look` is called at each look at the log;
        what it cannot read is for the next decision to tell.

        Raises:
            RunError: `cancelled`, where the body was cancelled from elsewhere.
        """
        import asyncio

        body, asked = asyncio.current_task(), False

        def ask() -> None:
            nonlocal asked
            if not asked and body is not None:
                body.cancel()
            asked = True

        self._begin(run_id, Watched(ask, look))
        try:
            try:
                yield ask
            finally:
                await self._end(run_id)
        except asyncio.CancelledError:
            if not asked or body is None or body.uncancel() > 0:
                raise
            raise RunError("the run was cancelled", code="cancelled", place=run_id) from None

    def _begin(self, run_id: str, run: Watched) -> None:
        import asyncio

        self._runs[run_id] = run
        if self._task is None and self._first is None:
            # Runs that end before the first look is due need nobody who looks.
            loop = asyncio.get_running_loop()
            self._first = loop.call_later(POLL_SECONDS, self._start, loop)

    def _start(self, loop: AbstractEventLoop) -> None:
        self._first, self._task = None, loop.create_task(self._watching())

    async def _end(self, run_id: str) -> None:
        del self._runs[run_id]
        if self._runs:
            return
        if self._first is not None:
            self._first.cancel()
        task, self._first, self._task = self._task, None, None
        if task is not None:
            task.cancel()
            await stopped(task)

    async def _watching(self) -> None:
        beaten = time.monotonic()
        while True:
            with suppress(ClawHiveError):
                self._look()
            if time.monotonic() - beaten >= self._seconds:
                with suppress(ClawHiveError):
                    await self._log.append(within=self._renew)
                beaten = time.monotonic()
            await anyio.sleep(min(self._seconds, POLL_SECONDS))

    def _look(self) -> None:
        self._also()
        for (run_id,) in map(tuple, self._log.read(_CANCELLED)):
            if (run := self._runs.get(run_id)) is not None:
                run.ask()
        for run in tuple(self._runs.values()):
            with suppress(ClawHiveError):
                run.look()

    def _renew(self, connection: sqlite3.Connection) -> None:
        connection.execute(_RENEW, (time.time(), json.dumps(list(self._runs))))
