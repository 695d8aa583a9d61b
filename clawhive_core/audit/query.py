"""Events found again, by whose they are, when and any text in them; and a line of each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, cast

from clawhive_core.errors import UnknownId
from clawhive_core.events.rows import references
from clawhive_core.model.canonical import canonical_text, preview
from clawhive_core.model.events import StoredEvent
from clawhive_core.model.late import dataclass
from clawhive_core.model.texts import printable
from clawhive_core.protocols.ledger import EventsWhere, IdColumn, IdsWhere, Ledger, Window

_PAGE = 500
_IDS: tuple[IdColumn, ...] = ("run_id", "trace_id", "task_id", "step_id")
_SHORT_ID = 8
_SAID_IN = ("output_preview", "input_preview", "preview", "title", "label", "reason", "skill")


@dataclass(frozen=True, slots=True)
class Found:
    """The newest events that were asked for, oldest first."""

    events: tuple[StoredEvent, ...]
    truncated: bool
    """Whether older ones were left out."""

    def to_dict(self) -> dict[str, Any]:
        """Return the events as the JSON object of `audit query --json`."""
        return {
            "schema": "audit-query/1",
            "events": [stored.to_dict() for stored in self.events],
            "truncated": self.truncated,
        }


def query(log: Ledger, wanted: EventsWhere, limit: int = 100, *, text: str | None = None) -> Found:
    """Return the newest `limit` of the events that are wanted.

    Args:
        log: The log.
        wanted: The columns and times that must hold.
        limit: The most events.
        text: A text somewhere in the body, its previews or its bodies kept outside, in any case.

    Raises:
        StorageError: The log cannot be read.
    """
    newest: list[StoredEvent] = []
    search = None if text is None else _TextSearch(log, text)
    for event in _pages(log, wanted, reverse=False):
        if search is not None and not search.is_in(canonical_text(event.event.body)):
            continue
        if len(newest) == limit:
            return Found(tuple(reversed(newest)), truncated=True)
        newest.append(event)
    return Found(tuple(reversed(newest)), truncated=False)


def find_ids(log: Ledger, given: Mapping[str, str | None]) -> dict[str, str | None]:
    """Return whole ids for what a person wrote: ids, unique prefixes, or `last`.

    Args:
        log: The log.
        given: What was written, by column: `run_id`, `trace_id`, `task_id`, `step_id`. A step
            may be written without its run where `run_id` is given too. A `parent_run_id` is the
            id of a run.

    Raises:
        UnknownId: One names nothing, or several things.
    """
    found: dict[str, str | None] = {}
    for column in _IDS:
        text = given.get(column)
        if text is not None and column == "step_id" and found.get("run_id"):
            text = _in_run(text, str(found["run_id"]))
        found[column] = None if text is None else _whole(log, column, text, found.get("run_id"))
    if (parent := given.get("parent_run_id")) is not None:
        found["parent_run_id"] = _whole(log, "run_id", parent, None)
    return found


def _in_run(step: str, run_id: str) -> str:
    return step if step == "last" or step.startswith("run_") else f"{run_id}/{step}"


def _whole(log: Ledger, column: IdColumn, text: str, run_id: str | None) -> str:
    """Return the one id in a column that begins so."""
    what = column.removesuffix("_id")
    whole = column == "step_id" or text.startswith(f"{what}_")
    prefix = None if text == "last" else text if whole else f"{what}_{text}"
    found = log.find(IdsWhere(column, prefix, run_id)).items
    if len(found) == 1:
        return found[0]
    said = f"names several {what}s; write more of it" if found else f"names no {what}"
    raise UnknownId(f"`{text}` {said}", place=text, fix="clawhive audit tail --jsonl")


def oldest_first(log: Ledger, wanted: EventsWhere) -> Iterator[StoredEvent]:
    """Yield the events that are there now and that are wanted, in order.

    Raises:
        StorageError: The log cannot be read.
    """
    for tip in log.find(EventsWhere(), Window(limit=1)):
        for each in _pages(log, wanted, reverse=True):
            if each.seq > tip.seq:
                return
            yield each


def _pages(log: Ledger, wanted: EventsWhere, *, reverse: bool) -> Iterator[StoredEvent]:
    """Yield what is wanted, a page at a time, so that nothing is held open."""
    after = None
    while True:
        page = log.find(wanted, Window(limit=_PAGE, after=after, reverse=reverse))
        yield from page
        if (after := page.next) is None:
            return


class _TextSearch:
    """Says whether a body, or a blob that it refers to, holds a text; upper and lower case match.

    Each blob is looked at once.
    """

    def __init__(self, log: Ledger, text: str) -> None:
        self._log = log
        self._text = text.casefold()
        self._escaped = canonical_text(text)[1:-1].casefold()
        self._known: dict[str, bool] = {}

    def is_in(self, body: str) -> bool:
        """Return whether a stored body holds the text, directly or in a blob."""
        if self._escaped in body.casefold():
            return True
        return any(self._is_in_blob(sha256) for sha256 in references(body))

    def _is_in_blob(self, sha256: str) -> bool:
        found = self._known.get(sha256)
        if found is None:
            found = self._known[sha256] = self._look(sha256)
        return found

    def _look(self, sha256: str) -> bool:
        body = self._log.blob(sha256)
        if body is None or not isinstance(body.data, bytes):
            return False  # pruned, or somebody took it away: `audit verify` tells
        text = body.data.decode("utf-8", "replace").casefold()
        return (self._escaped if body.type == "json" else self._text) in text


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
