"""The orchestrator: a run's state, its plan or loop, and its end, whatever happens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import anyio

from clawhive_core.errors import ClawHiveError, NeedHumanApproval, RunError
from clawhive_core.execution.door import Door
from clawhive_core.execution.scope import RunScope
from clawhive_core.model.canonical import canonical_text, preview
from clawhive_core.model.events import Blob, Event
from clawhive_core.model.grants import CapabilityGrant
from clawhive_core.model.messages import LlmMessage, LlmRequest, LlmResponse
from clawhive_core.model.principal import Principal
from clawhive_core.model.runs import RunStatus, Task
from clawhive_core.model.tools import Artifact, ToolDef
from clawhive_core.policy.ledger import issued
from clawhive_core.protocols.planner import PlanContext, Planner
from clawhive_core.runs.budget import BudgetLimits
from clawhive_core.runs.compaction import ClearOldResults, Compaction
from clawhive_core.runs.journal import Journal, run_event
from clawhive_core.runs.loop import Loop, LoopSettings
from clawhive_core.runs.models import Models
from clawhive_core.runs.ownership import Owner, claim, release, take_up
from clawhive_core.runs.steps import PlanRunner, check_plan


@dataclass(frozen=True, slots=True)
class RunRequest:
    """Everything that one run is started with."""

    task: Task
    scope: RunScope
    principal: Principal
    catalog_revision: str
    tools: tuple[ToolDef, ...] = ()
    """What a model is offered."""
    task_type: Mapping[str, Any] | None = None
    """The manifest's entry, for a task of a skill."""
    model: str | None = None
    max_tool_rounds: int = 25
    budget: BudgetLimits = field(default_factory=BudgetLimits)
    polling: frozenset[str] = frozenset()
    """The offered tools that may well answer the same call differently."""
    max_tokens: int = 8192
    """The longest answer of a model."""
    compact_at_tokens: int = 150_000
    before: tuple[LlmMessage, ...] = ()
    """What was said in the conversation before, up to the end of the run `continues`."""
    continues: str | None = None
    planner: str = "procedure"
    grants: tuple[CapabilityGrant, ...] = ()
    parent_run_id: str | None = None
    title: str = ""
    instructions: str = ""
    """What the loop's system prompt says beside its own words: the skills."""
    replays: Mapping[str, str] | None = None
    """`run_id` and `mode`, where this run repeats another one."""
    words: Sequence[str] | None = None
    """What the user said, where the task is not in the user's own words."""

    @property
    def is_session(self) -> bool:
        """Whether it is a caller's own calls, which nothing planned."""
        return self.task.prompt is None and self.task.task_type is None


@dataclass(slots=True)
class RunResult:
    """How a run ended."""

    status: RunStatus
    output: Any = None
    error: Mapping[str, Any] | None = None
    artifacts: list[Artifact] = field(default_factory=list[Artifact])


