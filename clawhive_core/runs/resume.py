"""Going on with a run: what is recorded is answered from the log, what is missing is done."""

from __future__ import annotations

from collections.abc import Container, Generator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import cast

from clawhive_core.errors import RunError
from clawhive_core.execution.approvals import Approvals
from clawhive_core.execution.nested import Repeater
from clawhive_core.execution.outcomes import Outcome
from clawhive_core.execution.scope import CallScope
from clawhive_core.model.embeddings import Embeddings
from clawhive_core.model.events import Event
from clawhive_core.model.late import dataclass
from clawhive_core.model.messages import LlmRequest, LlmResponse, Usage
from clawhive_core.model.tools import ToolCall
from clawhive_core.protocols.adapter import LlmAdapter
from clawhive_core.protocols.embedder import Embedder
from clawhive_core.protocols.ledger import Expectation, Ledger, RunOwnedBy
from clawhive_core.runs.budget import Budget, BudgetLimits
from clawhive_core.runs.models import Models, Provider
from clawhive_core.runs.orchestrator import LiveServices, Orchestrator, ToolSource
from clawhive_core.runs.record.journal import run_event
from clawhive_core.runs.record.lineage import ancestry, start_of, total_usage
from clawhive_core.runs.replays.recorded_run import (
    ANSWERS,
    COMPARED,
    Diverged,
    RecordedRun,
    recorded_answer,
    recorded_embedder,
    recorded_embeddings,
)
from clawhive_core.runs.replays.replay import (
    RecordedJournal,
    RecordedTools,
    RecordedToolSource,
    tools_of,
)
from clawhive_core.runs.replays.replay_live import repeated_embeddings, repeated_turn
from clawhive_core.runs.run import RunRequest
from clawhive_core.runs.toolsets import Offer, Toolset


class ResumingJournal(RecordedJournal):
    """Compares a resumed run's events with the record, and appends those that it lacks."""

    def __init__(self, record: RecordedRun, log: Ledger) -> None:
        super().__init__(record)
        self._log = log

    @property
    def worker(self) -> str:
        """The worker that executes the run."""
        return self._log.worker

    async def hold(self) -> None:
        """Make sure that its lease holds."""
        await self._log.hold()

    async def append(
        self, *events: Event, sync: bool = False, expects: Sequence[Expectation] = ()
    ) -> list[int]:
        """Compare the recorded events and commit the others."""
        return await self._log.append(*self._new(events), sync=sync, expects=expects)

    def post(self, *events: Event, expects: Sequence[RunOwnedBy] = ()) -> None:
        """Compare the recorded events and queue the others."""
        new = self._new(events)
        if new:
            self._log.post(*new, expects=expects)

    def _new(self, events: tuple[Event, ...]) -> list[Event]:
        return [event for event in events if not self._is_recorded(event)]

    def _is_recorded(self, event: Event) -> bool:
        if event.kind not in COMPARED or not self._record.pending.get((event.step_id, event.kind)):
            return False
        self._compare(event)
        return True


class ResumingModels(Models):
    """Answers a resumed run's requests from the record as long as it has answers.

    One that repeats the turns of another run goes on with them.
    """

    def __init__(
        self,
        record: RecordedRun,
        live: Models,
        journal: ResumingJournal,
        turns: RecordedRun | None = None,
    ) -> None:
        super().__init__(
            live.adapters, journal, live.request_limits, live.answers_before, live.embedders
        )
        self._record = record
        self._live = live
        self._turns = turns

    def open_account(
        self, run_id: str, limits: BudgetLimits, parent_run_id: str | None = None
    ) -> Budget:
        """Open the run's account where its tools draw on it, with what they had used."""
        budget = self._budgets[run_id] = self._live.open_account(run_id, limits, parent_run_id)
        budget.charge(self._record.used_by_tools())
        return budget

    def close_account(self, run_id: str) -> Usage:
        """Return what was used, before the stop and after it, by tools too."""
        self._live.close_account(run_id)
        return super().close_account(run_id)

    def _authorize(self, adapter: Provider, scope: CallScope) -> str:
        """Decide the requests that are sent now; those of the record were decided."""
        unsent = self._turns is not None or self._is_recorded(scope)
        return "" if unsent else super()._authorize(adapter, scope)

    async def _answer(
        self, adapter: LlmAdapter, request: LlmRequest, scope: CallScope, right: str
    ) -> LlmResponse:
        is_recorded = self._is_recorded(scope)
        if self._turns is not None:
            turn = repeated_turn(self._turns, scope)
            return recorded_answer(self._record, scope) if is_recorded else turn
        if is_recorded:
            return recorded_answer(self._record, scope)
        return await super()._answer(adapter, request, scope, right)

    def embedder(self, model: str | None, scope: CallScope) -> tuple[Embedder, str]:
        """Return the embedder that is asked now; of the record's requests only the name."""
        recorded = recorded_embedder(self._record, scope)
        if recorded is None or not self._is_recorded(scope):
            return super().embedder(recorded or model, scope)
        return cast("Embedder", None), recorded

    def _is_remote(self, adapter: Provider | None) -> bool:
        return adapter is not None and super()._is_remote(adapter)

    async def _embedded(
        self, embedder: Embedder, texts: Sequence[str], called: str, scope: CallScope, right: str
    ) -> Embeddings:
        if self._is_recorded(scope):
            return recorded_embeddings(self._record, scope)
        if self._turns is not None:
            return repeated_embeddings(self._turns, scope)
        return await super()._embedded(embedder, texts, called, scope, right)

    def _is_recorded(self, scope: CallScope) -> bool:
        return any(self._record.pending.get((scope.step_id, kind)) for kind in ANSWERS)


