"""Following a log as it grows, for every ledger that tells its own appends at once."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

from clawhive_core.errors import StorageError
from clawhive_core.model.events import StoredEvent

FOLLOW_SECONDS = 0.5
"""The seconds after which whoever follows a log looks for events of other processes."""


class Following:
    """Gives a ledger `follow` and `heard`, by its own `events` and `listen`."""

    def events(
        self,
        *,
        run_id: str | None = None,
        since: int = 0,
        limit: int | None = None,
        kinds: Sequence[str] | None = None,
    ) -> Iterator[StoredEvent]:
        """Yield events in order; the ledger's own."""
        raise NotImplementedError

    def listen(self, callback: Callable[[list[StoredEvent]], None]) -> Callable[[], None]:
        """Call `callback` with what is appended; the ledger's own."""
        raise NotImplementedError

    async def follow(
        self,
        since: int = 0,
        *,
        run_id: str | None = None,
        is_over: Callable[[], bool] = lambda: False,
    ) -> AsyncGenerator[StoredEvent]:
        """Yield the events after a number, then those to come, by any process, until cancelled.

        Those of other processes come within half a second, since nobody tells of them.

        Args:
            since: The number.
            run_id: Only events of this run.
            is_over: Whether none is to come, because the log is being closed.

        Raises:
            StorageError: The log cannot be read.
        """
        async with self.heard() as wait:
            while True:
                try:
                    for found in self.events(run_id=run_id, since=since):
                        since = found.seq
                        yield found
                except StorageError:
                    if not is_over():
                        raise
                if is_over():
                    return
                await wait()

    @asynccontextmanager
    async def heard(self) -> AsyncGenerator[Callable[[], Awaitable[None]]]:
        """Give what waits for events: this process's at once, those of others after a moment."""
        from asyncio import get_running_loop

        import anyio

        loop, ready = get_running_loop(), anyio.Event()

        async def wait() -> None:
            nonlocal ready
            with anyio.move_on_after(FOLLOW_SECONDS):
                await ready.wait()
            ready = anyio.Event()

        def wake() -> None:
            ready.set()

        def tell(_: Any) -> None:
            with suppress(RuntimeError):  # the loop is closing: nobody listens any more
                loop.call_soon_threadsafe(wake)

        stop = self.listen(tell)
        try:
            yield wait
        finally:
            stop()
