"""The thread that owns the writing connection: group commit, one transaction a batch."""

from __future__ import annotations

import sqlite3
import threading
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple

from clawhive_core.errors import LogWriteFailed, StorageError
from clawhive_core.events.append import Append, wake
from clawhive_core.events.chain import INSERT, TIP, link
from clawhive_core.events.rows import stored
from clawhive_core.model.events import StoredEvent
from clawhive_core.storage.database import undo
from clawhive_core.storage.faults import storage_error

Apply = Callable[[sqlite3.Connection, StoredEvent], None]
"""One step of a projection: applies one event to a room's tables, in the appending transaction."""

Projections = Mapping[str, tuple[Apply, ...]]
"""Kind of event to what is applied for it, in order."""

Listener = Callable[[list[StoredEvent]], None]
"""Called after each commit, from the writer thread."""

BACKLOG = 100_000
"""How many appends may wait; beyond it posting is refused."""

_LINGER = 0.02
"""How long posted events wait for company, in seconds."""

_BLOB = (
    "INSERT INTO blobs (sha256, type, data) VALUES (?, ?, ?) ON CONFLICT (sha256)"
    " DO UPDATE SET data = excluded.data WHERE blobs.data IS NULL"
)

_StoredRow = tuple[Any, ...]


class _Place(NamedTuple):
    """The number and hash of the row before."""

    seq: int
    hash: str


