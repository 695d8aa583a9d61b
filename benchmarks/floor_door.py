"""What a call through the executor costs beside the smallest executor that is still honest.

Run `python benchmarks/floor_door.py [--smoke] [--profile]`. The floor validates the arguments
with jsonschema-rs, resolves the path, digests the canonical arguments, awaits a hash-chained row
before the tool runs and another one after it, both through one writer thread into SQLite
(WAL, synchronous NORMAL). Ours is `Executor.invoke` with the real log, the starter grants and a
catalog of 50 tools. Both call the same tool, which reads a small file. Calls one after the other,
and batches of 100 at once. A second floor writes our rows to our log: it shows how much of the
difference is the log's and how much the executor's stages. Goals: at most 1.45 times the floor's
CPU one after the other, 1.9 times at once.
"""

from __future__ import annotations

import asyncio  # noqa: TID253 - a script, which nothing imports
import sys
import tempfile
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from floor import FILE, RUN, SCHEMA, Floor, FloorLog, read
from measure import Sample, Series, alternate, arguments, clock, costs, finish, micros, start

from clawhive_core.catalog.store import CatalogStore
from clawhive_core.config.database_keys import DatabaseKeys
from clawhive_core.errors import ClawHiveError
from clawhive_core.execution.executor import Executor, Wiring
from clawhive_core.execution.scope import CallScope, RunScope
from clawhive_core.model.events import Blob, Event
from clawhive_core.model.principal import DEFAULT_AGENT
from clawhive_core.model.tools import ToolCall, ToolMeta, ToolResult
from clawhive_core.policy.rules import Rules
from clawhive_core.policy.starter import starter_grants
from clawhive_core.protocols.context import InvokeContext
from clawhive_core.protocols.ledger import RunOwnedBy
from clawhive_core.storage.sqlite import grants, runs
from clawhive_core.storage.sqlite.log import EventLog
from clawhive_core.storage.sqlite.tables import tables_of

GOALS = {"one after the other": 1.45, "100 at once": 1.9}
TOOLS = 50
PARALLEL = 100
FACTS: Mapping[str, Any] = {
    "step": {"name": "tool.file.read", "label": "", "ordinal": 0},
    "input_preview": '{"limit":4096,"path":"docs/page.md"}',
    "capability_level": "L0",
    "risk": "safe",
    "contract_hash": "c" * 64,
    "requested_capabilities": ["fs.read:/srv/project/docs/page.md"],
    "granted_capabilities": [
        {"capability": "fs.read:/srv/project/docs/page.md", "grant_id": "grant_0123456789abcdef"}
    ],
    "decision": "allow",
    "rules": ["allow:grant_0123456789abcdef"],
    "approval_required": False,
    "approval_result": None,
    "parent_invocation_id": None,
}
STARTED = Event(
    "run.start",
    {
        "task": {"task_type": None},
        "parent_run_id": None,
        "title": "",
        "artifacts": "out",
        "fence": 1,
        "worker": "worker_0123456789abcdef",
    },
    trace_id="trace_0123456789abcdef",
    run_id=RUN,
    task_id="task_0123456789abcdef",
    conversation_id="conv_0123456789abcdef",
    principal="agent:default",
    status="running",
)
OWNED = (RunOwnedBy(RUN, 1),)
END: Mapping[str, Any] = {"error": None, "is_error": False, "artifacts": []}

Call = Callable[[int], Awaitable[Any]]
"""Makes one call, given its number."""


class FloorOnOurLog(Floor):
    """The same stages, with the rows that ours writes, in our log: what is left is the door's."""

    def __init__(self, root: Path, log: FloorLog, ours: EventLog) -> None:
        super().__init__(root, log)
        self.events = ours

    async def call(self, number: int) -> str:
        """Make one call."""
        given = {"path": FILE, "limit": 4096}
        real, digest = self.checked(given)
        call = {"id": f"call_{number}", "name": "file.read", "input": Blob(given)}
        facts = {**FACTS, "tool_call": call, "idempotency_key": digest}
        started = self.event("invocation.start", number, "intended", facts)
        await self.events.append(started, expects=OWNED)
        output = read(real)
        value = {"output": output, "structured": None, "is_error": False}
        end = {**END, "output": Blob(value), "output_preview": output[:200]}
        self.events.post(self.event("invocation.end", number, "succeeded", end), expects=OWNED)
        return output

    def event(self, kind: str, number: int, status: str, body: Mapping[str, Any]) -> Event:
        """Return a row with every column filled."""
        return Event(
            kind,
            body,
            trace_id="trace_0123456789abcdef",
            run_id="run_0123456789abcdef",
            task_id="task_0123456789abcdef",
            step_id=f"run_0123456789abcdef/f{number}",
            invocation_id=f"run_0123456789abcdef/f{number}#1",
            conversation_id="conv_0123456789abcdef",
            principal="agent:default",
            tool="file.read",
            provider_id="bench",
            status=status,
        )


class Files:
    """A provider with one tool that reads a file, and others that only stand in the catalog."""

    provider_id = "bench"

    def __init__(self, root: Path) -> None:
        self.root = str(root)

    async def list_tools(self) -> list[ToolMeta]:
        """Return the tools."""
        return [self.meta("file.read"), *(self.meta(f"file.read{n}") for n in range(1, TOOLS))]

    def meta(self, name: str) -> ToolMeta:
        """Return a tool's definition."""
        return ToolMeta(
            name,
            "Read a text file of the project.",
            SCHEMA,
            self.provider_id,
            risk="safe",
            effects={"path": "fs.read"},
            idempotent=True,
        )

    async def invoke(
        self, tool_name: str, input: Mapping[str, Any], ctx: InvokeContext
    ) -> ToolResult:
        """Read the file, plainly or, as the tools that we ship, through the workspace handle."""
        del tool_name
        if input.get("limit") == 4097:
            text = ctx.workspace.read_text(input["path"], limit=4097)
        else:
            text = read(f"{self.root}/{input['path']}")
        return ToolResult(ctx.tool_call_id, text)

    async def close(self) -> None:
        """Nothing is held."""


