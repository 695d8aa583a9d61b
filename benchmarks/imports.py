"""What importing the core costs, and a first call with it.

Run `python benchmarks/imports.py [--smoke] [--rounds N] [--only CASE]...`. Each case runs in a
process of its own, on one core where the system lets it choose, with the bytecode written before;
what counts is the CPU time of the statements, not of the interpreter's start. The floor is what
the core is made of and cannot do without: pluggy, click, asyncio and sqlite3. The last case opens a
hive in a temporary project without plugins and calls one tool of the program's own.
Goal: `from clawhive_core import Hive` costs at most 1.5 times the floor.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from measure import ROOT, CannotRun, Sample, alternate, arguments, costs, finish, millis, start

GOAL = 1.5
FLOOR = "pluggy, click, asyncio, sqlite3"
HIVE = "from clawhive_core import Hive"
FIRST_CALL = """
import asyncio
from clawhive_core import ToolMeta
from clawhive_core.testing import memory_hive
numbers = {"a": {"type": "integer"}, "b": {"type": "integer"}}
schema = {"type": "object", "properties": numbers, "required": ["a", "b"]}
async def main():
    async with memory_hive() as hive:
        meta = ToolMeta("sum.add", "Add two whole numbers.", schema, "local", risk="safe")
        hive.tools.add(meta, lambda a, b: a + b)
        run, outcome = await hive.call("sum.add", {"a": 1, "b": 2})
        assert outcome.output == "3", outcome
asyncio.run(main())
"""
CASES: Mapping[str, str] = {
    FLOOR: "import asyncio, sqlite3, click, pluggy",
    "import clawhive_core": "import clawhive_core",
    HIVE: HIVE,
    "a hive opened, one tool called": FIRST_CALL,
}
TIMED = """
import time
cpu, wall = time.process_time(), time.perf_counter()
exec(compile({code!r}, "<case>", "exec"))
print(time.process_time() - cpu, time.perf_counter() - wall)
"""


def program(home: Path, code: str) -> Callable[[], Sample]:
    """Return what runs a case in a fresh process."""
    env = {
        "HOME": str(home),
        "PATH": os.environ.get("PATH", ""),
        "PYTHONPATH": str(ROOT),
        "PYTHONPYCACHEPREFIX": str(home / "bytecode"),
    }
    return partial(run, [sys.executable, "-P", "-c", TIMED.format(code=code)], env, home)


def run(argv: list[str], env: Mapping[str, str], folder: Path) -> Sample:
    """Return what a process says that its statements cost.

    Raises:
        CannotRun: It failed; the message holds the end of what it wrote.
    """
    done = subprocess.run(argv, env=env, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise CannotRun(done.stderr.strip()[-2000:])
    cpu, wall = done.stdout.split()[-2:]
    return Sample(float(cpu), float(wall))


def main() -> None:
    """Measure and print."""
    options = arguments(
        __doc__,
        ("--rounds", {"type": int, "default": 21, "help": "processes of each case (21)"}),
        ("--only", {"action": "append", "metavar": "CASE", "help": "this case beside the floor"}),
    )
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    chosen = {FLOOR, *(options.only or CASES)}
    with tempfile.TemporaryDirectory() as name:
        cases = {case: program(Path(name), code) for case, code in CASES.items() if case in chosen}
        found = alternate(cases, rounds=2 if options.smoke else options.rounds)
    costs(found.values(), found[FLOOR], millis, "ms")
    ratios = {case: round(series.ratio(found[FLOOR]), 2) for case, series in found.items()}
    if HIVE in ratios:
        print(f"{HIVE}: {ratios[HIVE]} times the floor (goal: {GOAL} or less)")
    finish("imports", {"cpu_ratio_to_floor": ratios, "goal": GOAL})


if __name__ == "__main__":
    start(main)
