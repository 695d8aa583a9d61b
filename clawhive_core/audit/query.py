"""Events found again: by whose they are, what they say, when, and any text in them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from clawhive_core.audit.text import TextSearch
from clawhive_core.errors import UnknownId
from clawhive_core.events.chain import SELECT
from clawhive_core.events.log import EventLog
from clawhive_core.events.rows import stored
from clawhive_core.model.events import StoredEvent
from clawhive_core.model.late import dataclass

_PAGE = 500
_IDS = ("run_id", "trace_id", "task_id", "step_id")
_LAST = "\U0010ffff"
"""Sorts after every character that follows a prefix."""


@dataclass(frozen=True, slots=True)
class EventFilter:
    """Which events are wanted; what is None does not matter."""

    run_id: str | None = None
    trace_id: str | None = None
    task_id: str | None = None
    step_id: str | None = None
    parent_run_id: str | None = None
    """The run that started those whose events are wanted."""
    tool: str | None = None
    principal: str | None = None
    kind: str | None = None
    """A kind, or the part before its dot: `approval` stands for all kinds of approvals."""
    status: str | None = None
    decision: str | None = None
    """`allow`, `ask` or `deny`, as the body says."""
    since: str | None = None
    """The first moment that counts, as rows hold it."""
    until: str | None = None
    """The first moment that counts no more."""
    text: str | None = None
    """A text somewhere in the body, its previews or its bodies kept outside, in any case."""


_CONDITIONS: Mapping[str, str] = {
    **{name: f"{name} = :{name}" for name in (*_IDS, "tool", "principal", "status")},
    "parent_run_id": (
        "run_id IN (SELECT run_id FROM events WHERE kind = 'run.start'"
        " AND json_extract(body, '$.parent_run_id') = :parent_run_id)"
    ),
    "kind": "(kind = :kind OR substr(kind, 1, length(:kind) + 1) = :kind || '.')",
    "decision": "json_extract(body, '$.decision') = :decision",
    "since": "ts >= :since",
    "until": "ts < :until",
}


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


def query(log: EventLog, wanted: EventFilter, limit: int = 100) -> Found:
    """Return the newest `limit` events that a filter lets through.

    Raises:
        StorageError: The log cannot be read.
    """
    newest: list[StoredEvent] = []
    for event in _newest_first(log, wanted):
        if len(newest) == limit:
            return Found(tuple(reversed(newest)), truncated=True)
        newest.append(event)
    return Found(tuple(reversed(newest)), truncated=False)


def find_ids(log: EventLog, given: Mapping[str, str | None]) -> dict[str, str | None]:
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


def _whole(log: EventLog, column: str, text: str, run_id: str | None) -> str:
    """Return the one id in a column that begins so."""
    what = column.removesuffix("_id")
    of_run = " AND run_id = :run" if run_id is not None else ""
    if text == "last":
        sql = f"SELECT {column} FROM events WHERE {column} IS NOT NULL{of_run} ORDER BY seq DESC"  # noqa: S608 - our own column names
        rows = log.read(f"{sql} LIMIT 1", {"run": run_id})
    else:
        prefix = text if column == "step_id" or text.startswith(f"{what}_") else f"{what}_{text}"
        # The exact id first: it may be the beginning of others.
        sql = (
            f"SELECT DISTINCT {column} FROM events WHERE {column} >= :text"  # noqa: S608 - our own column names
            f" AND {column} < :text || '{_LAST}'{of_run} ORDER BY {column} LIMIT 2"
        )
        rows = log.read(sql, {"text": prefix, "run": run_id})
        rows = rows[:1] if rows and rows[0][0] == prefix else rows
    if len(rows) == 1:
        return str(rows[0][0])
    said = f"names several {what}s; write more of it" if rows else f"names no {what}"
    raise UnknownId(f"`{text}` {said}", place=text, fix="clawhive audit tail --jsonl")


def oldest_first(log: EventLog, wanted: EventFilter) -> Iterator[StoredEvent]:
    """Yield the events that are there now and that a filter lets through, in order.

    Raises:
        StorageError: The log cannot be read.
    """
    last = log.read("SELECT coalesce(max(seq), 0) FROM events")[0][0]
    yield from _pages(log, wanted, (0, last + 1), newest_first=False)


def _newest_first(log: EventLog, wanted: EventFilter) -> Iterator[StoredEvent]:
    yield from _pages(log, wanted, (0, 2**63 - 1), newest_first=True)


def _pages(
    log: EventLog, wanted: EventFilter, between: tuple[int, int], *, newest_first: bool
) -> Iterator[StoredEvent]:
    """Yield what the filter lets through, a page at a time, so that nothing is held open."""
    facts = {name: getattr(wanted, name) for name in _CONDITIONS}
    chosen = [_CONDITIONS[name] for name, value in facts.items() if value is not None]
    where = " AND ".join(["seq > :after AND seq < :before", *chosen])
    order = "DESC" if newest_first else "ASC"
    sql = f"{SELECT} WHERE {where} ORDER BY seq {order} LIMIT {_PAGE}"
    search = None if wanted.text is None else TextSearch(log, wanted.text)
    after, before = between
    while rows := log.read(sql, {**facts, "after": after, "before": before}):
        for row in rows:
            if search is None or search.is_in(row["body"]):
                yield stored(row)
        last = rows[-1]["seq"]
        after, before = (after, last) if newest_first else (last, before)
