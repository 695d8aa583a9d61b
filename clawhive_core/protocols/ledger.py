"""The storage port: an append-only log, what an append may expect of it, and what it answers."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import Any, Literal, Protocol, overload

from clawhive_core.errors import RunError
from clawhive_core.model.approvals import Approval
from clawhive_core.model.events import Event, StoredEvent
from clawhive_core.model.late import dataclass
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
from clawhive_core.protocols.stores import Subscription

EXECUTED = frozenset({"pending", "running"})
"""The states of a run that somebody executes."""


@dataclass(frozen=True, slots=True)
class RunFree:
    """No run has this id yet."""

    run_id: str


@dataclass(frozen=True, slots=True)
class AgentsBelow:
    """A task has started fewer sub-agents than this."""

    trace_id: str
    most: int


@dataclass(frozen=True, slots=True)
class RunIs:
    """A run has one of these states under exactly this fence; `Unmet.found` is both as they are."""

    run_id: str
    states: frozenset[str]
    fence: int
    worker: str | None = None
    """The worker that executes it, where that counts too."""


@dataclass(frozen=True, slots=True)
class RunOwnedBy:
    """A run is still that of who took it under a fence: nobody took or interrupted it since.

    A fence only rises, so what one append is refused for, each later one with it is too.
    """

    run_id: str
    fence: int


@dataclass(frozen=True, slots=True)
class SessionAt:
    """The last turn of a conversation that was answered is still this one; None of none yet.

    `Unmet.found` is the one that it is.
    """

    conversation_id: str
    last: str | None


@dataclass(frozen=True, slots=True)
class GrantsUsable:
    """Each of these grants is there and, with all that it derives from, stands and has a use left.

    `Unmet.found` is the sequence of those that are not.
    """

    grant_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class GrantIs:
    """A grant stands and has exactly these uses left; None where its uses are not counted."""

    grant_id: str
    uses_left: int | None


@dataclass(frozen=True, slots=True)
class QuotaLeft:
    """A user may still call a tool in a window of time.

    `Unmet.found` is the start of the window that is full, in Unix seconds.
    """

    user_id: str
    tool: str
    limit: int
    seconds: int
    """The length of the window."""
    since: int
    """Its beginning, in Unix seconds."""


TOO_LATE = "too late"
"""The state of an approval that nobody answered in time, and that nobody ended yet."""


@dataclass(frozen=True, slots=True)
class ApprovalIs:
    """An approval has one of these states; `Unmet.found` is the one that it has."""

    approval_id: str
    states: frozenset[str]
    at: str | None = None
    """A moment as rows hold it: then it has not expired; else `Unmet.found` is `TOO_LATE`."""


@dataclass(frozen=True, slots=True)
class HasEvidence:
    """The rows of a table with these ids are as the log's events made them.

    One that is not met is the ledger's own error, `forged_rights`: somebody changed the table.
    """

    table: str
    ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class InvocationHas:
    """An invocation has an event of one of some kinds, and none of others."""

    run_id: str
    invocation_id: str
    any_of: frozenset[str]
    none_of: frozenset[str]


@dataclass(frozen=True, slots=True)
class SubscriptionIs:
    """A user has subscribed to a skill, or has not."""

    user_id: str
    skill_id: str
    there: bool


Expectation = (
    RunFree
    | AgentsBelow
    | RunIs
    | RunOwnedBy
    | SessionAt
    | GrantsUsable
    | GrantIs
    | QuotaLeft
    | ApprovalIs
    | HasEvidence
    | InvocationHas
    | SubscriptionIs
)
"""The expectations of an append: a closed set, each a pure read in the append's own transaction."""


class Unmet(RunError):
    """The error of an append whose expectation does not hold: nothing of it was kept.

    It carries facts only; the room that appended says in words what they mean.

    Args:
        expectation: The first one that does not hold.
        found: What was found instead.
    """

    def __init__(self, expectation: Expectation, found: Any = None) -> None:
        super().__init__(f"the log does not hold what was expected: {expectation}")
        self.expectation = expectation
        self.found = found


