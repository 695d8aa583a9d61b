"""A project's event log with the tables of every room, and following it as it grows."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from typing import Any

import anyio

from clawhive_core.config.config import Config
from clawhive_core.events.log import EventLog, Projections
from clawhive_core.execution import store
from clawhive_core.model.events import StoredEvent
from clawhive_core.policy import approvals, ledger
from clawhive_core.runs import schema as runs_schema

SCHEMAS = (ledger.SCHEMA, runs_schema.SCHEMA, approvals.SCHEMA, store.SCHEMA)


def open_log(config: Config) -> EventLog:
    """Open a project's log with the tables of every room."""
    projections: dict[str, Any] = {}
    rooms = (runs_schema, ledger, approvals, store)
    for room in (each.PROJECTIONS for each in rooms):
        for kind, applied in room.items():
            projections[kind] = (*projections.get(kind, ()), *applied)
    merged: Projections = projections
    return EventLog.open(config.root / ".clawhive" / "hive.db", SCHEMAS, merged)


async def follow(log: EventLog, since: int = 0) -> AsyncGenerator[StoredEvent]:
    """Yield the log's events after a sequence number, then those to come."""
    from asyncio import get_running_loop

    loop = get_running_loop()
    ready = anyio.Event()

    def wake() -> None:
        ready.set()

    stop = log.listen(lambda _: _tell(loop, wake))
    try:
        while True:
            ready = anyio.Event()
            for stored in log.events(since=since):
                since = stored.seq
                yield stored
            await ready.wait()
    finally:
        stop()


def _tell(loop: Any, callback: Callable[[], None]) -> None:
    with suppress(RuntimeError):  # the loop is closing: nobody listens any more
        loop.call_soon_threadsafe(callback)
