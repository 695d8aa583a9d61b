"""One watch a process over its runs: who wants one cancelled, who took one, what was revoked."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

import anyio

from clawhive_core.errors import ClawHiveError, RunError
from clawhive_core.model.late import dataclass
from clawhive_core.protocols.ledger import Ledger, RunOwnedBy, Unmet
from clawhive_core.runs.concurrency import wait_stopped
from clawhive_core.runs.record.ownership import taken_over

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, Task, TimerHandle

POLL_SECONDS = 0.5
"""The seconds between looks whether somebody wants one of its runs cancelled, or took it."""


@dataclass(slots=True)
class WatchedRun:
    """A run that is executed here, and why it was made to end."""

    run_id: str
    fence: int
    look: Callable[[], None]
    """Called at a look at the log where there is something new."""
    task: Task[Any] | None
    is_cancelled: bool = False
    is_lost: bool = False

    def cancel(self) -> None:
        """Cancel the task that executes it, once."""
        if not self.is_cancelled and self.task is not None:
            self.task.cancel()
        self.is_cancelled = True

    def take(self, fence: int, is_unwanted: bool) -> None:
        """Take what the log says of it: another one's fence is higher."""
        if fence > self.fence:
            self.is_lost = True
            self.cancel()
        elif is_unwanted and fence == self.fence:
            self.cancel()

    def reason(self, error: BaseException) -> RunError | None:
        """Return why it ended with an error; None where the error says so itself."""
        if isinstance(error, Unmet):
            if self.is_cancelled and self.task is not None:
                self.task.uncancel()
            is_lost = error.expectation == RunOwnedBy(self.run_id, self.fence)
            return taken_over(self.run_id) if is_lost else None
        if not self.is_cancelled or self.task is None or self.task.uncancel() > 0:
            return None
        if self.is_lost:
            return taken_over(self.run_id)
        return RunError("the run was cancelled", code="cancelled", place=self.run_id)


class Watch:
    """Looks at the log for all runs of a process at once.

    Args:
        log: The project's log.
        look: Called once at each look; whether each run is to look too.
    """

    def __init__(self, log: Ledger, look: Callable[[], bool] = lambda: True) -> None:
        self._log = log
        self._also = look
        self._is_due = True
        """Whether a run has to look again: it is new, or could not read."""
        self._runs: dict[str, WatchedRun] = {}
        self._first: TimerHandle | None = None
        self._task: Task[None] | None = None

    @asynccontextmanager
    async def owned(
        self, run_id: str, fence: int, look: Callable[[], None] = lambda: None
    ) -> AsyncGenerator[Callable[[], None]]:
        """Watch a run while the body executes it; cancel the body when somebody wants that.

        Whoever is in this process asks by what it gives. `look` is called where the log has news;
        what it cannot read is for the next decision to tell.

        Raises:
            RunError: `cancelled`, where the body was cancelled from elsewhere.
            RunBusy: Another one took the run, or interrupted it.
        """
        import asyncio

        run = WatchedRun(run_id, fence, look, asyncio.current_task())
        self._begin(run)
        try:
            try:
                yield run.cancel
            finally:
                await self._end(run_id)
        except (asyncio.CancelledError, Unmet) as error:
            if (reason := run.reason(error)) is None:
                raise
            raise reason from None

    def _begin(self, run: WatchedRun) -> None:
        import asyncio

        self._runs[run.run_id], self._is_due = run, True
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
            await wait_stopped(task)

    async def _watching(self) -> None:
        while True:
            with suppress(ClawHiveError):
                self._look()
            await anyio.sleep(POLL_SECONDS)

    def _look(self) -> None:
        for found in self._log.owners(tuple(self._runs)):
            self._runs[found.run_id].take(found.fence, found.cancel)
        if not (self._also() or self._is_due):
            return
        self._is_due = False
        for run in tuple(self._runs.values()):
            try:
                run.look()
            except ClawHiveError:
                self._is_due = True
