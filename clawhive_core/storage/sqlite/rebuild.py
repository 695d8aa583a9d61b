"""Projections made anew from the log: to repair them, and to see that nobody changed them."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from typing import Any

from clawhive_core.errors import StorageError
from clawhive_core.events.rows import stored
from clawhive_core.model.records import Difference
from clawhive_core.storage.sqlite.schema import SELECT
from clawhive_core.storage.sqlite.writer import Projections

_Row = tuple[Any, ...]


def compare(
    connection: sqlite3.Connection, projections: Projections, tables: Sequence[str]
) -> tuple[Difference, ...]:
    """Return how the tables differ from a replay of the log; nothing is changed.

    Raises:
        StorageError: A row of the log cannot be applied.
    """
    with closing(_replay(connection, projections, tables)) as fresh:
        return tuple(_differences(connection, fresh, tables))


def rebuild(
    connection: sqlite3.Connection, projections: Projections, tables: Sequence[str]
) -> tuple[Difference, ...]:
    """Replace the tables' content by a replay of the log, in the caller's transaction.

    Args:
        connection: The writing one; other processes wait until the replay is done.
        projections: The projections that write the tables. Only their kinds of events are read:
            a partial index `WHERE kind IN (...)`, kinds in alphabetical order, makes it fast.
        tables: Tables that these projections alone write; they read no others.

    Returns:
        How the tables differed before, a table without a difference left out.

    Raises:
        StorageError: A row of the log cannot be applied.
    """
    with closing(_replay(connection, projections, tables)) as fresh:
        found = tuple(_differences(connection, fresh, tables))
        for table in tables:
            _copy(fresh, connection, table)
    return found


def _replay(
    connection: sqlite3.Connection, projections: Projections, tables: Sequence[str]
) -> sqlite3.Connection:
    """Return an in-memory database with the tables as the log gives them."""
    kinds = ", ".join(_literal(kind) for kind in sorted(projections))
    return fold(connection, projections, tables, f"kind IN ({kinds})")


def fold(
    connection: sqlite3.Connection,
    projections: Projections,
    tables: Sequence[str],
    events: str,
    values: Mapping[str, str] | None = None,
) -> sqlite3.Connection:
    """Return an in-memory database with the tables as some events give them.

    Args:
        connection: The log's database.
        projections: What is applied.
        tables: The tables that the projections write.
        events: A condition in SQL: which events are applied, in their order.
        values: What its parameters stand for.

    Raises:
        StorageError: A row of the log cannot be applied.
    """
    fresh = sqlite3.connect(":memory:", isolation_level=None)
    try:
        for table in tables:
            _make_like(connection, fresh, table)
        for row in connection.execute(f"{SELECT} WHERE {events} ORDER BY seq", values or {}):
            _apply(fresh, row, projections)
    except BaseException:
        fresh.close()
        raise
    return fresh


def _apply(fresh: sqlite3.Connection, row: Sequence[Any], projections: Projections) -> None:
    try:
        event = stored(row)
        for apply in projections[event.event.kind]:
            apply(fresh, event)
    except (LookupError, TypeError, ValueError, sqlite3.Error) as error:
        raise StorageError(
            f"Row {row[0]} of the log cannot be applied again: {type(error).__name__}: {error}.",
            place=f"row {row[0]}",
            fix="Run `clawhive audit verify`: the row may have been changed.",
            data={"cause": "replay"},
        ) from error


def _make_like(connection: sqlite3.Connection, fresh: sqlite3.Connection, table: str) -> None:
    statements = connection.execute(
        "SELECT sql FROM sqlite_master WHERE tbl_name = ? AND sql IS NOT NULL"
        " AND type IN ('table', 'index', 'trigger') ORDER BY type <> 'table'",
        (table,),
    )
    for (statement,) in statements.fetchall():
        fresh.execute(statement)


def _differences(
    live: sqlite3.Connection, fresh: sqlite3.Connection, tables: Iterable[str]
) -> Iterable[Difference]:
    for table in tables:
        have, want = _content(live, table), _content(fresh, table)
        if have != want:
            yield Difference(table, len(want - have), len(have - want))


def _content(connection: sqlite3.Connection, table: str) -> set[_Row]:
    return set(connection.execute(f"SELECT * FROM {_name(table)}"))  # noqa: S608 - a quoted name


def _copy(source: sqlite3.Connection, target: sqlite3.Connection, table: str) -> None:
    target.execute(f"DELETE FROM {_name(table)}")  # noqa: S608 - a quoted name
    for row in source.execute(f"SELECT * FROM {_name(table)}"):  # noqa: S608 - a quoted name
        places = ", ".join("?" * len(row))
        target.execute(f"INSERT INTO {_name(table)} VALUES ({places})", row)  # noqa: S608 - a quoted name


def _name(table: str) -> str:
    return '"' + table.replace('"', '""') + '"'


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
