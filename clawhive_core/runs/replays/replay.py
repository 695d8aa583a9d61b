"""Exact replay: today's planner, loop and orchestrator on a run's recorded answers."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from clawhive_core.errors import NeedHumanApproval, NotReplayable
from clawhive_core.events.redaction import Redactor
from clawhive_core.execution.outcomes import Outcome
from clawhive_core.execution.pending import as_recorded
from clawhive_core.execution.recorded import (
    CALL_KINDS,
    RecordedCall,
    answer_of,
    asked_call,
    embeddings_of,
    full,
)
from clawhive_core.execution.scope import CallScope, is_nested
from clawhive_core.model.canonical import canonical_text, preview
from clawhive_core.model.embeddings import Embeddings
from clawhive_core.model.events import Event, StoredEvent
from clawhive_core.model.late import dataclass
from clawhive_core.model.messages import LlmRequest, LlmResponse, Usage
from clawhive_core.model.tools import ToolCall
from clawhive_core.protocols.adapter import LlmAdapter
from clawhive_core.protocols.embedder import Embedder
from clawhive_core.protocols.ledger import Expectation, Ledger, RunOwnedBy
from clawhive_core.runs.callbacks import SIGNAL_FAILED
from clawhive_core.runs.offering.enabling import Brought
from clawhive_core.runs.offering.renewal import Renewed, enabled_in
from clawhive_core.runs.record.journal import ENDED
from clawhive_core.runs.replays.unsent import UnsentModels

if TYPE_CHECKING:
    from clawhive_core.runs.run import RunRequest

COMPARED = frozenset(
    {
        "plan.made",
        "step.end",
        "model.start",
        "model.end",
        "embedding.start",
        "embedding.end",
        "tools.enabled",
        "tools.changed",
        "run.end",
    }
)
"""The events that a replay must repeat exactly; a call's rows are compared where it is answered."""

ANSWERS = frozenset({"model.end", "embedding.end"})
"""The events that end a request to a provider, and say what it used."""


@dataclass(frozen=True, slots=True)
class Difference:
    """The first place where a replay and its record part."""

    seq: int | None
    """The recorded event's number; None where the record has no such event."""
    kind: str
    step_id: str | None
    recorded: str
    repeated: str

    @property
    def message(self) -> str:
        """The difference as a sentence."""
        where = "no event" if self.seq is None else f"event {self.seq}"
        step = "" if self.step_id is None else f" of step {self.step_id}"
        return f"{where} ({self.kind}{step}) differs: recorded {self.recorded}, now {self.repeated}"

    def to_dict(self) -> dict[str, Any]:
        """Return the difference as JSON."""
        return {
            "seq": self.seq,
            "kind": self.kind,
            "step_id": self.step_id,
            "recorded": self.recorded,
            "repeated": self.repeated,
            "message": self.message,
        }


class Diverged(BaseException):
    """The replay stops here: a difference, or the end of an unfinished record."""

    def __init__(self, difference: Difference | None) -> None:
        super().__init__("the replay and its record part")
        self.difference = difference


