"""What a call of an MCP server's tool costs through ClawHive, as its client and as its gateway.

Run `python benchmarks/mcp_calls.py [--install] [--part PART] [--smoke]`:

- `calls`: calls of one tool of a server that the standard library is enough for: by the SDK's
  client alone, by fastmcp's, and through a session of a Hive, with policy, validation and log;
  beside them the smallest honest executor (`floor.py`), which shows what the log must cost, and
  the same with each intent synced to the disk, as ours is where a call may change something
  outside of the run. One after the other, and 100 at once.
- `gateway`: the same calls by the SDK's client through another process: fastmcp's proxy, the least
  gateway that the SDK makes (its client and its low-level server), and `clawhive serve mcp`.
- `crowd`: 100 calls at once again and again: the last beside the first, the memory they leave, and
  the processes that are left at the end, which must be none.

Goals: a call costs at most the SDK's client and 1.6 times the floor; a gateway's call costs less
than fastmcp's, and at most the SDK's pair and 1.6 times the floor.
"""

from __future__ import annotations

import asyncio  # noqa: TID253 - a script, which nothing imports
import gc
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from agent_loops import Peer, argv_of, environment_of, usable
from floor import Floor, FloorLog
from measure import (
    ROOT,
    CannotRun,
    Sample,
    Series,
    alternate,
    arguments,
    clock,
    finish,
    micros,
    start,
    table,
)

PEERS = ROOT / "benchmarks" / "peers"
SERVER = [sys.executable, "-S", "-E", str(PEERS / "add_server.py")]
FASTMCP = Peer("fastmcp", "fastmcp==4.1.2", "neither policy nor log")
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}}
PARALLEL = 100
LEDGER = 1.6
GOALS = {"call_over_sdk_by_floors": LEDGER, "gateway_over_pair_by_floors": LEDGER}
OURS, SDK, PAIR, PROXY = "clawhive", "sdk client", "sdk pair", "fastmcp proxy"
FLOOR, SYNCED = "floor", "floor, intent synced"

Call = Callable[[int], Awaitable[Any]]


class Held:
    """Keeps async contexts open between runs of a loop, each in a task of its own."""

    def __init__(self, runner: asyncio.Runner) -> None:
        self.runner = runner
        self.stop = asyncio.Event()
        self.tasks: list[asyncio.Task[None]] = []

    def enter(self, context: AbstractAsyncContextManager[Any]) -> Any:
        """Enter a context and return its value."""
        return self.runner.run(self._enter(context))

    async def _enter(self, context: AbstractAsyncContextManager[Any]) -> Any:
        ready = asyncio.get_running_loop().create_future()

        async def hold() -> None:
            try:
                async with context as value:
                    ready.set_result(value)
                    await self.stop.wait()
            except BaseException as error:
                if not ready.done():
                    ready.set_exception(error)
                raise

        task = asyncio.create_task(hold())
        self.tasks.append(task)
        return await ready

    def close(self) -> None:
        """Leave them all."""

        async def leave() -> None:
            self.stop.set()
            await asyncio.gather(*self.tasks)

        self.runner.run(leave())


