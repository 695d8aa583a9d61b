"""Sinks: committed events, handed on to plugins in order."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Coroutine, Sequence
from functools import partial
from typing import Any

import anyio

from clawhive_core.catalog.bounded import Overdue, run_bounded
from clawhive_core.model.events import StoredEvent
from clawhive_core.protocols.ledger import Ledger
from clawhive_core.protocols.sink import AuditSink

_MAX_WAITING = 100_000
_GRACE_SECONDS = 1.0


class SinkFanout:
    """Hands every committed event to every sink.

    A required sink that fails, or falls too far behind, stops effects from then on; another one is
    skipped for that batch and counted.

    Args:
        log: Whose events.
        sinks: The sinks.
        required: Names of sinks that are required whatever they say themselves; one that is not
            there stops effects from the beginning.
        write_seconds: How long a sink may take for a batch.
        close_seconds: How long it may take to close.
    """

    def __init__(
        self,
        log: Ledger,
        sinks: Sequence[AuditSink],
        required: Sequence[str] = (),
        write_seconds: float = 60.0,
        close_seconds: float = 10.0,
    ) -> None:
        self._write_seconds = write_seconds
        self._close_seconds = close_seconds
        self.failures: dict[str, int] = {}
        self._sinks = tuple(sinks)
        self._required = frozenset(required)
        self._waiting: deque[StoredEvent] = deque()
        self._lock = threading.Lock()
        self._broken = _missing(self._required - {sink.name for sink in self._sinks})
        self._wake: Callable[[], None] = _nothing
        self._unlisten = log.listen(self._take) if self._sinks else _nothing

    def problem(self) -> str | None:
        """Return why effects must stop, or None."""
        return self._broken

    def pumping(self) -> Coroutine[Any, Any, None] | None:
        """Return `pump` where there is any sink to deliver events to."""
        return self.pump() if self._sinks else None

    async def pump(self) -> None:
        """Deliver events until cancelled."""
        from asyncio import get_running_loop

        loop = get_running_loop()
        ready = anyio.Event()

        def wake() -> None:
            loop.call_soon_threadsafe(ready.set)

        while True:
            ready = anyio.Event()
            self._wake = wake
            # A batch is with some sinks and not yet with others: it goes to all of them.
            with anyio.CancelScope(shield=True):
                await self.drain()
            await ready.wait()

    async def drain(self) -> None:
        """Deliver what is waiting."""
        while self._waiting:
            with self._lock:
                batch = tuple(self._waiting)
                self._waiting.clear()
            for sink in self._sinks:
                await self._deliver(sink, batch)

    async def close(self) -> None:
        """Deliver what is left and close the sinks."""
        self._unlisten()
        await self.drain()
        for sink in self._sinks:
            await self._bounded(sink, sink.close, self._close_seconds)

    def _take(self, events: Sequence[StoredEvent]) -> None:
        with self._lock:
            self._waiting.extend(events)
            behind = len(self._waiting) > _MAX_WAITING
            if behind:
                self._waiting.clear()
        if behind:
            for sink in self._sinks:
                self._count(sink, RuntimeError("too far behind"))
        self._wake()

    async def _deliver(self, sink: AuditSink, batch: Sequence[StoredEvent]) -> None:
        await self._bounded(sink, partial(sink.write, batch), self._write_seconds)

    async def _bounded(
        self, sink: AuditSink, work: Callable[[], Awaitable[None]], seconds: float
    ) -> None:
        try:
            await run_bounded(work(), seconds, _GRACE_SECONDS)
        except Overdue:
            self._count(sink, TimeoutError(f"it took longer than {seconds:g} s"))
        except Exception as error:  # noqa: BLE001 - a sink is a plugin: its bugs stay its own
            self._count(sink, error)

    def _count(self, sink: AuditSink, error: Exception) -> None:
        self.failures[sink.name] = self.failures.get(sink.name, 0) + 1
        if sink.required or sink.name in self._required:
            self._broken = (
                f"the required audit sink `{sink.name}` failed ({error}); nothing runs "
                "any more; mend it and start again"
            )


def _missing(names: Collection[str]) -> str | None:
    if not names:
        return None
    listed = ", ".join(f"`{name}`" for name in sorted(names))
    return (
        f"the required audit sink {listed} is not there; install or mend its plugin "
        "(`clawhive plugins`), or take it from `audit.required_sinks`"
    )


def _nothing() -> None:
    """Stand in where there is nothing to do."""