class Writer:
    """Commits what is queued, a whole queue at a time."""

    def __init__(
        self, connection: sqlite3.Connection, path: Path, genesis: str, projections: Projections
    ) -> None:
        self.listener_errors = 0
        self._connection = connection
        self._path = path
        self._inode = path.stat().st_ino
        self._start = _Place(0, genesis)
        self._projections = projections
        self._queue: deque[Append] = deque()
        self._bell: SimpleQueue[str] = SimpleQueue()
        self._gate = threading.Lock()
        self._lingering = False
        self._rung = False
        self._closing = False
        self._lost: LogWriteFailed | None = None
        self._lost_is_known = False
        self._synced = False
        self._listeners: tuple[Listener, ...] = ()
        self._thread = threading.Thread(target=self._run, name="clawhive-log", daemon=True)
        self._thread.start()

    def submit(self, item: Append) -> None:
        """Queue an append that somebody waits for.

        Raises:
            LogWriteFailed: The log is closed, or events that nobody waited for were lost.
        """
        with self._gate:
            self._refuse_if_unusable()
            self._queue.append(item)
        # Both flags are lowered before the queue is emptied, so no event is left behind.
        if not self._rung:
            self._rung = True
            self._bell.put("now")

    def post(self, item: Append) -> None:
        """Queue an append that nobody waits for; it is committed with the next batch.

        Raises:
            LogWriteFailed: As for `submit`, or too much is waiting.
        """
        with self._gate:
            self._refuse_if_unusable()
            if len(self._queue) >= BACKLOG:
                raise self._unusable(f"{BACKLOG} appends wait to be written", "Append and wait")
            self._queue.append(item)
        if not (self._lingering or self._rung):
            self._lingering = True
            self._bell.put("soon")

    def listen(self, callback: Listener) -> Callable[[], None]:
        """Call `callback` after each commit; the returned function ends that."""
        with self._gate:
            self._listeners = (*self._listeners, callback)

        def stop() -> None:
            with self._gate:
                self._listeners = tuple(c for c in self._listeners if c is not callback)

        return stop

    def close(self) -> None:
        """Commit what is queued and end the thread.

        Raises:
            LogWriteFailed: Events that nobody waited for were lost.
        """
        with self._gate:
            self._closing = True
        self._bell.put("now")
        if threading.current_thread() is not self._thread:
            self._thread.join()
        self._connection.close()
        if self._lost is not None and not self._lost_is_known:
            raise self._again(self._lost)

    def _refuse_if_unusable(self) -> None:
        if self._lost is not None:
            raise self._again(self._lost)
        if self._closing or not self._thread.is_alive():
            raise self._unusable("The event log is closed in this process", "Open it again")
        if threading.get_ident() == self._thread.ident:
            raise self._unusable(
                "A listener or projection runs in the writer itself and cannot append",
                "Append from the code that reacts to the event",
            )

    def _unusable(self, what: str, fix: str) -> LogWriteFailed:
        return LogWriteFailed(f"{what}.", place=str(self._path), fix=f"{fix}.")

    def _again(self, lost: LogWriteFailed) -> LogWriteFailed:
        """A further report of the same loss, with its own traceback."""
        self._lost_is_known = True
        failure = LogWriteFailed(lost.message, place=lost.place, fix=lost.fix, data=lost.data)
        failure.__cause__ = lost
        return failure

    def _run(self) -> None:
        while True:
            self._wait()
            self._lingering = self._rung = False
            closing = self._closing
            batch = self._take()
            self._lingering = bool(batch)
            if batch:
                self._process(batch)
            elif closing:
                return

    def _wait(self) -> None:
        """Return when something is to be committed; after a commit, look again by itself.

        What is posted within that time needs no wake-up, and meets what is submitted next.
        """
        if self._closing:
            return
        if not self._lingering and self._bell.get() == "now":
            return
        try:
            self._bell.get(timeout=_LINGER)
        except Empty:
            return

    def _take(self) -> list[Append]:
        batch: list[Append] = []
        while self._queue:
            batch.append(self._queue.popleft())
        return batch

    def _process(self, batch: list[Append]) -> None:
        flushes = [item for item in batch if item.is_flush]
        writes = [item for item in batch if not item.is_flush] if flushes else batch
        news: list[_StoredRow] = []
        try:
            if writes:
                news = self._commit(writes)
        except BaseException as error:  # noqa: BLE001 - every waiter must hear of it and the thread must live
            self._fail(writes, error)
        wake(writes)
        if news and self._listeners:
            self._tell(news)
        if flushes:
            for item in flushes:
                item.error = None if self._lost is None else self._again(self._lost)
            wake(flushes)

    def _commit(self, batch: list[Append]) -> list[_StoredRow]:
        """Commit a batch in one transaction and return its rows as stored."""
        if self._lost is not None:
            raise self._again(self._lost)
        if self._path.stat().st_ino != self._inode:
            raise OSError("the file was replaced while it was open")
        self._use_sync(wanted=any(item.sync for item in batch))
        execute = self._connection.execute
        execute("BEGIN IMMEDIATE")
        tip = execute(TIP).fetchone()
        place = self._start if tip is None else _Place(*tip)
        news: list[_StoredRow] = []
        for item in batch:
            place = self._apply(item, place, news)
        execute("COMMIT")
        self._report_lost_posts(batch)
        return news

    def _use_sync(self, *, wanted: bool) -> None:
        if wanted != self._synced:
            self._connection.execute(f"PRAGMA synchronous = {'FULL' if wanted else 'NORMAL'}")
            self._synced = wanted

    def _apply(self, item: Append, place: _Place, news: list[_StoredRow]) -> _Place:
        """Write one append; what its `within` or its projections raise undoes it alone."""
        projections = self._projections
        if item.within is None and not any(row.columns[1] in projections for row in item.rows):
            return self._insert(item, place, news)
        execute, known = self._connection.execute, len(news)
        execute("SAVEPOINT append")
        try:
            if item.within is not None:
                item.within(self._connection)
            self._check_open()
            after = self._insert(item, place, news)
            self._check_open()
        except BaseException as error:
            if not self._connection.in_transaction:
                raise
            execute("ROLLBACK TO append")
            execute("RELEASE append")
            del news[known:]
            item.seqs, item.error = [], error
            return place
        execute("RELEASE append")
        return after

    def _check_open(self) -> None:
        """What follows a foreign COMMIT or ROLLBACK would be kept row by row."""
        if not self._connection.in_transaction:
            raise self._unusable(
                "The code that runs within an append ended its transaction",
                "Leave BEGIN, COMMIT and ROLLBACK to the log",
            )

    def _insert(self, item: Append, place: _Place, news: list[_StoredRow]) -> _Place:
        execute = self._connection.execute
        seq, prev = place
        for row in item.rows:
            for blob in row.blobs:
                execute(_BLOB, blob)
            seq += 1
            digest = link(seq, row.inner, prev)
            whole = (seq, *row.columns, prev, digest)
            execute(INSERT, whole)
            news.append(whole)
            item.seqs.append(seq)
            prev = digest
            for apply in self._projections.get(row.columns[1], ()):
                apply(self._connection, stored(whole))
        return _Place(seq, prev)

    def _fail(self, batch: list[Append], error: BaseException) -> None:
        try:
            undo(self._connection)
        except sqlite3.Error:
            self._synced = False  # unknown; the next BEGIN reports the broken connection
        for item in batch:
            item.seqs = []
            item.error = item.error or self._failure(error)
        self._report_lost_posts(batch)

    def _failure(self, error: BaseException) -> LogWriteFailed:
        if isinstance(error, LogWriteFailed):
            return error
        if isinstance(error, sqlite3.Error | OSError):
            known = storage_error(error, self._path)
        else:
            known = StorageError(f"{type(error).__name__}: {error}.")
        failure = LogWriteFailed(
            f"The event was not written. {known.message}",
            place=str(self._path),
            fix=known.fix,
            data=known.data,
        )
        failure.__cause__ = error
        return failure

    def _report_lost_posts(self, batch: list[Append]) -> None:
        """From a lost event that nobody waits for on, the log says so to everyone."""
        for item in batch:
            if item.error is not None and item.is_posted and self._lost is None:
                self._lost = self._failure(item.error)

    def _tell(self, news: list[_StoredRow]) -> None:
        events = [stored(row) for row in news]
        for listener in self._listeners:
            try:
                listener(events)
            except Exception:  # noqa: BLE001 - a listener is an observer: it may not stop the log
                self.listener_errors += 1
