"""The orchestrator: a run's state, its plan or loop, and its end, whatever happens."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import anyio

from clawhive_core.catalog.store import CatalogStore
from clawhive_core.errors import ClawHiveError, NeedHumanApproval, UsageError
from clawhive_core.events.grants import issued
from clawhive_core.execution.outcomes import Invoker
from clawhive_core.execution.scope import CallScope
from clawhive_core.model.canonical import canonical_text, preview
from clawhive_core.model.events import Blob, Event
from clawhive_core.model.late import dataclass
from clawhive_core.model.messages import LlmRequest, LlmResponse, Usage
from clawhive_core.policy.approvals import ApprovalBook
from clawhive_core.protocols.ledger import Expectation, Ledger, RunIs, Unmet
from clawhive_core.protocols.planner import Planner
from clawhive_core.runs.models import Models
from clawhive_core.runs.options import callback_warnings
from clawhive_core.runs.record.journal import RunJournal, run_event
from clawhive_core.runs.record.ownership import STOPPED, start_refused
from clawhive_core.runs.run import CODE, REACT, RunRequest, RunResult
from clawhive_core.runs.toolsets import NO_TOOLS, Offer, RunToolSource, SkillTools, Toolset

if TYPE_CHECKING:
    from clawhive_core.runs.loop import Compaction


_RUNNING = frozenset({"running"})


async def _nothing_to_end(run_id: str) -> None:
    del run_id


class ToolSource(Protocol):
    """The source of a running model's tools: the catalog of today, or the record."""

    def updated_offer(self, request: RunRequest, revision: str, step_id: str) -> Offer | None:
        """Return what is offered from a turn on, None where the revision is still the current."""
        ...

    def tools_named(self, request: RunRequest, names: Sequence[str], step_id: str) -> Toolset:
        """Return the tools of these names, as far as the agent may have them."""
        ...


class NoToolSource:
    """A source without tools: a replay with one side live, a loop that is given its tools."""

    def updated_offer(self, request: RunRequest, revision: str, step_id: str) -> Offer | None:
        """Return nothing."""
        del request, revision, step_id

    def tools_named(self, request: RunRequest, names: Sequence[str], step_id: str) -> Toolset:
        """Return nothing."""
        del request, names, step_id
        return Toolset()


