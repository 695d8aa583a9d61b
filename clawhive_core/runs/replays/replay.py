"""Exact replay: today's planner, loop and orchestrator on a run's recorded answers."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, cast

from clawhive_core.errors import NeedHumanApproval, NotReplayable
from clawhive_core.events.redaction import Redactor
from clawhive_core.execution.outcomes import Outcome
from clawhive_core.execution.pending import as_recorded
from clawhive_core.execution.recorded import RecordedCall, asked_call
from clawhive_core.execution.scope import CallScope
from clawhive_core.model.canonical import canonical, canonical_text
from clawhive_core.model.embeddings import Embeddings
from clawhive_core.model.events import Event
from clawhive_core.model.late import dataclass
from clawhive_core.model.messages import LlmRequest, LlmResponse, Usage
from clawhive_core.model.tools import ToolCall, ToolResult
from clawhive_core.protocols.adapter import LlmAdapter
from clawhive_core.protocols.embedder import Embedder
from clawhive_core.protocols.ledger import Expectation, Ledger, RunOwnedBy
from clawhive_core.protocols.planner import Planner
from clawhive_core.runs.loop import Compaction
from clawhive_core.runs.models import Models, Provider
from clawhive_core.runs.options import SIGNAL_FAILED
from clawhive_core.runs.orchestrator import Orchestrator
from clawhive_core.runs.record.lineage import children_usage
from clawhive_core.runs.replays.recorded_run import (
    COMPARED,
    Difference,
    Diverged,
    RecordedRun,
    difference_of,
    recorded_answer,
    recorded_embedder,
    recorded_embeddings,
    short_text,
)
from clawhive_core.runs.run import RunRequest
from clawhive_core.runs.toolsets import Offer, Toolset, enabled_toolset

NOT_RECORDED = "not_recorded"


class RecordedJournal:
    """Takes a replay's events and compares each with the record."""

    def __init__(self, record: RecordedRun) -> None:
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
            raise Diverged(Difference(None, event.kind, event.step_id, "nothing", short_text(now)))
        recorded = _as_new(self._facts(stored.event), now)
        now = _as_new(now, recorded)
        if canonical_text(recorded) != canonical_text(now):
            raise Diverged(difference_of(stored, recorded, now))
        self._record.compared += 1

    def _facts(self, event: Event) -> list[Any]:
        """Return what is compared: all but that a listener failed, as nobody listens here."""
        body = self._record.resolve_blobs(event.body)
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
class RecordedToolSource:
    """The record as the source of what a model is offered later (`ToolSource`)."""

    record: RecordedRun

    def updated_offer(self, request: RunRequest, revision: str, step_id: str) -> Offer | None:
        """Return what was offered from a turn on, None where nothing changed."""
        del request, revision
        queue = self.record.pending.get((step_id, "tools.changed"))
        return Offer.from_event(self.record.log, queue[0].event) if queue else None

    def tools_named(self, request: RunRequest, names: Sequence[str], step_id: str) -> Toolset:
        """Return the tools that a result enabled."""
        del request, names
        queue = self.record.pending.get((step_id, "tools.enabled"))
        return enabled_toolset(self.record.log, queue[0].event) if queue else Toolset()


class RecordedInvoker:
    """Answers calls from the record instead of executing them."""

    def __init__(self, record: RecordedRun) -> None:
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
            asked = f"{call.name} {short_text(call.input)}"
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


class OfflineModels(Models):
    """Models without adapters: nothing is sent, so nothing needs a right or a commit before it."""

    def adapter(self, model: str) -> tuple[LlmAdapter, str]:
        """Return no adapter: none is asked."""
        return cast("LlmAdapter", None), model

    def embedder(self, model: str | None, scope: CallScope) -> tuple[Embedder, str]:
        """Return no embedder, and the model by the name that the record has."""
        return cast("Embedder", None), self._recorded_embedder(scope) or model or ""

    def _recorded_embedder(self, scope: CallScope) -> str | None:
        """Return which model the record asked at a step."""
        raise NotImplementedError

    def _authorize(self, adapter: Provider, scope: CallScope) -> str:
        """Return no grant: rights were decided when the run was recorded."""
        del adapter, scope
        return ""

    def _is_remote(self, adapter: Provider) -> bool:
        del adapter
        return False


