"""Sinks: committed events, handed on to plugins in order."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Collection, Sequence

import anyio

from clawhive_core.events.log import EventLog
from clawhive_core.model.events import StoredEvent
from clawhive_core.protocols.sink import AuditSink

_MAX_WAITING = 100_000
_PATIENCE_SECONDS = 60
"""How long a sink may take for a batch."""


class SinkFanout:
    """Hands every committed event to every sink.

    A required sink that fails, or falls too far behind, stops effects from then on; another one is
    skipped for that batch and counted.

    Args:
        log: Whose events.
        sinks: The sinks.
        required: Names of sinks that are required whatever they say themselves; one that is not
            there stops effects from the beginning.
    """

    def __init__(
        self, log: EventLog, sinks: Sequence[AuditSink], required: Sequence[str] = ()
    ) -> None:
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
            with anyio.fail_after(_PATIENCE_SECONDS):
                await sink.write(batch)
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