@dataclass(slots=True)
class Record:
    """A recorded run, its events waiting to be repeated, by step and kind."""

    log: Ledger
    run_id: str
    start: StoredEvent
    waiting: dict[tuple[str | None, str], deque[StoredEvent]]
    calls: dict[str | None, RecordedCall]
    """The calls of the planner or loop by step; a tool's own calls are repeated by the tool."""
    finished: bool
    asked: frozenset[str | None] = frozenset()
    """The steps whose call waited for a person, a tool's own calls too."""
    over: frozenset[str | None] = frozenset()
    """The steps whose own grants ended with them."""
    compared: int = 0

    @classmethod
    def load(cls, log: Ledger, run_id: str) -> Record:
        """Read a run's events.

        Raises:
            NotReplayable: The log has no start of this run, or bodies of it were pruned.
        """
        waiting: dict[tuple[str | None, str], deque[StoredEvent]] = defaultdict(deque)
        calls: dict[str | None, RecordedCall] = {}
        start: StoredEvent | None = None
        finished = False
        asked: set[str | None] = set()
        over: set[str | None] = set()
        for stored in log.events(run_id=run_id):
            kind, step = stored.event.kind, stored.event.step_id
            if kind == "approval.requested":
                asked.add(step)
            if kind == "run.start":
                start = stored
            elif kind == "run.end" and stored.event.status == "cancelled":
                continue  # it was broken off, so its record ends in the middle
            elif kind == "grant.revoked" and stored.event.body.get("reason") == ENDED:
                over.add(step)
            elif kind in COMPARED:
                waiting[step, kind].append(stored)
                finished = finished or kind == "run.end"
            elif kind in CALL_KINDS and not is_nested(step):
                calls.setdefault(step, RecordedCall(stored)).take(stored)
        if start is None:
            raise NotReplayable(f"the log holds no start of run {run_id}", place=run_id)
        if pruned := log.pruned_bodies(run_id):
            what = f"{pruned} of run {run_id}'s bodies were pruned; only their digests are left"
            fix = "nothing brings them back; `clawhive runs show RUN` shows the rest"
            raise NotReplayable(what, place=run_id, fix=fix)
        return cls(log, run_id, start, waiting, calls, finished, frozenset(asked), frozenset(over))

    def take(self, step_id: str | None, kind: str) -> StoredEvent | None:
        """Return the next recorded event of a step and kind."""
        queue = self.waiting.get((step_id, kind))
        return queue.popleft() if queue else None

    def take_call(self, call: ToolCall, scope: CallScope) -> RecordedCall | None:
        """Return the recorded call of a step, None where it has none.

        Raises:
            Diverged: The recorded call is another one.
        """
        recorded = self.calls.pop(scope.step_id, None)
        if recorded is not None:
            _compare_call(self, recorded.first, call, scope)
        return recorded

    def full(self, body: Any) -> Any:
        """Return a body with its blobs resolved, stored or not yet."""
        return full(self.log, body)

    def left_over(self) -> Difference | None:
        """Return the first recorded event that was not repeated; what tools asked for is not."""
        rest = [
            stored
            for (step, _), queue in self.waiting.items()
            for stored in queue
            if not is_nested(step)
        ]
        rest += [call.asked for call in self.calls.values()]
        if not rest:
            return None
        first = min(rest, key=lambda stored: stored.seq)
        event = first.event
        return Difference(
            first.seq, event.kind, event.step_id, shortened(self.full(event.body)), "nothing"
        )

    def used_by_tools(self) -> Usage:
        """Return what the model calls of tools used: they count for the run, and do not repeat."""
        used = Usage()
        for (step, kind), queue in self.waiting.items():
            if kind in ANSWERS and is_nested(step):
                for stored in queue:
                    usage: dict[str, Any] = stored.event.body["usage"] or {}
                    used += Usage(**usage)
        return used


class RecordedJournal:
    """Takes a replay's events and holds each against the record."""

    def __init__(self, record: Record) -> None:
        self._record = record
        self.redactor = Redactor()  # idle: what is recorded holds no secrets

    @property
    def worker(self) -> str:
        """Nobody."""
        return ""

    async def hold(self) -> None:
        """Do nothing: nothing is taken."""

    async def append(
        self, *events: Event, sync: bool = False, expects: Sequence[Expectation] = ()
    ) -> list[int]:
        """Compare events; nothing is written."""
        del sync, expects
        self.post(*events)
        return []

    def post(self, *events: Event, expects: Sequence[RunOwnedBy] = ()) -> None:
        """Compare events.

        Raises:
            Diverged: An event differs from the recorded one.
        """
        del expects
        for event in events:
            if event.kind in COMPARED:
                self._compare(event)

    def _compare(self, event: Event) -> None:
        stored = self._record.take(event.step_id, event.kind)
        now = self._facts(event)
        if stored is None:
            if not self._record.finished:
                raise Diverged(None)
            raise Diverged(Difference(None, event.kind, event.step_id, "nothing", shortened(now)))
        recorded = _as_new(self._facts(stored.event), now)
        now = _as_new(now, recorded)
        if canonical_text(recorded) != canonical_text(now):
            raise Diverged(_difference(stored, recorded, now))
        self._record.compared += 1

    def _facts(self, event: Event) -> list[Any]:
        """Return what is compared: all but that a listener failed, as nobody listens here."""
        body = self._record.full(event.body)
        own = [each for each in body.get("warnings", ()) if each["code"] != SIGNAL_FAILED]
        rest = {key: _comparable(value) for key, value in body.items() if key != "warnings"}
        return [event.status, {**rest, "warnings": own} if own else rest]