class RecordedModels(OfflineModels):
    """Answers model requests from the record; the requests themselves are compared."""

    def __init__(self, record: RecordedRun) -> None:
        super().__init__(dict, RecordedJournal(record))
        self._record = record

    def close_account(self, run_id: str) -> Usage:
        """Return what was used, by what was repeated and by the tools that were not."""
        return super().close_account(run_id) + self._record.used_by_tools()

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


@dataclass(frozen=True, slots=True)
class ReplayReport:
    """The findings of a replay."""

    run_id: str
    mode: str
    compared: int
    """The number of recorded events that were repeated."""
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


async def replay_exactly(
    record: RecordedRun,
    request: RunRequest,
    planners: Mapping[str, Planner],
    compaction: Compaction | None = None,
) -> ReplayReport:
    """Run today's planner, loop and orchestrator on a run's recorded answers.

    Raises:
        NotReplayable: The run was a session's calls.
    """
    run_id = record.run_id
    if request.is_session:
        raise NotReplayable(
            f"run {run_id} is a session's calls: nothing planned them",
            place=run_id,
            fix=f"clawhive runs replay {run_id} --mode policy",
        )
    tools = tools_of(record)
    again = Orchestrator(
        RecordedInvoker(record) if tools is record else RecordedTools(tools),
        RecordedModels(record),
        RecordedJournal(record),
        planners,
        compaction,
        partial(children_usage, record.log),
        RecordedToolSource(record),
    )
    try:
        await again.run(request)
        difference = record.first_unrepeated() if record.finished else None
    except Diverged as diverged:
        difference = diverged.difference
    report = ReplayReport(run_id, "exact", record.compared, difference, record.finished)
    await record_report(record, report)
    return report


async def record_report(record: RecordedRun, report: ReplayReport) -> None:
    """Record what a replay found."""
    event = Event(
        "replay.end",
        report.to_dict(),
        trace_id=record.start.event.trace_id,
        run_id=record.run_id,
        status="succeeded" if report.ok else "failed",
    )
    await record.log.append(event)


class RecordedTools:
    """Answers calls with what equal ones came to in the record, in their order."""

    def __init__(self, record: RecordedRun) -> None:
        self._log = record.log
        self._answers: dict[tuple[str, bytes], deque[RecordedCall]] = defaultdict(deque)
        for call in sorted(record.calls.values(), key=lambda each: each.first.seq):
            self._answers[call_key(record.log, asked_call(record.log, call.first))].append(call)

    async def invoke(self, call: ToolCall, scope: CallScope) -> Outcome:
        """Return the recorded outcome; the last one again where the call is made more often."""
        del scope
        queue = self._answers.get(call_key(self._log, call))
        if queue:
            recorded = queue.popleft() if len(queue) > 1 else queue[0]
            outcome = recorded.outcome(self._log, call.id)
            if outcome is not None:
                return outcome
        told = {"error": NOT_RECORDED, "message": "this replay has no recorded answer to that call"}
        return ToolResult(call.id, canonical_text(told), is_error=True, structured=told)


def tools_of(record: RecordedRun) -> RecordedRun:
    """Return the record that has what a run's tools answered: its own, mostly.

    A run whose model was asked anew made no call: each was answered from the run that it repeats.

    Raises:
        NotReplayable: That run is not in the log, or bodies of it were pruned.
    """
    while (above := record.start.event.body.get("replays")) and above["mode"] == "model":
        record = RecordedRun.load(record.log, above["run_id"])
    return record


def call_key(log: Ledger, call: ToolCall) -> tuple[str, bytes]:
    """Return what equal calls share; secrets are not in it, as they are not in the log."""
    return call.name, canonical(log.redactor.value(as_recorded(call)))