@dataclass(slots=True)
class Orchestrator:
    """Runs tasks: today's planner and loop, whatever invoker, models and journal they stand on."""

    invoker: Invoker
    models: Models
    journal: RunJournal
    planners: Mapping[str, Planner]
    compaction: Compaction | None = None
    """The strategy to shorten long conversations; clearing old results where it is not set."""
    children_usage: Callable[[str], Usage] = lambda _: Usage()
    """The use of the runs that a run started."""
    source: ToolSource = field(default_factory=NoToolSource)
    """The source of tools that a running model is offered later."""
    ended: Callable[[str], Awaitable[object]] = _nothing_to_end
    """Told the id of each run that ends or parks, to end what lives no longer than it."""

    async def run(self, request: RunRequest) -> RunResult:
        """Run a task to its end, or until it must wait for a person, and record it.

        Raises:
            RunBusy: Another living process owns the run.
            LogWriteFailed: The log cannot be written.
        """
        await self.start(request)
        return await self.execute(request)

    async def resume(self, request: RunRequest) -> RunResult:
        """Take up a run that waits or was interrupted, and run it to its end or next stop.

        Raises:
            RunBusy: Another living process owns the run.
            RunError: `not_resumable`: it has ended.
        """
        run_id, fence = request.scope.run_id, request.scope.fence
        body = {"reason": "it was resumed", "fence": fence, "worker": self.journal.worker}
        event = self._event(request, "run.status", body, "running")
        await self._taken(request, event, expects=(RunIs(run_id, STOPPED, fence - 1),))
        return await self.execute(request, self.children_usage(run_id))

    async def execute(self, request: RunRequest, used: Usage | None = None) -> RunResult:
        """Execute a run that was started or taken up, and record how it ended or why it stops.

        Args:
            request: The run.
            used: What the runs that it started used before.
        """
        run_id = request.scope.run_id
        account = self.models.open_account(
            run_id, request.limits.budget, request.scope.parent_run_id
        )
        if used is not None:
            account.draw(used)
        try:
            result = await self._execute(request)
        except NeedHumanApproval:
            result = RunResult("waiting_approval")
        except ClawHiveError as error:
            result = RunResult("failed", error=_error(error))
        except Exception as error:  # noqa: BLE001 - planners are plugins, and a run always gets its end
            message = f"{type(error).__name__}: {error}"
            result = RunResult("failed", error={"code": "internal_error", "message": message})
        except anyio.get_cancelled_exc_class():
            with anyio.CancelScope(shield=True):
                await self.end(request, _cancelled())
            raise
        await self.end(request, result)
        return result

    async def start(self, request: RunRequest) -> None:
        """Record that a run starts, with its grants, and take it."""
        run, setup, limits, offer = request.scope, request.setup, request.limits, request.offer
        body = {
            "task": request.task.to_dict(),
            "title": request.title,
            "parent_run_id": run.parent_run_id,
            "artifacts": run.artifacts,
            "root": run.root,
            "model": setup.model,
            "max_tool_rounds": limits.max_tool_rounds,
            "budget": limits.budget.to_dict(),
            "polling": sorted(offer.polling),
            "max_tokens": limits.max_tokens,
            "compact_at_tokens": limits.compact_at_tokens,
            "continues": request.continuation.run_id,
            "planner": setup.planner,
            "catalog_revision": offer.revision,
            "tools": self.models.encoded(offer.tools).blob,
            "instructions": Blob(offer.instructions),
            **_optional_facts(request),
            "policy": dict(zip(("allow", "ask", "deny"), run.rules.counts(), strict=True)),
            "fence": run.fence,
            "worker": self.journal.worker,
        }
        events = [self._event(request, "run.start", body, "running")]
        if request.grants:
            events.append(
                issued(
                    request.grants,
                    run.artifacts,
                    trace_id=run.trace_id,
                    run_id=run.run_id,
                    task_id=run.task_id,
                    conversation_id=run.conversation_id,
                    principal=str(request.principal),
                )
            )
        await self._taken(request, *events, expects=request.start_expects)

    async def _taken(
        self, request: RunRequest, *events: Event, expects: Sequence[Expectation]
    ) -> None:
        """Commit what takes a run; where the caller is cancelled meanwhile, its end too."""
        run = request.scope
        try:
            await self.journal.hold()
            await self.journal.append(*events, expects=expects)
        except Unmet as error:
            raise start_refused(run.run_id, error) from None
        except anyio.get_cancelled_exc_class():
            # Another process may have taken it under the same number.
            mine = RunIs(run.run_id, _RUNNING, run.fence, self.journal.worker)
            with anyio.CancelScope(shield=True), suppress(ClawHiveError):
                await self._end(request, _cancelled(), (mine,))
            raise

    def planner(self, request: RunRequest) -> Planner | None:
        """Return what plans a run, None where its loop goes from turn to turn.

        Raises:
            UsageError: `cannot_plan`: no planner has that name.
        """
        from clawhive_core.runs.delegation import DelegatePlanner
        from clawhive_core.runs.plans.planners import ProcedurePlanner

        if request.delegates and request.task.prompt is None:
            return DelegatePlanner(request.delegates)
        # Runs of before there were others say `procedure` where they mean the loop.
        if request.task.prompt is not None and request.setup.planner in {
            REACT,
            CODE,
            ProcedurePlanner.name,
        }:
            return None
        found = self.planners.get(request.setup.planner)
        if found is None:
            known = ", ".join(sorted({*self.planners, REACT, CODE}))
            raise UsageError(
                f"no planner is called `{request.setup.planner}`",
                code="cannot_plan",
                place="--planner",
                fix=f"there are: {known}",
            )
        return found

    async def _execute(self, request: RunRequest) -> RunResult:
        from clawhive_core.runs.delegation import Delegation

        planner, prompt = self.planner(request), request.task.prompt
        if prompt is not None and request.delegates:
            prompt = await Delegation(self.invoker, self.journal, request).merged_into(prompt)
        if planner is not None:
            return await self._planned(request, planner, prompt)
        return await self._answer(request, prompt or "")

    async def _planned(
        self, request: RunRequest, planner: Planner, prompt: str | None
    ) -> RunResult:
        """Run a planner's plans; the answer to a prompt is what the last one says, or a model."""
        from clawhive_core.runs.plans.planning import Planning, steps_report

        task = request.task if prompt is None else replace(request.task, prompt=prompt)
        planning = Planning(self.invoker, self.journal, request, task, self._completing(request))
        runner = await planning.execute(planner)
        if runner.waits:
            return RunResult("waiting_approval")
        error, output = runner.first_error(), runner.output()
        artifacts, warnings = runner.artifacts(), ()
        if prompt is not None and runner.plan.output is None and request.setup.model is not None:
            asking = replace(
                request,
                offer=replace(request.offer, tools=()),
                limits=replace(request.limits, max_tool_rounds=0),
                continuation=replace(request.continuation, messages=planning.before()),
            )
            answered = await self._answer(asking, steps_report(runner))
            output, error = answered.output, error or answered.error
            warnings = answered.warnings
        status = "succeeded" if error is None else "failed"
        return RunResult(status, output, error, artifacts, warnings)

    async def _answer(self, request: RunRequest, prompt: str) -> RunResult:
        from clawhive_core.runs.loop import ClearOldResults, Loop, LoopSettings

        settings = LoopSettings(
            request.setup.model or "",
            request.offer,
            request.limits,
            request.continuation.messages,
            request.setup.persona,
            in_code=request.setup.planner == CODE,
        )
        if (history := request.continuation.history) is not None:
            self.models.continue_from(request.scope.run_id, history)
        loop = Loop(
            self.invoker,
            self.models,
            self.journal,
            request.scope,
            request.principal,
            settings,
            self.compaction or ClearOldResults(request.limits.compact_at_tokens),
            self._tools_of(request),
        )
        try:
            text = await loop.answer(prompt)
        except NeedHumanApproval:
            raise
        except ClawHiveError as error:
            return RunResult("failed", error=_error(error), artifacts=loop.artifacts)
        return RunResult("succeeded", text, None, loop.artifacts, loop.warnings)

    def _tools_of(self, request: RunRequest) -> RunToolSource:
        """Return where a run's later tools come from; one that is to make no call gets none."""
        if not request.limits.max_tool_rounds:
            return NO_TOOLS
        source = self.source
        return RunToolSource(
            partial(source.updated_offer, request), partial(source.tools_named, request)
        )

    def _completing(self, request: RunRequest) -> Callable[[LlmRequest], Awaitable[LlmResponse]]:
        run = request.scope
        scope = CallScope(run, request.principal, f"{run.run_id}/.plan")
        return partial(self.models.complete, scope=scope)

    async def end(self, request: RunRequest, result: RunResult) -> None:
        """Record how a run ended, or that it waits for a person, and give it up."""
        await self.ended(request.scope.run_id)
        if result.status == "waiting_approval":
            await self._park(request)
            return
        await self._end(request, result, request.scope.owned)

    async def _end(
        self, request: RunRequest, result: RunResult, expects: Sequence[Expectation]
    ) -> None:
        output = result.output
        text = output if isinstance(output, str) else canonical_text(output)
        body: dict[str, Any] = {
            "output": Blob(output),
            "output_preview": "" if output is None else preview(text),
            "error": result.error,
            "usage": self._used(request.scope.run_id).to_dict(),
            "artifacts": [artifact.to_dict() for artifact in result.artifacts],
        }
        if warnings := [*result.warnings, *_unheard(request)]:
            body["warnings"] = warnings
        event = self._event(request, "run.end", body, result.status)
        await self.journal.append(event, expects=expects)

    def _used(self, run_id: str) -> Usage:
        return self.models.close_account(run_id) + self.children_usage(run_id)

    async def _park(self, request: RunRequest) -> None:
        run_id = request.scope.run_id
        self.models.close_account(run_id)
        body: dict[str, Any] = {"reason": "a person must answer"}
        if warnings := [*callback_warnings(request.scope.ask), *_unheard(request)]:
            body["warnings"] = warnings
        event = self._event(request, "run.status", body, "waiting_approval")
        await self.journal.append(event, expects=request.scope.owned)

    def _event(self, request: RunRequest, kind: str, body: Mapping[str, Any], status: str) -> Event:
        return run_event(request.scope, request.principal, kind, body, status=status)


