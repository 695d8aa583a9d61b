"""Running a plan: each step when what it needs has ended, side by side where it may."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from functools import partial
from typing import Any, cast

import anyio

from clawhive_core.errors import CapabilityError, InvalidInput, NeedHumanApproval, RunError
from clawhive_core.execution.outcomes import Invoker, error_of
from clawhive_core.execution.pending import MAX_INPUT
from clawhive_core.execution.scope import CallScope, RunScope, Signal
from clawhive_core.model.canonical import canonical_text
from clawhive_core.model.grants import CapabilityGrant
from clawhive_core.model.json_values import json_copy
from clawhive_core.model.late import dataclass
from clawhive_core.model.patterns import pattern
from clawhive_core.model.principal import Principal
from clawhive_core.model.refusal import Refusal
from clawhive_core.model.runs import Plan, PlannedStep, StepStatus, Task
from clawhive_core.model.tools import Artifact, ToolCall
from clawhive_core.policy.grounding import SkillGrounds
from clawhive_core.runs.concurrency import run_concurrently
from clawhive_core.runs.plans.elevation import DeclaredRights, elevated
from clawhive_core.runs.record.journal import Journal, end_step, run_event

PARALLEL_STEPS = 8
ALWAYS = "always"
WAITING: StepStatus = "waiting_approval"
_NAME = pattern(r"[A-Za-z0-9_-]{1,64}")


@dataclass(slots=True)
class StepResult:
    """The end of a planned step, as later steps refer to it."""

    status: StepStatus
    output: Any = None
    error: Mapping[str, Any] | None = None
    artifacts: tuple[Artifact, ...] = ()
    edited: bool = False
    """Whether a person changed the input of a call before approving it."""

    def to_value(self) -> dict[str, Any]:
        """Return what `${steps.NAME...}` sees."""
        return {
            "status": self.status,
            "output": self.output,
            "error": self.error,
            "edited": self.edited,
        }


@dataclass(slots=True)
class PlanRunner:
    """Runs one plan of one run."""

    invoker: Invoker
    journal: Journal
    run: RunScope
    principal: Principal
    task: Task
    plan: Plan
    declared: DeclaredRights | None = None
    """The rights that the steps may be given beside the run's; None for none."""
    parallel: int = PARALLEL_STEPS
    """The number of steps that run at the same time."""
    grounds: SkillGrounds | None = None
    """The grounds of the calls of the skill whose task the plan is for."""
    results: dict[str, StepResult] = field(default_factory=dict[str, StepResult])
    """The ends of steps; what stands here at the beginning is not run again."""
    prefix: str = ""
    """The prefix of its steps' ids, before their names: another plan of the run used the names."""
    _needs: dict[str, set[str]] = field(default_factory=dict[str, "set[str]"])
    _shown: dict[str, Any] = field(default_factory=dict[str, Any])
    """The values that references to steps see; it grows as steps end."""

    async def execute(self) -> None:
        """Run every step to its end; results and errors are in `results`."""
        self._needs = {step.name: needs_of(step) for step in self.plan.steps}
        ended = {step.name: anyio.Event() for step in self.plan.steps}
        limiter = anyio.Semaphore(self.parallel)
        for name, result in self.results.items():
            self._shown[name] = result.to_value()
            ended[name].set()
        await run_concurrently(
            [
                partial(self._when_ready, step, ordinal, ended, limiter)
                for ordinal, step in enumerate(self.plan.steps)
                if step.name not in self.results
            ]
        )

    def _id(self, step: PlannedStep) -> str:
        return f"{self.run.run_id}/{self.prefix}{step.name}"

    async def _when_ready(
        self,
        step: PlannedStep,
        ordinal: int,
        ended: Mapping[str, anyio.Event],
        limiter: anyio.Semaphore,
    ) -> None:
        for name in sorted(self._needs[step.name]):
            await ended[name].wait()
        async with limiter:
            self._tell(step, step.name)
            result = self.results[step.name] = await self._step(step, ordinal)
        if result.status != WAITING:
            end_step(self.journal, self.run, self.principal, self._id(step))
        self._shown[step.name] = result.to_value()
        self._tell(step, "")
        ended[step.name].set()

    def _tell(self, step: PlannedStep, text: str) -> None:
        """Let listeners know that a step begins, or by an empty text that one has ended."""
        done, total = len(self._shown), len(self.plan.steps)
        self.run.signal(
            Signal("step", self._id(step), step.tool, done=done, total=total, text=text)
        )

    async def _step(self, step: PlannedStep, ordinal: int) -> StepResult:
        needed = [self.results[name].status for name in self._needs[step.name]]
        if WAITING in needed:
            return StepResult(WAITING)  # not decided yet, so nothing to record
        failed = [status for status in needed if status != "succeeded"]
        if failed and step.when != ALWAYS:
            return self._without_call(step, ordinal, "skipped", None)
        try:
            if step.when not in {None, ALWAYS} and not resolve(step.when, self._values()):
                return self._without_call(step, ordinal, "skipped", None)
            return await self._elevated(step, ordinal)
        except (RunError, CapabilityError) as error:
            problem = {"code": error.code, "message": error.message}
            return self._without_call(step, ordinal, "failed", problem)

    async def _elevated(self, step: PlannedStep, ordinal: int) -> StepResult:
        """Make the calls of a step with the rights that it states for itself."""
        declared, run = self.declared, self.run
        grants: Sequence[CapabilityGrant] = ()
        if declared is not None and step.permissions:
            planner = self.plan.planner
            grants = declared.of_step(self._id(step), step.permissions, self.principal, planner)
        async with elevated(self.journal, run, self.principal, grants) as elevation:
            if step.for_each is None:
                result = await self._call(step, ordinal, self._values(), "")
            else:
                result = await self._for_each(step, ordinal)
            elevation.ended = result.status != WAITING
            return result

    async def _for_each(self, step: PlannedStep, ordinal: int) -> StepResult:
        items = resolve(step.for_each, self._values())
        if not isinstance(items, list):
            raise RunError(
                f"`for_each` of step `{step.name}` is no list",
                code="invalid_plan",
                place=f"steps.{step.name}.for_each",
            )
        results: list[StepResult] = []
        total = len(cast("list[Any]", items))
        for index, item in enumerate(cast("list[Any]", items)):
            self.run.signal(Signal("progress", self._id(step), step.tool, done=index, total=total))
            values = {**self._values(), "item": item}
            results.append(await self._call(step, ordinal, values, f".{index}"))
        return _joined(results)

    async def _call(
        self, step: PlannedStep, ordinal: int, values: Mapping[str, Any], suffix: str
    ) -> StepResult:
        scope = CallScope(
            self.run,
            self.principal,
            f"{self._id(step)}{suffix}",
            label=step.name,
            ordinal=ordinal,
            grounds=self.grounds,
            planned=self._id(step),
        )
        arguments = resolve(step.input, values)
        call = ToolCall(f"call_{step.name}{suffix}", step.tool, arguments)
        try:
            outcome = await self.invoker.invoke(call, scope)
        except NeedHumanApproval:
            return StepResult(WAITING)
        if isinstance(outcome, Refusal):
            facts = outcome.to_dict()
            return StepResult("failed", error={**facts, "code": outcome.error})
        error = error_of(outcome)
        status: StepStatus = "succeeded" if error is None else "failed"
        edited = bool(outcome.edited)
        return StepResult(status, outcome.value, error, outcome.artifacts, edited)

    def _without_call(
        self,
        step: PlannedStep,
        ordinal: int,
        status: StepStatus,
        error: Mapping[str, Any] | None,
    ) -> StepResult:
        body = {
            "name": f"tool.{step.tool}",
            "label": step.name,
            "ordinal": ordinal,
            "action": "finish",
            "output_preview": "",
            "error": error,
        }
        event = run_event(self.run, self.principal, "step.end", body, status, self._id(step))
        self.journal.post(event, expects=self.run.owned)
        return StepResult(status, error=error)

    @property
    def waits(self) -> bool:
        """Whether a step waits for a person."""
        return any(result.status == WAITING for result in self.results.values())

    def _values(self) -> dict[str, Any]:
        return {"input": self.task.input, "steps": self._shown}

    def output(self) -> Any:
        """Return the task's output, None where its references name nothing: `first_error`."""
        try:
            return resolve(self.plan.output, self._values())
        except RunError:
            return None

    def first_error(self) -> Mapping[str, Any] | None:
        """Return the error of the first step, in the plan's order, that failed by itself.

        Where none did, it is that of an output whose references name nothing.
        """
        for step in self.plan.steps:
            result = self.results[step.name]
            if result.status == "failed" and result.error is not None:
                return {**result.error, "step": step.name}
        try:
            resolve(self.plan.output, self._values())
        except RunError as error:
            message = f"the output of the plan: {error.message}"
            return {"code": error.code, "message": message, "fix": error.fix}
        return None

    def failed(self) -> dict[str, str]:
        """Return the steps that failed by themselves, each with the code of its error."""
        return {
            name: str(result.error["code"])
            for name, result in self.results.items()
            if result.status == "failed" and result.error is not None
        }

    def artifacts(self) -> list[Artifact]:
        """Return what the steps left behind, in the plan's order."""
        return [
            artifact for step in self.plan.steps for artifact in self.results[step.name].artifacts
        ]


