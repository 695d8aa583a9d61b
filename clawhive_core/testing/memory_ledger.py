"""A ledger in this process's memory: the simple reference that other ledgers are compared with.

It folds its events anew for each question, by the shortest code that says what the records mean,
and is slow for it. `check_ledger` checks another ledger's answers against those of this one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field
from time import monotonic
from typing import Any, cast

from clawhive_core.errors import ClawHiveError, LogWriteFailed, UsageError
from clawhive_core.events import rows
from clawhive_core.events.chain import COLUMNS, genesis, link
from clawhive_core.events.following import Following
from clawhive_core.events.kinds import BODIES_PRUNED
from clawhive_core.events.redaction import Redactor
from clawhive_core.events.rows import Row, references
from clawhive_core.model.events import Event, StoredEvent
from clawhive_core.model.ids import new_id
from clawhive_core.model.late import dataclass
from clawhive_core.model.principal import LOCAL_USER
from clawhive_core.model.records import (
    BodyRecord,
    Difference,
    Ownership,
    Page,
    Pruned,
    WorkerRecord,
)
from clawhive_core.protocols import ledger as port
from clawhive_core.testing.records import FoldedRecords

_NEWEST_FIRST = (
    port.RunsWhere,
    port.InvocationsWhere,
    port.EventsWhere,
    port.RevocationsWhere,
)
_WHOLE = (port.RightsWhere, port.ActiveGrants, port.DescentOf, port.IdsWhere)


@dataclass(slots=True)
class MemoryStore:
    """The state that ledgers in memory share: opening one again finds what was appended."""

    id: str = field(default_factory=lambda: new_id("db"))
    rows: list[tuple[Any, ...]] = field(default_factory=list[tuple[Any, ...]])
    """Every event as it is stored, in the order of `events.chain.COLUMNS`."""
    bodies: dict[str, BodyRecord] = field(default_factory=dict[str, BodyRecord])
    leases: dict[str, float] = field(default_factory=dict[str, float])
    """Worker to the moment, of this process's clock, until which it holds its runs."""
    unwanted: set[tuple[str, int]] = field(default_factory=set[tuple[str, int]])
    """Runs, under their fences, of which somebody wants the end."""
    lock: threading.RLock = field(default_factory=threading.RLock)
    folded: FoldedRecords | None = None
    """The state that the events gave when it was asked for last."""
    listeners: list[Callable[[list[StoredEvent]], None]] = field(
        default_factory=list[Callable[[list[StoredEvent]], None]]
    )


