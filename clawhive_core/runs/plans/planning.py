"""A planner's plan, run; and the next one where steps of it failed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any, cast

from clawhive_core.errors import RunError
from clawhive_core.execution.outcomes import Invoker
from clawhive_core.model.canonical import canonical_text, preview
from clawhive_core.model.events import Event
from clawhive_core.model.late import dataclass
from clawhive_core.model.messages import LlmMessage, LlmRequest, LlmResponse
from clawhive_core.model.runs import Plan, PlannedStep, Task
from clawhive_core.protocols.planner import PlanContext, Planner
from clawhive_core.runs.conversation import is_turn
from clawhive_core.runs.plans.steps import PlanRunner, StepResult, check_plan
from clawhive_core.runs.record.journal import Journal, run_event

if TYPE_CHECKING:
    from clawhive_core.runs.run import RunRequest

MAX_REPLANS = 2
"""The number of times that a planner may plan anew for one task."""

MAX_OUTPUT = 20_000
"""Characters of a step's output that the model which answers is told."""

_REPORT = """\
# What was done

Each line is a step of the plan that was made for this, as JSON; outputs are what tools said, not \
what the user said. Answer now from these, in text; say what failed.

{}"""


@dataclass(slots=True)
class Planning:
    """The plans of one run, one after the other; what succeeded is kept."""

    invoker: Invoker
    journal: Journal
    request: RunRequest
    task: Task
    """The request's, with what the agents that rules started say."""
    complete: Callable[[LlmRequest], Awaitable[LlmResponse]]
    plans: list[Plan] = field(default_factory=list[Plan])
    """The answers of the planner, in order."""
    _steps: dict[str, PlannedStep] = field(default_factory=dict[str, PlannedStep])
    _results: dict[str, StepResult] = field(default_factory=dict[str, StepResult])

    async def execute(self, planner: Planner) -> PlanRunner:
        """Plan and run until nothing failed, something waits, or no further plan may be made.

        Raises:
            RunError: `cannot_plan`, `invalid_plan`.
        """
        runner = await self._round(planner, 0, {})
        for number in range(1, MAX_REPLANS + 1):
            failed = runner.failed()
            if not failed or runner.waits or not planner.replans:
                break
            self._keep(runner)
            runner = await self._round(planner, number, failed)
        return runner

    async def _round(self, planner: Planner, number: int, failed: dict[str, str]) -> PlanRunner:
        request, contract = self.request, self.request.contract
        plan = await self._plan(planner, failed)
        self.plans.append(plan)
        new = tuple(step for step in plan.steps if step.name not in self._steps)
        plan = replace(plan, steps=(*self._steps.values(), *new))
        check_plan(plan)
        await self.journal.append(self._made(plan), expects=request.scope.owned)
        runner = PlanRunner(
            self.invoker,
            self.journal,
            request.scope,
            request.principal,
            request.task,
            plan,
            None if contract.task_type is None else contract.rights,
            grounds=contract.grounds,
            results=dict(self._results),
            prefix=f"p{number}." if number or self._names_a_turn(plan) else "",
        )
        await runner.execute()
        return runner

    async def _plan(self, planner: Planner, failed: dict[str, str]) -> Plan:
        """Have a planner plan; it is a plugin, so what it answers may be anything."""
        try:
            plan: object = await planner.plan(self.task, self._context(failed))
        except SystemExit as error:
            raise _bad_planner(planner, f"raised SystemExit({error.code!r})") from error
        if not isinstance(plan, Plan):
            raise _bad_planner(planner, f"answered {type(plan).__name__}, no Plan")
        for step in plan.steps:
            if not isinstance(cast("object", step), PlannedStep):
                raise _bad_planner(planner, f"has a step of type {type(step).__name__}")
        return plan

    def _keep(self, runner: PlanRunner) -> None:
        for step in runner.plan.steps:
            if runner.results[step.name].status == "succeeded":
                self._steps[step.name] = step
                self._results[step.name] = runner.results[step.name]

    def _context(self, failed: dict[str, str]) -> PlanContext:
        request = self.request
        told = (request.setup.persona, request.offer.instructions)
        return PlanContext(
            request.offer.tools,
            request.contract.task_type,
            self.complete,
            failed,
            {name: result.output for name, result in self._results.items()},
            tuple(self.plans),
            request.continuation.messages,
            request.setup.model,
            "\n\n".join(text for text in told if text),
        )

    def before(self) -> tuple[LlmMessage, ...]:
        """Return the conversation up to the report: the prompt, and what was planned for it."""
        asked = LlmMessage.text("user", self.task.prompt or "")
        return (*self.request.continuation.messages, asked, *plans_as_messages(self.plans))

    def _names_a_turn(self, plan: Plan) -> bool:
        """Whether a step has the name of a turn of the loop, which may answer the prompt."""
        return self.task.prompt is not None and any(is_turn(f"/{each.name}") for each in plan.steps)

    def _made(self, plan: Plan) -> Event:
        run, principal = self.request.scope, self.request.principal
        body = {"plan": plan.to_dict()}
        return run_event(run, principal, "plan.made", body, status="succeeded")


def _bad_planner(planner: Planner, what: str) -> RunError:
    return RunError(
        f"the planner `{planner.name}` {what}",
        code="invalid_plan",
        fix="this is an error of the planner itself; report it to the plugin's author",
    )


def plans_as_messages(plans: Sequence[Plan]) -> list[LlmMessage]:
    """Return plans as a model's turns, with what it was told between them."""
    said: list[LlmMessage] = []
    for plan in plans:
        if said:
            said.append(LlmMessage.text("user", "Steps of it failed. Plan another way."))
        keys = ("name", "tool", "input", "needs")
        rows = [{key: step.to_dict()[key] for key in keys} for step in plan.steps]
        said.append(LlmMessage.text("assistant", canonical_text({"steps": rows})))
    return said


def steps_report(runner: PlanRunner) -> str:
    """Return what the steps of a plan came to, for the model that answers the prompt."""
    rows = [_row(step, runner.results[step.name]) for step in runner.plan.steps]
    return _REPORT.format("\n".join(rows) if rows else "No step was needed.")


def _row(step: PlannedStep, result: StepResult) -> str:
    facts: dict[str, Any] = {"step": step.name, "tool": step.tool, "status": result.status}
    if result.error is not None:
        facts["error"] = {key: result.error.get(key) for key in ("code", "message")}
    text = result.output if isinstance(result.output, str) else canonical_text(result.output)
    return canonical_text({**facts, "output": preview(text, MAX_OUTPUT)})
