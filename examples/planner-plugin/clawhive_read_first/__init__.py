"""A planner that reads the files a prompt names, side by side, before a model answers."""

from __future__ import annotations

import re

from clawhive_core import HookContext, Plan, PlanContext, PlannedStep, Planner, Task, hookimpl

READ = "file.read"
FILE = re.compile(r"(?<![\w./-])[\w./-]*\w\.[A-Za-z]\w{0,5}(?![\w/])")


class ReadFirst:
    """Plans a step a file; it asks no model, and so it plans once."""

    name = "read-first"
    replans = False

    async def plan(self, task: Task, ctx: PlanContext) -> Plan:
        """Return a step for each file that the prompt names, none where it may not be read."""
        offered = {tool.name for tool in ctx.tools}
        paths = list(dict.fromkeys(FILE.findall(task.prompt or ""))) if READ in offered else []
        steps = (
            PlannedStep(f"file-{number}", READ, {"path": path})
            for number, path in enumerate(paths, 1)
        )
        return Plan(self.name, tuple(steps))


@hookimpl
def clawhive_planners(ctx: HookContext) -> list[Planner]:
    """Return the planner."""
    return [ReadFirst()]
