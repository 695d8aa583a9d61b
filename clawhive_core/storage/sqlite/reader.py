"""Read-only connections, one a thread."""

from __future__ import annotations

import sqlite3
import threading
import weakref
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from clawhive_core.errors import StorageError
from clawhive_core.storage.sqlite.database import undo
from clawhive_core.storage.sqlite.faults import storage_error
from clawhive_core.storage.sqlite.seals import NO_SEALS, Seals


class _OfThread:
    """A connection that is closed with its thread, or by `Readers.close`."""

    __slots__ = ("__weakref__", "connection")

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection

    def __del__(self) -> None:
        self.connection.close()


class Readers:
    """Gives each thread its own read-only connection, so that readers never wait for each other."""

    def __init__(
        self, path: Path, connect: Callable[[], sqlite3.Connection], seals: Seals = NO_SEALS
    ) -> None:
        self.path = path
        self.seals = seals
        self._connect = connect
        self._local = threading.local()
        self._lock = threading.Lock()
        self._opened: weakref.WeakSet[_OfThread] = weakref.WeakSet()
        self._closed = False

    def get(self) -> sqlite3.Connection:
        """Return this thread's connection.

        Raises:
            StorageError: The database cannot be opened, or the log is closed.
        """
        mine: _OfThread | None = getattr(self._local, "mine", None)
        if mine is None:
            if self._closed:
                raise StorageError("The event log is closed in this process.", fix="Open it again.")
            connection = self._connect()
            connection.row_factory = sqlite3.Row
            mine = self._local.mine = _OfThread(connection)
            with self._lock:
                self._opened.add(mine)
        return mine.connection

    def read(self, sql: str, params: Sequence[Any] | Mapping[str, Any] = ()) -> list[sqlite3.Row]:
        """Return the rows of a query.

        Raises:
            StorageError: The query failed.
        """
        connection = self.get()
        try:
            return connection.execute(sql, params).fetchall()
        except (sqlite3.Error, UnicodeError) as error:
            raise storage_error(error, self.path) from error

    @contextmanager
    def snapshot(self) -> Generator[None]:
        """Let all that this thread reads inside the block be of one moment; nothing may be awaited.

        Raises:
            StorageError: The log cannot be read.
        """
        connection = self.get()
        if connection.in_transaction:
            yield
            return
        connection.execute("BEGIN")
        try:
            yield
        finally:
            undo(connection)

    def close(self) -> None:
        """Close every thread's connection, for good."""
        self._closed = True
        with self._lock:
            for mine in list(self._opened):
                mine.connection.close()
        self._local = threading.local()
