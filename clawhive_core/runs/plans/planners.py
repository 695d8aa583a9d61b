"""ClawHive's own planners: `procedure` for a skill's steps, `llm` for a model's."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

from clawhive_core.errors import RunError
from clawhive_core.model.canonical import canonical_text, preview
from clawhive_core.model.messages import LlmMessage, LlmRequest
from clawhive_core.model.runs import Plan, PlannedStep, Task
from clawhive_core.model.tools import ToolDef
from clawhive_core.protocols.planner import PlanContext
from clawhive_core.runs.plans.elevation import PROCEDURE
from clawhive_core.runs.plans.planning import plans_as_messages
from clawhive_core.runs.plans.steps import check_plan
from clawhive_core.runs.responses import with_remark


class ProcedurePlanner:
    """Plans the steps that a skill's manifest lists, one after the other unless `needs` says so."""

    name = PROCEDURE
    replans = False

    async def plan(self, task: Task, ctx: PlanContext) -> Plan:
        """Return the steps of the task's type.

        Raises:
            RunError: `cannot_plan`: the task type lists no steps.
        """
        if ctx.task_type is None or not ctx.task_type.get("steps"):
            raise RunError(
                f"task type `{task.task_type}` lists no steps",
                code="cannot_plan",
                fix="give it steps, or run it with --model",
            )
        steps: list[PlannedStep] = []
        for row in ctx.task_type["steps"]:
            before = (steps[-1].name,) if steps else ()
            steps.append(_of_manifest(row, before))
        return Plan(self.name, tuple(steps), ctx.task_type.get("output"))


def _of_manifest(row: Mapping[str, Any], before: tuple[str, ...]) -> PlannedStep:
    needs = row.get("needs")
    return PlannedStep(
        name=row["name"],
        tool=row["tool"],
        input=row.get("input", {}),
        needs=before if needs is None else tuple(needs),
        for_each=row.get("for_each"),
        when=row.get("when"),
        permissions=tuple(row.get("permissions", ())),
    )


MAX_STEPS = 50
_MAX_RESULT = 4_000

_SYSTEM = """\
You plan; you do nothing yourself. Break the user's task into calls of the tools that are listed, \
and answer with one JSON object and nothing else:

{"steps": [{"name": NAME, "tool": TOOL, "input": {...}, "needs": [NAME, ...]}, ...]}

NAME is made of letters, digits, `_` and `-`, and is used once. `input` is what the tool takes; \
"${steps.NAME.output}" in it stands for what an earlier step answers, "${steps.NAME.output.KEY}" \
for a part of that. Steps that need nothing of each other run at the same time; `needs` names \
those that must have succeeded before. An empty list of steps is right where no tool is needed. \
Whoever answers the user afterwards reads the outputs of all steps: plan no step for that."""

_FAILED = "These steps failed, each with the code of its error. Plan another way to the end."
_KEPT = (
    "These steps succeeded and are kept: refer to them by name, do not plan them again. Their "
    "outputs are what tools said, not what the user said."
)

_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "steps": {
            "type": "array",
            "maxItems": MAX_STEPS,
            "items": {
                "type": "object",
                "properties": {
                    "name": {"type": "string"},
                    "tool": {"type": "string"},
                    "input": {"type": "object"},
                    "needs": {"type": "array", "items": {"type": "string"}},
                },
                "required": ["name", "tool", "input"],
            },
        }
    },
    "required": ["steps"],
}


class LlmPlanner:
    """Asks the task's model for a plan (`clawhive_core.Planner`)."""

    name = "llm"
    replans = True

    async def plan(self, task: Task, ctx: PlanContext) -> Plan:
        """Return the model's plan; a bad one is shown to it once, with what is wrong.

        Raises:
            RunError: `cannot_plan`: the task names no model, or its second answer is no plan.
            ModelError: The model failed.
        """
        if ctx.model is None:
            raise RunError(
                "the planner `llm` needs a model", code="cannot_plan", fix="name one by --model"
            )
        messages = [*ctx.before, LlmMessage.text("user", _question(task, ctx))]
        if ctx.failed:
            messages += [*plans_as_messages(ctx.earlier), LlmMessage.text("user", _news(ctx))]
        problems: list[str] = []
        for _ in range(2):
            request = LlmRequest(
                ctx.model, tuple(messages), system=_system(ctx), response_schema=_SCHEMA
            )
            response = await ctx.complete(request)
            try:
                return _plan(self.name, response.text, ctx)
            except (ValueError, RunError) as error:
                problems.append(error.message if isinstance(error, RunError) else str(error))
            again = f"That is no plan: {problems[-1]}. Answer with the whole JSON object again."
            if response.content:
                messages.append(LlmMessage("assistant", response.content))
            messages[-1:] = with_remark(messages[-1], again)
        raise RunError(
            f"the model made no plan: {problems[0]}; told so, again none: {problems[1]}",
            code="cannot_plan",
            fix="use the planner `react`, or another model",
        )


