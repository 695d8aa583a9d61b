"""Task types as tools of the catalog: `SKILL.TASK` runs the task's steps as nested calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from clawhive_core.capabilities import normalise
from clawhive_core.catalog.catalog import Catalog
from clawhive_core.catalog.store import CatalogStore
from clawhive_core.errors import NeedHumanApproval, ToolError
from clawhive_core.events.redaction import Redactor
from clawhive_core.execution.context import ToolContext
from clawhive_core.execution.outcomes import Outcome
from clawhive_core.execution.scope import CallScope, RunScope, Signal
from clawhive_core.model.canonical import canonical_text
from clawhive_core.model.events import Event
from clawhive_core.model.late import dataclass
from clawhive_core.model.refusal import Refusal
from clawhive_core.model.tools import Level, Risk, ToolCall, ToolMeta, ToolResult
from clawhive_core.policy.grounding import skill_grounds
from clawhive_core.policy.rules import Rules
from clawhive_core.protocols.context import InvokeContext
from clawhive_core.protocols.ledger import Expectation, Redaction, RunOwnedBy
from clawhive_core.protocols.planner import PlanContext
from clawhive_core.runs.plans.tasks import make_task, permissions_of
from clawhive_core.skills.contracts.skill import Skill, TaskType

if TYPE_CHECKING:
    from clawhive_core.runs.plans.steps import PlanRunner


_LEVELS: Sequence[Level] = ("L0", "L1", "L2")
_RISKS: Sequence[Risk] = ("safe", "guarded", "unknown", "unsafe")
_UNKNOWN = ToolMeta("unknown.tool", "", {}, "", capability_level="L0", risk="unknown")
_ITEMS = 100
"""The number of items of a `for_each` that a tool's time is reckoned with."""
_MAX_TIMEOUT_MS = 3_600_000
_OVERHEAD_MS = 5_000


class TaskProvider:
    """Offers the task types of one skill as tools (`clawhive_core.ToolProvider`).

    A task type adds nothing to what its steps do: each step is a call of its own, decided as any
    other, of the same principal, and within what the skill declares. A tool of another provider
    keeps its name, and so does a tool that the skill exports.

    Args:
        skill: The skill.
        skills: Every loaded skill: a step may name another one's task.
        store: Says how far the tools of the steps reach.
    """

    def __init__(self, skill: Skill, skills: Sequence[Skill], store: CatalogStore) -> None:
        from clawhive_core.skills.contracts.manifest import task_types

        self.provider_id = f"skill_{skill.id}"
        self._skill, self._skills = skill, skills
        self._known = task_types(skills)
        self._store = store
        self._tasks = {
            f"{skill.id}.{name}": task
            for name, task in skill.tasks.items()
            if task.steps and name not in skill.exports.names()
        }

    async def list_tools(self) -> list[ToolMeta]:
        """Return a tool a task type, its level and risk the highest among its steps."""
        catalog = self._store.current
        return [
            self._meta(name, task, catalog)
            for name, task in self._tasks.items()
            if _is_free(name, catalog)
        ]

    async def invoke(
        self, tool_name: str, input: Mapping[str, Any], ctx: InvokeContext
    ) -> ToolResult:
        """Run the steps of a task type, one after the other.

        Raises:
            ToolError: `tool_not_found`: the skill has no such task type.
            RunError: `invalid_plan`: its steps cannot run.
            NeedHumanApproval: A step waits for a person.
        """
        task_type = self._tasks.get(tool_name)
        if task_type is None:
            raise ToolError(f"`{self._skill.id}` has no task `{tool_name}`", code="tool_not_found")
        context = cast("ToolContext", ctx)  # the executor makes no other
        context.restrict(self._rules(task_type, context.scope.run))
        context.grounds = skill_grounds(self._skill)
        runner = await self._runner(tool_name, task_type, input, context)
        await runner.execute()
        if runner.waits:
            raise NeedHumanApproval("a step of it waits for a person", place=tool_name)
        return _result(ctx.tool_call_id, runner)

    async def close(self) -> None:
        """Do nothing: there is nothing to release."""

    async def _runner(
        self, name: str, task_type: TaskType, input: Mapping[str, Any], context: ToolContext
    ) -> PlanRunner:
        from clawhive_core.runs.plans.planners import ProcedurePlanner
        from clawhive_core.runs.plans.steps import PlanRunner, check_plan

        task = replace(make_task(name, task_type, input), task_id=context.task_id)
        ask = PlanContext((), task_type.to_dict(), context.complete, {})
        plan = await ProcedurePlanner().plan(task, ask)
        check_plan(plan)
        run = replace(context.scope.run, signal=partial(_tell, context))
        return PlanRunner(
            _NestedInvoker(context), _NullJournal(), run, context.principal, task, plan, parallel=1
        )

    def _rules(self, task_type: TaskType, run: RunScope) -> Rules:
        """Return the caller's rules met with what the skill declares for the task."""
        permissions = permissions_of(self._skill, task_type, self._skills)
        if not permissions:
            return run.rules
        variables = {
            "workspace": run.root,
            "run": run.artifacts,
            "home": run.home,
        }
        return run.rules.bounded([normalise(each, variables) for each in permissions])

    def _meta(self, name: str, task: TaskType, catalog: Catalog) -> ToolMeta:
        reached = list(self._reached(task, catalog, {name}))
        wait = sum(tool.timeout_ms * times for tool, times in reached)
        tools = [tool for tool, _ in reached]
        return ToolMeta(
            name,
            task.description or f"Run the task `{task.name}` of the skill `{self._skill.id}`.",
            task.input_schema,
            self.provider_id,
            capability_level=_LEVELS[max(_LEVELS.index(tool.capability_level) for tool in tools)],
            risk=_RISKS[max(_RISKS.index(tool.risk) for tool in tools)],
            side_effects=any(tool.side_effects for tool in tools),
            idempotent=all(tool.idempotent for tool in tools),
            timeout_ms=min(wait + _OVERHEAD_MS, _MAX_TIMEOUT_MS),
            category="tasks",
            keywords=(self._skill.id, "task"),
            text_counts=True,
            code=partial(_code, task),
        )

    def _reached(
        self, task: TaskType, catalog: Catalog, seen: set[str]
    ) -> Sequence[tuple[ToolMeta, int]]:
        """Return the tools of the steps, tasks among them by theirs, and how often each is used."""
        found: list[tuple[ToolMeta, int]] = []
        for step in task.steps:
            times = _ITEMS if step.get("for_each") else 1
            tool, inner = catalog.find(step["tool"]), self._known.get(step["tool"])
            if inner is not None and (tool is None or _is_free(step["tool"], catalog)):
                if step["tool"] not in seen:
                    below = self._reached(inner[1], catalog, {*seen, step["tool"]})
                    found += [(meta, times * each) for meta, each in below]
                continue
            found.append((_UNKNOWN if tool is None else tool.meta, times))
        return found or [(_UNKNOWN, 1)]