def _as_new(facts: list[Any], other: list[Any]) -> list[Any]:
    """Return what is compared of an event with no more new messages than another one has.

    A first request names what was said before its run, or goes on from what the log holds; the
    digest of the whole history is compared in either case.
    """
    mine, theirs = facts[1].get("new"), other[1].get("new")
    if mine is None or theirs is None or len(mine) <= len(theirs):
        return facts
    return [facts[0], {**facts[1], "new": mine[len(mine) - len(theirs) :]}]


@dataclass(frozen=True, slots=True)
class RecordedOffers:
    """The record as the source of what a model is offered later (`ToolSource`)."""

    record: Record

    def renewed(self, request: RunRequest, revision: str, step_id: str) -> Renewed | None:
        """Return what was offered from a turn on, None where nothing changed."""
        del request, revision
        queue = self.record.waiting.get((step_id, "tools.changed"))
        return Renewed.from_event(self.record.log, queue[0].event) if queue else None

    def named(self, request: RunRequest, names: Sequence[str], step_id: str) -> Brought:
        """Return what a result brought."""
        del request, names
        queue = self.record.waiting.get((step_id, "tools.enabled"))
        return enabled_in(self.record.log, queue[0].event) if queue else Brought()


class RecordedDoor:
    """Answers calls from the record instead of executing them."""

    def __init__(self, record: Record) -> None:
        self._record = record

    async def invoke(self, call: ToolCall, scope: CallScope) -> Outcome:
        """Return what the recorded call of this step came to.

        Raises:
            Diverged: The record has another call here, or ends here.
        """
        record = self._record
        recorded = record.take_call(call, scope)
        if recorded is None:
            if not record.finished:
                raise Diverged(None)
            asked = f"{call.name} {shortened(call.input)}"
            raise Diverged(Difference(None, "invocation", scope.step_id, "no call", asked))
        outcome = recorded.outcome(record.log, call.id)
        if outcome is not None:
            record.compared += recorded.end is not None
            return outcome
        if not record.finished and (recorded.is_parked or not recorded.attempts):
            raise NeedHumanApproval("it waits for a person", place=scope.step_id)
        raise Diverged(None)


def _comparable(value: Any) -> Any:
    """Return a field of a body as JSON: vectors are bytes."""
    return value.hex() if isinstance(value, bytes) else value


def _compare_call(record: Record, stored: StoredEvent, call: ToolCall, scope: CallScope) -> None:
    body, asked = stored.event.body, asked_call(record.log, stored)
    recorded = {
        "id": asked.id,
        "tool": asked.name,
        "label": body["step"]["label"],
        "ordinal": body["step"]["ordinal"],
        "input": asked.input,
    }
    now = {
        "id": call.id,
        "tool": call.name,
        "label": scope.label,
        "ordinal": scope.ordinal,
        "input": as_recorded(call),
    }
    if canonical_text(recorded) != canonical_text(now):
        raise Diverged(_difference(stored, recorded, now))
    record.compared += 1


class RecordedModels(UnsentModels):
    """Answers model requests from the record; the requests themselves are compared."""

    def __init__(self, record: Record) -> None:
        super().__init__(dict, RecordedJournal(record))
        self._record = record

    def used(self, run_id: str) -> Usage:
        """Return what was used, by what was repeated and by the tools that were not."""
        return super().used(run_id) + self._record.used_by_tools()

    async def _answer(
        self, adapter: LlmAdapter, request: LlmRequest, scope: CallScope, right: str
    ) -> LlmResponse:
        del adapter, request, right
        return recorded_answer(self._record, scope)

    def _recorded_embedder(self, scope: CallScope) -> str | None:
        return recorded_embedder(self._record, scope)

    async def _embedded(
        self, embedder: Embedder, texts: Sequence[str], called: str, scope: CallScope, right: str
    ) -> Embeddings:
        del embedder, texts, called, right
        return recorded_embeddings(self._record, scope)