@dataclass(frozen=True, slots=True)
class ResumingToolSource:
    """Offers what the record says up to its last turn, and what there is today after it."""

    record: RecordedRun
    live: ToolSource

    def updated_offer(self, request: RunRequest, revision: str, step_id: str) -> Offer | None:
        """Return what is offered from a turn on."""
        if self.record.pending.get((step_id, "model.start")):
            return RecordedToolSource(self.record).updated_offer(request, revision, step_id)
        return self.live.updated_offer(request, revision, step_id)

    def tools_named(self, request: RunRequest, names: Sequence[str], step_id: str) -> Toolset:
        """Return the tools that a result enables."""
        if self.record.pending.get((step_id, "tools.enabled")):
            return RecordedToolSource(self.record).tools_named(request, names, step_id)
        return self.live.tools_named(request, names, step_id)


class ResumingInvoker:
    """Answers a resumed run's finished calls from the record, and makes the others."""

    def __init__(self, record: RecordedRun, live: LiveServices) -> None:
        self._record = record
        self._invoker = live.invoker
        self._repeater = Repeater(live.log, live.catalog, Approvals(live.book), live.invoker)

    async def invoke(self, call: ToolCall, scope: CallScope) -> Outcome:
        """Return what the call came to, or comes to now.

        Raises:
            Diverged: The record has another call here.
            NeedHumanApproval: A person must answer it, or a call of its tool.
        """
        recorded = self._record.take_call(call, scope)
        if recorded is None:
            return await self._invoker.invoke(call, scope)
        return await self._repeater.repeat(recorded, call, scope)


async def resume(live: LiveServices, orchestrator: Orchestrator, request: RunRequest) -> None:
    """Go on with a run over what its log says, to its end or its next stop.

    Args:
        live: What does the missing parts.
        orchestrator: Whose planners are used.
        request: The recorded run with today's rights.

    Raises:
        RunBusy: Another living process owns the run.
        RunError: `not_resumable`: it has ended, its project moved, or it does not go the way that
            its log says; then it is left as it was.
    """
    run_id = request.scope.run_id
    await live.log.flush()
    record = RecordedRun.load(live.log, run_id)
    _require_place(record, request)
    journal = ResumingJournal(record, live.log)
    turns, tools = _turns_of(record), tools_of(record)
    if tools is not record:
        live = replace(live, invoker=RecordedTools(tools))
    again = Orchestrator(
        ResumingInvoker(record, live),
        ResumingModels(record, live.models, journal, turns),
        journal,
        orchestrator.planners,
        orchestrator.compaction,
        orchestrator.children_usage,
        ResumingToolSource(record, orchestrator.source),
        orchestrator.ended,
    )
    try:
        await again.resume(request)
    except Diverged as diverged:
        reason = "it does not go the way that its log says"
        body = {"reason": reason, "fence": request.scope.fence + 1}
        event = run_event(
            request.scope, request.principal, "run.status", body, status="interrupted"
        )
        await live.log.append(event, expects=request.scope.owned)
        difference = diverged.difference
        raise RunError(
            f"run {run_id} cannot go on: {'' if difference is None else difference.message}",
            code="not_resumable",
            place=run_id,
            fix="its skill, planner or tools changed: start it again, or put them back",
        ) from None


def _require_place(record: RecordedRun, request: RunRequest) -> None:
    """Refuse to go on in another folder: rights, files and arguments name the one it began in."""
    began, now = record.start.event.body.get("root"), request.scope.root
    if began is None or began == now:
        return
    try:
        if Path(began).samefile(now):
            return
    except OSError:
        pass  # it is not there any more
    raise RunError(
        f"run {record.run_id} began in {began}, and its rights and files are bound to that folder",
        code="not_resumable",
        place=record.run_id,
        fix=f"move the project back to {began}, or start the run again",
    )


def _turns_of(record: RecordedRun) -> RecordedRun | None:
    """Return the record whose turns a run repeats while its tools are live; None for most runs."""
    above = record.start.event.body.get("replays")
    if above is None or above["mode"] != "tools":
        return None
    return RecordedRun.load(record.log, above["run_id"])


def require_task(request: RunRequest) -> None:
    """Refuse to go on with what nothing planned.

    Raises:
        RunError: `not_resumable`: the run was a session's calls.
    """
    if request.is_session:
        run_id = request.scope.run_id
        raise RunError(
            f"run {run_id} is a session's calls: nothing planned them, so nothing goes on",
            code="not_resumable",
            place=run_id,
            fix="make the call again with `clawhive tools call`",
        )


@contextmanager
def ancestor_budgets(
    log: Ledger, models: Models, run_id: str, here: Container[str]
) -> Generator[None]:
    """Hold the accounts of the runs above a run open, each with what was used of it by now.

    Args:
        log: The log that says so.
        models: Where the accounts are.
        run_id: A run that is resumed by itself; what it used it charges itself.
        here: The runs that are at work in this process: their accounts are open.
    """
    line = [each for each, _ in ancestry(log, run_id)]
    opened: list[str] = []
    try:
        for above, below in pairwise(line):
            if above not in here:
                start = start_of(log, above)
                limits = BudgetLimits.from_dict(start.get("budget", {}))
                account = models.open_account(above, limits, start["parent_run_id"])
                account.charge(total_usage(log, above, but=below))
                opened.append(above)
        yield
    finally:
        for above in opened:
            if above not in here:  # else it was taken up meanwhile, with an account of its own
                models.close_account(above)
