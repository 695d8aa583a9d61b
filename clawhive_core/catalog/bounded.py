"""Running what others wrote: a deadline, a grace time, and nothing that it raises goes further."""

from __future__ import annotations

import sys
import time
from collections.abc import Awaitable
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

import anyio

if TYPE_CHECKING:
    from asyncio import Future, Task

T = TypeVar("T")


class Overdue(Exception):
    """The work did not end in time; `fate` says what became of it."""

    def __init__(self, fate: Literal["stopped", "abandoned"]) -> None:
        super().__init__(fate)
        self.fate = fate


class Escaped(Exception):
    """The work raised what ends a process or cancels its caller: `error`, a SystemExit perhaps."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(f"{type(error).__name__}: {error}")
        self.error = error


class Bounded(Generic[T]):
    """One piece of foreign work, awaited for a while.

    Args:
        work: What to await; it runs in a task of its own.
        grace: The seconds that it gets to stop in, once it is cancelled. After them it is cancelled
            once more, and gets a quarter of them.
    """

    def __init__(self, work: Awaitable[T], grace: float) -> None:
        import asyncio

        loop, contained = asyncio.get_running_loop(), _contained(work)
        if sys.version_info >= (3, 12):
            self._task: Task[T] = asyncio.Task(contained, loop=loop, eager_start=True)
        else:
            self._task: Task[T] = loop.create_task(contained)
        self._grace = grace
        self._over: Future[None] | None = None
        self._more = 0.0
        """Ends with the work, its time, or a cut, whichever is first."""
        self.is_cut = False
        """Whether it was to end before its time."""

    @property
    def abandoned(self) -> bool:
        """Whether it goes on although nobody waits for it any more."""
        return not self._task.done()

    def cut(self) -> None:
        """Have `wait` stop the work now, as if its time were up; from any thread."""
        self.is_cut = True
        if (over := self._over) is not None:
            over.get_loop().call_soon_threadsafe(self._settle)

    def extend(self, seconds: float) -> None:
        """Give it more time, or less of what it was given: waiting for a person does not count."""
        self._more += seconds
        self._settle()

    def late_result(self) -> T | None:
        """Return what the work answered after its caller was cancelled, None where it did not."""
        task = self._task
        if not task.done() or task.cancelled() or task.exception() is not None:
            return None
        return task.result()

    async def wait(self, seconds: float) -> T:
        """Await the work for at most `seconds`, then cancel it and wait for it to stop.

        Cancelling the caller cancels the work in the same way and then goes on.

        Raises:
            Overdue: The time is up, or it was cut: stopped, or abandoned where it did not stop.
            Escaped: The work raised SystemExit, a group of such, or cancelled itself.
            KeyboardInterrupt: The work raised it; here it hits only the caller.
        """
        import asyncio

        task, ends = self._task, time.monotonic() + seconds
        try:
            # Newer tasks take their first step as they are made, older ones while this one waits:
            # what never waits costs neither timer nor future.
            if sys.version_info < (3, 12):
                await asyncio.sleep(0)
            while not task.done() and not self.is_cut:
                if (left := ends + self._more - time.monotonic()) <= 0:
                    break
                await self._until(left)
        except asyncio.CancelledError:
            await self._stop()
            raise
        if not task.done():
            await self._stop()
            raise Overdue("abandoned" if self.abandoned else "stopped")
        return self._answer()

    async def _until(self, seconds: float) -> None:
        """Return when the work has ended, its time is up or it is cut, whichever is first."""
        # A future of our own where `asyncio.wait` would do: every call that waits passes here.
        loop = self._task.get_loop()
        over = self._over = loop.create_future()
        if self.is_cut:
            return
        settle, context = self._settle, copy_context()  # one each where two would be made
        self._task.add_done_callback(settle, context=context)
        timer = loop.call_later(max(0.0, seconds), settle, context=context)
        try:
            await over
        finally:
            timer.cancel()

    def _settle(self, _: object = None) -> None:
        if (over := self._over) is not None and not over.done():
            over.set_result(None)

    def _answer(self) -> T:
        if self._task.cancelled():
            from asyncio import CancelledError

            raise Escaped(CancelledError("it cancelled itself"))
        try:
            return self._task.result()
        except GeneratorExit as error:
            raise Escaped(error) from error
        except Escaped as escaped:
            if isinstance(escaped.error, KeyboardInterrupt):
                raise escaped.error from None
            raise

    async def _stop(self) -> None:
        import asyncio

        self._task.add_done_callback(_forget)
        self._task.cancel()
        # Unshielded, a cancelled anyio scope would cut the grace time down to nothing.
        with anyio.CancelScope(shield=True):
            await asyncio.wait((self._task,), timeout=self._grace)
            if not self._task.done():
                # What ends a program with anyio waits for it, and kills it when cancelled again.
                self._task.cancel()
                await asyncio.wait((self._task,), timeout=self._grace / 4)


async def run_bounded(work: Awaitable[T], seconds: float, grace: float) -> T:
    """Await `work` for at most `seconds`, then cancel it and wait `grace` for it to stop.

    Raises:
        Overdue: As `Bounded.wait`; so do Escaped and KeyboardInterrupt.
    """
    return await Bounded(work, grace).wait(seconds)


async def _contained(work: Awaitable[T]) -> T:
    """Keep what would stop the event loop inside this task."""
    try:
        return await work
    except Exception:
        raise
    except BaseException as error:
        from asyncio import CancelledError

        if isinstance(error, CancelledError | GeneratorExit):
            raise
        raise Escaped(error) from error


def _forget(task: Any) -> None:
    """Take notice of an outcome that perhaps nobody waits for any more."""
    if not task.cancelled():
        task.exception()