class Ours:
    """The executor as the composition root wires it."""

    def __init__(self, root: Path, log: EventLog) -> None:
        self.root = root
        self.log = log
        self.catalog = CatalogStore()
        self.executor = Executor(Wiring(self.catalog, log, lambda: ()))
        variables = {"workspace": str(root), "run": str(root / "out"), "home": str(root)}
        self.run = RunScope(
            trace_id="trace_0123456789abcdef",
            task_id="task_0123456789abcdef",
            run_id="run_0123456789abcdef",
            conversation_id="conv_0123456789abcdef",
            user_id="local",
            root=str(root),
            artifacts=str(root / "out"),
            rules=Rules(starter_grants("task_0123456789abcdef", str(DEFAULT_AGENT), variables)),
            fence=1,
        )

    async def open(self) -> None:
        """List the tools."""
        await self.catalog.add(Files(self.root))

    async def call(self, number: int, limit: int = 4096) -> Any:
        """Make one call."""
        scope = CallScope(self.run, DEFAULT_AGENT, f"run_0123456789abcdef/r{number}")
        given = {"path": FILE, "limit": limit}
        revision = self.catalog.current.revision
        call = ToolCall(f"call_{number}", "file.read", given, revision)
        outcome = await self.executor.invoke(call, scope)
        if not isinstance(outcome, ToolResult) or outcome.is_error:
            raise ClawHiveError(f"the call was not served: {outcome}")
        return outcome


async def in_turn(call: Call, first: int, count: int) -> None:
    """Make calls one after the other."""
    for number in range(first, first + count):
        await call(number)


async def at_once(call: Call, first: int, count: int) -> None:
    """Make calls side by side."""
    await asyncio.gather(*(call(number) for number in range(first, first + count)))


class Bench:
    """Runs both executors in one event loop."""

    def __init__(self, runner: asyncio.Runner, root: Path) -> None:
        self.runner = runner
        self.numbers = 0
        (root / "docs").mkdir()
        (root / FILE).write_text("A line of text in a page.\n" * 20, encoding="utf-8")
        self.floor_log = FloorLog(root / "floor.db")
        self.floor_log.open()
        # Sealed, as a project's log is.
        self.log = EventLog.open(
            root / ".clawhive" / "hive.db",
            tables_of(grants, runs),
            keys=DatabaseKeys(root / "user"),
        )
        self.log.append_now(STARTED)
        self.ours = Ours(root, self.log)
        runner.run(self.ours.open())
        floor = Floor(root, self.floor_log)
        same_rows = FloorOnOurLog(root, self.floor_log, self.log)
        self.cases: dict[str, Call] = {
            "floor": floor.call,
            "floor that writes our rows to our log": same_rows.call,
            "executor": self.ours.call,
            "executor, file read through ctx.workspace": partial(self.ours.call, limit=4097),
        }

    def compare(
        self, way: Callable[[Call, int, int], Awaitable[None]], count: int, rounds: int
    ) -> dict[str, Series]:
        """Return what a call costs in each case."""
        return alternate(
            {name: partial(self.sample, call, way, count) for name, call in self.cases.items()},
            rounds,
        )

    def sample(
        self, call: Call, way: Callable[[Call, int, int], Awaitable[None]], count: int
    ) -> Sample:
        """Make calls and return what one cost."""
        first, self.numbers = self.numbers, self.numbers + count

        async def work() -> None:
            await way(call, first, count)

        return clock(lambda: self.runner.run(work())).per(count)

    def close(self) -> None:
        """Close both logs."""
        self.floor_log.close()
        self.log.close()


def profile(bench: Bench) -> None:
    """Print where the executor spends its time, without the writer thread."""
    import cProfile
    import pstats

    for title, way in (("in turn", in_turn), ("100 at once", at_once)):
        profiler = cProfile.Profile()
        profiler.enable()
        for _ in range(20):
            bench.sample(bench.ours.call, way, PARALLEL)
        profiler.disable()
        print(f"\n## {title}: 2,000 calls")
        pstats.Stats(profiler, stream=sys.stdout).sort_stats("tottime").print_stats(30)


def main() -> None:
    """Measure and print."""
    options = arguments(__doc__, ("--profile", {"action": "store_true"}))
    rounds, batches = (3, 4) if options.smoke else (8, 20)
    with tempfile.TemporaryDirectory() as folder, asyncio.Runner() as runner:
        bench = Bench(runner, Path(folder).resolve())
        try:
            if options.profile:
                profile(bench)
                return
            sequential = bench.compare(in_turn, 100 if options.smoke else 250, rounds)
            parallel = bench.compare(at_once, PARALLEL, batches)
        finally:
            bench.close()
    ratios: dict[str, Any] = {}
    for title, found in (("one after the other", sequential), ("100 at once", parallel)):
        floor = found["floor"]
        print(f"\n{title}, per call")
        costs(found.values(), floor, micros, "us")
        ratios[title] = {
            name: {
                "cpu": round(series.ratio(floor), 2),
                "cpu_of_minima": round(series.ratio_min(floor), 2),
                "wall": round(series.wall_ratio(floor), 2),
            }
            for name, series in found.items()
        }
    for title, goal in GOALS.items():
        print(f"goal for `executor`, {title}: {goal} or less")
    finish("floor_door", {"ratio_to_floor": ratios, "goals": GOALS})


if __name__ == "__main__":
    start(main)