def needs_of(step: PlannedStep) -> set[str]:
    """Return the steps that a step waits for: those it names, and those it refers to."""
    return {
        *step.needs,
        *steps_named_in(step.input),
        *steps_named_in(step.for_each),
        *steps_named_in(step.when),
    }


def check_plan(plan: Plan) -> None:
    """Refuse a plan that cannot run.

    Raises:
        RunError: `invalid_plan`: a name that cannot be referred to, a name twice, an input that is
            no JSON or nested too deep, an unknown need, or a cycle.
    """
    names = [step.name for step in plan.steps]
    if unnamable := [name for name in names if _NAME.fullmatch(name) is None]:
        raise RunError(
            f"`{unnamable[0]}` is no name of a step",
            code="invalid_plan",
            fix="use letters, digits, `_` and `-`: references and ids are made of it",
        )
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise RunError(f"two steps are named `{min(twice)}`", code="invalid_plan")
    for step in plan.steps:
        try:
            json_copy(step.input, MAX_INPUT)
        except InvalidInput as error:
            raise RunError(
                f"the input of step `{step.name}`: {error.message}", code="invalid_plan"
            ) from None
    needs = {step.name: needs_of(step) for step in plan.steps}
    for name, needed in needs.items():
        if unknown := needed - set(names):
            raise RunError(
                f"step `{name}` needs `{min(unknown)}`, which is no step", code="invalid_plan"
            )
    _refuse_cycles(needs)


