"""The event log: one append-only, hash-chained table that every process of a project writes."""

from __future__ import annotations

import atexit
import json
import sqlite3
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, cast, overload

from clawhive_core.errors import ClawHiveError
from clawhive_core.events.chain import COLUMNS, genesis
from clawhive_core.events.redaction import Redactor
from clawhive_core.events.rows import Row, decode, encode, is_reference, revive, stored
from clawhive_core.model.approvals import Approval
from clawhive_core.model.events import Event, StoredEvent
from clawhive_core.model.records import (
    GrantRecord,
    InvocationRecord,
    Page,
    RunRecord,
    StepRecord,
    WorkerRecord,
)
from clawhive_core.protocols.ledger import (
    ALL,
    EXECUTED,
    ApprovalsWhere,
    EventsWhere,
    Expectation,
    GrantsWhere,
    InvocationsWhere,
    RunIs,
    RunOwnedBy,
    RunsWhere,
    StepsWhere,
    Window,
)
from clawhive_core.storage.sqlite.append import Append, Effect
from clawhive_core.storage.sqlite.database import has_room_to_move, open_database, undo
from clawhive_core.storage.sqlite.expectations import Founding
from clawhive_core.storage.sqlite.faults import storage_error
from clawhive_core.storage.sqlite.leases import LEASE_SECONDS, LEASES, Lease
from clawhive_core.storage.sqlite.migrations import RoomSchema, database_id
from clawhive_core.storage.sqlite.reader import Readers
from clawhive_core.storage.sqlite.schema import SCHEMA, selecting
from clawhive_core.storage.sqlite.writer import Apply, Listener, Projections, Writer

__all__ = ["Apply", "Effect", "EventLog", "Listener", "Projections"]

_PAGE = 500
# Numbers first: the index holds them, and rows are read for those of the page only.
_OF_RUN = (
    "SELECT seq FROM events INDEXED BY events_of_run WHERE run_id = :run AND seq > :since "
    "{}ORDER BY seq LIMIT :page"
)
_OF_KINDS = "AND kind IN (SELECT value FROM json_each(:kinds)) "


def now() -> str:
    """Return the present as the log writes it: RFC 3339, microseconds, UTC."""
    digits = str(time.time_ns())
    return f"{_second(digits[:-9])}.{digits[-9:-3]}Z"