@dataclass(frozen=True, slots=True)
class RunsWhere:
    """Runs, newest first; what is None does not matter."""

    status: str | None = None
    run_id: str | None = None
    task_id: str | None = None
    parent_run_id: str | None = None
    """The run that started them."""
    conversation_id: str | None = None
    principal: str | None = None
    task_type: str | None = None
    since: str | None = None
    """The first moment that counts, of their start, as rows hold it."""
    until: str | None = None
    """The first moment that counts no more."""
    prefix: str | None = None
    """The beginning of their ids."""
    top_level: bool | None = None
    """Whether no run started them."""
    above: str | None = None
    """The run that they started, through others too; it is among them."""
    below: str | None = None
    """The run that started them, through others too; it is not among them."""
    turns: Literal[True] | None = None
    """Only prompts that were answered: the turns of conversations."""


@dataclass(frozen=True, slots=True)
class StepsWhere:
    """The steps of a run, in the order of their first event."""

    run_id: str
    status: str | None = None


@dataclass(frozen=True, slots=True)
class InvocationsWhere:
    """Calls, newest first; what is None does not matter."""

    run_id: str | None = None
    step_id: str | None = None
    tool: str | None = None
    status: str | None = None
    decision: str | None = None
    principal: str | None = None


@dataclass(frozen=True, slots=True)
class ApprovalsWhere:
    """Approvals, oldest first; what is None does not matter."""

    state: str | None = None
    run_id: str | None = None
    tool: str | None = None
    approval_id: str | None = None
    prefix: str | None = None
    """The beginning of their ids."""
    step_id: str | None = None
    step_prefix: str | None = None
    """The beginning of their steps' ids."""
    digest: str | None = None
    principal: str | None = None
    expires_before: str | None = None
    """The first moment, as rows hold it, at which they still count."""


@dataclass(frozen=True, slots=True)
class GrantsWhere:
    """Grants of the log, oldest first; what is None does not matter."""

    ended: bool | None = None
    """Whether it was revoked, used up, or ended with its scope; one that expired may not have."""
    scope: str | None = None
    scope_id: str | None = None
    subject: str | None = None


@dataclass(frozen=True, slots=True)
class RightsWhere:
    """Grants of the log that stand now, oldest first; what is None does not matter.

    Each is compared with the log's events, and so is all that it derives from: a table that says
    more than the log is the ledger's own error, `forged_rights`.
    """

    grant_ids: tuple[str, ...] | None = None
    scope: str | None = None
    scope_id: str | None = None
    steps_of: str | None = None
    """The run whose steps have them."""
    checked: bool = True
    """Whether they are compared; a list for people needs not."""


@dataclass(frozen=True, slots=True)
class ActiveGrants:
    """The ids of those among some grants that stand in the log."""

    grant_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DescentOf:
    """Some grants and all that they derive from: their ids, in order."""

    grant_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RevocationsWhere:
    """Revocations, newest first; what is None does not matter."""

    grant_ids: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class QuotasWhere:
    """Counted calls of tools; what is None does not matter."""

    user_id: str | None = None
    tool: str | None = None
    seconds: int | None = None
    """The length of the window."""


@dataclass(frozen=True, slots=True)
class SubscriptionsWhere:
    """Subscriptions, by skill and user; what is None does not matter."""

    user_id: str | None = None
    skill_id: str | None = None


@dataclass(frozen=True, slots=True)
class ValuesWhere:
    """The values that a user's tools keep in a namespace, by key; what is None does not matter."""

    user_id: str
    namespace: str
    key: str | None = None
    prefix: str | None = None
    """The beginning of their keys."""


IdColumn = Literal["run_id", "trace_id", "task_id", "step_id"]


@dataclass(frozen=True, slots=True)
class IdsWhere:
    """The ids that events have in one of their columns: the newest first, or by prefix in order."""

    column: IdColumn
    prefix: str | None = None
    run_id: str | None = None


@dataclass(frozen=True, slots=True)
class EventsWhere:
    """Events, newest first; what is None does not matter."""

    run_id: str | None = None
    trace_id: str | None = None
    task_id: str | None = None
    step_id: str | None = None
    parent_run_id: str | None = None
    """The run that started those whose events they are."""
    tool: str | None = None
    principal: str | None = None
    kind: str | None = None
    """A kind, or the part before its dot: `approval` stands for all kinds of approvals."""
    status: str | None = None
    decision: str | None = None
    """`allow`, `ask` or `deny`, as the body says."""
    since: str | None = None
    """The first moment that counts, as rows hold it."""
    until: str | None = None
    """The first moment that counts no more."""
    invocation_id: str | None = None
    steps_from: str | None = None
    """The id after which those of their steps come."""
    steps_before: str | None = None
    """The id before which those of their steps come."""
    after_seq: int | None = None
    """The number after which they come."""


