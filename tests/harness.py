"""A catalog, an executor and a real log in a folder: what tests of calls stand on."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import entry_points
from pathlib import Path

from clawhive_core.audit import verify as audit
from clawhive_core.capabilities import normalise
from clawhive_core.catalog.store import CatalogStore
from clawhive_core.execution.executor import Executor, ExecutorLimits, Wiring
from clawhive_core.execution.scope import CallScope, RunScope
from clawhive_core.model.grants import CapabilityGrant
from clawhive_core.model.ids import new_id
from clawhive_core.model.principal import DEFAULT_AGENT
from clawhive_core.model.tools import ToolCall, ToolMeta, ToolResult
from clawhive_core.policy.rules import Rules
from clawhive_core.policy.starter import Target, starter_grants
from clawhive_core.storage.sqlite.inspection import inspect
from clawhive_core.storage.sqlite.log import EventLog
from clawhive_core.storage.sqlite.schema import SCHEMA
from clawhive_core.storage.sqlite.tables import PROJECT


def user_of(hive):
    """Return the environment of the user whose hive it is."""
    return {"XDG_CONFIG_HOME": str(hive.config.user_dir.parent)}


def exports(*names):
    """Return the line of a contract that exports tools which take and answer anything."""
    contracts = ", ".join(f"{name}: {{input_schema: {{}}, output_schema: {{}}}}" for name in names)
    return (
        f"exports: {{api_version: '1.0', tools: [{', '.join(names)}],"
        f" contracts: {{{contracts}}}}}\n"
    )


def own_pytest(*words):
    """Return a command of pytest without the plugins of others, which cost more than all else."""
    others = {point.name for point in entry_points(group="pytest11")} - {"clawhive"}
    without = [word for name in sorted(others) for word in ("-p", f"no:{name}")]
    return [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *without, *words]


def tool_meta(name="demo.echo", provider_id="demo", **fields):
    facts = {"description": "a tool", "input_schema": {"type": "object"}, "risk": "safe"}
    return ToolMeta(name=name, provider_id=provider_id, **{**facts, **fields})


def grant(capability, issuer="user", mode="allow", **fields):
    return CapabilityGrant(
        fields.pop("grant_id", None) or new_id("grant"),
        capability,
        str(DEFAULT_AGENT),
        "task",
        "task_1",
        issuer,
        mode,
        **fields,
    )


class Provider:
    """Offers tools, each an async function of input and context."""

    def __init__(self, provider_id="demo", **functions):
        self.provider_id = provider_id
        self.metas: list[ToolMeta] = []
        self.functions = functions
        self.calls: list[tuple[str, Mapping]] = []
        self.closed = 0

    def offer(self, name, function, **fields):
        self.metas.append(tool_meta(name, self.provider_id, **fields))
        self.functions[name] = function
        return self

    async def list_tools(self):
        return self.metas

    async def invoke(self, tool_name, input, ctx):
        self.calls.append((tool_name, input))
        return await self.functions[tool_name](input, ctx)

    async def close(self):
        self.closed += 1


class House:
    """Everything a call needs, below one folder."""

    def __init__(self, folder: Path, provider: Provider | None = None):
        self.root = folder / "project"
        self.root.mkdir(exist_ok=True)
        self.artifacts = str(self.root / "clawhive-out" / "run_1")
        self.log = EventLog.open(folder / "hive.db")
        self.provider = provider or Provider()
        self.catalog = CatalogStore()
        self.checks: Sequence = ()
        self.signals: list = []
        self.secrets: dict[str, str] = {}
        self.grants: list[CapabilityGrant] = self.starter()
        self.denies: tuple[str, ...] = ()
        self.asks: tuple[str, ...] = ()
        self.wiring = Wiring(
            self.catalog,
            self.log,
            lambda: self.checks,
            redact=self.log.redactor.add,
        )
        self.executor = Executor(self.wiring, ExecutorLimits(call_depth=3, grace_seconds=0.05))

    @property
    def variables(self):
        return {"workspace": str(self.root), "run": self.artifacts}

    def starter(self):
        return starter_grants("task_1", str(DEFAULT_AGENT), self.variables)

    def give(self, *patterns, issuer="user", mode="allow"):
        target = Target("task_1", str(DEFAULT_AGENT), self.variables)
        self.grants += target.grants(patterns, issuer, mode)

    def canonical(self, *patterns):
        return tuple(normalise(pattern, self.variables) for pattern in patterns)

    def offer(self, name, function, **fields):
        self.provider.offer(name, function, **fields)
        return self

    async def ready(self):
        await self.catalog.add(self.provider)
        return self

    def scope(self, step="step_1", **fields):
        run = RunScope(
            trace_id="trace_1",
            task_id="task_1",
            run_id="run_1",
            conversation_id="conv_1",
            user_id="user_1",
            root=str(self.root),
            artifacts=self.artifacts,
            command="clawhive run",
            rules=Rules(self.grants, self.denies, self.asks),
            secrets=self.secrets.get,
            signal=self.signals.append,
        )
        return CallScope(run, DEFAULT_AGENT, step, **fields)

    async def call(self, name="demo.echo", input=None, *, revision=None, **fields):
        call = ToolCall("call_1", name, {} if input is None else input, revision)
        return await self.executor.invoke(call, self.scope(**fields))

    async def rows(self):
        """Return the rows of v_invocations, JSON columns as values."""
        await self.log.flush()
        rows = [dict(row) for row in self.log.read("SELECT * FROM v_invocations ORDER BY seq")]
        columns = ("requested_capabilities", "granted_capabilities", "error")
        for row in rows:
            row.update({key: row[key] and json.loads(row[key]) for key in columns})
        return rows

    async def row(self):
        (row,) = await self.rows()
        return row

    async def events(self):
        await self.log.flush()
        return list(self.log.events())

    async def kinds(self):
        return [stored.event.kind for stored in await self.events()]

    def close(self):
        self.log.close()


def text(output="done", **fields):
    return ToolResult("", output, **fields)


async def echo(input, ctx):
    return ToolResult(ctx.tool_call_id, "done", structured=dict(input))


def verify(path, checkpoints):
    """Check a database file as `clawhive audit verify` checks a project's."""
    with inspect(path, (SCHEMA, *PROJECT.schemas)) as found:
        return audit.verify(found, checkpoints)