class MemoryInspection:
    """The store as it lies there (`protocols.ledger.Inspection`)."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self.id = store.id
        self.place = f"memory:{store.id}"

    def raw(self) -> Iterator[Sequence[Any]]:
        """Yield every row as it is stored."""
        yield from list(self._store.rows)

    def blob(self, sha256: str) -> BodyRecord | None:
        """Return a body, None where it is missing."""
        return self._store.bodies.get(sha256)

    def problems(self) -> list[str]:
        """Return nothing: there is no schema."""
        return []

    def notes(self) -> list[str]:
        """Return nothing: nobody else keeps anything here."""
        return []


class MemoryLedger(Following):
    """Keeps a log in memory (`protocols.ledger.Ledger`).

    Args:
        store: What it shares with other ledgers of this process; unset: a new one.
        redactor: Where secrets are registered that must not be written.
        lease_seconds: How long this worker keeps its runs when it says nothing.
    """

    software = "memory"

    def __init__(
        self,
        store: MemoryStore | None = None,
        redactor: Redactor | None = None,
        lease_seconds: float = 15.0,
    ) -> None:
        self._store = store or MemoryStore()
        self._seconds = lease_seconds
        self._closed = False
        self._stop: list[Callable[[], None]] = []
        self.redactor = redactor or Redactor()
        self.worker = new_id("worker")
        self.id = self._store.id
        self.place = f"memory:{self.id}"

    @contextmanager
    def inspect(self) -> Generator[MemoryInspection]:
        """Look at the store as it lies there."""
        yield MemoryInspection(self._store)

    async def append(
        self, *events: Event, sync: bool = False, expects: Sequence[port.Expectation] = ()
    ) -> list[int]:
        """Keep events where all that is expected holds."""
        return self.append_now(*events, sync=sync, expects=expects)

    def append_now(
        self, *events: Event, sync: bool = False, expects: Sequence[port.Expectation] = ()
    ) -> list[int]:
        """Keep events where all that is expected holds."""
        if self._closed:
            raise LogWriteFailed("The ledger is closed.", place=self.place, fix="Open it again.")
        ts = rows.now()
        made = [rows.encode(event, ts, self.redactor) for event in events]
        with self._store.lock:
            state = self._state()
            for each in expects:
                state.require(each)
            stored = [self._keep(row) for row in made]
            try:
                self._state()
            except Exception as error:
                del self._store.rows[len(self._store.rows) - len(stored) :]
                raise LogWriteFailed(
                    f"An event cannot be applied: {type(error).__name__}: {error}.",
                    place=self.place,
                ) from error
        for listener in tuple(self._store.listeners) if stored else ():
            try:
                listener(stored)
            except Exception:  # noqa: BLE001, S112 - a listener is none of the log's business
                continue
        return [each.seq for each in stored]

    def _state(self) -> FoldedRecords:
        """Return what the events say, folded once for each that was appended."""
        store = self._store
        if store.folded is None or len(store.folded.log) != len(store.rows):
            store.folded = FoldedRecords(store.rows, store.bodies)
        return store.folded

    def _keep(self, row: Row) -> StoredEvent:
        store = self._store
        seq = len(store.rows) + 1
        prev = store.rows[-1][-1] if store.rows else genesis(store.id)
        whole = (seq, *row.columns, prev, link(seq, row.inner, prev))
        for body in row.blobs:
            if (known := store.bodies.get(body.sha256)) is None or known.data is None:
                store.bodies[body.sha256] = BodyRecord(body.type, body.data)
        store.rows.append(whole)
        return rows.stored(whole)

    def post(
        self, *events: Event, pressing: bool = False, expects: Sequence[port.RunOwnedBy] = ()
    ) -> None:
        """Keep events at once; drop them where the run has another owner by now."""
        try:
            self.append_now(*events, expects=expects)
        except port.Unmet:
            return

    async def post_or_wait(self, *events: Event, expects: Sequence[port.RunOwnedBy] = ()) -> None:
        """Do what `post` does."""
        self.post(*events, expects=expects)

    async def flush(self) -> None:
        """Return: nothing is queued."""

    def close(self) -> None:
        """Give the lease up; closing twice does nothing."""
        self._closed = True
        self._store.leases.pop(self.worker, None)
        for stop in self._stop:
            stop()

    async def hold(self) -> None:
        """Renew the lease."""
        self._store.leases[self.worker] = monotonic() + self._seconds

    def workers(self) -> list[WorkerRecord]:
        """Return who executes runs."""
        left = {worker: until - monotonic() for worker, until in self._store.leases.items()}
        return [WorkerRecord(name, "", 0, "", each, each > 0) for name, each in left.items()]

    def owners(self, run_ids: Sequence[str]) -> list[Ownership]:
        """Return under which fence runs are, and of which somebody wants the end."""
        runs = self._state().runs
        return [
            Ownership(each, runs[each].fence, (each, runs[each].fence) in self._store.unwanted)
            for each in run_ids
            if each in runs
        ]

    def request_cancel(self, run_id: str, fence: int) -> None:
        """Ask whoever executes a run under a fence to end it."""
        with self._store.lock:
            self._state().require(port.RunIs(run_id, port.EXECUTED, fence))
            self._store.unwanted.add((run_id, fence))

    def find(self, query: Any, window: port.Window = port.ALL) -> Page[Any]:
        """Return a page of what a query asks for."""
        found = list(self._state().answer(query))
        if isinstance(query, _WHOLE):
            return Page(found, None, None)
        if isinstance(query, _NEWEST_FIRST) != window.reverse:
            found.reverse()
        total = len(found) if window.counted else None
        start = 0
        if window.after is not None:
            try:
                start = int(window.after)
            except ValueError as error:
                raise UsageError(
                    f"`{window.after}` is not what a page ends with",
                    place="after",
                    fix="pass `page.next`",
                ) from error
        end = len(found) if window.limit is None else start + window.limit
        more = end < len(found) and window.limit != 0
        return Page(found[start:end], str(end) if more else None, total)

    def events(
        self,
        *,
        run_id: str | None = None,
        since: int = 0,
        limit: int | None = None,
        kinds: Sequence[str] | None = None,
    ) -> Iterator[StoredEvent]:
        """Yield events in order."""
        for row in self._some(run_id, since, limit, kinds):
            yield rows.stored(row)

    def rows(
        self,
        columns: Sequence[str],
        run_id: str | None = None,
        since: int = 0,
        limit: int | None = None,
        kinds: Sequence[str] | None = None,
    ) -> Iterator[Sequence[Any]]:
        """Yield some columns of what `events` yields."""
        places = [COLUMNS.index(name) for name in columns]
        for row in self._some(run_id, since, limit, kinds):
            yield tuple(row[place] for place in places)

    def _some(
        self, run_id: str | None, since: int, limit: int | None, kinds: Sequence[str] | None
    ) -> Iterator[tuple[Any, ...]]:
        kind, run = COLUMNS.index("kind"), COLUMNS.index("run_id")
        left = -1 if limit is None else limit
        at = since
        while left and at < len(self._store.rows):
            row = self._store.rows[at]
            at += 1
            of_kind = run_id is None or kinds is None or row[kind] in kinds
            if (run_id is None or row[run] == run_id) and of_kind:
                yield row
                left -= 1

    def listen(self, callback: Callable[[list[StoredEvent]], None]) -> Callable[[], None]:
        """Call `callback` with what is appended; the returned function ends the listening."""
        listeners = self._store.listeners
        listeners.append(callback)

        def stop() -> None:
            if callback in listeners:
                listeners.remove(callback)

        self._stop.append(stop)
        return stop

    def tip(self) -> tuple[int, str] | None:
        """Return number and hash of the last event."""
        last = self._store.rows[-1] if self._store.rows else None
        return None if last is None else (last[0], last[-1])

    def epoch(self) -> None:
        """Return that nothing is known: revocations are asked for."""

    def blob(self, sha256: str) -> BodyRecord | None:
        """Return a body as it is stored."""
        return self._store.bodies.get(sha256)

    def load(self, ref: Any) -> Any:
        """Return the value behind a body's blob reference."""
        if not isinstance(ref, Mapping):
            return ref
        given = cast("Mapping[str, Any]", ref)
        if "$value" in given:
            return rows.revive(given["$value"])
        if not rows.is_reference(given):
            return given
        body = self._store.bodies.get(str(given["$blob"]))
        if body is None or body.data is None:
            code = "damaged_body" if body is None else "pruned"
            raise ClawHiveError(f"The body {given['$blob']} is gone.", place=self.place, code=code)
        return rows.decode(bytes(body.data), str(given.get("type", "json")))

    def pruned_bodies(self, run_id: str) -> int:
        """Return how many bodies of a run were pruned."""
        of_run = {sha for row in self._some(run_id, 0, None, None) for sha in references(row[-3])}
        return sum(self._store.bodies[sha].data is None for sha in of_run)

    def prune(self, before: str, *, dry_run: bool = False) -> Pruned:
        """Turn old bodies into tombstones."""
        with self._store.lock:
            old, waiting = self._state().unused(before)
            sizes = {
                sha: len(data) for sha in old if (data := self._store.bodies[sha].data) is not None
            }
            if sizes and not dry_run:
                for sha in sizes:
                    self._store.bodies[sha] = BodyRecord(self._store.bodies[sha].type, None)
                body = {"before": before, "bodies": len(sizes), "bytes": sum(sizes.values())}
                self.append_now(Event(BODIES_PRUNED, body, principal=str(LOCAL_USER)))
        return Pruned(before, len(sizes), sum(sizes.values()), waiting, dry_run)

    def free_bytes(self) -> int:
        """Return 0: memory is given back at once."""
        return 0

    def compact(self) -> None:
        """Close it."""
        self.close()

    def compare(self) -> tuple[Difference, ...]:
        """Return nothing: there are no records beside the events."""
        return ()

    def rebuild(self) -> tuple[Difference, ...]:
        """Return nothing."""
        return ()

    def require_rights(self, approval_id: str | None = None) -> None:
        """Return: records that nobody keeps cannot be forged."""
        del approval_id

    def require_own(self, run_id: str) -> None:
        """Return: nobody else writes to this process's memory."""
        del run_id