@dataclass(frozen=True, slots=True)
class Window:
    """The part of an answer that is wanted."""

    limit: int | None = None
    """The largest number of answers; None for all."""
    after: str | None = None
    """The `next` of the page before."""
    reverse: bool = False
    """Whether in the other order."""
    counted: bool = False
    """Whether `Page.total` is wanted, which reads all that is asked for."""


ALL = Window()

Query = (
    RunsWhere
    | StepsWhere
    | InvocationsWhere
    | ApprovalsWhere
    | GrantsWhere
    | RightsWhere
    | ActiveGrants
    | DescentOf
    | RevocationsWhere
    | QuotasWhere
    | SubscriptionsWhere
    | ValuesWhere
    | IdsWhere
    | EventsWhere
)
"""The queries of a ledger: a closed set, each a value."""


class Redaction(Protocol):
    """Knows secrets, and takes them out of what is written."""

    @property
    def active(self) -> bool:
        """Whether there is anything to take out."""
        ...

    def add(self, secret: str) -> None:
        """Have a value taken out from now on."""
        ...

    def may_be_in(self, data: bytes) -> bool:
        """Return whether bytes may hold a secret."""
        ...

    def text(self, value: str) -> str:
        """Return a text without secrets."""
        ...

    def value(self, value: Any) -> Any:
        """Return a JSON value without secrets."""
        ...


class Leases(Protocol):
    """Says which workers live: beside the log, on the store's clock, one lease for all runs."""

    @property
    def worker(self) -> str:
        """The id under which this open ledger executes runs."""
        ...

    async def hold(self) -> None:
        """Make sure that the lease on what is taken next holds, and is kept from now on.

        Raises:
            LogWriteFailed: It cannot be written.
        """
        ...

    def workers(self) -> Sequence[WorkerRecord]:
        """Return who executes runs, or did so when its lease was last renewed."""
        ...

    def owners(self, run_ids: Sequence[str]) -> Sequence[Ownership]:
        """Return under which fence some runs are, and of which somebody wants the end."""
        ...

    def request_cancel(self, run_id: str, fence: int) -> None:
        """Ask whoever executes a run under a fence to end it.

        Raises:
            Unmet: Nobody does.
            LogWriteFailed: It cannot be written.
        """
        ...


class Inspection(Protocol):
    """A log as it lies there: read in one snapshot, without opening, migrating or changing it."""

    @property
    def id(self) -> str:
        """The log's own random id."""
        ...

    @property
    def place(self) -> str:
        """The file or address of the log, as a person finds it."""
        ...

    def raw(self) -> Iterator[Sequence[Any]]:
        """Yield every row as it is stored: the columns of `events.chain.COLUMNS`, in order."""
        ...

    def blob(self, sha256: str) -> BodyRecord | None:
        """Return a body that rows refer to, None where it is missing."""
        ...

    def problems(self) -> Sequence[str]:
        """Return what of the schema is not as the migrations made it, as sentences."""
        ...

    def notes(self) -> Sequence[str]:
        """Return what others keep in the store beside the log, as sentences; nothing reads it."""
        ...


