"""How soon the tools of MCP servers are there, and what idle servers cost.

Run `python benchmarks/mcp_catalog.py [--install] [--part PART] [--smoke]`; every case is a process
of its own:

- `real`: from a process's start to a catalog with the tools of eight servers that others wrote,
  beside the SDK's clients that start all eight at once: with nothing kept of earlier, and warm,
  with the lists that ClawHive keeps. `open` is what `Hive.open` takes of it, `again` a second
  `Hive.open` in the same process.
- `hundred`: the same from kept lists, with 100 servers of 20 tools each.
- `idle`: the memory that a connected server costs the client, ours and the SDK's.

Goals: cold at most 1.1 times the SDK's clients; warm 100 ms for `again`; 100 servers open in 2 s.
"""

from __future__ import annotations

import asyncio  # noqa: TID253 - a script, which nothing imports
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from agent_loops import CACHE
from measure import ROOT, CannotRun, arguments, finish, start, table
from real_servers import install, prepare, real_servers

SERVER = [sys.executable, "-S", "-E", str(ROOT / "benchmarks" / "peers" / "add_server.py")]
GOALS = {"cold_to_sdk": 1.1, "warm_again_ms": 100, "hundred_open_s": 2.0}
SECONDS = 120
Commands = Mapping[str, tuple[Sequence[str], Mapping[str, str]]]
"""Each server's command and variables."""