def _code(task: TaskType) -> dict[str, Any]:
    """Return what the calls of a task do: its steps, and what it makes of their outputs."""
    return {"steps": list(task.steps), "output": task.output}


def task_providers(skills: Sequence[Skill], store: CatalogStore) -> list[TaskProvider]:
    """Return a provider a skill that has task types."""
    return [TaskProvider(skill, skills, store) for skill in skills if skill.tasks]


@dataclass(frozen=True, slots=True)
class _NestedInvoker:
    """Makes a plan's calls on behalf of the call that runs it."""

    context: ToolContext

    async def invoke(self, call: ToolCall, scope: CallScope) -> Outcome:
        return await self.context.invoke(call.name, call.input, label=scope.label)


class _NullJournal:
    """Takes what a plan says of steps without a call: the call around it says how it ended."""

    def __init__(self) -> None:
        self.redactor: Redaction = Redactor()  # idle: nothing is written

    async def append(
        self, *events: Event, sync: bool = False, expects: Sequence[Expectation] = ()
    ) -> list[int]:
        del events, sync, expects
        return []

    def post(self, *events: Event, expects: Sequence[RunOwnedBy] = ()) -> None:
        del events, expects


def _tell(context: ToolContext, signal: Signal) -> None:
    if signal.text:
        context.progress(signal.done, signal.total, signal.text)


def _is_free(name: str, catalog: Catalog) -> bool:
    """Whether no provider but a skill's has a tool of this name."""
    tool = catalog.find(name)
    return tool is None or tool.meta.provider_id.startswith("skill_")


def _result(call_id: str, runner: PlanRunner) -> ToolResult:
    value, error = runner.output(), runner.first_error()
    if error is None:
        text = value if isinstance(value, str) else canonical_text(value)
        return ToolResult(call_id, text, structured=None if isinstance(value, str) else value)
    next_step = error.get("next") or {"action": "read_error"}
    facts = {"step": error["step"], "output": value} if "step" in error else {}
    refusal = Refusal(str(error["code"]), str(error["message"]), next_step, facts).to_dict()
    return ToolResult(call_id, canonical_text(refusal), is_error=True, structured=refusal)
