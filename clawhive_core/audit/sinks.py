"""Sinks: committed events, handed on to plugins in order."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence

import anyio

from clawhive_core.events.log import EventLog
from clawhive_core.model.events import StoredEvent
from clawhive_core.protocols.sink import AuditSink

_MAX_WAITING = 100_000


class SinkFanout:
    """Hands every committed event to every sink.

    A required sink that fails, or falls too far behind, stops effects from then on; another one is
    skipped for that batch and counted.
    """

    def __init__(self, log: EventLog, sinks: Sequence[AuditSink]) -> None:
        self.failures: dict[str, int] = {}
        self._sinks = tuple(sinks)
        self._waiting: deque[StoredEvent] = deque()
        self._lock = threading.Lock()
        self._broken: str | None = None
        self._wake: Callable[[], None] = _nothing
        self._unlisten = log.listen(self._take) if self._sinks else _nothing

    def problem(self) -> str | None:
        """Return why effects must stop, or None."""
        return self._broken

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
            try:
                await sink.close()
            except Exception as error:  # noqa: BLE001 - a sink is a plugin: its bugs stay its own
                self._count(sink, error)

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
        try:
            await sink.write(batch)
        except Exception as error:  # noqa: BLE001 - a sink is a plugin: its bugs stay its own
            self._count(sink, error)

    def _count(self, sink: AuditSink, error: Exception) -> None:
        self.failures[sink.name] = self.failures.get(sink.name, 0) + 1
        if sink.required:
            self._broken = (
                f"the required audit sink `{sink.name}` failed ({error}); nothing runs "
                "any more; mend it and start again"
            )


def _nothing() -> None:
    """Stand in where there is nothing to do."""