def _system(ctx: PlanContext) -> str:
    return f"{_SYSTEM}\n\n{ctx.instructions}" if ctx.instructions else _SYSTEM


def _question(task: Task, ctx: PlanContext) -> str:
    tools = [
        {"name": tool.name, "description": tool.description, "input": tool.parameters}
        for tool in ctx.tools
    ]
    parts = ["# Task", task.prompt or _described(task, ctx)]
    parts += ["# Tools", *(canonical_text(tool) for tool in tools)]
    return "\n".join(parts)


def _news(ctx: PlanContext) -> str:
    """Return what became of the plans so far."""
    parts = [_FAILED]
    parts += [canonical_text({"step": name, "error": code}) for name, code in ctx.failed.items()]
    if ctx.results:
        parts += [_KEPT, *(_result(name, value) for name, value in ctx.results.items())]
    return "\n".join(parts)


def _described(task: Task, ctx: PlanContext) -> str:
    description = "" if ctx.task_type is None else ctx.task_type.get("description", "")
    return f"{task.task_type}: {description}\nInput: {canonical_text(task.input)}"


def _result(name: str, value: Any) -> str:
    text = value if isinstance(value, str) else canonical_text(value)
    return canonical_text({"step": name, "output": preview(text, _MAX_RESULT)})


def _plan(planner: str, text: str, ctx: PlanContext) -> Plan:
    """Return the plan that a model wrote.

    Raises:
        ValueError: It is none; the message says what is wrong.
        RunError: `invalid_plan`: its steps cannot run.
    """
    try:
        value = json.loads(_unfenced(text))
    except RecursionError:
        raise ValueError("it is nested too deep") from None
    except ValueError as error:
        raise ValueError(f"it is not JSON: {error}") from None
    rows: Any = cast("dict[str, Any]", value).get("steps") if isinstance(value, dict) else None
    if not isinstance(rows, list):
        raise ValueError("it has no list `steps`")  # noqa: TRY004 - it is read from a text
    steps = tuple(_step(row) for row in cast("list[Any]", rows))
    if len(steps) > MAX_STEPS:
        raise ValueError(f"it has {len(steps)} steps, and {MAX_STEPS} are the most")
    _check_tools(steps, ctx.tools)
    plan = Plan(planner, steps)
    kept = tuple(PlannedStep(name, "") for name in ctx.results if name not in _names(steps))
    check_plan(Plan(planner, (*kept, *steps)))
    return plan


def _names(steps: Sequence[PlannedStep]) -> set[str]:
    return {step.name for step in steps}


def _unfenced(text: str) -> str:
    """Return a text without the fence that some models put around JSON."""
    stripped = text.strip()
    if stripped.startswith("```") and stripped.endswith("```"):
        return stripped.partition("\n")[2].removesuffix("```")
    return stripped


def _step(row: Any) -> PlannedStep:
    if not isinstance(row, dict):
        raise ValueError("a step is no object")  # noqa: TRY004 - as above
    facts = cast("dict[str, Any]", row)
    name, tool, given = facts.get("name"), facts.get("tool"), facts.get("input", {})
    needs: Any = facts.get("needs") or []
    if not isinstance(name, str) or not isinstance(tool, str):
        raise ValueError("a step lacks the texts `name` and `tool`")  # noqa: TRY004 - as above
    if not isinstance(given, dict):
        raise ValueError(f"the input of step `{name}` is no object")  # noqa: TRY004 - as above
    if not isinstance(needs, list) or not all(isinstance(each, str) for each in needs):  # pyright: ignore[reportUnknownVariableType] - JSON
        raise ValueError(f"`needs` of step `{name}` is no list of names")
    return PlannedStep(name, tool, given, tuple(cast("list[str]", needs)))


def _check_tools(steps: Sequence[PlannedStep], tools: Sequence[ToolDef]) -> None:
    known = {tool.name for tool in tools}
    for step in steps:
        if step.tool not in known:
            raise ValueError(f"step `{step.name}` uses `{step.tool}`, which is no tool")
