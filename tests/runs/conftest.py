"""Tools from functions, task types from rows, and the shortest way to a hive."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

from clawhive_core.model.tools import ToolMeta, ToolResult
from clawhive_core.skills.skill import Skill, TaskType

OPEN = {"type": "object"}


class Tools:
    """A provider over functions `(input, ctx)`; a plain value becomes a structured result."""

    provider_id = "test"

    def __init__(self) -> None:
        self.functions = {}
        self.metas = []
        self.calls = []

    def add(self, name, function, **meta):
        facts = {"input_schema": OPEN, "risk": "safe", "provider_id": "test", **meta}
        self.functions[name] = function
        self.metas.append(ToolMeta(name, f"The tool {name}.", **facts))
        return self

    async def list_tools(self):
        return list(self.metas)

    async def invoke(self, tool_name, input, ctx):
        self.calls.append((tool_name, dict(input)))
        value = self.functions[tool_name](input, ctx)
        if inspect.isawaitable(value):
            value = await value
        if isinstance(value, ToolResult):
            return value
        return ToolResult(ctx.tool_call_id, str(value), structured=value)

    async def close(self):
        return None


@pytest.fixture
def tools():
    made = Tools()
    made.add("test.echo", lambda given, ctx: dict(given))
    made.add("test.fail", lambda given, ctx: ToolResult("", "it broke", is_error=True))
    return made


@pytest.fixture
def define():
    """Give a hive a task type `test.NAME` with these steps."""

    def make(hive, *steps, name="job", output=None, schema=None):
        task = TaskType(name, "A job.", schema or OPEN, tuple(steps), output)
        hive.skills.append(Skill("test", "1.0.0", Path(), "test", tasks={name: task}))

    return make