def recorded_embedder(record: Record, scope: CallScope) -> str | None:
    """Return the model that a step of a record asked for vectors, None where it asked none."""
    queue = record.waiting.get((scope.step_id, "embedding.start"))
    return queue[0].event.body["model"] if queue else None


def recorded_embeddings(record: Record, scope: CallScope) -> Embeddings:
    """Return an embedder's recorded answer.

    Raises:
        ModelError: It is recorded that the embedder failed.
        Diverged: The record ends before the answer.
    """
    queue = record.waiting.get((scope.step_id, "embedding.end"))
    if not queue:
        raise Diverged(None)
    return embeddings_of(record.log, queue[0])


def recorded_answer(record: Record, scope: CallScope) -> LlmResponse:
    """Return a model's recorded answer.

    Raises:
        ModelError: It is recorded that the model failed.
        Diverged: The record ends before the answer.
    """
    queue = record.waiting.get((scope.step_id, "model.end"))
    if not queue:
        raise Diverged(None)
    return answer_of(record.log, queue[0])


@dataclass(frozen=True, slots=True)
class ReplayReport:
    """The findings of a replay."""

    run_id: str
    mode: str
    compared: int
    """How many recorded events were repeated."""
    difference: Difference | None
    complete: bool
    """False where the record ends in the middle, as an interrupted run's does."""
    differences: tuple[Difference, ...] = ()
    """All of them, where the mode goes on after the first."""
    new_run_id: str | None = None
    """The run that repeated it, where something was live."""

    @property
    def ok(self) -> bool:
        """Whether no difference was found."""
        return self.difference is None

    def to_dict(self) -> dict[str, Any]:
        """Return the report as JSON (schema `replay/1`)."""
        return {
            "schema": "replay/1",
            "run_id": self.run_id,
            "mode": self.mode,
            "ok": self.ok,
            "compared": self.compared,
            "complete": self.complete,
            "difference": None if self.difference is None else self.difference.to_dict(),
            "differences": [each.to_dict() for each in self._all],
            "new_run_id": self.new_run_id,
        }

    @property
    def _all(self) -> tuple[Difference, ...]:
        return self.differences or (() if self.difference is None else (self.difference,))


def _difference(stored: StoredEvent, recorded: Any, now: Any) -> Difference:
    before, after = _part(recorded, now)
    return Difference(stored.seq, stored.event.kind, stored.event.step_id, before, after)


def _part(recorded: Any, now: Any) -> tuple[str, str]:
    """Return the smallest parts that differ, with the path to them."""
    path = ""
    while True:
        key = _differing_key(recorded, now)
        if key is None:
            return f"{path} {shortened(recorded)}".strip(), shortened(now)
        path = f"{path}.{key}".lstrip(".")
        recorded, now = recorded[key], now[key]


def _differing_key(recorded: Any, now: Any) -> Any:
    if isinstance(recorded, dict) and isinstance(now, dict):
        one, other = cast("dict[str, Any]", recorded), cast("dict[str, Any]", now)
        if one.keys() != other.keys():
            return None
        return next((k for k in sorted(one) if not _equal(one[k], other[k])), None)
    if isinstance(recorded, list | tuple) and isinstance(now, list | tuple):
        first, second = cast("list[Any]", recorded), cast("list[Any]", now)
        if len(first) != len(second):
            return None
        return next((i for i in range(len(first)) if not _equal(first[i], second[i])), None)
    return None


def _equal(one: Any, other: Any) -> bool:
    return canonical_text(one) == canonical_text(other)


def shortened(value: Any) -> str:
    """Return a value on one line, cut."""
    return preview(value if isinstance(value, str) else canonical_text(value), 160)
