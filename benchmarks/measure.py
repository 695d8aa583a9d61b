"""Measuring two things fairly on a machine that is never quiet.

What is compared runs alternately, A B B A, and is compared round by round, so that a slow minute
hits both. CPU time (user + system, all threads; children's for processes) is the figure to read,
wall time stands beside it. Every script prints one table and, as its last line, one JSON object.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import sqlite3
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent


class CannotRun(Exception):
    """What is to be measured does not work at all."""


@dataclass(frozen=True, slots=True)
class Sample:
    """What one unit of work cost, in seconds."""

    cpu: float
    wall: float

    def per(self, count: int) -> Sample:
        """Return the cost of one of `count` equal parts."""
        return Sample(self.cpu / count, self.wall / count)


@dataclass(frozen=True, slots=True)
class Series:
    """The samples of one case, in the order of the rounds."""

    name: str
    samples: Sequence[Sample]

    def cpu(self) -> float:
        """Return the median CPU seconds."""
        return statistics.median(each.cpu for each in self.samples)

    def cpu_min(self) -> float:
        """Return the least CPU seconds."""
        return min(each.cpu for each in self.samples)

    def wall(self) -> float:
        """Return the median wall seconds."""
        return statistics.median(each.wall for each in self.samples)

    def wall_min(self) -> float:
        """Return the least wall seconds."""
        return min(each.wall for each in self.samples)

    def ratio(self, floor: Series) -> float:
        """Return the median, over the rounds, of this case's CPU by the floor's."""
        pairs = zip(self.samples, floor.samples, strict=True)
        return statistics.median(mine.cpu / other.cpu for mine, other in pairs)

    def ratio_min(self, floor: Series) -> float:
        """Return the ratio of the least CPU seconds, which other processes disturb least."""
        return self.cpu_min() / floor.cpu_min()

    def wall_ratio(self, floor: Series) -> float:
        """Return the median, over the rounds, of this case's wall time by the floor's."""
        pairs = zip(self.samples, floor.samples, strict=True)
        return statistics.median(mine.wall / other.wall for mine, other in pairs)


def alternate(
    cases: Mapping[str, Callable[[], Sample]], rounds: int, warm: int = 1
) -> dict[str, Series]:
    """Run the cases in turn, every second round backwards; the first `warm` rounds do not count."""
    samples: dict[str, list[Sample]] = {name: [] for name in cases}
    for number in range(-warm, rounds):
        names = list(cases)[:: 1 if number % 2 == 0 else -1]
        for name in names:
            sample = cases[name]()
            if number >= 0:
                samples[name].append(sample)
    return {name: Series(name, found) for name, found in samples.items()}


def clock(work: Callable[[], object]) -> Sample:
    """Run work in this process; its CPU includes every thread's."""
    cpu, wall = time.process_time(), time.perf_counter()
    work()
    return Sample(time.process_time() - cpu, time.perf_counter() - wall)


def child(
    argv: Sequence[str], *, env: Mapping[str, str] | None = None, cwd: Path | None = None
) -> Sample:
    """Run a process to its end.

    Raises:
        CannotRun: It failed; the message holds the end of what it wrote.
    """
    before, wall = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(
        argv,
        env=env,
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    seconds, after = time.perf_counter() - wall, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip()[-2000:]
        raise CannotRun(f"{' '.join(argv)}: exit {done.returncode}\n{said}")
    user, system = after.ru_utime - before.ru_utime, after.ru_stime - before.ru_stime
    return Sample(user + system, seconds)


def arguments(description: str | None, *more: tuple[str, dict[str, Any]]) -> argparse.Namespace:
    """Return the command line's options: `--smoke` and those of the script."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--smoke", action="store_true", help="a run of a few seconds, for CI")
    for name, settings in more:
        parser.add_argument(name, **settings)
    return parser.parse_args()


def environment() -> dict[str, Any]:
    """Return what the figures were measured on."""
    return {
        "cores": len(os.sched_getaffinity(0)),
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "cpu": _cpu_model(),
        "sqlite": sqlite3.sqlite_version,
        "load": round(os.getloadavg()[0], 2),
    }


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())


def millis(seconds: float) -> str:
    """Return seconds as milliseconds."""
    return f"{seconds * 1e3:.1f}"


def micros(seconds: float) -> str:
    """Return seconds as microseconds."""
    return f"{seconds * 1e6:.0f}"


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print rows under a header, the first column to the left, figures to the right."""
    lines = [list(header), *(list(row) for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]
    for line in lines:
        first, *rest = line
        cells = [first.ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(rest, widths[1:], strict=True)]
        print("  ".join(cells).rstrip())


def costs(
    series: Iterable[Series], floor: Series, unit: Callable[[float], str], unit_name: str
) -> None:
    """Print each case's CPU and wall time, and its ratio to the floor."""
    header = ("case", f"cpu {unit_name}", "min", f"wall {unit_name}", "min", "cpu ratio", "of mins")
    table(
        header,
        [
            (
                each.name,
                unit(each.cpu()),
                unit(each.cpu_min()),
                unit(each.wall()),
                unit(each.wall_min()),
                f"{each.ratio(floor):.2f}",
                f"{each.ratio_min(floor):.2f}",
            )
            for each in series
        ],
    )


def finish(name: str, figures: Mapping[str, Any]) -> None:
    """Print the JSON line that ends every script's output."""
    print(json.dumps({"benchmark": name, "environment": environment(), **figures}))


def start(main: Callable[[], None]) -> None:
    """Run a script: exit 0 with figures, 1 where what is measured cannot run."""
    facts = environment()
    print(f"# {facts['cores']} cores, {facts['cpu']}, {facts['python']}, SQLite {facts['sqlite']}")
    try:
        main()
    except CannotRun as error:
        print(f"cannot run: {error}", file=sys.stderr)
        sys.exit(1)