def _refuse_cycles(needs: Mapping[str, set[str]]) -> None:
    from graphlib import CycleError, TopologicalSorter

    try:
        TopologicalSorter(needs).prepare()
    except CycleError as error:
        cycle = cast("Sequence[str]", error.args[1])
        raise RunError(
            f"steps need each other in a cycle: {' -> '.join(cycle)}", code="invalid_plan"
        ) from None


def _joined(results: Sequence[StepResult]) -> StepResult:
    if any(result.status == WAITING for result in results):
        return StepResult(WAITING)
    error = next((result.error for result in results if result.error is not None), None)
    return StepResult(
        "succeeded" if error is None else "failed",
        [result.output for result in results],
        error,
        tuple(artifact for result in results for artifact in result.artifacts),
        any(result.edited for result in results),
    )


_REFERENCE = pattern(r"\$\{([^{}]*)\}")
_ROOTS = ("input", "steps", "item")


def references(template: Any) -> set[str]:
    """Return every reference in a template, without `${` and `}`."""
    if isinstance(template, str):
        return {match.strip() for match in _REFERENCE.findall(template)}
    if isinstance(template, Mapping):
        values = cast("Mapping[str, Any]", template).values()
        return set[str]().union(*(references(value) for value in values))
    if isinstance(template, Sequence):
        return set[str]().union(*(references(item) for item in cast("Sequence[Any]", template)))
    return set()


def steps_named_in(template: Any) -> set[str]:
    """Return the names of the steps that a template refers to."""
    parts = (reference.split(".") for reference in references(template))
    return {part[1] for part in parts if part[0] == "steps" and len(part) > 1}


def resolve(template: Any, values: Mapping[str, Any]) -> Any:
    """Return the template with its references replaced by values.

    A string that is one reference becomes the value itself; inside a longer string a value becomes
    text. An entry of an object whose reference names nothing is left out where it is one reference
    to an absent optional input; elsewhere it is an error.

    Raises:
        RunError: `unresolved_reference`, with the reference.
    """
    if isinstance(template, str):
        whole = _REFERENCE.fullmatch(template)
        if whole is not None:
            return look_up(whole.group(1).strip(), values)
        return _REFERENCE.sub(
            lambda match: _text(look_up(match.group(1).strip(), values)), template
        )
    if isinstance(template, Mapping):
        return {
            key: resolve(value, values)
            for key, value in cast("Mapping[str, Any]", template).items()
            if not _absent_input(value, values)
        }
    if isinstance(template, Sequence) and not isinstance(template, bytes):
        return [resolve(item, values) for item in cast("Sequence[Any]", template)]
    return template


def look_up(reference: str, values: Mapping[str, Any]) -> Any:
    """Return what a dotted reference names.

    Raises:
        RunError: It names nothing.
    """
    current: Any = values
    for part in reference.split("."):
        try:
            if isinstance(current, list):
                current = cast("list[Any]", current)[int(part)]
            else:
                current = current[part]
        except (KeyError, IndexError, ValueError, TypeError):
            raise RunError(
                f"the reference `${{{reference}}}` names nothing",
                code="unresolved_reference",
                place=reference,
                fix="write input.NAME, steps.NAME.output, or item inside for_each",
            ) from None
    return current


def _absent_input(template: Any, values: Mapping[str, Any]) -> bool:
    """Whether this is one reference to an input that the caller did not give."""
    if not isinstance(template, str):
        return False
    whole = _REFERENCE.fullmatch(template)
    if whole is None:
        return False
    parts = whole.group(1).strip().split(".")
    given = values.get("input", {})
    return len(parts) == 2 and parts[0] == "input" and parts[1] not in given  # noqa: PLR2004 - input.NAME


def _text(value: Any) -> str:
    return value if isinstance(value, str) else canonical_text(value)
