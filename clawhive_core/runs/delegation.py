"""Agents that a rule starts: `when` names the words or the task types that they are for."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import field
from functools import partial
from typing import TYPE_CHECKING

from clawhive_core.catalog.store import CatalogStore
from clawhive_core.config.config import Config
from clawhive_core.errors import NeedHumanApproval, RunError
from clawhive_core.execution.outcomes import Invoker
from clawhive_core.execution.scope import CallScope
from clawhive_core.model.late import dataclass
from clawhive_core.model.principal import Principal
from clawhive_core.model.refusal import Refusal
from clawhive_core.model.runs import Plan, PlannedStep, Task
from clawhive_core.model.tools import ToolCall
from clawhive_core.protocols.planner import PlanContext
from clawhive_core.runs.agents import Agent, agents_of, allow_list
from clawhive_core.runs.concurrency import run_concurrently
from clawhive_core.runs.record.journal import Journal, end_step

if TYPE_CHECKING:
    from clawhive_core.runs.run import RunRequest


def startable(config: Config, catalog: CatalogStore, principal: Principal) -> list[Agent]:
    """Return the agents that a rule may start for another one: those that it sees."""
    allow = allow_list(config, principal)
    others = [each for each in agents_of(config) if each.principal != principal]
    found = [(each, catalog.current.find(each.tool)) for each in others if each.when]
    return [
        each for each, tool in found if tool is not None and (allow is None or allow.has(tool.meta))
    ]


def started_by_words(agents: Sequence[Agent], prompt: str) -> tuple[str, ...]:
    """Return the names of the agents of whose `when` a prompt has a word or words."""
    return tuple(agent.name for agent in agents if any(_says(prompt, each) for each in agent.when))


def started_by_type(agents: Sequence[Agent], task_type: str) -> tuple[str, ...]:
    """Return the names of the agents whose `when` has a task type, `SKILL.TASK` or TASK."""
    names = {task_type, task_type.rpartition(".")[2]}
    return tuple(agent.name for agent in agents if not names.isdisjoint(agent.when))


def _says(prompt: str, words: str) -> bool:
    parts = r"\s+".join(map(re.escape, words.split()))
    return bool(parts) and re.search(rf"(?<!\w){parts}(?!\w)", prompt, re.IGNORECASE) is not None


@dataclass(slots=True)
class Delegation:
    """The answers of agents that rules start with a run, before its first turn."""

    invoker: Invoker
    journal: Journal
    request: RunRequest
    _said: dict[str, str] = field(default_factory=dict[str, str])

    async def merged_into(self, prompt: str) -> str:
        """Return a prompt with what each agent says to it; one that fails is left out.

        Raises:
            NeedHumanApproval: One must not start before a person agrees, or waits for a person.
        """
        waiting: list[NeedHumanApproval] = []
        names = self.request.delegates
        await run_concurrently(
            [
                partial(self._ask, name, ordinal, prompt, waiting)
                for ordinal, name in enumerate(names)
            ]
        )
        if waiting:
            raise waiting[0]
        return "\n\n".join([prompt, *(self._said[name] for name in names if name in self._said)])

    async def _ask(
        self, name: str, ordinal: int, prompt: str, waiting: list[NeedHumanApproval]
    ) -> None:
        request, run = self.request, self.request.scope
        step_id = f"{run.run_id}/when.{name}"
        scope = CallScope(run, request.principal, step_id, label=f"when {name}", ordinal=ordinal)
        call = ToolCall(f"call_when_{name}", f"agent.{name}", {"task": prompt})
        try:
            outcome = await self.invoker.invoke(call, scope)
        except NeedHumanApproval as asked:
            waiting.append(asked)
            return
        if not isinstance(outcome, Refusal) and not outcome.is_error:
            said = f"The agent `{name}` was asked too; these are its words, not the user's:"
            self._said[name] = f'{said}\n<agent name="{name}">\n{outcome.output}\n</agent>'
        end_step(self.journal, run, request.principal, scope.step)


@dataclass(frozen=True, slots=True)
class DelegatePlanner:
    """Plans a task of a type that agents do instead of its steps: one step an agent."""

    agents: tuple[str, ...]
    name: str = "when"
    replans: bool = False

    async def plan(self, task: Task, ctx: PlanContext) -> Plan:
        """Return a step an agent, each with the task in words; one agent's answer is the output.

        Raises:
            RunError: `cannot_plan`: there is no task type.
        """
        if ctx.task_type is None:
            raise RunError("agents are started for a task type", code="cannot_plan")
        description = str(ctx.task_type.get("description") or "").replace("${", "$ {")
        asked = f"{task.task_type}: {description}\n\nInput:\n${{input}}"
        steps = tuple(
            PlannedStep(f"when-{name}", f"agent.{name}", {"task": asked}) for name in self.agents
        )
        outputs = {name: f"${{steps.when-{name}.output}}" for name in self.agents}
        only = outputs[self.agents[0]] if len(outputs) == 1 else outputs
        return Plan(self.name, steps, only)