class Ledger(Leases, Protocol):
    """Appends events to one hash-chained log, and answers typed queries of what they made.

    An adapter says nothing of connections, files or threads. What a call's way reads stays
    synchronous: a decision is made between two awaits, and a change of threads costs more than the
    indexed read. An adapter behind a network reads on a connection of its own, and blocks for one
    round trip.
    """

    @property
    def id(self) -> str:
        """The log's own random id; its checkpoints are filed under it."""
        ...

    @property
    def place(self) -> str:
        """The file or address of the log, as a person finds it: for messages."""
        ...

    @property
    def software(self) -> str:
        """The store's name and version, such as `SQLite 3.45.1`."""
        ...

    @property
    def redactor(self) -> Redaction:
        """The registry of secrets that must not be written."""
        ...

    async def append(
        self, *events: Event, sync: bool = False, expects: Sequence[Expectation] = ()
    ) -> list[int]:
        """Commit events in order, where all that is expected holds, and return their numbers.

        Args:
            events: What to append; none waits for all that was posted before.
            sync: Wait until the disk has them.
            expects: Checked first, in the same transaction, with nobody writing in between.

        Raises:
            Unmet: Something expected does not hold; nothing of this append was kept.
            LogWriteFailed: Nothing of this append was kept.
        """
        ...

    def append_now(
        self, *events: Event, sync: bool = False, expects: Sequence[Expectation] = ()
    ) -> list[int]:
        """Do what `append` does, blocking the calling thread.

        Raises:
            Unmet: Something expected does not hold; nothing of this append was kept.
            LogWriteFailed: Nothing of this append was kept.
        """
        ...

    def post(
        self, *events: Event, pressing: bool = False, expects: Sequence[RunOwnedBy] = ()
    ) -> None:
        """Queue events behind what is queued; they are committed with the next batch.

        Where the run has another owner by then they are dropped, and so is all that follows them
        with the same fence: the next append that is waited for says so.

        Raises:
            LogWriteFailed: An event cannot be written as JSON, or the log refuses.
        """
        ...

    async def post_or_wait(self, *events: Event, expects: Sequence[RunOwnedBy] = ()) -> None:
        """Do what `post` does; wait for the commit where much is queued, or something pressing.

        Raises:
            LogWriteFailed: As for `post`, or as for `append`.
        """
        ...

    @overload
    def find(self, query: RunsWhere, window: Window = ...) -> Page[RunRecord]: ...
    @overload
    def find(self, query: StepsWhere, window: Window = ...) -> Page[StepRecord]: ...
    @overload
    def find(self, query: InvocationsWhere, window: Window = ...) -> Page[InvocationRecord]: ...
    @overload
    def find(self, query: ApprovalsWhere, window: Window = ...) -> Page[Approval]: ...
    @overload
    def find(self, query: GrantsWhere, window: Window = ...) -> Page[GrantRecord]: ...
    @overload
    def find(self, query: RightsWhere, window: Window = ...) -> Page[RightRecord]: ...
    @overload
    def find(
        self, query: ActiveGrants | DescentOf | IdsWhere, window: Window = ...
    ) -> Page[str]: ...
    @overload
    def find(self, query: RevocationsWhere, window: Window = ...) -> Page[RevocationRecord]: ...
    @overload
    def find(self, query: QuotasWhere, window: Window = ...) -> Page[QuotaRecord]: ...
    @overload
    def find(self, query: SubscriptionsWhere, window: Window = ...) -> Page[Subscription]: ...
    @overload
    def find(self, query: ValuesWhere, window: Window = ...) -> Page[ValueRecord]: ...
    @overload
    def find(self, query: EventsWhere, window: Window = ...) -> Page[StoredEvent]: ...
    def find(self, query: Any, window: Window = ...) -> Page[Any]:
        """Return a page of what a query asks for.

        Raises:
            StorageError: It cannot be read.
            UsageError: `after` is no page's `next`.
        """
        ...

    async def flush(self) -> None:
        """Return when everything posted is committed and the listeners have heard of it.

        Raises:
            LogWriteFailed: Posted events were lost.
        """
        ...

    def events(
        self,
        *,
        run_id: str | None = None,
        since: int = 0,
        limit: int | None = None,
        kinds: Sequence[str] | None = None,
    ) -> Iterator[StoredEvent]:
        """Yield events in order, those with a sequence number above `since`."""
        ...

    def rows(
        self,
        columns: Sequence[str],
        run_id: str | None = None,
        since: int = 0,
        limit: int | None = None,
        kinds: Sequence[str] | None = None,
    ) -> Iterator[Sequence[Any]]:
        """Yield some columns of what `events` yields, `seq` first, the body as it is stored."""
        ...

    def follow(
        self, since: int = 0, *, run_id: str | None = None, is_over: Callable[[], bool] = ...
    ) -> AsyncGenerator[StoredEvent]:
        """Yield the events after a number, then those to come, by any process, until cancelled.

        Those of other processes come within half a second.

        Args:
            since: The number.
            run_id: Only events of this run.
            is_over: Whether none is to come, because the log is being closed.

        Raises:
            StorageError: The log cannot be read.
        """
        ...

    def heard(self) -> AbstractAsyncContextManager[Callable[[], Awaitable[None]]]:
        """Give what waits for further events: as `follow` does, without reading them."""
        ...

    def listen(self, callback: Callable[[list[StoredEvent]], None]) -> Callable[[], None]:
        """Call `callback` with what this process appends, after each commit, in any thread.

        What it raises is counted and goes no further. The returned function ends the listening.
        """
        ...

    def tip(self) -> tuple[int, str] | None:
        """Return number and hash of the last event, None where there is none."""
        ...

    def epoch(self) -> tuple[int, int] | None:
        """Return a value that differs once a right may have been revoked, whoever did it.

        None where it cannot be said without waiting: ask for the revocations then.
        """
        ...

    def blob(self, sha256: str) -> BodyRecord | None:
        """Return a body that events refer to, as it is stored; None where it is missing."""
        ...

    def pruned_bodies(self, run_id: str) -> int:
        """Return how many of the bodies that a run's events refer to were pruned."""
        ...

    def prune(self, before: str, *, dry_run: bool = False) -> Pruned:
        """Turn the bodies to which only events before a moment refer into tombstones.

        A run counts as a whole, from when it ended; one that has not ended keeps all of its
        bodies. So does a value that a tool keeps. Bodies go in batches, each in one transaction
        with the event `bodies.pruned` that tells of it: whoever ends the process leaves every body
        whole or gone, and what is gone recorded.

        Args:
            before: The moment, as rows hold it.
            dry_run: Only say what would go.

        Raises:
            StorageError: The log cannot be read or written; what was recorded until then is gone.
        """
        ...

    def free_bytes(self) -> int:
        """Return how much of the store is free for what will be written."""
        ...

    def compact(self) -> None:
        """Give the space that pruning freed back, and close the log; writers wait meanwhile.

        Raises:
            StorageError: It cannot be done now; the log is as it was.
        """
        ...

    def compare(self) -> tuple[Difference, ...]:
        """Return how the records differ from a replay of the events; nothing is changed.

        Raises:
            StorageError: The log cannot be read, or an event cannot be applied.
        """
        ...

    def rebuild(self) -> tuple[Difference, ...]:
        """Make the records anew from the events; return how they differed.

        Where they did, `tables.rebuilt` records it, together with the new records or not at all.

        Raises:
            LogWriteFailed: The result could not be written; the records are as they were.
            StorageError: An event cannot be applied; the records are as they were.
        """
        ...

    def require_rights(self, approval_id: str | None = None) -> None:
        """Raise where a record gives a right that the events do not: at opening, of all.

        Args:
            approval_id: Only this approval and those of its run.

        Raises:
            StorageError: `forged_rights`.
        """
        ...

    def require_own(self, run_id: str) -> None:
        """Raise where somebody else wrote an event of a run: what it says does not count.

        A log that only its user can write to has no such events.

        Raises:
            StorageError: `foreign_database`.
        """
        ...

    def load(self, ref: Any) -> Any:
        """Return the value behind a body's blob reference; other values are returned as they are.

        Raises:
            ClawHiveError: The value was pruned (`pruned`), is missing or damaged
                (`damaged_body`).
        """
        ...

    def close(self) -> None:
        """Commit everything posted and close the log; closing twice does nothing.

        Raises:
            LogWriteFailed: Posted events were lost.
        """
        ...


class LedgerOpener(Protocol):
    """Opens the logs of one kind of store, by the scheme of their address."""

    @property
    def scheme(self) -> str:
        """The part of `[storage] url` before its colon, such as `sqlite`."""
        ...

    def open(self, url: str, *, root: str, redactor: Any, lease_seconds: float) -> Ledger:
        """Open a log, making or migrating it where needed.

        Args:
            url: The whole address.
            root: The absolute path of the project.
            redactor: A `Redaction`, to be used for all that is written.
            lease_seconds: How long this process keeps its runs when it says nothing.

        Raises:
            DatabaseTooNew: It was written by a newer version.
            StorageError: It cannot be opened.
        """
        ...

    def inspect(self, url: str, *, root: str) -> AbstractContextManager[Inspection]:
        """Look at a log without opening, migrating or changing it.

        Raises:
            StorageError: It cannot be read.
        """
        ...

    def is_made(self, url: str, *, root: str) -> bool:
        """Return whether there is such a log; looking makes none."""
        ...
