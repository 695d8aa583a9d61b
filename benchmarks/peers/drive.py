"""Runs one peer in this process and prints what it cost, as one JSON object.

`python -P drive.py NAME [ROUNDSxTOOLSxCALLS]...`: `NAME.py` beside this file defines `load()`,
which imports what the peer is made of and returns `run(bench, rounds, tools, calls)`. That builds
its agent, whose fake model asks for the calls, and in each of `bench.runs()` runs it inside
`bench.clock()`. The second run counts: what an agent or a project makes once is shown beside it.
Each shape runs like that once before. A run that did not execute each call fails.
"""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

RUNS = 2


class Bench:
    """What a peer's run is measured with."""

    def __init__(self) -> None:
        self.executed = 0
        self.costs: list[float] = []
        """The CPU seconds of each run."""
        self.facts: dict[str, Any] = {}
        """What a peer tells beside its costs."""

    def runs(self) -> range:
        """Return the runs that an agent makes, one after the other."""
        return range(RUNS)

    @contextmanager
    def clock(self) -> Iterator[None]:
        """Take the CPU time of this process, all threads, as what a run cost."""
        before = time.process_time()
        yield
        self.costs.append(time.process_time() - before)

    def tool(self, number: int) -> Callable[[int, int], int]:
        """Return a counted tool."""

        def add(a: int, b: int) -> int:
            """Add two whole numbers and return their sum, for the comparison of loops."""
            self.executed += 1
            return a + b

        add.__name__ = add.__qualname__ = f"tool_{number}"
        return add

    def async_tool(self, number: int) -> Callable[[int, int], Any]:
        """Return a counted tool that is a coroutine function: what asynchronous peers like best."""

        async def add(a: int, b: int) -> int:
            """Add two whole numbers and return their sum, for the comparison of loops."""
            self.executed += 1
            return a + b

        add.__name__ = add.__qualname__ = f"tool_{number}"
        return add


def used() -> tuple[float, float]:
    """Return the CPU seconds so far and the peak of the memory in MB."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def measured(run: Callable[..., None], shape: str) -> dict[str, float]:
    """Return the CPU seconds of a call in the second run, and what the first run cost more.

    Each call is a round of its own, or all are made in one.
    """
    rounds, tools, calls = (int(each) for each in shape.split("x"))
    for _ in range(2):
        bench = Bench()
        run(bench, rounds, tools, calls)
        if bench.executed != RUNS * rounds * calls:
            sys.exit(f"{bench.executed} calls were executed, not {RUNS * rounds * calls}")
    first, again = bench.costs
    return {"call": again / (rounds * calls), "first": first - again}


def main() -> None:
    """Load, measure, print."""
    path = Path(__file__).with_name(f"{sys.argv[1]}.py")
    found: dict[str, Any] = {"__name__": f"peer_{path.stem}"}
    exec(compile(path.read_text("utf-8"), str(path), "exec"), found)
    cpu, memory = used()
    run = found["load"]()
    loaded_cpu, loaded_memory = used()
    shapes = {shape: measured(run, shape) for shape in sys.argv[2:]}
    figures = {
        "import_cpu": loaded_cpu - cpu,
        "import_mb": loaded_memory - memory,
        "peak_mb": used()[1] - memory,
        "shapes": shapes,
    }
    import json

    print(json.dumps(figures))


if __name__ == "__main__":
    main()
