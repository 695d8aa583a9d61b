"""What asking a person costs: a run parks, is approved, and goes on, in one process.

Run `python benchmarks/approval_round_trip.py [--smoke]`. Ours: `Hive.run` of a task with one step,
which is guarded and parks; `approvals.resolve`; `Hive.resume`, which decides again, uses the
approval up and makes the call. The floor: the very rows that this round trip left in the log, each
awaited through the bare chained insert of `floor.py`. Beside it the same task with its right given
before, so that nobody is asked: the difference is the price of the question. CPU per round trip;
ours holds two checkpoints, as every end and every stop of a run writes one.
"""

from __future__ import annotations

import asyncio  # noqa: TID253 - a script, which nothing imports
import tempfile
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from floor import FloorLog
from measure import CannotRun, Sample, alternate, arguments, clock, costs, finish, millis, start

from clawhive_core.hive.hive import Hive
from clawhive_core.model.canonical import canonical_text
from clawhive_core.model.tools import ToolMeta, ToolResult
from clawhive_core.protocols.context import InvokeContext
from clawhive_core.runs.requests import RunOptions
from clawhive_core.skills.contracts.skill import Skill, TaskType
from clawhive_core.testing import memory_hive

Round = Callable[[], Awaitable[None]]
"""Makes one round trip."""


class Keeper:
    """A provider with one guarded tool, which does nothing."""

    provider_id = "bench"

    async def list_tools(self) -> list[ToolMeta]:
        """Return the tool."""
        return [
            ToolMeta(
                "bench.keep",
                "Keep a note.",
                {"type": "object"},
                self.provider_id,
                risk="guarded",
                effects={"path": "fs.write"},
                idempotent=True,
            )
        ]

    async def invoke(
        self, tool_name: str, input: Mapping[str, Any], ctx: InvokeContext
    ) -> ToolResult:
        """Answer at once."""
        del tool_name, input
        return ToolResult(ctx.tool_call_id, "kept")

    async def close(self) -> None:
        """Nothing is held."""


class Bench:
    """A hive and the floor's log in one event loop."""

    def __init__(self, runner: asyncio.Runner, folder: Path) -> None:
        self.runner = runner
        self.stack = AsyncExitStack()
        self.floor = FloorLog(folder / "floor.db")
        self.floor.open()
        self.hive: Hive = runner.run(
            self.stack.enter_async_context(memory_hive(providers=[Keeper()]))
        )
        step = {"name": "keep", "tool": "bench.keep", "input": {"path": "note.txt"}}
        task = TaskType("job", "A job.", {"type": "object"}, (step,), None)
        self.hive.skills.append(Skill("bench", "1.0.0", Path(), "test", tasks={"job": task}))
        self.rows = runner.run(self.recorded())

    async def recorded(self) -> list[str]:
        """Make one round trip and return its rows without their chain, for the floor to write."""
        await self.asked()
        await self.hive.log.flush()
        events = [stored.to_dict() for stored in self.hive.log.events()]
        newest = max(event["seq"] for event in events if event["kind"] == "run.start")
        return [
            canonical_text({key: row[key] for key in row if key not in {"seq", "prev", "hash"}})
            for row in events
            if row["seq"] >= newest
        ]

    async def asked(self) -> None:
        """Park, approve, resume."""
        run = await self.hive.run(task="job")
        if run["status"] != "waiting_approval":
            raise CannotRun(f"the run did not wait: {run['status']}")
        self.hive.approvals.resolve("last", "approve", by="user:bench")
        run = await self.hive.resume(run["run_id"])
        if run["status"] != "succeeded":
            raise CannotRun(f"the run did not go on: {run['error']}")

    async def granted(self) -> None:
        """Run the task with its right given, so that nobody is asked."""
        options = RunOptions(grants=("fs.write:${workspace}/note.txt",))
        run = await self.hive.run(task="job", options=options)
        if run["status"] != "succeeded":
            raise CannotRun(f"the run failed: {run['error']}")

    async def bare(self) -> None:
        """Write the rows of one round trip, each awaited."""
        for row in self.rows:
            await self.floor.append(row)

    def sample(self, work: Round, count: int) -> Sample:
        """Return what one of `count` round trips costs."""

        async def rounds() -> None:
            for _ in range(count):
                await work()

        return clock(lambda: self.runner.run(rounds())).per(count)

    def close(self) -> None:
        """Close the hive and the floor's log."""
        self.runner.run(self.stack.aclose())
        self.floor.close()


def main() -> None:
    """Measure and print."""
    options = arguments(__doc__)
    count, rounds = (5, 2) if options.smoke else (30, 8)
    with tempfile.TemporaryDirectory() as folder, asyncio.Runner() as runner:
        bench = Bench(runner, Path(folder))
        try:
            found = alternate(
                {
                    "floor: its rows, bare": lambda: bench.sample(bench.bare, count),
                    "the task without a question": lambda: bench.sample(bench.granted, count),
                    "park, approve, resume": lambda: bench.sample(bench.asked, count),
                },
                rounds,
            )
            rows = len(bench.rows)
        finally:
            bench.close()
    floor, granted, asked = found.values()
    print(f"\nper round trip, which leaves {rows} rows")
    costs(found.values(), floor, millis, "ms")
    finish(
        "approval_round_trip",
        {
            "rows": rows,
            "cpu_ms": round(asked.cpu() * 1e3, 2),
            "ratio_to_floor": {
                "cpu": round(asked.ratio(floor), 1),
                "cpu_of_minima": round(asked.ratio_min(floor), 1),
            },
            "ratio_to_the_task_without_a_question": round(asked.ratio(granted), 2),
        },
    )


if __name__ == "__main__":
    start(main)
