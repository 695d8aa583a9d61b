"""The event log: one append-only, hash-chained table that every process of a project writes."""

from __future__ import annotations

import atexit
import hashlib
import json
import sqlite3
from collections.abc import (
    Callable,
    Generator,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import closing, contextmanager
from dataclasses import field
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast, overload

from clawhive_core.config.database_keys import DatabaseKeys
from clawhive_core.errors import ClawHiveError
from clawhive_core.events.chain import COLUMNS, genesis
from clawhive_core.events.following import Following
from clawhive_core.events.kinds import TABLES_REBUILT
from clawhive_core.events.redaction import Redactor
from clawhive_core.events.rows import Row, decode, encode, is_reference, now, revive, stored
from clawhive_core.model.approvals import Approval
from clawhive_core.model.events import Event, StoredEvent
from clawhive_core.model.late import dataclass
from clawhive_core.model.principal import LOCAL_USER
from clawhive_core.model.records import (
    BodyRecord,
    Difference,
    GrantRecord,
    InvocationRecord,
    Ownership,
    Page,
    Pruned,
    QuotaRecord,
    RevocationRecord,
    RightRecord,
    RunRecord,
    StepRecord,
    ValueRecord,
    WorkerRecord,
)
from clawhive_core.protocols.ledger import (
    ALL,
    EXECUTED,
    ActiveGrants,
    ApprovalsWhere,
    DescentOf,
    EventsWhere,
    Expectation,
    GrantsWhere,
    IdsWhere,
    InvocationsWhere,
    QuotasWhere,
    RevocationsWhere,
    RightsWhere,
    RunIs,
    RunOwnedBy,
    RunsWhere,
    StepsWhere,
    SubscriptionsWhere,
    ValuesWhere,
    Window,
)
from clawhive_core.protocols.stores import Subscription
from clawhive_core.storage.sqlite.append import Append, Effect
from clawhive_core.storage.sqlite.database import SOFTWARE, has_room_to_move, open_database
from clawhive_core.storage.sqlite.evidence import ProjectedRights
from clawhive_core.storage.sqlite.faults import MISREAD, storage_error
from clawhive_core.storage.sqlite.leases import LEASE_SECONDS, LEASES, OWNERS, Lease, worker_record
from clawhive_core.storage.sqlite.migrations import RoomSchema, database_id
from clawhive_core.storage.sqlite.reader import Readers
from clawhive_core.storage.sqlite.schema import SCHEMA, TIP, selecting
from clawhive_core.storage.sqlite.seals import (
    SEALED,
    foreign_database,
    foreign_rows,
    lasting,
    outlives_a_run,
    seals_of,
)
from clawhive_core.storage.sqlite.writer import Apply, Listener, Projections, Writer

if TYPE_CHECKING:
    from clawhive_core.storage.sqlite.claims import Claims

__all__ = ["Apply", "Effect", "EventLog", "Listener", "Projections"]

_PAGE = 500
# Numbers first: the index holds them, and rows are read for those of the page only.
_OF_RUN = (
    "SELECT seq FROM events INDEXED BY events_of_run WHERE run_id = :run AND seq > :since "
    "{}ORDER BY seq LIMIT :page"
)
_OF_KINDS = "AND kind IN (SELECT value FROM json_each(:kinds)) "


@lru_cache(maxsize=64)
def _listed(kinds: tuple[str, ...]) -> str:
    return json.dumps(kinds)


@dataclass(frozen=True, slots=True)
class Tables:
    """The tables that the events of a log make beside themselves."""

    schemas: Sequence[RoomSchema] = ()
    projections: Projections = field(default_factory=dict[str, Any])
    """Kind of event to what is applied for it in the appending transaction."""
    names: Sequence[str] = ()
    """The tables that the projections write, and nothing else does."""
    evidence_checks: Mapping[str, Callable[..., None]] = field(
        default_factory=dict[str, Callable[..., None]]
    )
    """By table, the check against the events before a row gives a right in an append.

    It takes a connection, ids, and by name the `seals` that say whose an event is."""
    rights: Sequence[ProjectedRights] = ()
    """The rows that give rights, as they are compared with the events at opening."""
    fingerprint: str = ""
    """Of the objects that the schemas make, where it is known."""


EVENTS_ONLY = Tables()


class EventLog(Following):
    """Appends events and reads them back; use `EventLog.open`.

    All methods may be called from any thread; the async ones from an asyncio event loop.
    """

    def __init__(
        self, tables: Tables, writer: Writer, readers: Readers, redactor: Redactor, lease: Lease
    ) -> None:
        self._tables = tables
        self._path = readers.path
        self._writer = writer
        self._readers = readers
        self._now = now
        self._lease = lease
        self._limits = readers.seals.owner != "own"
        self.redactor = redactor
        self.id = database_id(readers.get())
        """The log's own random id; its checkpoints are filed under it."""
        atexit.register(self.close)

    @classmethod
    def open(
        cls,
        path: Path | str,
        tables: Tables = EVENTS_ONLY,
        *,
        redactor: Redactor | None = None,
        lease_seconds: float = LEASE_SECONDS,
        keys: DatabaseKeys | None = None,
    ) -> EventLog:
        """Open the log of a project, making or migrating it where needed.

        Args:
            path: The database file, such as `.clawhive/hive.db`.
            tables: What the events make beside themselves.
            redactor: Where secrets are registered that must not be written.
            lease_seconds: How long this worker keeps its runs when it says nothing.
            keys: The user's keys, which tell whose rows count; without them rows are not sealed,
                and each counts.

        Raises:
            DatabaseTooNew: The file was written by a newer version of ClawHive.
            StorageError: The file cannot be opened.
        """
        path = Path(path).absolute()
        connection = open_database(path, (SCHEMA, *tables.schemas), known=tables.fingerprint)
        try:
            seals = seals_of(connection, keys)
            readers = Readers(path, partial(open_database, path, read_only=True), seals)
            start = genesis(database_id(connection))
            evidence_checks = {
                table: partial(require, seals=seals)
                for table, require in tables.evidence_checks.items()
            }
            writer = Writer(connection, path, start, tables.projections, evidence_checks, seals)
        except BaseException:
            connection.close()
            raise
        return cls(tables, writer, readers, redactor or Redactor(), Lease(lease_seconds))

    @property
    def path(self) -> Path:
        """The database file."""
        return self._path

    @property
    def place(self) -> str:
        """The database file, as a person finds it."""
        return str(self._path)

    @property
    def software(self) -> str:
        """The store's name and version."""
        return SOFTWARE

    @property
    def listener_errors(self) -> int:
        """The number of times that a listener raised."""
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

        loop = asyncio.get_running_loop()
        ended = item.waits_in(loop)
        self._writer.submit(item)
        try:  # all that are ready in this turn of the loop come first: one commit serves them
            await asyncio.sleep(0)
        finally:
            if not ended.done():
                self._writer.commit_gathered(loop)
        await ended
        return item.result()

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
        return self._blocked(Append(self._rows(events), sync=sync, expects=expects, effect=effect))

    def _blocked(self, item: Append) -> list[int]:
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
        return [worker_record(*row) for row in self.read(LEASES)]

    def owners(self, run_ids: Sequence[str]) -> list[Ownership]:
        """Return under which fence some runs are, and of which somebody wants the end."""
        rows = self.read(OWNERS, (json.dumps(list(run_ids)),))
        return [Ownership(run_id, fence, bool(cancel)) for run_id, fence, cancel in rows]

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
        """Return the rows of a query, on a read-only connection of the calling thread; for tests.

        Raises:
            StorageError: The query failed.
        """
        return self._readers.read(sql, params)

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
    def find(self, query: RightsWhere, window: Window = ALL) -> Page[RightRecord]: ...
    @overload
    def find(
        self, query: ActiveGrants | DescentOf | IdsWhere, window: Window = ALL
    ) -> Page[str]: ...
    @overload
    def find(self, query: RevocationsWhere, window: Window = ALL) -> Page[RevocationRecord]: ...
    @overload
    def find(self, query: QuotasWhere, window: Window = ALL) -> Page[QuotaRecord]: ...
    @overload
    def find(self, query: SubscriptionsWhere, window: Window = ALL) -> Page[Subscription]: ...
    @overload
    def find(self, query: ValuesWhere, window: Window = ALL) -> Page[ValueRecord]: ...
    @overload
    def find(self, query: EventsWhere, window: Window = ALL) -> Page[StoredEvent]: ...
    def find(self, query: Any, window: Window = ALL) -> Page[Any]:
        """Return a page of what a query asks for.

        Raises:
            StorageError: It cannot be read.
            UsageError: `after` is no page's `next`.
        """
        from clawhive_core.storage.sqlite.queries import find

        try:
            return find(self._readers, query, window)
        except MISREAD as error:
            raise storage_error(error, self._path) from error

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
        return map(self._stored, self.rows(COLUMNS, run_id, since, limit, kinds))

    def _stored(self, row: sqlite3.Row) -> StoredEvent:
        try:
            return stored(row)
        except MISREAD as error:
            raise storage_error(error, self._path) from error

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

    def tip(self) -> tuple[int, str] | None:
        """Return number and hash of the last event, None where there is none."""
        rows = self.read(TIP)
        return (rows[0]["seq"], rows[0]["hash"]) if rows else None

    def blob(self, sha256: str) -> BodyRecord | None:
        """Return a body that events refer to, as it is stored; None where it is missing."""
        rows = self.read("SELECT type, data FROM blobs WHERE sha256 = ?", (sha256,))
        return BodyRecord(*rows[0]) if rows else None

    def pruned_bodies(self, run_id: str) -> int:
        """Return how many of the bodies that a run's events refer to were pruned."""
        from clawhive_core.storage.sqlite.pruning import pruned_bodies

        return pruned_bodies(self._readers, run_id)

    def prune(self, before: str, *, dry_run: bool = False) -> Pruned:
        """Turn the bodies to which only events before a moment refer into tombstones.

        Args:
            before: The moment, as rows hold it.
            dry_run: Only say what would go.

        Raises:
            StorageError: The log cannot be read or written; what was recorded until then is gone.
        """
        from clawhive_core.storage.sqlite.pruning import prune

        def remove(record: Event, effect: Effect) -> None:
            self.append_now(record, sync=True, effect=effect)

        return prune(self._readers, remove, before, dry_run=dry_run)

    def free_bytes(self) -> int:
        """Return how much of the file is free for what will be written."""
        pages, size = (
            self.read(f"PRAGMA {name}")[0][0] for name in ("freelist_count", "page_size")
        )
        return int(pages) * int(size)

    def compact(self) -> None:
        """Give the space that pruning freed back to the disk, and close the log.

        Others may read meanwhile; their writes wait.

        Raises:
            StorageError: Somebody writes all the time, or the disk has no room for the copy; the
                database is as it was.
        """
        from clawhive_core.storage.sqlite.pruning import vacuum

        self.close()
        vacuum(self._path)

    def compare(self) -> tuple[Difference, ...]:
        """Return how the tables differ from a replay of the events; nothing is changed.

        It reads one snapshot, and nobody waits for it.

        Raises:
            StorageError: The log cannot be read, or an event cannot be applied.
        """
        from clawhive_core.storage.sqlite.rebuild import compare

        with self._apart() as connection:
            return compare(connection, self._tables.projections, self._tables.names)

    def rebuild(self) -> tuple[Difference, ...]:
        """Replace the tables' content by a replay of the events; return how they differed.

        Where they did, `tables.rebuilt` records it in the same transaction.

        Raises:
            LogWriteFailed: The result could not be written; the tables are as they were.
            StorageError: An event cannot be applied; the tables are as they were.
        """
        from clawhive_core.storage.sqlite.rebuild import rebuild

        found: list[Difference] = []
        record: list[Row] = []  # written after the effect, which alone knows what there is to say

        def replace(connection: sqlite3.Connection) -> None:
            found[:] = rebuild(connection, self._tables.projections, self._tables.names)
            if found:
                body = {"differences": [each.to_dict() for each in found]}
                event = Event(TABLES_REBUILT, body, principal=str(LOCAL_USER))
                record[:] = self._rows([event])

        try:
            self._blocked(Append(record, sync=True, effect=replace))
        except (sqlite3.Error, *MISREAD) as error:
            raise storage_error(error, self._path) from error
        return tuple(found)

    def require_rights(self, approval_id: str | None = None) -> None:
        """Raise where a table gives a right that the events do not: at opening, of all.

        Args:
            approval_id: Only this approval and those of its run.

        Raises:
            StorageError: `forged_rights`; `foreign_database`: it is somebody else's, or the
                approval is; or the log cannot be read.
        """
        from clawhive_core.storage.sqlite.evidence import require_evidence

        if self.is_foreign:
            raise foreign_database(self._path, self.id)
        with self._apart() as connection:
            if approval_id is not None:
                check = self._tables.evidence_checks["approvals"]
                check(connection, (approval_id,), seals=self._readers.seals)
            else:
                require_evidence(connection, *self._tables.rights)

    @contextmanager
    def _apart(self) -> Generator[sqlite3.Connection]:
        """Give a connection of its own with one snapshot, for what reads long or much."""
        with closing(open_database(self._path, read_only=True)) as connection:
            try:
                connection.execute("BEGIN")
                yield connection
            except (sqlite3.Error, *MISREAD) as error:
                raise storage_error(error, self._path) from error

    def listen(self, callback: Listener) -> Callable[[], None]:
        """Call `callback` with each batch after its commit, from the writer thread.

        What it raises is counted and goes no further. The returned function ends the listening.
        """
        return self._writer.listen(callback)

    def _rows(self, events: Sequence[Event]) -> list[Row]:
        if self._limits:
            self._require_may_write(events)
        ts, redactor = self._now(), self.redactor
        if len(events) == 1:  # as nearly always
            return [encode(events[0], ts, redactor)]
        return [encode(event, ts, redactor) for event in events]

    @property
    def is_foreign(self) -> bool:
        """Whether this user has no key of it: it can be read, and nothing is written to it."""
        return self._readers.seals.owner == "foreign"

    def claims(self) -> Claims:
        """Return what rows that others wrote would give; nothing of it counts.

        Raises:
            StorageError: `forged_rights`: a table says more than the log.
        """
        from clawhive_core.storage.sqlite.claims import claims_of

        return claims_of(self._readers)

    def _require_may_write(self, events: Sequence[Event]) -> None:
        """Refuse to write to a foreign log, and, where no key can be kept, what is to count later.

        Raises:
            StorageError: `foreign_database` or `read_only_home`.
        """
        if self.is_foreign:
            if events:
                raise foreign_database(self._path, self.id)
            return
        for event in events:
            if (what := lasting(event)) is not None:
                raise outlives_a_run(self._path, what)

    def require_own(self, run_id: str) -> None:
        """Raise where somebody else wrote an event of a run: what it says does not count.

        Raises:
            StorageError: `foreign_database`; or the log cannot be read.
        """
        rows = self.read(f"{SEALED} WHERE run_id = ?", (run_id,))
        if not all(map(self._readers.seals.is_own, rows)):
            raise foreign_rows(self._path, f"The run {run_id}", self.id)

    def _load_blob(self, sha256: str, kind: str) -> Any:
        found = self.blob(sha256)
        if found is None:
            raise ClawHiveError(
                f"The stored body {sha256[:12]} is missing.",
                place=str(self._path),
                fix="Run `clawhive audit verify`: the database may have been changed.",
                code="damaged_body",
            )
        if found.data is None:
            raise ClawHiveError(
                f"The stored body {sha256[:12]} was pruned; only its digest is left.",
                place=str(self._path),
                fix="`clawhive audit prune` removed it; keep bodies longer where they are needed.",
                code="pruned",
            )
        data = bytes(found.data)
        if hashlib.sha256(data).hexdigest() != sha256:
            raise ClawHiveError(
                f"The stored body {sha256[:12]} is not as it was written.",
                place=str(self._path),
                fix="Run `clawhive audit verify`: the database may have been changed.",
                code="damaged_body",
            )
        return decode(data, kind)
