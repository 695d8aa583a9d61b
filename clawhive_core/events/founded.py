"""Rights that stand in a table must stand in the log too: somebody may have edited the table."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing

from clawhive_core.errors import StorageError
from clawhive_core.events.log import EventLog
from clawhive_core.events.rebuild import fold
from clawhive_core.events.writer import Projections
from clawhive_core.model.late import dataclass
from clawhive_core.storage.database import open_database

_NAMED = 3


@dataclass(frozen=True, slots=True)
class Standing:
    """What of a projected table gives rights now, and the events that made it so."""

    table: str
    columns: str
    """What is compared, the row's id first."""
    where: str
    """The condition of the rows that give rights; an index must make it cheap."""
    events: str
    """The condition of the events that may have made or ended these rows."""
    projections: Projections


def require_founded(log: EventLog, *standings: Standing) -> None:
    """Raise where a table gives a right that the log does not.

    Only the events of rights that stand now are read, so it may be asked often.

    Raises:
        StorageError: `forged_rights`; or the log cannot be read.
    """
    if not any(log.read(f"{_rows(each)} LIMIT 1") for each in standings):
        return
    with closing(open_database(log.path, read_only=True)) as connection:
        connection.execute("BEGIN")
        require_founded_in(connection, *standings)


def require_founded_in(connection: sqlite3.Connection, *standings: Standing) -> None:
    """Do what `require_founded` does within a transaction that the caller has opened.

    Raises:
        StorageError: `forged_rights`.
    """
    for standing in standings:
        have = set(connection.execute(_rows(standing)))
        if not have:
            continue
        events, projections = standing.events, standing.projections
        with closing(fold(connection, projections, (standing.table,), events)) as fresh:
            forged = have - set(fresh.execute(_rows(standing)))
        if forged:
            raise _forged(connection, standing.table, sorted(str(row[0]) for row in forged))


def _rows(standing: Standing) -> str:
    return f"SELECT {standing.columns} FROM {standing.table} WHERE {standing.where}"  # noqa: S608 - constants of the rooms


def _forged(connection: sqlite3.Connection, table: str, ids: Sequence[str]) -> StorageError:
    path = connection.execute("PRAGMA database_list").fetchone()[2]
    shown = ", ".join(ids[:_NAMED]) + (", ..." if len(ids) > _NAMED else "")
    count = f"{len(ids)} rows give rights" if len(ids) > 1 else "a row gives a right"
    return StorageError(
        f"In the table `{table}` {count} that the log does not give ({shown}): "
        "somebody changed the table behind the log. Nothing is executed.",
        place=str(path),
        fix="clawhive audit rebuild",
        code="forged_rights",
        data={"table": table, "ids": list(ids)},
    )
