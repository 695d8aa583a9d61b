"""Eight MCP servers that others wrote, in one Hive at once and by the command line.

Run `python .ci/mcp_servers.py FOLDER`. What is missing is installed below the folder. A server
that cannot be installed or does not answer is named; at least seven of the eight must list what
they are known to list and answer every call. A ninth, which dies at its start, must be told with
what it said last and cost nobody anything. No process may be left.
"""

from __future__ import annotations

import asyncio  # noqa: TID253 - a script, which nothing imports
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "benchmarks"))

from real_servers import (  # noqa: E402 - the folder is beside this one
    RealServer,
    dead_server,
    install,
    node_folder,
    prepare,
    real_servers,
)

ENTRY = "import sys; from clawhive_core.cli import main; main()"
MARK = "CLAWHIVE_REAL_SERVERS"
AT_LEAST = 7
RIGHTS = ("tool.call:mcp.**",)


class Place:
    """A project, a user whose configuration names the servers, and the command line."""

    def __init__(self, folder: Path, servers: Sequence[RealServer], mark: str) -> None:
        self.root, self.home = folder / "project", folder / "home"
        self.servers, self.mark = servers, mark
        self.node = str(node_folder() / "bin")
        prepare(self.root)
        own = self.home / ".config" / "clawhive"
        own.mkdir(parents=True)
        # JSON's texts, arrays and flat objects with `=` are TOML's.
        lines = [line for server in servers for line in self.table(server)]
        (own / "config.toml").write_text("\n".join(lines), encoding="utf-8")
        path = os.pathsep.join([str(node_folder() / "bin"), os.environ.get("PATH", "")])
        self.env = {
            "PATH": path,
            "HOME": str(self.home),
            "XDG_CONFIG_HOME": str(own.parent),
            "MCP_CONNECT_TIMEOUT_MS": "60000",
        }

    def table(self, server: RealServer) -> Iterator[str]:
        """Yield a server's lines of the configuration; its process carries the mark."""
        yield f"[mcp.servers.{server.name}]"
        yield f"cmd = {json.dumps(server.command)}"
        for name, value in {**server.env, MARK: self.mark}.items():
            yield f"env.{name} = {json.dumps(value)}"

    def clawhive(self, *words: str, code: int = 0) -> dict[str, Any]:
        """Return what a command prints as JSON.

        Raises:
            RuntimeError: It ended otherwise than it must.
        """
        argv = [sys.executable, "-c", ENTRY, "--root", str(self.root), *words, "--json"]
        done = subprocess.run(
            argv, env=self.env, capture_output=True, text=True, check=False, timeout=300
        )
        if done.returncode != code:
            said = f"{done.stdout}\n{done.stderr}"[-2000:]
            raise RuntimeError(f"clawhive {' '.join(words)}: exit {done.returncode}\n{said}")
        return json.loads(done.stdout)

    def left(self) -> list[int]:
        """Return the processes of servers that are there, whoever is their parent."""
        wanted, found = f"{MARK}={self.mark}".encode(), list[int]()
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    marks = (entry / "environ").read_bytes().split(b"\0")
                except OSError:  # it has ended, or is somebody else's
                    continue
                found += [int(entry.name)] if wanted in marks else []
        return found


def listed(place: Place) -> dict[str, str]:
    """Reach all servers at once with `clawhive mcp test`; return what is wrong, by server."""
    rows = {row["name"]: row for row in place.clawhive("mcp", "test", code=1)["servers"]}
    problems: dict[str, str] = {}
    for server in place.servers:
        row = rows[server.name]
        era, tools = row["protocol"] or "", len(row["tools"])
        print(f"{server.name:16} {row['server'] or '':34} {era:11} {tools:3} tools", end="")
        print(f"  {row['seconds']:.1f} s  {(row['problem'] or '')[-160:]}")
        if server.tools and (tools < server.tools or row["dropped"]):
            problems[server.name] = row["problem"] or f"{tools} tools, not {server.tools}"
    return problems


async def called(place: Place) -> dict[str, str]:
    """Call tools of all servers at once in one Hive; return what is wrong, by server."""
    from clawhive_core import Hive, ToolResult
    from clawhive_core.hive.hive import RunOptions

    problems: dict[str, str] = {}
    async with (
        Hive.open(place.root, env=place.env) as hive,
        hive.session(options=RunOptions(grants=RIGHTS)) as session,
    ):

        async def call_all(server: RealServer) -> None:
            for call in server.calls:
                name = f"mcp.{server.name}.{call.tool}"
                outcome = await session.invoke(name, call.input)
                text = outcome.output if isinstance(outcome, ToolResult) else str(outcome)
                fits = isinstance(outcome, ToolResult) and outcome.is_error == call.is_error
                if not fits or call.says not in str(text):
                    problems[server.name] = f"{name}: {str(text)[:300]}"

        began = time.monotonic()
        await asyncio.gather(*map(call_all, place.servers))
        count = sum(len(server.calls) for server in place.servers)
        print(f"{count} calls at once in one Hive: {time.monotonic() - began:.1f} s")
    return problems


def by_commands(place: Place, running: Sequence[RealServer]) -> Iterator[str]:
    """Yield what the command line does wrongly: asking, calling, replaying, verifying."""
    for server in running[:3]:
        call = server.calls[0]
        tool = f"mcp.{server.name}.{call.tool}"
        words = ("tools", "call", tool, "--args", json.dumps(call.input))
        asked = place.clawhive(*words, code=1)
        if asked.get("error") != "approval_required":
            yield f"{tool} was called without a right: {asked}"
        done = place.clawhive(*words, "--grant", *RIGHTS, code=1 if call.is_error else 0)
        if call.says not in json.dumps(done):
            yield f"{tool} answered {str(done)[:500]}"
        place.clawhive("runs", "replay", "last", "--mode", "policy")
    if not place.clawhive("audit", "verify")["ok"]:
        yield "the log does not verify"


def checked(place: Place, skipped: Mapping[str, str]) -> list[str]:
    """Run everything; return what is wrong."""
    dead = place.servers[-1]
    problems = {**listed(place), **skipped}
    alive = [each for each in place.servers if each is not dead and each.name not in problems]
    for name, why in asyncio.run(called(place)).items():
        problems.setdefault(name, why)
    found = list(by_commands(place, [each for each in alive if each.name not in problems]))
    told = place.clawhive("mcp", "doctor", dead.name, code=1)["findings"]
    if not any("mcp_server_sqlite" in each["message"] for each in told):
        found.append(f"the dead server's last words are not told: {told}")
    found += [f"process {pid} is left" for pid in place.left()]
    for name, why in problems.items():
        print(f"does not run: {name}: {' '.join(why.split())[:300]}")
    running = len(place.servers) - 1 - len(problems)
    print(f"{running} of {len(place.servers) - 1} servers run")
    return found if running >= AT_LEAST else [*found, f"fewer than {AT_LEAST} servers run"]


def main() -> None:
    """Install, check, and exit 1 where something is wrong."""
    packages = Path(sys.argv[1]).resolve()
    began = time.monotonic()
    missing = install(packages)
    print(f"installed in {time.monotonic() - began:.0f} s")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        servers = real_servers(packages, folder / "project")
        skipped = {each.name: missing[each.home] for each in servers if each.home in missing}
        dead = dead_server(packages, folder / "project")
        place = Place(folder, [*servers, dead], str(os.getpid()))
        problems = checked(place, skipped)
    for problem in problems:
        print(f"wrong: {problem}")
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
