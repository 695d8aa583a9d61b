"""Runs many agents at once in this process and prints what that cost, as one JSON object.

`python -P many.py NAME RUNS ROUNDS SECONDS`: `NAME.py` beside this file defines
`load_many(bench, rounds, pause)`, an async context manager that gives `one()`, which does a whole
run: its fake model waits `pause` seconds before each answer and asks for one call of a counted tool
a round. One run is made before the clock starts. A run that did not execute each call fails.
"""

from __future__ import annotations

import asyncio  # noqa: TID253 - a script, which nothing imports
import gc
import json
import os
import statistics
import sys
import time
from pathlib import Path
from typing import Any

from drive import Bench, used


async def timed(one: Any) -> float:
    """Return how long a run took by the wall clock."""
    before = time.perf_counter()
    await one()
    return time.perf_counter() - before


async def measured(load: Any, runs: int, rounds: int, pause: float) -> dict[str, Any]:
    """Make the runs at once and return what they cost."""
    bench = Bench()
    async with load(bench, rounds, pause) as one:
        await one()
        bench.executed = 0
        cpu, wall = time.process_time(), time.perf_counter()
        took = await asyncio.gather(*(timed(one) for _ in range(runs)))
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    if bench.executed != runs * rounds:
        sys.exit(f"{bench.executed} calls were executed, not {runs * rounds}")
    took.sort()
    return {
        "cpu_per_round": cpu / (runs * rounds),
        "wall": wall,
        "p50": statistics.median(took),
        "p99": took[min(len(took) - 1, round(len(took) * 0.99))],
        "peak_mb": used()[1],
        **bench.facts,
    }


def main() -> None:
    """Load, measure, print."""
    name, runs, rounds, pause = sys.argv[1:]
    path = Path(__file__).with_name(f"{name}.py")
    found: dict[str, Any] = {"__name__": f"peer_{path.stem}"}
    if collector := os.environ.get("BENCH_COLLECTOR"):
        gc.set_threshold(int(collector))
    exec(compile(path.read_text("utf-8"), str(path), "exec"), found)
    figures = asyncio.run(measured(found["load_many"], int(runs), int(rounds), float(pause)))
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