def _cancelled() -> RunResult:
    error = {"code": "cancelled", "message": "the run was cancelled"}
    return RunResult("cancelled", error=error)


def _optional_facts(request: RunRequest) -> dict[str, Any]:
    """Return the facts that a run's start records only where there are any."""
    facts: dict[str, Any] = {}
    if request.replays is not None:
        facts["replays"] = request.replays
    if request.words is not None:
        facts["words"] = Blob(list(request.words))
    if request.setup.persona:
        facts["persona"] = Blob(request.setup.persona)
    if request.spawned_by.step_id is not None:
        facts["parent_step_id"] = request.spawned_by.step_id
    if request.delegates:
        facts["delegates"] = list(request.delegates)
    if request.continuation.history is not None:
        facts["answers"] = request.continuation.history.answers
    if request.offer.skills != SkillTools():
        facts["skills"] = Blob(request.offer.skills.to_dict())
    return facts


def _unheard(request: RunRequest) -> Sequence[Mapping[str, Any]]:
    """Return what is said of a listener that failed: once, in the run that it was given to."""
    return (
        () if request.scope.parent_run_id is not None else callback_warnings(request.scope.signal)
    )


def _error(error: ClawHiveError) -> dict[str, Any]:
    facts: dict[str, Any] = {"code": error.code, "message": error.message}
    if error.fix is not None:
        facts["fix"] = error.fix
    return facts


@dataclass(frozen=True, slots=True)
class LiveServices:
    """The means by which a resumed run does its missing parts."""

    log: Ledger
    invoker: Invoker
    models: Models
    catalog: CatalogStore
    book: ApprovalBook
