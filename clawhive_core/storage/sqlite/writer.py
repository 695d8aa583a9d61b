"""The thread that owns the writing connection: group commit, one transaction a batch."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING

from clawhive_core.errors import ClawHiveError
from clawhive_core.events.kinds import GRANT_REVOKED
from clawhive_core.events.rows import stored
from clawhive_core.model.events import StoredEvent
from clawhive_core.protocols.ledger import RunOwnedBy
from clawhive_core.storage.sqlite.append import Append, wake
from clawhive_core.storage.sqlite.backlog import BACKLOG, FEW, MUCH, Backlog
from clawhive_core.storage.sqlite.database import (
    BUSY_SECONDS,
    CHECKPOINT_PAGES,
    begin,
    has_room_to_move,
    is_busy,
    undo,
)
from clawhive_core.storage.sqlite.expectations import EvidenceCheck, require
from clawhive_core.storage.sqlite.schema import TIP
from clawhive_core.storage.sqlite.seals import Seals
from clawhive_core.storage.sqlite.transaction import Place, StoredRow, Transaction
from clawhive_core.storage.sqlite.usability import Usability

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

Apply = Callable[[sqlite3.Connection, StoredEvent], None]
"""One step of a projection: applies one event to a room's tables, in the appending transaction."""

Projections = Mapping[str, tuple[Apply, ...]]
"""Kind of event to what is applied for it, in order."""

Listener = Callable[[list[StoredEvent]], None]
"""Called after each commit, from the writer thread."""

_PAGE = 4096
_FRAMES = 4
"""About how many pages a commit changes besides those that its rows fill."""

_LITTLE = 64 * 1024
"""The most of one append that is committed in a caller's thread, in bytes."""

_LINGER = 0.02
"""The seconds for which posted events wait for others."""