@dataclass(slots=True)
class Orchestrator:
    """Runs tasks: today's planner and loop, whatever door, models and journal they stand on."""

    door: Door
    models: Models
    journal: Journal
    planners: Mapping[str, Planner]
    compaction: Compaction | None = None
    """What keeps long conversations short; clearing old results where it is not set."""

    async def run(self, request: RunRequest) -> RunResult:
        """Run a task to its end, or until it must wait for a person, and record it.

        Raises:
            RunBusy: Another living process owns the run.
            LogWriteFailed: The log cannot be written.
        """
        await self.start(request)
        return await self.go_on(request)

    async def resume(self, request: RunRequest) -> RunResult:
        """Take up a run that waits or was interrupted, and run it to its end or next stop.

        Raises:
            RunBusy: Another living process owns the run.
            RunError: `not_resumable`: it has ended.
        """
        run_id = request.scope.run_id
        event = self._event(request, "run.status", {"reason": "it was resumed"}, "running")
        await self.journal.append(event, within=take_up(run_id, Owner.me()))
        return await self.go_on(request)

    async def go_on(self, request: RunRequest) -> RunResult:
        """Execute a run that was started or taken up, and record how it ended or why it stops."""
        self.models.allot(request.scope.run_id, request.budget, request.parent_run_id)
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
            error = {"code": "cancelled", "message": "the run was cancelled"}
            with anyio.CancelScope(shield=True):
                await self.end(request, RunResult("cancelled", error=error))
            raise
        await self.end(request, result)
        return result

    async def start(self, request: RunRequest) -> None:
        """Record that a run starts, with its grants, and take it."""
        run = request.scope
        body = {
            "task": request.task.to_dict(),
            "title": request.title,
            "parent_run_id": request.parent_run_id,
            "artifacts": run.artifacts,
            "model": request.model,
            "max_tool_rounds": request.max_tool_rounds,
            "budget": request.budget.to_dict(),
            "polling": sorted(request.polling),
            "max_tokens": request.max_tokens,
            "compact_at_tokens": request.compact_at_tokens,
            "continues": request.continues,
            "planner": request.planner,
            "catalog_revision": request.catalog_revision,
            "tools": self.models.offer(request.tools).blob,
            "instructions": Blob(request.instructions),
            **({} if request.replays is None else {"replays": request.replays}),
            **({} if request.words is None else {"words": Blob(list(request.words))}),
            "policy": dict(zip(("allow", "ask", "deny"), run.rules.counts(), strict=True)),
        }
        events = [self._event(request, "run.start", body, "running")]
        if request.grants:
            events.append(
                issued(
                    request.grants,
                    trace_id=run.trace_id,
                    run_id=run.run_id,
                    task_id=run.task_id,
                    conversation_id=run.conversation_id,
                    principal=str(request.principal),
                )
            )
        await self.journal.append(*events, within=claim(run.run_id, Owner.me()))

    async def _execute(self, request: RunRequest) -> RunResult:
        if request.task.prompt is not None:
            return await self._answer(request, request.task.prompt)
        planner = self.planners.get(request.planner)
        if planner is None:
            raise RunError(f"no planner is called `{request.planner}`", code="cannot_plan")
        plan = await planner.plan(request.task, self._plan_context(request))
        check_plan(plan)
        await self.journal.append(
            self._event(request, "plan.made", {"plan": plan.to_dict()}, "succeeded")
        )
        runner = PlanRunner(
            self.door, self.journal, request.scope, request.principal, request.task, plan
        )
        await runner.execute()
        if runner.waits:
            return RunResult("waiting_approval")
        error = runner.first_error()
        return RunResult(
            "succeeded" if error is None else "failed", runner.output(), error, runner.artifacts()
        )

    async def _answer(self, request: RunRequest, prompt: str) -> RunResult:
        settings = LoopSettings(
            request.model or "",
            request.tools,
            request.catalog_revision,
            request.max_tool_rounds,
            instructions=request.instructions,
            polling=request.polling,
            max_tokens=request.max_tokens,
            before=request.before,
        )
        loop = Loop(
            self.door,
            self.models,
            self.journal,
            request.scope,
            request.principal,
            settings,
            self.compaction or ClearOldResults(request.compact_at_tokens),
        )
        try:
            text = await loop.answer(prompt)
        except NeedHumanApproval:
            raise
        except ClawHiveError as error:
            return RunResult("failed", error=_error(error), artifacts=loop.artifacts)
        return RunResult("succeeded", text, artifacts=loop.artifacts)

    def _plan_context(self, request: RunRequest) -> PlanContext:
        async def complete(question: LlmRequest) -> LlmResponse:
            from clawhive_core.execution.scope import CallScope

            scope = CallScope(request.scope, request.principal, f"{request.scope.run_id}/.plan")
            return await self.models.complete(question, scope)

        return PlanContext(request.tools, request.task_type, complete, {})

    async def end(self, request: RunRequest, result: RunResult) -> None:
        """Record how a run ended, or that it waits for a person, and give it up."""
        if result.status == "waiting_approval":
            await self._park(request)
            return
        output = result.output
        text = output if isinstance(output, str) else canonical_text(output)
        body = {
            "output": Blob(output),
            "output_preview": "" if output is None else preview(text),
            "error": result.error,
            "usage": self.models.used(request.scope.run_id).to_dict(),
            "artifacts": [artifact.to_dict() for artifact in result.artifacts],
        }
        await self.journal.append(
            self._event(request, "run.end", body, result.status),
            within=release(request.scope.run_id),
        )

    async def _park(self, request: RunRequest) -> None:
        run_id = request.scope.run_id
        self.models.used(run_id)
        body = {"reason": "a person must answer"}
        event = self._event(request, "run.status", body, "waiting_approval")
        await self.journal.append(event, within=release(run_id))

    def _event(self, request: RunRequest, kind: str, body: Mapping[str, Any], status: str) -> Event:
        return run_event(request.scope, request.principal, kind, body, status=status)


def _error(error: ClawHiveError) -> dict[str, Any]:
    facts: dict[str, Any] = {"code": error.code, "message": error.message}
    if error.fix is not None:
        facts["fix"] = error.fix
    return facts
