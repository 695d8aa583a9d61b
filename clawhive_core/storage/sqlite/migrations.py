"""Numbered migrations, one list a room, applied in one transaction."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path

from clawhive_core.errors import DatabaseTooNew
from clawhive_core.model.late import dataclass
from clawhive_core.model.version import VERSION

_META = "CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID"
_ROOMS = """
CREATE TABLE IF NOT EXISTS rooms (
    room TEXT PRIMARY KEY,
    version INTEGER NOT NULL,
    written_by TEXT NOT NULL
) WITHOUT ROWID
"""


@dataclass(frozen=True, slots=True)
class RoomSchema:
    """The tables of one room: migration N takes them from version N-1 to N.

    A migration that was released never changes; a new one is added at the end. Each is a script
    of SQL statements, run inside a transaction that the storage opens and ends.
    """

    room: str
    migrations: tuple[str, ...]


def is_current(connection: sqlite3.Connection, schemas: Sequence[RoomSchema], path: Path) -> bool:
    """Return whether every room's tables are at the version that the code knows.

    Raises:
        DatabaseTooNew: A room was written by a newer version of ClawHive.
    """
    table = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'rooms'"
    if connection.execute(table).fetchone() is None:
        return False
    stored = _versions(connection)
    for schema in schemas:
        _refuse_newer(schema, stored, path)
    return all(stored.get(s.room, (0, ""))[0] == len(s.migrations) for s in schemas)


def migrate(connection: sqlite3.Connection, schemas: Sequence[RoomSchema], path: Path) -> None:
    """Bring every room's tables up to date, inside the transaction that the caller opened.

    Raises:
        DatabaseTooNew: A room was written by a newer version of ClawHive.
    """
    connection.execute(_META)
    connection.execute(_ROOMS)
    connection.execute(
        "INSERT OR IGNORE INTO meta (key, value) VALUES ('database_id', ?)",
        (f"db_{os.urandom(16).hex()}",),
    )
    stored = _versions(connection)
    for schema in schemas:
        _refuse_newer(schema, stored, path)
        _migrate_room(connection, schema, stored.get(schema.room, (0, ""))[0])


def database_id(connection: sqlite3.Connection) -> str:
    """Return the random id that the database got when it was made."""
    row = connection.execute("SELECT value FROM meta WHERE key = 'database_id'").fetchone()
    return str(row[0])


def _versions(connection: sqlite3.Connection) -> dict[str, tuple[int, str]]:
    rows = connection.execute("SELECT room, version, written_by FROM rooms")
    return {room: (version, written_by) for room, version, written_by in rows}


def _refuse_newer(schema: RoomSchema, stored: dict[str, tuple[int, str]], path: Path) -> None:
    version, written_by = stored.get(schema.room, (0, ""))
    if version <= len(schema.migrations):
        return
    raise DatabaseTooNew(
        f"The tables of {schema.room!r} are at version {version}, written by ClawHive "
        f"{written_by}; this version knows {len(schema.migrations)}.",
        place=str(path),
        fix=f"pip install 'clawhive>={written_by}'",
        data={"room": schema.room, "version": version, "written_by": written_by},
    )


def _migrate_room(connection: sqlite3.Connection, schema: RoomSchema, version: int) -> None:
    if version == len(schema.migrations):
        return
    for script in schema.migrations[version:]:
        for statement in _statements(script):
            connection.execute(statement)
    connection.execute(
        "INSERT INTO rooms (room, version, written_by) VALUES (?, ?, ?) ON CONFLICT (room)"
        " DO UPDATE SET version = excluded.version, written_by = excluded.written_by",
        (schema.room, len(schema.migrations), VERSION),
    )


def _statements(script: str) -> Iterator[str]:
    """Split a script, because `executescript` would commit the caller's transaction."""
    pending = ""
    for part in script.split(";"):
        pending += part + ";"
        if sqlite3.complete_statement(pending):
            if pending.strip(" \n\t;"):
                yield pending
            pending = ""
    if pending.strip(" \n\t;"):
        yield pending
