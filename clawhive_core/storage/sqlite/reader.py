"""Read-only connections, one a thread."""

from __future__ import annotations

import sqlite3
import threading
import weakref
from collections.abc import Callable

from clawhive_core.errors import StorageError


class _Held:
    """A connection that is closed with its thread, or by `Readers.close`."""

    __slots__ = ("__weakref__", "connection")

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection

    def __del__(self) -> None:
        self.connection.close()


class Readers:
    """Gives each thread its own read-only connection, so that readers never wait for each other."""

    def __init__(self, connect: Callable[[], sqlite3.Connection]) -> None:
        self._connect = connect
        self._local = threading.local()
        self._lock = threading.Lock()
        self._held: weakref.WeakSet[_Held] = weakref.WeakSet()
        self._closed = False

    def get(self) -> sqlite3.Connection:
        """Return this thread's connection.

        Raises:
            StorageError: The database cannot be opened, or the log is closed.
        """
        held: _Held | None = getattr(self._local, "held", None)
        if held is None:
            if self._closed:
                raise StorageError("The event log is closed in this process.", fix="Open it again.")
            connection = self._connect()
            connection.row_factory = sqlite3.Row
            held = self._local.held = _Held(connection)
            with self._lock:
                self._held.add(held)
        return held.connection

    def close(self) -> None:
        """Close every thread's connection, for good."""
        self._closed = True
        with self._lock:
            for held in list(self._held):
                held.connection.close()
        self._local = threading.local()
