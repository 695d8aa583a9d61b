"""The user's cache: rows in one SQLite file, of which a reader loads those that it asks for."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from stat import S_ISREG
from typing import TYPE_CHECKING, Any
from zlib import crc32

from clawhive_core.config.root import cache_dir

if TYPE_CHECKING:
    import sqlite3

VERSION = 1
"""The form of the file, its `user_version`."""
MAX_ROWS = 100_000
MAX_BYTES = 1024 * 1024
"""The most bytes of a value that is kept."""

_BUSY_SECONDS = 0.25
"""The time that another process's write is waited for: to read anew may be quicker."""
_AT_ONCE = 10_000
"""The most keys that one query names; SQLite takes 32,766 since 3.32."""
_TABLE = """
CREATE TABLE entries (
    id INTEGER PRIMARY KEY,
    key BLOB NOT NULL UNIQUE,
    value BLOB NOT NULL,
    sum INTEGER NOT NULL
)
"""


def user_cache(env: Mapping[str, str], name: str) -> SqliteCache:
    """Return a cache in the user's directory for them (XDG Base Directory Specification 0.8).

    Args:
        env: The environment.
        name: The file's name.
    """
    return SqliteCache(cache_dir(env) / name)


class SqliteCache:
    """A `Cache` in a file of its own, which no other user may own.

    A power cut may damage it: nothing is synchronised, each row has a sum, and a file that SQLite
    cannot use is removed. A process that cannot have it at once goes without.

    Args:
        file: The file. It is made, with its folder, when something is put.
        max_rows: How many of the rows that were put last are kept.
    """

    def __init__(self, file: Path, max_rows: int = MAX_ROWS) -> None:
        self.file = file
        self._max_rows = max_rows
        self._connection: sqlite3.Connection | None = None
        self._is_closed = False

    def get_many(self, keys: Sequence[bytes]) -> Mapping[bytes, bytes]:
        """Return the values of those keys that are there, each as it was put."""
        if self._connection is None and not (keys and self.file.exists()):
            return {}
        import sqlite3

        found: dict[bytes, bytes] = {}
        try:
            connection = self._opened()
            for begin in range(0, len(keys), _AT_ONCE):
                found.update(_rows(connection, keys[begin : begin + _AT_ONCE]))
        except (sqlite3.Error, OSError, _Unusable) as error:
            self._give_up(error)
        return found

    def put_many(self, entries: Mapping[bytes, bytes]) -> None:
        """Keep entries, in place of those of the same keys; the oldest make room for them."""
        import sqlite3

        small = {key: each for key, each in entries.items() if len(each) <= MAX_BYTES}
        if not small:
            return
        try:
            connection = self._opened()
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany(
                "INSERT OR REPLACE INTO entries(key, value, sum) VALUES(?, ?, ?)",
                ((key, value, _sum(key, value)) for key, value in small.items()),
            )
            connection.execute(
                "DELETE FROM entries WHERE id <= (SELECT max(id) FROM entries) - ?",
                (self._max_rows,),
            )
            connection.execute("COMMIT")
        except (sqlite3.Error, OSError, _Unusable) as error:
            self._give_up(error)

    def close(self) -> None:
        """Let go of the file; afterwards the cache holds nothing."""
        self._is_closed = True
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _opened(self) -> sqlite3.Connection:
        if self._is_closed:
            raise _Unusable
        if self._connection is None:
            try:
                self._connection = _connected(self.file)
            except Exception as error:
                if not _is_damage(error):
                    raise
                _remove(self.file)
                self._connection = _connected(self.file)
        return self._connection

    def _give_up(self, error: Exception) -> None:
        """Go without the cache from now on; a damaged one is made anew by the next process."""
        self.close()
        if _is_damage(error):
            _remove(self.file)


class _Unusable(Exception):
    """The file is somebody else's, of a newer version, or let go of."""


def _connected(file: Path) -> sqlite3.Connection:
    """Open the file, made where it is missing.

    Raises:
        _Unusable: It is another user's, no regular file, or of a newer version.
        sqlite3.Error: It is damaged, locked, or cannot be written.
        OSError: Its folder cannot be made.
    """
    import sqlite3

    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    os.close(os.open(file, os.O_CREAT | os.O_RDWR | getattr(os, "O_CLOEXEC", 0), 0o600))
    found = file.stat()
    if not S_ISREG(found.st_mode) or found.st_uid != getattr(os, "getuid", lambda: found.st_uid)():
        raise _Unusable
    connection = sqlite3.connect(file, timeout=_BUSY_SECONDS, isolation_level=None)
    try:
        _prepare(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _prepare(connection: sqlite3.Connection) -> None:
    """Make the table of a new file, unless another process just did; refuse a newer version."""
    connection.execute("PRAGMA synchronous = OFF")
    connection.execute("PRAGMA trusted_schema = OFF")
    if _version(connection) == 0:
        connection.execute("BEGIN IMMEDIATE")
        if _version(connection) == 0:
            connection.execute(_TABLE)
            connection.execute(f"PRAGMA user_version = {VERSION}")
        connection.execute("COMMIT")
    if _version(connection) != VERSION:
        raise _Unusable


def _version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def _rows(connection: sqlite3.Connection, keys: Sequence[bytes]) -> dict[bytes, bytes]:
    marks = ",".join("?" * len(keys))
    query = f"SELECT key, value, sum FROM entries WHERE key IN ({marks})"  # noqa: S608 - marks only
    rows = connection.execute(query, keys)
    return {key: value for key, value, known in rows if _sum(key, value) == known}


def _sum(key: bytes, value: Any) -> int | None:
    return crc32(value, crc32(key)) if isinstance(value, bytes) else None


def _is_damage(error: Exception) -> bool:
    """Whether an error says that the file is no database, or another one than was made here."""
    import sqlite3

    if not isinstance(error, sqlite3.DatabaseError):
        return False
    code: int = getattr(error, "sqlite_errorcode", 0)
    return code & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR)


def _remove(file: Path) -> None:
    for name in (file, file.with_name(f"{file.name}-journal")):
        try:
            name.unlink(missing_ok=True)
        except OSError:
            return