@lru_cache(maxsize=4)
def _second(seconds: str) -> str:
    return datetime.fromtimestamp(int(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%S")


@lru_cache(maxsize=64)
def _listed(kinds: tuple[str, ...]) -> str:
    return json.dumps(kinds)


class EventLog:
    """Appends events and reads them back; use `EventLog.open`.

    All methods may be called from any thread; the async ones from an asyncio event loop.
    """

    def __init__(self, path: Path, writer: Writer, readers: Readers, redactor: Redactor) -> None:
        self._path = path
        self._writer = writer
        self._readers = readers
        self._now = now
        self._appending: set[Append] = set()
        self._lease = Lease(LEASE_SECONDS)
        self.redactor = redactor
        self.database_id = database_id(readers.get())
        """The database's own random id; its checkpoints are filed under it."""
        atexit.register(self.close)

    @classmethod
    def open(
        cls,
        path: Path | str,
        schemas: Sequence[RoomSchema] = (),
        projections: Projections | None = None,
        *,
        redactor: Redactor | None = None,
        foundings: Mapping[str, Founding] | None = None,
    ) -> EventLog:
        """Open the log of a project, making or migrating it where needed.

        Args:
            path: The database file, such as `.clawhive/hive.db`.
            schemas: The tables of the rooms whose projections are applied; the log adds its own.
            projections: Kind of event to what is applied for it in the appending transaction.
            redactor: Where secrets are registered that must not be written.
            foundings: By table, what compares it with the log, for appends that expect it.

        Raises:
            DatabaseTooNew: The file was written by a newer version of ClawHive.
            StorageError: The file cannot be opened.
        """
        path = Path(path).absolute()
        connection = open_database(path, (SCHEMA, *schemas))
        try:
            readers = Readers(partial(open_database, path, read_only=True))
            start = genesis(database_id(connection))
            writer = Writer(connection, path, start, projections or {}, foundings or {})
        except BaseException:
            connection.close()
            raise
        return cls(path, writer, readers, redactor or Redactor())

    @property
    def path(self) -> Path:
        """The database file."""
        return self._path

    @property
    def listener_errors(self) -> int:
        """How often a listener raised."""
        return self._writer.listener_errors

    async def append(
        self,
        *events: Event,
        sync: bool = False,
        expects: Sequence[Expectation] = (),
        effect: Effect | None = None,
    ) -> list[int]:
        """Commit events in order and return their sequence numbers.

        They are then safe from a killed process, with `sync` also from a power cut. A cancelled
        caller's events are committed all the same.

        Args:
            events: What to append; none is allowed where `effect` does the work.
            sync: Wait until the disk has them.
            expects: What must hold; it is checked first, in the same transaction.
            effect: Runs first, in the same transaction, on the writing connection. If it raises,
                nothing of this append is kept and the caller gets that exception.

        Raises:
            Unmet: Something expected does not hold; nothing of this append was kept.
            LogWriteFailed: Nothing of this append was kept.
        """
        return await self._ended(
            Append(self._rows(events), sync=sync, expects=expects, effect=effect)
        )

    async def _ended(self, item: Append) -> list[int]:
        import asyncio

        # Nobody else appends now: committed in this thread it costs half of a change of threads.
        # Else it waits for company, because one commit serves all that wait for it.
        held, writer = self._appending, self._writer
        alone = not (held or writer.crowded)
        held.add(item)
        try:
            if alone and writer.commit_here(item):
                # Others get their turn, and a cancelled caller hears of it, here too.
                await asyncio.sleep(0)
                return item.result()
            ended = item.waits_in(asyncio.get_running_loop())
            writer.submit(item)
            await ended
            return item.result()
        finally:
            held.discard(item)

    def append_now(
        self,
        *events: Event,
        sync: bool = False,
        expects: Sequence[Expectation] = (),
        effect: Effect | None = None,
    ) -> list[int]:
        """Do what `append` does, blocking the calling thread.

        Raises:
            Unmet: Something expected does not hold; nothing of this append was kept.
            LogWriteFailed: Nothing of this append was kept.
        """
        item = Append(self._rows(events), sync=sync, expects=expects, effect=effect)
        ended = item.waits_blocking()
        self._writer.submit(item)
        ended.acquire()
        return item.result()

    def post(
        self, *events: Event, pressing: bool = False, expects: Sequence[RunOwnedBy] = ()
    ) -> None:
        """Queue events behind what is queued; they are committed with the next batch.

        Pressing ones are not queued behind: the next `post_or_wait` waits until they are committed.
        When such a batch fails the log refuses everything from then on, because a fact is missing.
        Where the run has another owner by then, they are dropped; whatever follows with the same
        fence is refused too.

        Raises:
            LogWriteFailed: An event cannot be written as JSON, or the log refuses.
        """
        item = Append(self._rows(events), expects=expects)
        item.is_pressing = pressing
        self._writer.post(item)

    async def post_or_wait(self, *events: Event, expects: Sequence[RunOwnedBy] = ()) -> None:
        """Do what `post` does; wait for the commit where much is queued, or something pressing.

        Raises:
            LogWriteFailed: As for `post`, or as for `append`.
        """
        item = Append(self._rows(events), expects=expects)
        if self._writer.is_full(item):
            await self._ended(item)
        else:
            self._writer.post(item)

    async def flush(self) -> None:
        """Return when everything posted is committed and the listeners have heard of it.

        Raises:
            LogWriteFailed: Posted events were lost.
        """
        await self.append()

    def close(self) -> None:
        """Commit everything posted and close the file; closing twice does nothing.

        Raises:
            LogWriteFailed: Posted events were lost.
        """
        atexit.unregister(self.close)
        self._lease.end(lambda drop: self.append_now(effect=drop))
        # The last connection to a database moves its write-ahead log into the file, which a
        # read-only one cannot: the log would grow with each process, and be read at each opening.
        # Where the disk has no room for both, moving it would use up what is left.
        if has_room_to_move(self._path):
            self._readers.close()
        try:
            self._writer.close()
        finally:
            self._readers.close()

    @property
    def worker(self) -> str:
        """The id under which this open log executes runs."""
        return self._lease.worker

    async def hold(self) -> None:
        """Make sure that the lease on what is taken next holds, and is kept from now on.

        Raises:
            LogWriteFailed: It cannot be written.
        """
        if not self._lease.is_fresh:
            await self.append(effect=self._lease.renew)
            self._lease.keep(lambda: self.append_now(effect=self._lease.renew))

    def workers(self) -> list[WorkerRecord]:
        """Return who executes runs, or did so when its lease was last renewed."""
        return [WorkerRecord(*row) for row in self.read(LEASES)]

    def request_cancel(self, run_id: str, fence: int) -> None:
        """Ask whoever executes a run under a fence to end it.

        Raises:
            Unmet: Nobody does.
            LogWriteFailed: It cannot be written.
        """

        def ask(connection: sqlite3.Connection) -> None:
            connection.execute("INSERT OR REPLACE INTO cancel_requests VALUES(?, ?)", asked)
            connection.execute(
                "DELETE FROM cancel_requests WHERE run_id NOT IN"
                " (SELECT run_id FROM runs WHERE worker IS NOT NULL)"
            )

        asked = (run_id, fence)
        self.append_now(expects=(RunIs(run_id, EXECUTED, fence),), effect=ask)

    def read(self, sql: str, params: Sequence[Any] | Mapping[str, Any] = ()) -> list[sqlite3.Row]:
        """Return the rows of a query, on a read-only connection of the calling thread.

        Raises:
            StorageError: The query failed.
        """
        connection = self._readers.get()
        try:
            return connection.execute(sql, params).fetchall()
        except sqlite3.Error as error:
            raise storage_error(error, self._path) from error

    @contextmanager
    def snapshot(self) -> Generator[None]:
        """Let all that this thread reads inside the block be of one moment; nothing may be awaited.

        Raises:
            StorageError: The log cannot be read.
        """
        connection = self._readers.get()
        if connection.in_transaction:
            yield
            return
        connection.execute("BEGIN")
        try:
            yield
        finally:
            undo(connection)

    @overload
    def find(self, query: RunsWhere, window: Window = ALL) -> Page[RunRecord]: ...
    @overload
    def find(self, query: StepsWhere, window: Window = ALL) -> Page[StepRecord]: ...
    @overload
    def find(self, query: InvocationsWhere, window: Window = ALL) -> Page[InvocationRecord]: ...
    @overload
    def find(self, query: ApprovalsWhere, window: Window = ALL) -> Page[Approval]: ...
    @overload
    def find(self, query: GrantsWhere, window: Window = ALL) -> Page[GrantRecord]: ...
    @overload
    def find(self, query: EventsWhere, window: Window = ALL) -> Page[StoredEvent]: ...
    def find(self, query: Any, window: Window = ALL) -> Page[Any]:
        """Return a page of what a query asks for.

        Raises:
            StorageError: It cannot be read.
            UsageError: `after` is no page's `next`.
        """
        from clawhive_core.storage.sqlite.queries import find

        return find(self.read, query, window)

    def epoch(self) -> tuple[int, int] | None:
        """Return a value that differs once a right may have been revoked, whoever did it.

        What this log appends beside revocations changes nothing. None where it cannot be said
        without waiting: read the log then.
        """
        return self._writer.epoch()

    def events(
        self,
        *,
        run_id: str | None = None,
        since: int = 0,
        limit: int | None = None,
        kinds: Sequence[str] | None = None,
    ) -> Iterator[StoredEvent]:
        """Yield events in order, those with a sequence number above `since`.

        It reads page by page, so an iterator that is kept open holds nothing back; events that
        are appended meanwhile are included.

        Args:
            run_id: The run whose events they are; None for all.
            since: The number after which they come.
            limit: How many, at most.
            kinds: Of a run, only those of these kinds.
        """
        return map(stored, self.rows(COLUMNS, run_id, since, limit, kinds))

    def rows(
        self,
        columns: Sequence[str],
        run_id: str | None = None,
        since: int = 0,
        limit: int | None = None,
        kinds: Sequence[str] | None = None,
    ) -> Iterator[sqlite3.Row]:
        """Yield some columns of what `events` yields, `seq` first; `rows.body_of` reads a body."""
        where = "seq > :since ORDER BY seq LIMIT :page"
        if run_id is not None:
            of_run = _OF_RUN.format("" if kinds is None else _OF_KINDS)
            where = f"seq IN ({of_run}) ORDER BY seq"
        page = f"{selecting(columns)} WHERE {where}"
        given = {"run": run_id, "kinds": None if kinds is None else _listed(tuple(kinds))}
        left = limit if limit is not None else -1
        while left:
            size = _PAGE if left < 0 else min(_PAGE, left)
            rows = self.read(page, {**given, "since": since, "page": size})
            yield from rows
            if len(rows) < size:
                return
            since = rows[-1][0]
            left -= size if left > 0 else 0

    def load(self, ref: Any) -> Any:
        """Return the value behind a body's blob reference; other values are returned as they are.

        Raises:
            ClawHiveError: The value was pruned (`pruned`), is missing or damaged
                (`damaged_body`).
        """
        if not isinstance(ref, Mapping):
            return ref
        fields = cast("Mapping[str, Any]", ref)
        if "$value" in fields:
            return revive(fields["$value"])
        if not is_reference(fields):
            return fields
        return self._load_blob(str(fields["$blob"]), str(fields.get("type", "json")))

    def listen(self, callback: Listener) -> Callable[[], None]:
        """Call `callback` with each batch after its commit, from the writer thread.

        What it raises is counted and goes no further. The returned function ends the listening.
        """
        return self._writer.listen(callback)

    def _rows(self, events: Sequence[Event]) -> list[Row]:
        ts, redactor = self._now(), self.redactor
        if len(events) == 1:  # as nearly always
            return [encode(events[0], ts, redactor)]
        return [encode(event, ts, redactor) for event in events]

    def _load_blob(self, sha256: str, kind: str) -> Any:
        rows = self.read("SELECT data FROM blobs WHERE sha256 = ?", (sha256,))
        if not rows:
            raise ClawHiveError(
                f"The stored body {sha256[:12]} is missing.",
                place=str(self._path),
                fix="Run `clawhive audit verify`: the database may have been changed.",
                code="damaged_body",
            )
        data = rows[0]["data"]
        if data is None:
            raise ClawHiveError(
                f"The stored body {sha256[:12]} was pruned; only its digest is left.",
                place=str(self._path),
                fix="`clawhive audit prune` removed it; keep bodies longer where they are needed.",
                code="pruned",
            )
        return decode(bytes(data), kind)
