"""Numbered migrations, one list a room, applied in one transaction."""

from __future__ import annotations

import hashlib
import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from clawhive_core.errors import DatabaseTooNew, StorageError
from clawhive_core.model.late import dataclass
from clawhive_core.model.patterns import pattern
from clawhive_core.model.version import VERSION

if TYPE_CHECKING:
    import re

_META = "CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID"
_ROOMS = """
CREATE TABLE IF NOT EXISTS rooms (
    room TEXT PRIMARY KEY,
    version INTEGER NOT NULL,
    written_by TEXT NOT NULL
) WITHOUT ROWID
"""
_OBJECTS = "SELECT type, name, tbl_name, coalesce(sql, '') FROM sqlite_master ORDER BY type, name"
# A comment ends with its line, so that one must not be joined with the next.
_SQL = pattern(
    r"""(?P<kept>'(?:[^']|'')*'|--[^\n]*\n?|/\*[\s\S]*?\*/)|"(?P<name>\w+)"|(?P<space>\s+)"""
)
_NAMED = 3
CAN_COPY = hasattr(sqlite3.Connection, "deserialize")
"""Whether SQLite was built with what copies a database to and from bytes."""


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
        "INSERT OR IGNORE INTO meta (key, value) VALUES ('database_id', ?)", (_new_id(),)
    )
    stored = _versions(connection)
    for schema in schemas:
        _refuse_newer(schema, stored, path)
        _migrate_room(connection, schema, stored.get(schema.room, (0, ""))[0])


def empty_database(schemas: tuple[RoomSchema, ...]) -> bytes:
    """Return the content of a new file: the tables of each room, and an id of its own.

    Nothing, which is the content of an empty file, where SQLite cannot copy a database.
    """
    if not CAN_COPY:
        return b""
    with closing(_in_memory(schemas)) as connection:
        connection.execute("UPDATE meta SET value = ? WHERE key = 'database_id'", (_new_id(),))
        return connection.serialize()


def _in_memory(schemas: tuple[RoomSchema, ...]) -> sqlite3.Connection:
    """Return a database in memory with the tables of each room; a process migrates one."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    if CAN_COPY:
        connection.deserialize(_migrated(schemas))
    else:
        migrate(connection, schemas, Path(":memory:"))
    return connection


@lru_cache(maxsize=4)
def _migrated(schemas: tuple[RoomSchema, ...]) -> bytes:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        migrate(connection, schemas, Path(":memory:"))
        return connection.serialize()


def _new_id() -> str:
    return f"db_{os.urandom(16).hex()}"


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


@dataclass(frozen=True, slots=True)
class SchemaDifferences:
    """The ways in which the objects of a database are not those that the migrations make."""

    problems: tuple[str, ...] = ()
    """Objects of ours that are changed or gone; triggers and indexes of others on our tables."""
    others: tuple[str, ...] = ()
    """Tables and views of others, and what is on them: nothing of ours reads them."""

    def require_none(self, path: Path) -> None:
        """Raise where there are problems.

        Raises:
            StorageError: `altered_schema`.
        """
        if not self.problems:
            return
        more = ", ..." if len(self.problems) > _NAMED else ""
        raise StorageError(
            f"{'; '.join(self.problems[:_NAMED])}{more}: somebody changed the database behind "
            "ClawHive. It is not used.",
            place=str(path),
            fix="Restore it from a backup, or move it away to begin a new one; `clawhive audit "
            "verify` tells all.",
            code="altered_schema",
            data={"problems": list(self.problems)},
        )


def schema_differences(
    connection: sqlite3.Connection, schemas: Sequence[RoomSchema], known: str = ""
) -> SchemaDifferences:
    """Compare each object of a database with what the migrations make.

    Args:
        connection: The database.
        schemas: What it was made with.
        known: The fingerprint of what these schemas make, which saves making it.
    """
    found = _objects(connection)
    if known and _fingerprint(found) == known:
        return SchemaDifferences()
    wanted_objects = _made(tuple(schemas))
    if found == wanted_objects:
        return SchemaDifferences()
    made, have = _by_name(wanted_objects), _by_name(found)
    ours = {name for kind, name in made if kind in {"table", "view"}}
    problems: list[str] = []
    others: list[str] = []
    for key, wanted in made.items():
        if (given := have.get(key)) != wanted:
            how = "missing" if given is None else "not as it was made"
            problems.append(f"the {key[0]} `{key[1]}` is {how}")
    for kind, name in have.keys() - made.keys():
        table = have[kind, name][0]
        if table in ours:
            problems.append(f"on `{table}` lies the {kind} `{name}` of others")
        else:
            others.append(f"{kind} of others, which is not read: `{name}`")
    return SchemaDifferences(tuple(sorted(problems)), tuple(sorted(others)))


def stored_schemas(
    connection: sqlite3.Connection, schemas: Sequence[RoomSchema]
) -> tuple[RoomSchema, ...]:
    """Return schemas up to the versions that a database says it has."""
    stored = _versions(connection)
    return tuple(
        RoomSchema(each.room, each.migrations[: stored.get(each.room, (0, ""))[0]])
        for each in schemas
    )


def fingerprint_of(schemas: Sequence[RoomSchema]) -> str:
    """Return the fingerprint of the objects that migrations make: SHA-256, 32 digits of it."""
    return _fingerprint(_made(tuple(schemas)))


@lru_cache(maxsize=4)
def _made(schemas: tuple[RoomSchema, ...]) -> list[tuple[str, ...]]:
    with closing(_in_memory(schemas)) as fresh:
        return _objects(fresh)


def _objects(connection: sqlite3.Connection) -> list[tuple[str, ...]]:
    """Return type, name, table and SQL of each object, statistics left out."""
    return [row for row in connection.execute(_OBJECTS) if not row[1].startswith("sqlite_stat")]


def _by_name(objects: Iterable[tuple[str, ...]]) -> dict[tuple[str, str], tuple[str, str]]:
    """Return table and normalised SQL of objects by type and name."""
    return {
        (kind, name): (table, _SQL.sub(_normal, sql).strip()) for kind, name, table, sql in objects
    }


def _normal(part: re.Match[str]) -> str:
    if part["space"]:
        return " "
    return part["name"] or part["kept"]


def _fingerprint(objects: Sequence[tuple[str, ...]]) -> str:
    return hashlib.sha256(repr(objects).encode()).hexdigest()[:32]
