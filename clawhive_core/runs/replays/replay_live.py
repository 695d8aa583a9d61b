"""Repeating a run with one side live: its tools on the recorded model, or a model on its tools."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import Any

from clawhive_core.errors import ModelError
from clawhive_core.execution.outcomes import Invoker, Outcome
from clawhive_core.execution.pending import as_recorded
from clawhive_core.execution.recorded import (
    RecordedCall,
    asked_call,
    embeddings_of,
    response_of,
)
from clawhive_core.execution.scope import CallScope
from clawhive_core.model.embeddings import Embeddings
from clawhive_core.model.late import dataclass
from clawhive_core.model.messages import LlmRequest, LlmResponse
from clawhive_core.model.refusal import Refusal
from clawhive_core.model.tools import ToolCall
from clawhive_core.protocols.adapter import LlmAdapter
from clawhive_core.protocols.embedder import Embedder
from clawhive_core.protocols.ledger import Ledger
from clawhive_core.runs.budget import Budget, BudgetLimits
from clawhive_core.runs.models import Models
from clawhive_core.runs.record.journal import Journal
from clawhive_core.runs.replays.recorded_run import Difference, RecordedRun, short_text
from clawhive_core.runs.replays.replay import NOT_RECORDED, OfflineModels, call_key


@dataclass(slots=True)
class ObservedCalls:
    """The acts of a repeated run, in order, to be compared with the record."""

    calls: list[tuple[ToolCall, CallScope, Outcome | None]] = field(
        default_factory=list["tuple[ToolCall, CallScope, Outcome | None]"]
    )

    def differences(self, record: RecordedRun, output: Any, status: str) -> list[Difference]:
        """Return where it differs from the record: the calls of each step, the end."""
        found: list[Difference] = []
        recorded = {_of(step or ""): call for step, call in record.calls.items()}
        made = {_of(scope.step_id): (call, scope, out) for call, scope, out in self.calls}
        further = sorted(made.keys() - recorded.keys(), key=_order)
        for step in (*sorted(recorded, key=lambda each: recorded[each].first.seq), *further):
            found += _call_differences(record, recorded.get(step), made.get(step))
        found += _end_difference(record, output, status)
        return found


class RecordedModelTurns(OfflineModels):
    """Answers a new run's requests with what the model answered in the recorded one."""

    def __init__(self, record: RecordedRun, live: Models, journal: Journal) -> None:
        super().__init__(live.adapters, journal, live.request_limits)
        self._record = record
        self._live = live

    def open_account(
        self, run_id: str, limits: BudgetLimits, parent_run_id: str | None = None
    ) -> Budget:
        """Open the account where the tools' own requests draw on it."""
        budget = self._budgets[run_id] = self._live.open_account(run_id, limits, parent_run_id)
        return budget

    async def _answer(
        self, adapter: LlmAdapter, request: LlmRequest, scope: CallScope, right: str
    ) -> LlmResponse:
        del adapter, request, right
        return repeated_turn(self._record, scope)

    def _recorded_embedder(self, scope: CallScope) -> str | None:
        stored = self._record.take(_recorded_step(self._record, scope), "embedding.start")
        return None if stored is None else stored.event.body["model"]

    async def _embedded(
        self, embedder: Embedder, texts: Sequence[str], called: str, scope: CallScope, right: str
    ) -> Embeddings:
        del embedder, texts, called, right
        return repeated_embeddings(self._record, scope)


def repeated_embeddings(record: RecordedRun, scope: CallScope) -> Embeddings:
    """Return what an embedder answered in a record at a step of the run that repeats it.

    Raises:
        ModelError: `not_recorded`: the record has no such answer, or none more.
    """
    stored = record.take(_recorded_step(record, scope), "embedding.end")
    if stored is None:
        raise ModelError("the record has no vectors for this step", code=NOT_RECORDED)
    return embeddings_of(record.log, stored)


def _recorded_step(record: RecordedRun, scope: CallScope) -> str:
    """Return the step of a record that a step of the run which repeats it stands for."""
    return f"{record.run_id}{scope.step_id[len(scope.run.run_id) :]}"


def repeated_turn(record: RecordedRun, scope: CallScope) -> LlmResponse:
    """Return what the model answered in a record at a step of the run that repeats it.

    Raises:
        ModelError: `not_recorded`: the record has no such answer, or none more.
    """
    stored = record.take(_recorded_step(record, scope), "model.end")
    if stored is None:
        raise ModelError(
            "the record has no answer for this turn: the run goes another way now",
            code=NOT_RECORDED,
        )
    return response_of(record.log, stored)


@dataclass(slots=True)
class ObservedInvoker:
    """Makes calls through another invoker and keeps what they came to."""

    invoker: Invoker
    seen: ObservedCalls

    async def invoke(self, call: ToolCall, scope: CallScope) -> Outcome:
        """Make the call; one that waits for a person is kept without an outcome."""
        index = len(self.seen.calls)
        self.seen.calls.append((call, scope, None))
        outcome = await self.invoker.invoke(call, scope)
        self.seen.calls[index] = (call, scope, outcome)
        return outcome


def _of(step_id: str) -> str:
    """Return a step without its run: `RUN/r10.2` and `OTHER/r10.2` are the same step."""
    return step_id.partition("/")[2]


def _order(step: str) -> list[Any]:
    """Return a key that sorts the steps of a loop by turn and call: `r10.2`."""
    import re

    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", step)]


def _call_differences(
    record: RecordedRun,
    before: RecordedCall | None,
    now: tuple[ToolCall, CallScope, Outcome | None] | None,
) -> list[Difference]:
    if before is None and now is not None:
        call, scope, _ = now
        return [Difference(None, "invocation", scope.step_id, "no call", _told(record.log, call))]
    assert before is not None  # noqa: S101 - a step is one of either side
    stored = before.first
    asked = asked_call(record.log, stored)
    place = (stored.seq, "invocation", stored.event.step_id)
    if now is None:
        return [Difference(*place, _told(record.log, asked), "no call")]
    call, _, outcome = now
    if call_key(record.log, call) != call_key(record.log, asked):
        return [Difference(*place, _told(record.log, asked), _told(record.log, call))]
    recorded = _facts(record.log, before.outcome(record.log, call.id))
    repeated = _facts(record.log, outcome)
    if recorded == repeated:
        return []
    return [Difference(*place, f"{asked.name} -> {recorded}", repeated)]


def _told(log: Ledger, call: ToolCall) -> str:
    return f"{call.name} {short_text(log.redactor.value(as_recorded(call)))}"


def _facts(log: Ledger, outcome: Outcome | None) -> str:
    if outcome is None:
        return "waits for a person"
    if isinstance(outcome, Refusal):
        return f"refused: {outcome.error}"
    mark = "error " if outcome.is_error else ""
    return f"{mark}{short_text(log.redactor.text(outcome.output))}"


def _end_difference(record: RecordedRun, output: Any, status: str) -> list[Difference]:
    queue = record.pending.get((None, "run.end"))
    if not queue:
        return []
    stored = queue[0]
    before = (
        f"{stored.event.status} {short_text(record.resolve_blobs(stored.event.body['output']))}"
    )
    now = f"{status} {short_text(record.log.redactor.value(output))}"
    return [] if before == now else [Difference(stored.seq, "run.end", None, before, now)]
