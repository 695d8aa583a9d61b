"""The procedure planner: a task type's own steps, without a model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from clawhive_core.errors import RunError
from clawhive_core.model.runs import Plan, PlannedStep, Task
from clawhive_core.protocols.planner import PlanContext
from clawhive_core.runs.plans.elevation import PROCEDURE


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
            steps.append(_step(row, before))
        return Plan(self.name, tuple(steps), ctx.task_type.get("output"))


def _step(row: Mapping[str, Any], before: tuple[str, ...]) -> PlannedStep:
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