class Place:
    """A project and a user whose configuration names servers."""

    def __init__(self, folder: Path, commands: Commands) -> None:
        self.folder, self.root, self.home = folder, folder / "project", folder / "home"
        self.root.mkdir(parents=True, exist_ok=True)
        own = self.home / ".config" / "clawhive"
        own.mkdir(parents=True)
        lines: list[str] = []
        for name, (command, env) in commands.items():
            lines += [f"[mcp.servers.{name}]", f"cmd = {json.dumps(list(command))}"]
            lines += [f"env.{key} = {json.dumps(value)}" for key, value in env.items()]
        (own / "config.toml").write_text("\n".join(lines), encoding="utf-8")
        (folder / "commands.json").write_text(json.dumps(commands), encoding="utf-8")
        self.env = {
            "HOME": str(self.home),
            "XDG_CONFIG_HOME": str(own.parent),
            "PATH": os.environ.get("PATH", ""),
            "PYTHONPYCACHEPREFIX": str(ROOT / "benchmarks" / "__pycache__" / "mcp"),
            "MCP_CONNECT_TIMEOUT_MS": str(SECONDS * 1000),
        }

    def forget(self) -> None:
        """Remove what is kept of earlier starts."""
        shutil.rmtree(self.home / ".cache", ignore_errors=True)
        shutil.rmtree(self.root / ".clawhive", ignore_errors=True)

    def started(self, who: str) -> dict[str, float]:
        """Start a process of ours or of the SDK's, and return its figures.

        Raises:
            CannotRun: It failed.
        """
        argv = [sys.executable, str(Path(__file__).resolve()), "--child", who, str(self.folder)]
        done = subprocess.run(
            argv,
            env={**self.env, "BENCH_BEGAN": str(time.time())},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise CannotRun(f"{who}: {(done.stdout + done.stderr).strip()[-1500:]}")
        return json.loads(done.stdout.splitlines()[-1])


def memory() -> float:
    """Return the memory of this process in MB."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGESIZE") / 2**20


async def by_sdk(commands: Commands) -> dict[str, float]:
    """Connect the SDK's clients to all servers at once, and list their tools."""
    from mcp import Client, StdioServerParameters

    began = time.perf_counter()
    leave, listed = asyncio.Event(), asyncio.Semaphore(0)

    async def hold(command: Sequence[str], env: Mapping[str, str]) -> None:
        program, *words = command
        given = StdioServerParameters(command=program, args=words, env=dict(env))
        async with Client(given, read_timeout_seconds=SECONDS) as client:
            await client.list_tools()
            listed.release()
            await leave.wait()

    async with asyncio.TaskGroup() as group:
        for command, env in commands.values():
            group.create_task(hold(command, env))
        for _ in commands:
            await listed.acquire()
        found = since(began)
        leave.set()
    return found


async def by_hive(place: Path, env: Mapping[str, str], commands: Commands) -> dict[str, float]:
    """Open a Hive twice, the first time until the tools of all servers are there."""
    from clawhive_core import Hive

    async with AsyncExitStack() as stack:
        began = time.perf_counter()
        hive = await stack.enter_async_context(Hive.open(place / "project", env=env))
        while missing(hive, commands):  # the catalog waits for none of them for ever
            if time.perf_counter() - began > SECONDS:
                raise CannotRun(f"no tools of {missing(hive, commands)}")
            await asyncio.sleep(0.01)
        found = since(began)
    began = time.perf_counter()
    async with Hive.open(place / "project", env=env):
        found["again"] = time.perf_counter() - began
    return found


def missing(hive: Any, commands: Commands) -> set[str]:
    """Return the servers of which no tool is in the catalog."""
    there = {tool.meta.provider_id for tool in hive.catalog.current}
    return {f"mcp_{name}" for name in commands} - there


def since(began: float) -> dict[str, float]:
    """Return the figures of now."""
    whole = time.time() - float(os.environ["BENCH_BEGAN"])
    opened = time.perf_counter() - began
    return {"whole": whole, "cpu": time.process_time(), "open": opened, "mb": memory()}


def child(who: str, place: Path) -> None:
    """Be one of the processes that are measured."""
    commands: Commands = json.loads((place / "commands.json").read_text("utf-8"))
    if who == "sdk":
        print(json.dumps(asyncio.run(by_sdk(commands))))
    else:
        env = {name: os.environ[name] for name in os.environ if name != "BENCH_BEGAN"}
        print(json.dumps(asyncio.run(by_hive(place, env, commands))))


def medians(found: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return the median of each figure."""
    return {key: round(statistics.median(each[key] for each in found), 3) for key in found[0]}


def shown(rows: Mapping[str, Mapping[str, float]]) -> None:
    """Print a table of figures."""
    names = ("whole", "cpu", "open", "again", "mb")
    lines = [
        [name, *(f"{row[key]:.2f}" if key in row else "-" for key in names)]
        for name, row in rows.items()
    ]
    table(("case", "whole s", "its cpu s", "open s", "again s", "MB"), lines)


def real(*, smoke: bool, packages: Path | None) -> dict[str, Any]:
    """Compare the start of eight real servers, cold and warm."""
    if packages is None:
        print("real: the servers are not installed (--install)")
        return {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        prepare(folder / "project")
        servers = real_servers(packages, folder / "project")
        place = Place(folder, {each.name: (each.command, each.env) for each in servers})
        cold: list[dict[str, float]] = []
        warm: list[dict[str, float]] = []
        sdk: list[dict[str, float]] = []
        for number in range(-1, 1 if smoke else 5):  # the first round writes the bytecode
            found = [place.started("sdk")] if number % 2 else []
            place.forget()
            cold.append(place.started("ours"))
            warm.append(place.started("ours"))
            sdk += found or [place.started("sdk")]
    rows = {"SDK clients": sdk, "ours, cold": cold, "ours, warm": warm}
    figures = {name: medians(each[1:]) for name, each in rows.items()}
    print("\neight servers that others wrote")
    shown(figures)
    pairs = zip(cold[1:], sdk[1:], strict=True)
    ratio = statistics.median(mine["whole"] / other["whole"] for mine, other in pairs)
    print(f"cold to the SDK's clients: {ratio:.2f} (goal {GOALS['cold_to_sdk']})")
    print(f"warm, `again`: {figures['ours, warm']['again'] * 1000:.0f} ms (goal 100)")
    return {**figures, "cold_to_sdk": round(ratio, 2)}


def made(folder: Path, servers: int, tools: int) -> Place:
    """Return a place with servers of our own."""
    command = [*SERVER, str(tools)]
    return Place(folder, {f"s{number}": (command, {}) for number in range(servers)})


def hundred(*, smoke: bool, packages: Path | None) -> dict[str, Any]:
    """Open a Hive with many servers whose lists are kept."""
    del packages
    servers, tools, rounds = (10, 20, 1) if smoke else (100, 20, 5)
    with tempfile.TemporaryDirectory() as name:
        place = made(Path(name).resolve(), servers, tools)
        cold = place.started("ours")
        found = medians([place.started("ours") for _ in range(rounds)])
    print(f"\n{servers} servers with {servers * tools} tools")
    shown({"nothing kept": cold, "lists kept": found})
    print(f"open: {found['open']:.2f} s (goal {GOALS['hundred_open_s']})")
    return {"cold": {key: round(value, 3) for key, value in cold.items()}, "kept": found}


def idle(*, smoke: bool, packages: Path | None) -> dict[str, Any]:
    """Return what a connected server adds to the client's memory."""
    del packages
    many = 5 if smoke else 40
    figures: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as name:
        places = {count: made(Path(name).resolve() / str(count), count, 1) for count in (1, many)}
        for who in ("sdk", "ours"):
            few, more = (places[count].started(who)["mb"] for count in (1, many))
            figures[who] = round((more - few) / (many - 1) * 1024)
    print(f"\nan idle server costs the client {figures['ours']} KB, the SDK's {figures['sdk']} KB")
    return {"kb_a_server": figures}


PARTS = {"real": real, "hundred": hundred, "idle": idle}


def installed(*, may_install: bool) -> Path | None:
    """Return where the real servers are, None where they are not."""
    below = Path(os.environ.get(CACHE) or Path.home() / ".cache" / "clawhive-bench-peers").resolve()
    packages = below / "mcp-servers"
    if not packages.exists() and not may_install:
        return None
    problems = install(packages)
    if problems:
        raise CannotRun(f"the servers cannot be installed: {problems}")
    return packages


def main() -> None:
    """Measure and print."""
    options = arguments(
        __doc__,
        ("--install", {"action": "store_true", "help": "install the servers that are missing"}),
        ("--part", {"choices": list(PARTS), "help": "only this part"}),
        ("--child", {"nargs": 2, "help": "be a measured process"}),
    )
    if options.child:
        child(options.child[0], Path(options.child[1]))
        return
    packages = installed(may_install=options.install)
    chosen = [options.part] if options.part else list(PARTS)
    figures = {each: PARTS[each](smoke=options.smoke, packages=packages) for each in chosen}
    finish("mcp_catalog", {**figures, "goals": GOALS})


if __name__ == "__main__":
    if "--child" in sys.argv:
        main()
    else:
        start(main)
