"""What many runs at once cost in one process, beside other frameworks; and what long ones cost.

Run `python benchmarks/many_runs.py [--install] [--times N] [--only NAME]... [--smoke]`, or one of
its other parts with `--part processes`, `--part sessions` or `--part price`.

- `runs`: 10, 100 and 1,000 runs at once, each of ten rounds of a model that waits 20 ms and asks
  for one call of a tool that adds two numbers. Each is made in a process of its own. Ours records
  every step in its database, whose rows are counted at the end; the others record nothing.
- `processes`: four processes do it over one database; its rows are counted and its chain verified.
- `sessions`: a turn of a conversation, the 10th, 100th, 600th and 2,000th; a round of a run of 100
  and of one of 2,000 rounds.
- `price`: a run of two turns: CPU, and what it adds to the disk.

Python's garbage collector walks all living objects again and again, so what a round costs grows
with the runs beside it. `--collector 100000` sets it, in every process, as our command line does.
"""

from __future__ import annotations

import asyncio  # noqa: TID253 - a script, which nothing imports
import json
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from agent_loops import OURS, PEERS, Peer, argv_of, environment_of, usable
from measure import ROOT, CannotRun, arguments, finish, micros, millis, start, table

ROUNDS, PAUSE = 10, 0.02
COUNTS, SMOKE = (10, 100, 1000), (2, 10)
PROCESSES = 4
GOALS = {"round_1000_to_100": 1.25, "p99_to_p50": 2.0, "kb_a_run": 100.0}
SESSION_GOALS = {"turn_2000_to_10": 1.25, "round_2000_to_100": 1.2}
PRICE_GOALS = {"cpu_ms": 2.5, "kb": 9.0}


@contextmanager
def folders() -> Iterator[tuple[Path, str]]:
    """Give the folder of a project, and a home whose keys are made."""
    with tempfile.TemporaryDirectory() as name:
        home, root = Path(name) / "home", Path(name) / "project"
        home.mkdir()
        root.mkdir()
        yield root, str(home)


def argv_of_many(peer: Peer, runs: int, rounds: int) -> list[str]:
    """Return the command that makes many runs of a peer at once."""
    command = argv_of(peer)
    script = str(ROOT / "benchmarks" / "peers" / "many.py")
    return [*command[:-2], script, peer.name, str(runs), str(rounds), str(PAUSE)]


def environment(peer: Peer, root: Path, home: str) -> dict[str, str]:
    """Return the environment of a peer's process; `drive.py` is beside its script."""
    found = environment_of(peer, home) | {"BENCH_ROOT": str(root)}
    here = str(ROOT / "benchmarks" / "peers")
    found |= {"BENCH_COLLECTOR": os.environ.get("BENCH_COLLECTOR", "")}
    return found | {"PYTHONPATH": os.pathsep.join((found["PYTHONPATH"], here))}


