"""Events for display: the last ones, those that follow, and one line each."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any, cast

from clawhive_core.events.rows import stored
from clawhive_core.model.canonical import preview
from clawhive_core.model.events import StoredEvent
from clawhive_core.model.texts import printable
from clawhive_core.storage.sqlite.log import EventLog
from clawhive_core.storage.sqlite.schema import SELECT

_SHORT_ID = 8
_SAID_IN = ("output_preview", "input_preview", "preview", "title", "label", "reason", "skill")


def tail(log: EventLog, n: int = 20, *, run_id: str | None = None) -> list[StoredEvent]:
    """Return the last `n` events in order, of one run or of all.

    Raises:
        StorageError: The log cannot be read.
    """
    of_run = ""
    if run_id is not None:
        newest = "SELECT seq FROM events WHERE run_id = :run ORDER BY seq DESC LIMIT :n"
        of_run = f" WHERE seq IN ({newest})"
    sql = f"{SELECT}{of_run} ORDER BY seq DESC LIMIT :n"
    return [stored(row) for row in reversed(log.read(sql, {"run": run_id, "n": max(0, n)}))]


async def follow(
    log: EventLog, *, since: int, run_id: str | None = None, interval: float = 0.2
) -> AsyncIterator[StoredEvent]:
    """Yield events after `since` as they are committed, by any process, until cancelled.

    Args:
        log: The log.
        since: The sequence number after which to begin.
        run_id: Only events of this run.
        interval: How often to look, in seconds.

    Raises:
        StorageError: The log cannot be read.
    """
    import anyio

    while True:
        for event in log.events(run_id=run_id, since=since):
            since = event.seq
            yield event
        await anyio.sleep(interval)


def line(stored: StoredEvent, width: int = 120) -> str:
    """Return one line for a terminal: time, number, kind, run, tool, status, preview.

    Control characters are escaped, so that a tool's output cannot steer the terminal.
    """
    event = stored.event
    run = (event.run_id or "-").removeprefix("run_")[:_SHORT_ID]
    head = f"{stored.ts[11:23]} {stored.seq:>6} {event.kind:<18} {run:<8}"
    rest = f"{event.tool or '-'} {event.status or '-'} {_said(event.body)}"
    shown = preview(printable(preview(rest, width)), max(20, width - len(head) - 1))
    return f"{printable(head)} {shown}"


def _said(body: Mapping[str, Any]) -> str:
    """Return what is most worth reading in a body: what went wrong, else its preview."""
    for key in ("error", "refusal"):
        problem = body.get(key)
        if isinstance(problem, Mapping):
            fields = cast("Mapping[str, Any]", problem)
            return f"{fields.get('code') or fields.get('error')}: {fields.get('message')}"
    texts = (body.get(key) for key in _SAID_IN)
    return next((text for text in texts if isinstance(text, str) and text), "")
