"""Events found again: by whose they are, what they say, when, and any text in them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Any

from clawhive_core.audit.text import TextSearch
from clawhive_core.errors import UnknownId
from clawhive_core.model.canonical import canonical_text
from clawhive_core.model.events import StoredEvent
from clawhive_core.model.late import dataclass
from clawhive_core.protocols.ledger import EventsWhere, IdColumn, IdsWhere, Ledger, Window

_PAGE = 500
_IDS: tuple[IdColumn, ...] = ("run_id", "trace_id", "task_id", "step_id")
"""Sorts after every character that follows a prefix."""


@dataclass(frozen=True, slots=True)
class EventFilter(EventsWhere):
    """A filter of events: by what the log can be asked for, and by any text in them."""

    text: str | None = None
    """A text somewhere in the body, its previews or its bodies kept outside, in any case."""


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


def query(log: Ledger, wanted: EventFilter, limit: int = 100) -> Found:
    """Return the newest `limit` events that a filter lets through.

    Raises:
        StorageError: The log cannot be read.
    """
    newest: list[StoredEvent] = []
    for event in _pages(log, wanted, reverse=False):
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


def oldest_first(log: Ledger, wanted: EventFilter) -> Iterator[StoredEvent]:
    """Yield the events that are there now and that a filter lets through, in order.

    Raises:
        StorageError: The log cannot be read.
    """
    for tip in log.find(EventsWhere(), Window(limit=1)):
        for each in _pages(log, wanted, reverse=True):
            if each.seq > tip.seq:
                return
            yield each


def _pages(log: Ledger, wanted: EventFilter, *, reverse: bool) -> Iterator[StoredEvent]:
    """Yield what the filter lets through, a page at a time, so that nothing is held open."""
    facts = {each.name: getattr(wanted, each.name) for each in fields(EventsWhere)}
    search = None if wanted.text is None else TextSearch(log, wanted.text)
    query, after = EventsWhere(**facts), None
    while True:
        page = log.find(query, Window(limit=_PAGE, after=after, reverse=reverse))
        for each in page:
            if search is None or search.is_in(canonical_text(each.event.body)):
                yield each
        if (after := page.next) is None:
            return
