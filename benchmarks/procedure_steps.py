"""What a step of a procedure costs beside the same call made directly, and whether it stays flat.

Run `python benchmarks/procedure_steps.py [--smoke]`. A skill's task type of 10, 50 and 200 steps,
each needing the one before, runs through `Hive.run` without a model; beside it the same calls, one
after the other, in one session of the same hive, and the smallest honest executor (`floor.py`). All
of them read the same small file. A run's start, end, checkpoint and report are counted on both
sides, opening the project on none. Goals: a step of 50 costs at most 1.3 times the direct call; a
further step of 200 costs at most 1.2 times a further step of 50.
"""

from __future__ import annotations

import asyncio  # noqa: TID253 - a script, which nothing imports
import json
import os
import tempfile
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from floor import FILE, Floor, FloorLog
from floor_door import Files
from loop_rounds import marginal
from measure import CannotRun, Sample, alternate, arguments, clock, finish, micros, start, table

from clawhive_core.config import Config
from clawhive_core.hive.hive import Hive
from clawhive_core.plugins.manager import PluginManager
from clawhive_core.protocols.provider import ToolProvider
from clawhive_core.runs.record.view import run_json

STEP_GOAL, GROWTH_GOAL = 1.3, 1.2
SIZES = (10, 50, 200)
INPUT: Mapping[str, Any] = {"path": FILE, "limit": 4096}


class Plugins(PluginManager):
    """The plugins of a run: the one provider, nothing that is installed."""

    def __init__(self, root: Path) -> None:
        super().__init__([])
        self.root = root

    def providers(self) -> list[ToolProvider]:
        """Return the provider."""
        return [Files(self.root)]


class Bench:
    """One hive and one floor over the same file, in one event loop."""

    def __init__(self, runner: asyncio.Runner, root: Path) -> None:
        self.runner = runner
        self.root = root
        self.numbers = 0
        (root / "docs").mkdir()
        (root / FILE).write_text("A line of text in a page.\n" * 20, encoding="utf-8")
        manifest = {"id": "bench", "tasks": {f"steps{n}": procedure(n) for n in SIZES}}
        (root / "skills" / "bench").mkdir(parents=True)
        (root / "skills" / "bench" / "clawhive.json").write_text(json.dumps(manifest), "utf-8")
        env = {"HOME": str(root), "PATH": os.environ.get("PATH", "")}
        self.context = Hive.open(root, env=env, plugins=self.load)
        self.hive: Hive = runner.run(self.context.__aenter__())
        self.floor_log = FloorLog(root / "floor.db")
        self.floor_log.open()
        self.floor = Floor(root, self.floor_log)

    def load(self, config: Config, env: Mapping[str, str]) -> PluginManager:
        """Return the plugins."""
        del config, env
        return Plugins(self.root)

    def sample(self, work: Callable[[int], Awaitable[None]], count: int) -> Sample:
        """Return what one of `count` calls costs."""

        async def whole() -> None:
            await work(count)
            await self.hive.log.flush()

        return clock(lambda: self.runner.run(whole())).per(count)

    async def steps(self, count: int) -> None:
        """Run a procedure."""
        run = await self.hive.run(task=f"steps{count}", input=INPUT)
        if run["status"] != "succeeded" or len(run["steps"]) != count:
            raise CannotRun(f"the run ended as {run['status']}: {run['error']}")

    async def calls(self, count: int) -> None:
        """Make the same calls in a session."""
        async with self.hive.session("agent:default") as session:
            for _ in range(count):
                answer = await session.call("file.read", INPUT)
                if isinstance(answer, dict):
                    raise CannotRun(f"the call was not served: {answer}")
        run_json(self.hive.log, session.run_id)

    async def bare(self, count: int) -> None:
        """Make the same calls through the smallest honest executor."""
        first, self.numbers = self.numbers, self.numbers + count
        for number in range(first, first + count):
            await self.floor.call(number)

    def close(self) -> None:
        """Close the hive and both logs."""
        self.runner.run(self.context.__aexit__(None, None, None))
        self.floor_log.close()


def procedure(count: int) -> dict[str, Any]:
    """Return a task type of so many steps."""
    given = {"path": "${input.path}", "limit": "${input.limit}"}
    return {
        "input_schema": {"type": "object"},
        "steps": [{"name": f"s{n}", "tool": "file.read", "input": given} for n in range(count)],
        "output": f"${{steps.s{count - 1}.output}}",
    }


def main() -> None:
    """Measure and print."""
    rounds = 2 if arguments(__doc__).smoke else 12
    with tempfile.TemporaryDirectory() as folder, asyncio.Runner() as runner:
        bench = Bench(runner, Path(folder).resolve())
        kinds = {"step": bench.steps, "call": bench.calls, "floor": bench.bare}
        cases = {
            f"{kind}, of {count}": partial(bench.sample, work, count)
            for count in SIZES
            for kind, work in kinds.items()
        }
        try:
            found = alternate(cases, rounds)
        finally:
            bench.close()
    rows: list[tuple[str, ...]] = []
    for name, series in found.items():
        count = name.rpartition(" ")[2]
        call, floor = found[f"call, of {count}"], found[f"floor, of {count}"]
        costs = (series.cpu(), series.cpu_min(), series.wall(), series.wall_min())
        ratios = (series.ratio(call), series.ratio_min(call), series.ratio(floor))
        rows.append((name, *map(micros, costs), *(f"{ratio:.2f}" for ratio in ratios)))
    table(("each", "cpu us", "min", "wall us", "min", "to call", "of mins", "to floor"), rows)
    step, floor = found["step, of 50"], found["floor, of 50"]
    to_call, of_minima = (ratio(found["call, of 50"]) for ratio in (step.ratio, step.ratio_min))
    later = marginal(step, 50, found["step, of 200"], 200)
    growth = later / marginal(found["step, of 10"], 10, step, 50)
    print(f"a step of 50 beside the direct call: {to_call:.2f}, of minima {of_minima:.2f}", end="")
    print(f" (goal: {STEP_GOAL} or less)")
    print(f"steps 51 to 200 beside steps 11 to 50: {growth:.2f} (goal: {GROWTH_GOAL} or less)")
    finish(
        "procedure_steps",
        {
            "step_to_call": round(to_call, 2),
            "step_to_call_of_minima": round(of_minima, 2),
            "step_to_floor": round(step.ratio(floor), 2),
            "growth_of_later_steps": round(growth, 2),
            "goals": {"step_to_call": STEP_GOAL, "growth_of_later_steps": GROWTH_GOAL},
        },
    )


if __name__ == "__main__":
    start(main)
