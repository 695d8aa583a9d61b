"""Rights that stand in a table must stand in the log too: somebody may have edited the table."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import field
from pathlib import Path

from clawhive_core.errors import StorageError
from clawhive_core.events.chain import row_hash
from clawhive_core.model.late import dataclass
from clawhive_core.storage.sqlite.migrations import database_id
from clawhive_core.storage.sqlite.rebuild import fold
from clawhive_core.storage.sqlite.seals import NO_SEALS, SEALED, Seals, foreign_rows
from clawhive_core.storage.sqlite.writer import Projections

_NAMED = 3


@dataclass(frozen=True, slots=True)
class ProjectedRights:
    """The rows of a projected table that give rights now, and the events that made them."""

    table: str
    columns: str
    """The columns that are compared, the row's id first."""
    where: str
    """The condition of the rows that give rights; an index must make it cheap."""
    events: str
    """The condition of the events that may have made or ended these rows."""
    projections: Projections
    values: Mapping[str, str] = field(default_factory=dict[str, str])
    """The values of the parameters of both conditions."""
    tables: tuple[str, ...] = ()
    """The tables that the projections write, where there are more than this one."""


def require_evidence(connection: sqlite3.Connection, *rights: ProjectedRights) -> None:
    """Raise where a table gives a right that the log does not, in the caller's transaction.

    Raises:
        StorageError: `forged_rights`; or the log cannot be read.
    """
    for projected in rights:
        have = _rows(connection, projected)
        if not have:
            continue
        tables = projected.tables or (projected.table,)
        made = fold(connection, projected.projections, tables, projected.events, projected.values)
        with closing(made) as fresh:
            forged = have - _rows(fresh, projected)
        if forged:
            raise forged_rights(
                _path_of(connection), projected.table, sorted(str(row[0]) for row in forged)
            )


def require_unaltered(
    connection: sqlite3.Connection, projected: ProjectedRights, seals: Seals = NO_SEALS
) -> None:
    """Do what `require_evidence` does, and look at the hash and seal of each event that it reads.

    Raises:
        StorageError: `forged_rights`; `foreign_database`: somebody else wrote one of the events.
    """
    for row in connection.execute(f"{SEALED} WHERE {projected.events}", projected.values):
        if row_hash(row[:-1]) != row[-2]:
            raise altered_event(_path_of(connection), row[0])
        if not seals.is_sealed(row[-2], row[-1]):
            what = f"What the table `{projected.table}` says here"
            raise foreign_rows(_path_of(connection), what, database_id(connection))
    require_evidence(connection, projected)


def _path_of(connection: sqlite3.Connection) -> str:
    return str(connection.execute("PRAGMA database_list").fetchone()[2])


def _rows(connection: sqlite3.Connection, projected: ProjectedRights) -> set[tuple[object, ...]]:
    sql = f"SELECT {projected.columns} FROM {projected.table} WHERE {projected.where}"  # noqa: S608 - constants of the rooms
    return {tuple(row) for row in connection.execute(sql, projected.values)}


def altered_event(path: Path | str, seq: int) -> StorageError:
    """Return the error of a right whose event is not as it was written."""
    return StorageError(
        f"Row {seq} of the log, which a right comes from, is not as it was written. Nothing is "
        "executed.",
        place=str(path),
        fix="clawhive audit verify",
        code="forged_rights",
        data={"seq": seq},
    )


def forged_rights(path: Path | str, table: str, ids: Sequence[str]) -> StorageError:
    """Return the error of rows that give rights and that the log does not give."""
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