class Project:
    """A project whose user has one server, and gave the right to call its tools."""

    def __init__(self, folder: Path, command: Sequence[str] = SERVER) -> None:
        self.root, self.home = folder / "project", folder / "home"
        self.root.mkdir(parents=True)
        own = self.home / ".config" / "clawhive"
        own.mkdir(parents=True)
        text = f"[mcp.servers.demo]\ncmd = {json.dumps(list(command))}\n"
        (own / "config.toml").write_text(text, encoding="utf-8")
        path = os.environ.get("PATH", "")
        self.env = {"HOME": str(self.home), "XDG_CONFIG_HOME": str(own.parent), "PATH": path}

    def clawhive(self, *words: str) -> list[str]:
        """Return the command line of a command."""
        entry = "import sys; from clawhive_core.cli import main; main()"
        return [sys.executable, "-c", entry, "--root", str(self.root), *words]

    def run(self, *words: str) -> str:
        """Run a command and return what it prints.

        Raises:
            CannotRun: It failed.
        """
        done = subprocess.run(
            self.clawhive(*words), env=self.env, capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            raise CannotRun(f"clawhive {' '.join(words)}: {(done.stdout + done.stderr)[-1500:]}")
        return done.stdout

    @asynccontextmanager
    async def session(self) -> AsyncGenerator[Any]:
        """Give a session of a Hive over it."""
        from clawhive_core import Hive
        from clawhive_core.hive.hive import RunOptions

        options = RunOptions(grants=("tool.call:mcp.**",))
        async with (
            Hive.open(self.root, env=self.env) as hive,
            hive.session(options=options) as session,
        ):
            yield session


def sdk_client(argv: Sequence[str], env: Mapping[str, str] | None = None) -> Any:
    """Return the SDK's client of a server over stdio."""
    from mcp import Client, StdioServerParameters

    program, *words = argv
    given = None if env is None else dict(env)
    return Client(StdioServerParameters(command=program, args=words, env=given), mode="legacy")


async def by_sdk(client: Any, tool: str, number: int) -> None:
    """Call the tool by the SDK's client."""
    answer = await client.call_tool(tool, {"a": number, "b": 1})
    expect(answer.content[0].text, number, answer)


async def by_session(session: Any, number: int) -> None:
    """Call the tool through the executor."""
    result = await session.invoke("mcp.demo.add", {"a": number, "b": 1})
    expect(getattr(result, "output", ""), number, result)


def expect(text: Any, number: int, answer: Any) -> None:
    """Refuse a wrong answer.

    Raises:
        CannotRun: It is one.
    """
    if str(number + 1) not in str(text):
        raise CannotRun(f"the call {number} was answered with {str(answer)[:500]}")


async def by_floor(floor: Floor, number: int, *, sync: bool = False) -> None:
    """Add, with a chained row before and after; with `sync` the disk has the one before."""
    given = {"a": number, "b": 1}
    asked = {"name": "add", "input": given}
    await floor.log.append(floor.intent(number, asked, floor.digest(given)), sync=sync)
    await floor.log.append(floor.end(number, number + 1))


class Ways:
    """The ways to call, opened once."""

    def __init__(self, runner: asyncio.Runner, folder: Path) -> None:
        self.held, self.runner, self.folder = Held(runner), runner, folder
        self.log = FloorLog(folder / "floor.db")
        self.log.open()
        self.floor = Floor(folder, self.log, SCHEMA)
        self.numbers = 0

    def sample(self, call: Call, count: int, *, at_once: bool = False) -> Sample:
        """Make calls and return what one cost this process."""
        first, self.numbers = self.numbers, self.numbers + count

        async def work() -> None:
            if at_once:
                await asyncio.gather(*(call(n) for n in range(first, first + count)))
                return
            for number in range(first, first + count):
                await call(number)

        return clock(lambda: self.runner.run(work())).per(count)

    def close(self) -> None:
        """Close all."""
        self.held.close()
        self.log.close()


@contextmanager
def ways() -> Generator[Ways]:
    """Give the ways to call, over a folder that is removed again."""
    with tempfile.TemporaryDirectory() as name, asyncio.Runner() as runner:
        found = Ways(runner, Path(name).resolve())
        try:
            yield found
        finally:
            found.close()


def fastmcp_calls(count: int, *, at_once: bool) -> Sample | None:
    """Return what a call costs fastmcp's client, in a process of its own."""
    if FASTMCP.missing:
        return None
    argv = [*argv_of(FASTMCP)[:-2], str(PEERS / "mcp_fastmcp.py"), "client", str(count)]
    with tempfile.TemporaryDirectory() as home:
        done = subprocess.run(
            [*argv, "once" if at_once else "turn", *SERVER],
            env=environment_of(FASTMCP, home),
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode != 0:
        raise CannotRun(f"fastmcp: {done.stderr[-1500:]}")
    return Sample(*json.loads(done.stdout.splitlines()[-1]))


def calls(*, smoke: bool, missing: Mapping[str, str]) -> dict[str, Any]:
    """Compare the clients."""
    count, rounds = (100, 3) if smoke else (300, 10)
    figures: dict[str, Any] = {}
    with ways() as open_ways:
        project = Project(open_ways.folder / "ours")
        client = open_ways.held.enter(sdk_client(SERVER))
        session = open_ways.held.enter(project.session())
        cases: dict[str, Call] = {
            FLOOR: partial(by_floor, open_ways.floor),
            SYNCED: partial(by_floor, open_ways.floor, sync=True),
            SDK: partial(by_sdk, client, "add"),
            OURS: partial(by_session, session),
        }
        for title, at_once in (("one after the other", False), ("100 at once", True)):
            size = PARALLEL if at_once else count
            found = alternate(
                {
                    name: partial(open_ways.sample, call, size, at_once=at_once)
                    for name, call in cases.items()
                },
                rounds,
                warm=2,
            )
            peer = fastmcp_calls(size if at_once else count, at_once=at_once)
            if peer is not None:
                found["fastmcp client"] = Series("fastmcp client", [peer])
            figures[title] = shown(f"a call, {title}", found, SDK)
    for name, why in missing.items():
        print(f"{name}: {why}")
    return figures


def shown(title: str, found: Mapping[str, Series], basis: str) -> dict[str, Any]:
    """Print a table, and return by how many floors ours costs more than the basis."""
    print(f"\n{title}")
    header = ("case", "cpu us", "min", "wall us", "min")
    rows = [
        [each.name, *map(micros, (each.cpu(), each.cpu_min(), each.wall(), each.wall_min()))]
        for each in found.values()
    ]
    table(header, rows)
    floor, ours, other = found[FLOOR], found[OURS], found[basis]
    pairs = zip(ours.samples, other.samples, floor.samples, strict=True)
    ratios = sorted((mine.cpu - sdk.cpu) / least.cpu for mine, sdk, least in pairs)
    of_medians = ratios[len(ratios) // 2]
    of_minima = (ours.cpu_min() - other.cpu_min()) / floor.cpu_min()
    print(
        f"{OURS} less {basis}: {of_medians:.2f} floors, of minima {of_minima:.2f} (goal {LEDGER})"
    )
    return {
        "floors_over": round(of_medians, 2),
        "of_minima": round(of_minima, 2),
        "cpu_us": {name: round(each.cpu() * 1e6) for name, each in found.items()},
        "cpu_us_min": {name: round(each.cpu_min() * 1e6) for name, each in found.items()},
        "wall_us_min": {name: round(each.wall_min() * 1e6) for name, each in found.items()},
    }


def process_table() -> dict[int, tuple[int, float]]:
    """Return the parent and the CPU seconds of each process."""
    tick = os.sysconf("SC_CLK_TCK")
    found: dict[int, tuple[int, float]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                facts = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:  # it has ended
                continue
            found[int(entry.name)] = (int(facts[1]), (int(facts[11]) + int(facts[12])) / tick)
    return found


def children() -> set[int]:
    """Return the processes that this one started."""
    return {pid for pid, (parent, _) in process_table().items() if parent == os.getpid()}


class Gateways:
    """Processes between the SDK's client and a server, each with a client that is connected."""

    def __init__(self, open_ways: Ways) -> None:
        self.ways = open_ways
        self.calls: dict[str, Call] = {}
        self.pids: dict[str, int] = {}

    def start(self, name: str, argv: Sequence[str], env: Mapping[str, str] | None) -> None:
        """Start one and connect to it."""
        before = children()
        client = self.ways.held.enter(sdk_client(argv, env))
        new = children() - before
        if len(new) != 1:
            raise CannotRun(f"{name} is {len(new)} processes")
        self.pids[name] = new.pop()
        tools = [tool.name for tool in self.ways.runner.run(client.list_tools()).tools]
        [tool] = [each for each in tools if each.endswith("add")]
        self.calls[name] = partial(by_sdk, client, tool)

    def sample(self, name: str, count: int) -> Sample:
        """Make calls; return what one cost the gateway's process, and the client's wall time."""
        before = process_table()[self.pids[name]][1]
        mine = self.ways.sample(self.calls[name], count)
        return Sample((process_table()[self.pids[name]][1] - before) / count, mine.wall)


def gateway(*, smoke: bool, missing: Mapping[str, str]) -> dict[str, Any]:
    """Compare the gateways."""
    count, rounds = (100, 2) if smoke else (400, 8)
    with ways() as open_ways, tempfile.TemporaryDirectory() as home:
        project = Project(open_ways.folder / "ours")
        project.run("mcp", "test")
        right = ("tool.call:mcp.demo.add", "--always", "--subject", "client:mcp/bench")
        project.run("grants", "issue", *right)
        between = Gateways(open_ways)
        between.start("no gateway", SERVER, None)
        between.start(PAIR, [sys.executable, str(PEERS / "mcp_pair.py"), *SERVER], None)
        if not missing:
            proxy = [*argv_of(FASTMCP)[:-2], str(PEERS / "mcp_fastmcp.py"), "proxy", *SERVER]
            between.start(PROXY, proxy, environment_of(FASTMCP, home))
        between.start(OURS, project.clawhive("serve", "mcp", "--client", "bench"), project.env)
        cases = {name: partial(between.sample, name, count) for name in between.calls}
        for name, sync in ((FLOOR, False), (SYNCED, True)):
            call = partial(by_floor, open_ways.floor, sync=sync)
            cases[name] = partial(open_ways.sample, call, count)
        found = alternate(cases, rounds)
    for name, why in missing.items():
        print(f"{name}: {why}")
    figures = shown("a call through a gateway: its own CPU, the client's wall time", found, PAIR)
    if PROXY in found:
        ratio = found[OURS].cpu_min() / found[PROXY].cpu_min()
        figures["to_fastmcp"] = round(ratio, 2)
        wall = found[OURS].wall_min() / found[PROXY].wall_min()
        figures["wall_to_fastmcp"] = round(wall, 2)
        print(f"{OURS} to {PROXY}: CPU {ratio:.2f}, wall {wall:.2f} (goal: below 1)")
    return figures


def resident() -> float:
    """Return the memory of this process in MB."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGESIZE") / 2**20


def crowd(*, smoke: bool, missing: Mapping[str, str]) -> dict[str, Any]:
    """Make 100 calls at once, ten times and more; look at the last, the memory and what is left.

    Raises:
        CannotRun: A call failed, or a process is left.
    """
    del missing
    rounds = 4 if smoke else 22
    before = set(process_table())
    with ways() as open_ways:
        session = open_ways.held.enter(Project(open_ways.folder / "ours").session())
        call = partial(by_session, session)
        samples: list[Sample] = []
        memory: list[float] = []
        for _ in range(rounds):
            samples.append(open_ways.sample(call, PARALLEL, at_once=True))
            memory.append(resident())
        mine = {pid for pid, (parent, _) in process_table().items() if parent == os.getpid()}
    left = mine & set(process_table()) - before
    if left:
        raise CannotRun(f"processes are left: {sorted(left)}")
    third = (rounds - 1) // 3
    early, late = (Series("", part) for part in (samples[1 : 1 + third], samples[-third:]))
    growth = (memory[-1] - memory[1]) / (rounds - 2) / PARALLEL * 1000
    figures = {
        "last_to_first": round(late.cpu_min() / early.cpu_min(), 2),
        "kb_per_1000_calls": round(growth * 1024),
        "processes_left": len(left),
    }
    print(f"\n{rounds} times 100 calls at once: the last third costs {figures['last_to_first']} of")
    print(f"the first, {growth * 1024:.0f} KB more memory per 1,000 calls, no process is left")
    return figures


PARTS = {"calls": calls, "gateway": gateway, "crowd": crowd}


def main() -> None:
    """Measure and print."""
    options = arguments(
        __doc__,
        ("--install", {"action": "store_true", "help": "install fastmcp where it is missing"}),
        ("--part", {"choices": list(PARTS), "help": "only this part"}),
    )
    _, missing = usable([FASTMCP], may_install=options.install and not options.smoke)
    chosen = [options.part] if options.part else list(PARTS)
    figures = {each: PARTS[each](smoke=options.smoke, missing=missing) for each in chosen}
    finish("mcp_calls", {**figures, "goals": GOALS, "missing": missing})


if __name__ == "__main__":
    start(main)