def begun(peer: Peer, runs: int, root: Path, home: str) -> subprocess.Popen[str]:
    """Start the process that makes many runs of a peer at once."""
    return subprocess.Popen(
        argv_of_many(peer, runs, ROUNDS),
        env=environment(peer, root, home),
        cwd=home,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def ended(process: subprocess.Popen[str], name: str) -> dict[str, Any]:
    """Return the figures of a process.

    Raises:
        CannotRun: It failed; the message holds the end of what it wrote.
    """
    out, err = process.communicate()
    if process.returncode != 0:
        raise CannotRun(f"{name}: exit {process.returncode}\n{err.strip()[-1500:]}")
    return json.loads(out.splitlines()[-1])


def made(peer: Peer, runs: int) -> dict[str, Any]:
    """Make many runs of a peer at once in a fresh project, and check what ours recorded."""
    with folders() as (root, home):
        found = ended(begun(peer, runs, root, home), peer.name)
    if peer.name == OURS:
        wanted = {"invocation.start": (runs + 1) * ROUNDS, "invocation.end": (runs + 1) * ROUNDS}
        if found["calls"] != wanted or found["executed"] != (runs + 1) * ROUNDS:
            raise CannotRun(f"of the calls {found['calls']} are on the disk, not {wanted}")
    return found


def at_once(peers: Sequence[Peer], counts: Sequence[int], times: int) -> dict[str, Any]:
    """Return the medians of each peer and count; the processes run in turn."""
    found: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for number in range(times):
        for peer in peers[:: 1 if number % 2 == 0 else -1]:
            for count in counts:
                found.setdefault((peer.name, count), []).append(made(peer, count))
    names = ("cpu_per_round", "wall", "p50", "p99", "peak_mb")
    return {
        f"{peer} {count}": {key: statistics.median(row[key] for row in rows) for key in names}
        for (peer, count), rows in found.items()
    }


def shown(found: Mapping[str, Mapping[str, float]], missing: Mapping[str, str]) -> None:
    """Print the table of runs at once."""
    header = ("runs at once", "a round, cpu us", "wall s", "p50 s", "p99 s", "peak MB")
    rows = [
        [
            name,
            micros(each["cpu_per_round"]),
            *(f"{each[key]:.2f}" for key in ("wall", "p50", "p99")),
            f"{each['peak_mb']:.0f}",
        ]
        for name, each in found.items()
    ]
    rows += [[name, reason, "", "", "", ""] for name, reason in missing.items()]
    table(header, rows)


def against_goals(
    found: Mapping[str, Mapping[str, float]], counts: Sequence[int]
) -> dict[str, float]:
    """Return ours by the goals' measure, from the least and the two greatest counts."""
    few, some, many = counts[0], counts[-2], counts[-1]
    first, middle, last = (found[f"{OURS} {each}"] for each in (few, some, many))
    more = (last["peak_mb"] - first["peak_mb"]) * 1024
    return {
        f"round_{many}_to_{some}": round(last["cpu_per_round"] / middle["cpu_per_round"], 2),
        "p99_to_p50": round(last["p99"] / last["p50"], 2),
        "kb_a_run": round(more / (many - few), 1),
    }


def processes(runs: int) -> dict[str, Any]:
    """Make runs in four processes over one database; check what is on the disk.

    Raises:
        CannotRun: Something is lost, doubled, or not as it was written.
    """
    from clawhive_core.audit.verify import verify
    from clawhive_core.storage.sqlite.database import open_database
    from clawhive_core.storage.sqlite.tables import SqliteLedgers

    ours = next(peer for peer in PEERS if peer.name == OURS)
    with folders() as (root, home):
        made_first = ended(begun(ours, 1, root, home), OURS)
        before = time.perf_counter()
        started = [begun(ours, runs, root, home) for _ in range(PROCESSES)]
        found = [ended(each, OURS) for each in started]
        wall = time.perf_counter() - before
        path = root / ".clawhive" / "hive.db"
        with SqliteLedgers().inspect("sqlite:", root=str(root)) as log:
            report = verify(log, Path(home) / ".config" / "clawhive")
        with closing(open_database(path, read_only=True)) as connection:
            facts = dict(connection.execute("SELECT kind, count(*) FROM events GROUP BY kind"))
            (distinct,) = connection.execute(
                "SELECT count(DISTINCT run_id || invocation_id) FROM events"
                " WHERE kind = 'invocation.end'"
            ).fetchone()
            (succeeded,) = connection.execute(
                "SELECT count(*) FROM runs WHERE status = 'succeeded'"
            ).fetchone()
    executed = sum(each["executed"] for each in (made_first, *found))
    total = PROCESSES * (runs + 1) + 2
    counts = {facts[kind] for kind in ("invocation.start", "invocation.end")}
    if not report.ok or counts != {executed} or distinct != executed or succeeded != total:
        raise CannotRun(f"{report.lines()} {facts} executed {executed}, {succeeded} of {total}")
    cpu = statistics.mean(each["cpu_per_round"] for each in found)
    return {"wall": wall, "cpu_per_round": cpu, "calls": executed, "runs": total}


async def conversation(root: Path, turns: Sequence[int]) -> dict[int, float]:
    """Return the CPU seconds of turns of one conversation, each the median of five around it."""
    from many_hive import opened

    costs: list[float] = []
    async with opened(root, 0, 0.0) as (hive, _):
        for number in range(max(turns) + 3):
            before = time.process_time()
            run = await hive.run(f"turn {number}", model="scripted:many", session="conv_bench")
            costs.append(time.process_time() - before)
            if run["status"] != "succeeded":
                raise CannotRun(f"turn {number}: {run['error']}")
    return {each: statistics.median(costs[max(0, each - 3) : each + 2]) for each in turns}


async def long_run(root: Path, rounds: int) -> float:
    """Return the CPU seconds of a round of one long run."""
    from many_hive import opened

    async with opened(root, rounds, 0.0) as (hive, called):
        before = time.process_time()
        run = await hive.run("Add.", model="scripted:many", max_tool_rounds=rounds + 1)
        cost = time.process_time() - before
        if run["status"] != "succeeded" or called() != rounds:
            raise CannotRun(f"a run of {rounds} rounds: {run['error']}")
    return cost / rounds


def sessions(turns: Sequence[int], rounds: Sequence[int]) -> dict[str, float]:
    """Measure turns and rounds, in this process."""
    found: dict[str, float] = {}
    with folders() as (root, home):
        os.environ["HOME"] = home
        for number, cost in asyncio.run(conversation(root, turns)).items():
            found[f"turn {number}"] = cost
    for count in rounds:
        with folders() as (root, home):
            os.environ["HOME"] = home
            found[f"round of {count}"] = asyncio.run(long_run(root, count))
    return found


async def demo_runs(root: Path, count: int) -> tuple[float, float]:
    """Return the CPU seconds of a run of two turns, and the bytes that it adds to the disk.

    The seconds are those of the cheapest of ten batches, after one that is not counted.
    """
    from many_hive import opened

    batches, sizes = [], []
    async with opened(root, 1, 0.0) as (hive, _):
        for number in range(11):
            before = time.process_time()
            for _ in range(count):
                await hive.run("Add.", model="scripted:many")
            batches.append(time.process_time() - before)
            if number in (0, 10):
                await hive.log.flush()
                sizes.append(vacuumed(hive.log.path))
    return min(batches[1:]) / count, (sizes[1] - sizes[0]) / (10 * count)


def vacuumed(path: Path) -> int:
    """Return the size of a database's pages that are in use, the write-ahead log's included."""
    from clawhive_core.storage.sqlite.database import open_database

    with closing(open_database(path, read_only=True)) as connection:
        facts = (
            connection.execute(f"PRAGMA {each}").fetchone()[0]
            for each in ("page_size", "page_count", "freelist_count")
        )
        size, pages, free = facts
    return size * (pages - free)


def price(count: int) -> dict[str, float]:
    """Measure what a run of two turns costs."""
    with folders() as (root, home):
        os.environ["HOME"] = home
        cpu, size = asyncio.run(demo_runs(root, count))
    return {"cpu_ms": round(cpu * 1e3, 2), "kb": round(size / 1024, 2)}


def told(found: Mapping[str, float], goals: Mapping[str, float]) -> None:
    """Print figures with their goals."""
    for name, value in found.items():
        goal = f" (goal: {goals[name]} or less)" if name in goals else ""
        print(f"{name.replace('_', ' ')}: {value}{goal}")


def part_runs(options: Any) -> None:
    """Measure runs at once."""
    chosen = options.only or ["agno", "pydantic_ai"]
    wanted = [peer for peer in PEERS if peer.name in {OURS, *chosen}]
    if options.smoke:
        wanted = [peer for peer in wanted if peer.name == OURS]
    peers, missing = usable(wanted, may_install=options.install)
    counts = SMOKE if options.smoke else COUNTS
    found = at_once(peers, counts, 1 if options.smoke else options.times)
    shown(found, missing)
    goals = against_goals(found, counts)
    told(goals, GOALS)
    finish("many_runs", {"ours": goals, "goals": GOALS, "peers": found, "missing": missing})


def part_processes(options: Any) -> None:
    """Measure four processes over one database."""
    found = processes(3 if options.smoke else 100)
    told({key: round(value, 5) for key, value in found.items()}, {})
    finish("many_runs.processes", found)


def part_sessions(options: Any) -> None:
    """Measure turns and rounds."""
    turns = (5, 10) if options.smoke else (10, 100, 600, 2000)
    rounds = (5, 10) if options.smoke else (100, 2000)
    found = sessions(turns, rounds)
    table(("", "cpu ms"), [(name, millis(cost)) for name, cost in found.items()])
    first, last = found[f"turn {turns[0]}"], found[f"turn {turns[-1]}"]
    few, many = found[f"round of {rounds[0]}"], found[f"round of {rounds[-1]}"]
    ratios = {
        f"turn_{turns[-1]}_to_{turns[0]}": round(last / first, 2),
        f"round_{rounds[-1]}_to_{rounds[0]}": round(many / few, 2),
    }
    told(ratios, SESSION_GOALS)
    finish("many_runs.sessions", {"ours": ratios, "goals": SESSION_GOALS, "costs": found})


def part_price(options: Any) -> None:
    """Measure a run's own price."""
    found = price(1 if options.smoke else 30)
    told(found, PRICE_GOALS)
    finish("many_runs.price", {"ours": found, "goals": PRICE_GOALS})


PARTS = {
    "runs": part_runs,
    "processes": part_processes,
    "sessions": part_sessions,
    "price": part_price,
}


def main() -> None:
    """Measure and print."""
    options = arguments(
        __doc__,
        (
            "--collector",
            {
                "type": int,
                "metavar": "N",
                "help": "let every process collect garbage each N objects, ours' command line"
                " does at 100000 (700, as Python does)",
            },
        ),
        ("--install", {"action": "store_true", "help": "install the peers that are missing"}),
        ("--times", {"type": int, "default": 5, "help": "processes of each peer (5)"}),
        ("--only", {"action": "append", "metavar": "NAME", "help": "this peer beside ours"}),
        ("--part", {"choices": sorted(PARTS), "action": "append", "help": "runs, where not said"}),
    )
    home = os.environ.get("HOME")
    if options.collector:
        os.environ["BENCH_COLLECTOR"] = str(options.collector)
    try:
        for name in options.part or (PARTS if options.smoke else ["runs"]):
            PARTS[name](options)
    finally:
        if home is not None:
            os.environ["HOME"] = home


if __name__ == "__main__":
    start(main)
