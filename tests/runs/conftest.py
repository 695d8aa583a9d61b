"""Tools from functions, task types from rows, and the shortest way to a hive."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

from clawhive_core.execution.executor import Executor
from clawhive_core.hive.hive import RunOptions
from clawhive_core.model.tools import ToolMeta, ToolResult
from clawhive_core.runs.orchestrator import Orchestrator
from clawhive_core.runs.record import ownership
from clawhive_core.skills.contracts.skill import Skill, TaskType
from clawhive_core.testing import memory_hive

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


WRITES = {"risk": "guarded", "effects": {"path": "fs.write"}}
OUTER = {"name": "outer", "tool": "test.outer"}


def append(given, ctx):
    """Append a line: what is done twice shows."""
    path = Path(ctx.workspace.root) / given["path"]
    with path.open("a", encoding="utf-8") as file:
        file.write("kept\n")
    return {"kept": given["path"]}


@pytest.fixture
def appending(tools):
    """Tools that append a line to a file: `test.note` may, `test.keep` must ask."""
    tools.add("test.note", append)
    return tools.add("test.keep", append, **WRITES)


@pytest.fixture
def job(appending, define):
    """Open a hive with a job of one step, whose tool is given; `approve` approves what waits."""

    def opened(outer, *, more=(), models=(), **meta):
        appending.add("test.outer", outer, **meta)
        hive = memory_hive(providers=[appending], adapters=models)
        return _Job(hive, define, more)

    return opened


class _Job:
    def __init__(self, opening, define, more):
        self._opening, self._define, self._more = opening, define, more

    async def __aenter__(self):
        self.hive = await self._opening.__aenter__()
        self._define(self.hive, OUTER, *self._more, output="${steps.outer.output}")
        return self

    async def __aexit__(self, *error):
        return await self._opening.__aexit__(*error)

    async def run(self, **options):
        return await self.hive.run(task="job", options=RunOptions(**options))

    def waiting(self):
        return self.hive.approvals.pending()

    def answer(self, how="approve", **more):
        for each in self.waiting():
            self.hive.approvals.resolve(each.approval_id, how, by="user:ana", **more)

    async def approved(self):
        """Approve what waits and resume, until nothing waits."""
        for _ in range(20):
            self.answer()
            run = await self.hive.resume("last")
            if run["status"] != "waiting_approval":
                return run
        raise AssertionError("it waits for ever")

    def lines(self, path):
        file = self.hive.root / path
        return len(file.read_text("utf-8").splitlines()) if file.exists() else 0

    def rows(self, columns, tool):
        sql = f"SELECT {columns} FROM v_invocations WHERE tool = ? ORDER BY seq"
        return [tuple(row) for row in self.hive.log.read(sql, (tool,))]


class Cut(BaseException):
    """Stops a run as a killed process would: nothing further is written."""


class Stopping:
    """A door that cuts the run off at some point of a call, then leaves it interrupted."""

    def __init__(self, hive, monkeypatch):
        self.hive = hive
        self._patch = monkeypatch

    async def run(self, *, kill, **task):
        """Run a task and kill it at the first end of the tool `kill`."""
        await self._cut(kill, self.hive.run(**task))

    async def resume(self, *, kill):
        """Resume the last run and kill it there."""
        await self._cut(kill, self.hive.resume("last"))

    async def _cut(self, kill, work):
        killed = []

        def cut(executor, pending, context, result):
            if pending.call.name == kill or killed:
                killed.append(kill)
                raise Cut
            return real(executor, pending, context, result)

        def fail(executor, pending, *how):
            if killed:  # a tool around the killed one ends with it
                raise Cut
            return failed(executor, pending, *how)

        def park(executor, pending, *how):
            if pending.call.name == kill:
                raise Cut
            return parked(executor, pending, *how)

        async def no_end(orchestrator, request, result):
            raise Cut

        real, failed, parked = Executor._record, Executor._fail, Executor._park
        with self._patch.context() as patch:
            patch.setattr(Executor, "_record", cut)
            patch.setattr(Executor, "_fail", fail)
            patch.setattr(Executor, "_park", park)
            patch.setattr(Orchestrator, "end", no_end)
            try:
                await work
            except Cut:
                pass
            else:
                pytest.fail("it was not cut")
        await self.hive.log.append(effect=lambda connection: connection.execute(FORGET))
        assert len(ownership.recover(self.hive.log)) == 1


FORGET = "UPDATE runs SET worker = NULL"


@pytest.fixture
def stop(monkeypatch):
    return lambda hive: Stopping(hive, monkeypatch)