class Writer:
    """Commits what is queued, a whole queue at a time."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        path: Path,
        genesis: str,
        projections: Projections,
        evidence_checks: Mapping[str, EvidenceCheck],
        seals: Seals,
    ) -> None:
        self.listener_errors = 0
        self._connection = connection
        self._name = str(path)
        self._inode = path.stat().st_ino
        self._start = Place(0, genesis)
        self._projections = projections
        self._evidence_checks = evidence_checks
        self._seals = seals
        self._queue = Backlog()
        self.is_full = self._queue.is_full
        self._bell: SimpleQueue[str] = SimpleQueue()
        self._gate = threading.Lock()
        self._turn = threading.Lock()
        self._pages = _pages_left(path)
        if self._pages >= CHECKPOINT_PAGES and has_room_to_move(path):
            self._bell.put("now")
        self._lingering = False
        self._rung = False
        self._synced = False
        self._version = connection.cursor()
        self._known_tip: tuple[int, Place] | None = None
        """The row that the next one follows, while `_others` is that number."""
        self._revoked = 0
        self._locked_epoch: tuple[int, int] | None = None
        """The epoch while a transaction is open, in which nobody else can commit."""
        self._usability = Usability(path)
        self._listeners: tuple[Listener, ...] = ()
        # A loop's thread waits for nobody and moves no pages into the file.
        connection.execute("PRAGMA busy_timeout = 0")
        connection.execute("PRAGMA wal_autocheckpoint = 0")
        self._thread = threading.Thread(target=self._run, name="clawhive-log", daemon=True)
        self._thread.start()
        self._usability.thread = self._thread.ident

    def submit(self, item: Append) -> None:
        """Queue an append that somebody waits for; a loop then calls `commit_gathered`.

        Raises:
            LogWriteFailed: The log is closed, or events that nobody waited for were lost.
        """
        with self._gate:
            self._usability.require()
            self._queue.put(item)
        if item.loop is None:
            self._ring()

    def _ring(self) -> None:
        # Both flags are lowered before the queue is emptied, so no event is left behind.
        if not self._rung:
            self._rung = True
            self._bell.put("now")

    def commit_gathered(self, loop: AbstractEventLoop) -> None:
        """Commit what is queued in the calling thread, a loop's own, where it need not wait there.

        It waits for the disk, another writer, or much work; the writer's thread does that.
        """
        if not self._queue.items:
            return
        if not self._may_work_here():
            self._ring()
            return
        try:
            batch = self._commit_at_once()
        finally:
            self._turn.release()
        if batch is None:
            self._ring()
        else:
            wake(batch, here=loop)

    def _may_work_here(self) -> bool:
        """Take the turn of the writer's thread, where that is free and its work is little."""
        if len(self._queue.items) > FEW or self._listeners or self._pages >= CHECKPOINT_PAGES:
            return False
        return self._turn.acquire(blocking=False)

    def _commit_at_once(self) -> list[Append] | None:
        """Commit what is queued and return it; None where the writer's thread must do it."""
        batch = self._queue.take()
        size = 0
        for each in batch:
            size += each.size if self._is_light(each) else MUCH  # a heavy one is too much
        if size >= MUCH:
            self._queue.put_back(batch)
            return None
        try:
            if size or not all(item.is_flush for item in batch):
                self._commit(batch, wait_seconds=0)
        except BaseException as error:
            if is_busy(error) and not self._connection.in_transaction:
                self._queue.put_back(batch)
                return None
            self._fail(batch, error)
            if not isinstance(error, Exception):  # Ctrl-C, which this thread may get
                wake(batch)
                raise
        return batch

    def _is_light(self, item: Append) -> bool:
        """Whether all that an append needs is a little work and no disk."""
        if item.sync or item.effect is not None or item.size > _LITTLE:
            return False
        return not self._has_projections(item)

    def post(self, item: Append) -> None:
        """Queue an append that nobody waits for; it is committed with the next batch.

        Raises:
            LogWriteFailed: As for `submit`, or too much is waiting.
        """
        with self._gate:
            self._usability.require()
            if len(self._queue.items) >= BACKLOG:
                much = f"{BACKLOG} appends wait to be written"
                raise self._usability.unusable(much, "Append and wait")
            item.is_posted = True
            self._queue.put(item)
        if not (self._lingering or self._rung):
            self._lingering = True
            self._bell.put("soon")

    def epoch(self) -> tuple[int, int] | None:
        """Return another value once a right may have been revoked, None where it is unknown.

        That is by another connection's commit, or by a `grant.revoked` of this one's. Asking costs
        a tenth of a query after a commit, which invalidates what a reader has cached.
        """
        if not self._turn.acquire(blocking=False):
            return self._locked_epoch
        try:
            return self._others(), self._revoked
        except sqlite3.Error:  # it is closed, or just recovered by another process
            return None
        finally:
            self._turn.release()

    def _others(self) -> int:
        """Return what is another number once another connection has committed."""
        return int(self._version.execute("PRAGMA data_version").fetchone()[0])

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
            self._usability.closing = True
        self._bell.put("now")
        if threading.current_thread() is not self._thread:
            self._thread.join()
        with self._turn:
            self._connection.close()
        if (unheard := self._usability.unheard_loss()) is not None:
            raise unheard

    def _run(self) -> None:
        going = True
        try:
            while going:
                self._wait()
                with self._turn:
                    going = self._next()
        finally:
            self._usability.ended = True

    def _next(self) -> bool:
        """Commit what is queued; return whether there may be more."""
        self._lingering = self._rung = False
        closing = self._usability.closing
        batch = self._queue.take()
        self._lingering = bool(batch)
        if batch:
            self._process(batch)
        if self._pages >= CHECKPOINT_PAGES:
            self._checkpoint()
        return bool(batch) or not closing

    def _wait(self) -> None:
        """Return when something is to be committed; after a commit, look again by itself.

        What is posted within that time needs no wake-up, and meets what is submitted next.
        """
        if self._usability.closing:
            return
        if not self._lingering and self._bell.get() == "now":
            return
        left = _LINGER
        while left > 0:
            try:
                self._bell.get(timeout=left)
            except Empty:
                # A caller's commit may have served those who waited; what came since waits as long.
                left = self._queue.due(_LINGER)
            else:
                return

    def _process(self, batch: list[Append]) -> None:
        flushes = [item for item in batch if item.is_flush]
        writes = [item for item in batch if not item.is_flush] if flushes else batch
        news: list[StoredRow] = []
        try:
            if writes:
                news = self._commit(writes, BUSY_SECONDS)
        except BaseException as error:  # noqa: BLE001 - every waiter must hear of it and the thread must live
            self._fail(writes, error)
        wake(writes)
        if news and self._listeners:
            self._tell(news)
        if flushes:
            for item in flushes:
                item.error = self._usability.loss()
            wake(flushes)

    def _commit(self, batch: list[Append], wait_seconds: float) -> list[StoredRow]:
        """Commit a batch in one transaction and return its rows as stored."""
        self._usability.require_whole()
        if os.stat(self._name).st_ino != self._inode:  # noqa: PTH116 - every append passes here
            raise OSError("the file was replaced while it was open")
        wanted = False
        for item in batch:
            wanted = wanted or item.sync
        if wanted != self._synced:
            self._use_sync(wanted=wanted)
        begin(self._connection, wait_seconds)
        others = self._others()
        self._locked_epoch = others, self._revoked
        try:
            transaction = Transaction(self._connection, self._tip(others), self._seals)
            self._fill(transaction, batch)
        finally:
            self._locked_epoch = None
        self._known_tip = others, transaction.commit()
        self._queue.settle(batch)
        self._pages += _FRAMES + transaction.bytes // _PAGE
        self._usability.note_lost(batch)
        return transaction.rows

    def _tip(self, others: int) -> Place:
        """Return what the next row follows: as left behind, where nobody has committed since."""
        known = self._known_tip
        if known is not None and known[0] == others:
            return known[1]
        row = self._connection.execute(TIP).fetchone()
        return self._start if row is None else Place(*row)

    def _fill(self, transaction: Transaction, batch: list[Append]) -> None:
        for item in batch:
            if item.expects and not self._is_met(item, transaction):
                continue
            if item.effect is None and not self._has_projections(item):
                transaction.add(item)
            else:
                self._apply(item, transaction)
        transaction.write()

    def _checkpoint(self) -> None:
        """Move the write-ahead log's pages into the file, as far as no reader needs them there."""
        try:
            _, pages, moved = self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        except sqlite3.Error:  # nothing is lost: the next one may succeed
            pages = moved = 0
        self._pages = max(0, pages - moved)

    def _use_sync(self, *, wanted: bool) -> None:
        self._connection.execute(f"PRAGMA synchronous = {'FULL' if wanted else 'NORMAL'}")
        self._synced = wanted

    def _is_met(self, item: Append, transaction: Transaction) -> bool:
        """Whether what an append expects holds; else it alone fails, and nothing was written."""
        owned = transaction.owned
        if owned and len(item.expects) == 1 and item.expects[0] in owned:
            return True  # as nearly always: one read serves all that a run writes together
        try:
            transaction.write()
            require(self._connection, item.expects, self._evidence_checks)
            owned.update(each for each in item.expects if isinstance(each, RunOwnedBy))
        except ClawHiveError as error:
            item.error = error
        except sqlite3.Error as error:
            if not self._connection.in_transaction:
                raise
            item.error = self._usability.failure(error)
        return item.error is None

    def _apply(self, item: Append, transaction: Transaction) -> None:
        """Add one append; what its `effect` or its projections raise undoes it alone."""
        self._revoked += any(row.columns[1] == GRANT_REVOKED for row in item.rows)
        transaction.owned.clear()
        place = transaction.savepoint()
        try:
            if item.effect is not None:
                self._do(item.effect)
            self._check_open()
            self._project(item, transaction)
            self._check_open()
        except BaseException as error:
            if not self._connection.in_transaction:
                raise
            transaction.undo(place)
            item.seqs, item.error = [], error
            return
        transaction.release()

    def _do(self, effect: Callable[[sqlite3.Connection], None]) -> None:
        try:
            effect(self._connection)
        except sqlite3.OperationalError as error:  # a table that is missing is no caller's bug
            raise self._usability.failure(error) from error

    def _has_projections(self, item: Append) -> bool:
        for row in item.rows:  # noqa: SIM110 - any() with a generator takes twice the time, and every append passes here
            if row.columns[1] in self._projections:
                return True
        return False

    def _project(self, item: Append, transaction: Transaction) -> None:
        first = len(transaction.rows)
        try:
            transaction.add(item)
            transaction.write()
            for row in transaction.rows[first:]:
                for apply in self._projections.get(row[2], ()):
                    apply(self._connection, stored(row[:-1]))
        except sqlite3.OperationalError as error:  # a table that is missing is no caller's bug
            raise self._usability.failure(error) from error

    def _check_open(self) -> None:
        """Refuse to go on after a foreign COMMIT or ROLLBACK: the rest would be kept row by row."""
        if not self._connection.in_transaction:
            raise self._usability.unusable(
                "The code that runs within an append ended its transaction",
                "Leave BEGIN, COMMIT and ROLLBACK to the log",
            )

    def _fail(self, batch: list[Append], error: BaseException) -> None:
        self._known_tip = None
        try:
            undo(self._connection)
        except sqlite3.Error:
            self._synced = False  # unknown; the next BEGIN reports the broken connection
        for item in batch:
            item.seqs = []
            item.error = item.error or self._usability.failure(error)
        self._usability.note_lost(batch)

    def _tell(self, news: list[StoredRow]) -> None:
        events = [stored(row[:-1]) for row in news]
        for listener in self._listeners:
            try:
                listener(events)
            except Exception:  # noqa: BLE001 - a listener is an observer: it may not stop the log
                self.listener_errors += 1


def _pages_left(path: Path) -> int:
    """Return how many pages of the write-ahead log others left behind, as killed processes do."""
    try:
        return path.with_name(f"{path.name}-wal").stat().st_size // _PAGE
    except OSError:  # there is none
        return 0
