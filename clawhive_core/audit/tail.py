"""Events for display: the last ones, those that follow, and one line each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from clawhive_core.model.canonical import preview
from clawhive_core.model.events import StoredEvent
from clawhive_core.model.texts import printable
from clawhive_core.protocols.ledger import EventsWhere, Ledger, Window

_SHORT_ID = 8
_SAID_IN = ("output_preview", "input_preview", "preview", "title", "label", "reason", "skill")


def tail(log: Ledger, n: int = 20, *, run_id: str | None = None) -> list[StoredEvent]:
    """Return the last `n` events in order, of one run or of all.

    Raises:
        StorageError: The log cannot be read.
    """
    newest = log.find(EventsWhere(run_id=run_id), Window(max(0, n)))
    return [*reversed(newest.items)]


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
