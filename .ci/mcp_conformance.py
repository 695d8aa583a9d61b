"""The public conformance suite of MCP, against our client and our server.

Run `python .ci/mcp_conformance.py FOLDER [client|server]`. The suite is installed below the folder
where it is missing. Each scenario that revision 2026-07-28 requires is run on its own and must pass
with more than zero checks; those that do not apply stand in `mcp_conformance.toml` with the reason.
The client is a whole Hive: what the suite's servers get came through catalog, policy and log.
"""

from __future__ import annotations

import asyncio  # noqa: TID253 - a script, which nothing imports
import fnmatch
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Generator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.request import urlopen

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "benchmarks"))

from real_servers import node_environment, node_folder, npm_install  # noqa: E402 - found there

PACKAGE = "@modelcontextprotocol/conformance"
VERSION = "0.2.0-alpha.12"
REVISION = "2026-07-28"
ENTRY = "import sys; from clawhive_core.cli import main; main()"
SECONDS = 120
AT_ONCE = 2


class Suite:
    """The installed suite."""

    def __init__(self, folder: Path) -> None:
        program = folder / "node_modules" / PACKAGE / "dist" / "index.js"
        if not program.exists():
            problem = npm_install(folder, [f"{PACKAGE}@{VERSION}"])
            if problem is not None:
                raise RuntimeError(f"the suite cannot be installed: {problem}")
        self.words = [str(node_folder() / "bin" / "node"), str(program)]

    def run(self, *words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
        """Run one of its commands."""
        return subprocess.run(
            [*self.words, *words],
            env=node_environment(),
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=3 * SECONDS,
        )

    def required(self, role: str) -> list[str]:
        """Return the scenarios that the revision requires of a role, in the suite's order."""
        said = self.run("list", "--requirements", REVISION, cwd=HERE).stdout
        _, _, mine = said.partition(f"{role.capitalize()} scenarios")
        return re.findall(r"^  - (\S+)$", mine.partition("\n\n")[0], re.MULTILINE)

    def verdict(
        self, role: str, scenario: str, words: Sequence[str], outside: Mapping[str, str]
    ) -> list[str]:
        """Run one scenario; return what is wrong with it, but for the checks that do not apply."""
        with tempfile.TemporaryDirectory() as name:
            options = ("--scenario", scenario, "--spec-version", REVISION)
            options += ("--timeout", str(SECONDS * 1000), "--output-dir", name)
            done = self.run(role, *words, *options, cwd=Path(name))
            checks = [
                check
                for path in Path(name).rglob("checks.json")
                for check in json.loads(path.read_text("utf-8"))
            ]
        counted = [
            each
            for each in checks
            if each["status"] in {"SUCCESS", "FAILURE", "WARNING"} and each["id"] not in outside
        ]
        wrong = [
            f"{each['id']}: {each.get('errorMessage') or each.get('description')}"
            for each in counted
            if each["status"] == "FAILURE"
        ]
        if not counted:
            wrong.append(f"no check was made: {(done.stdout + done.stderr).strip()[-600:]}")
        elif done.returncode != 0 and not wrong and len(counted) == len(checks):
            wrong.append(f"exit {done.returncode}: {(done.stdout + done.stderr).strip()[-600:]}")
        print(f"{role} {scenario}: {len(counted)} checks, {len(wrong)} failed", flush=True)
        return [f"{role} {scenario}: {each}" for each in wrong]


def judged(suite: Suite, role: str, words: Sequence[str]) -> list[str]:
    """Run what applies of a role; return what is wrong, also with the list of what does not."""
    outside = tomllib.loads(HERE.joinpath("mcp_conformance.toml").read_text("utf-8"))[role]
    checks: Mapping[str, str] = outside.pop("checks", {})
    required = suite.required(role)
    if not required:
        return [f"the suite lists no scenario of a {role}"]
    left = {pattern: fnmatch.filter(required, pattern) for pattern in outside}
    problems = [f"`{each}` names no scenario" for each, found in left.items() if not found]
    applies = [each for each in required if not any(each in found for found in left.values())]
    for pattern, found in left.items():
        print(f"{role} {pattern} ({len(found)}): does not apply: {outside[pattern]}")
    for name, why in checks.items():
        print(f"{role} check {name}: does not apply: {why}")
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for found in pool.map(lambda name: suite.verdict(role, name, words, checks), applies):
            problems += found
    print(f"{len(applies)} of {len(required)} required {role} scenarios were run")
    return problems


def act(url: str) -> None:
    """Do as a client what the scenario wants, by a Hive that knows the server at `url`."""
    with tempfile.TemporaryDirectory() as name:
        root, own = Path(name, "project"), Path(name, "config", "clawhive")
        root.mkdir()
        own.mkdir(parents=True)
        (own / "config.toml").write_text(f"[mcp.servers.peer]\nurl = {json.dumps(url)}\n")
        env = {"HOME": name, "XDG_CONFIG_HOME": str(own.parent), "PATH": os.environ["PATH"]}
        env["MCP_CONNECT_TIMEOUT_MS"] = str(SECONDS * 500)
        logs_in = os.environ["MCP_CONFORMANCE_SCENARIO"].startswith("auth/")
        if not logs_in or has_logged_in(root, env):
            asyncio.run(call_all(root, env))


def has_logged_in(root: Path, env: Mapping[str, str]) -> bool:
    """Log in to the server as a person does, whose browser follows every redirect."""
    given = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
    words = ["--root", str(root), "mcp", "login", "peer", "--no-browser"]
    if "client_id" in given:
        words += ["--client-id", given["client_id"]]
    if "client_secret" in given:
        words += ["--client-secret-env", "THE_SECRET"]
        env = {**env, "THE_SECRET": given["client_secret"]}
    with subprocess.Popen(
        [sys.executable, "-u", "-c", ENTRY, *words],
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            print(line, end="", file=sys.stderr)
            if (found := re.search(r"https?://\S+[?&]\S*state=\S+", line)) is not None:
                urlopen(found[0], timeout=SECONDS).close()
    return process.returncode == 0


async def call_all(root: Path, env: Mapping[str, str]) -> None:
    """Open the project and make the calls."""
    from clawhive_core import Hive
    from clawhive_core.hive.hive import RunOptions

    options = RunOptions(grants=("tool.call:mcp.**",))
    async with Hive.open(root, env=env) as hive, hive.session(options=options) as session:
        for tool, given in calls(await listed(hive)):
            print(tool, given, await session.invoke(tool, given), file=sys.stderr)


async def listed(hive: Any) -> dict[str, Mapping[str, Any]]:
    """Return the input schemas of the server's tools, once it has listed them."""
    tools: dict[str, Mapping[str, Any]] = {}
    for _ in range(SECONDS * 5):  # on a busy machine the catalog does not wait so long
        found = [each.meta for each in hive.catalog.current]
        tools = {each.name: each.input_schema for each in found if each.provider_id == "mcp_peer"}
        if tools:
            break
        await asyncio.sleep(0.1)
    return tools


def calls(tools: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the calls that the suite asks for; else one of each tool."""
    wanted = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}").get("toolCalls")
    if wanted is not None:
        for call in wanted:
            given = call.get("arguments") or {}
            # What its schema does not allow to be null, the executor refuses: it is left out.
            yield (
                f"mcp.peer.{call['name']}",
                {name: value for name, value in given.items() if value is not None},
            )
        return
    if "mcp.peer.json_schema_echo" in tools:
        schema = tools["mcp.peer.json_schema_2020_12_tool"]
        yield "mcp.peer.json_schema_echo", {"schema": schema}
        return
    for tool, schema in tools.items():
        yield tool, least(schema)


def least(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the required members of an object, each with a small value of its type."""
    small = {"string": "x", "integer": 1, "number": 1, "boolean": True, "array": [], "object": {}}
    members = schema.get("properties", {})
    return {
        name: small.get(members.get(name, {}).get("type"), "x")
        for name in schema.get("required", [])
    }


@contextmanager
def served() -> Generator[str]:
    """Serve a fresh project over HTTP, and give its address.

    Raises:
        RuntimeError: It does not start.
    """
    with tempfile.TemporaryDirectory() as name:
        root = Path(name, "project")
        root.mkdir()
        env = {"HOME": name, "XDG_CONFIG_HOME": f"{name}/config", "PATH": os.environ["PATH"]}
        words = ["--root", str(root), "serve", "mcp", "--transport", "http", "--port", "0"]
        process = subprocess.Popen(
            [sys.executable, "-c", ENTRY, *words, "--no-token"],
            env=env,
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            assert process.stderr is not None
            said = process.stderr.readline()
            if (found := re.search(r"http://\S+", said)) is None:
                raise RuntimeError(f"it does not serve: {said}{process.stderr.read()}")
            Thread(target=process.stderr.read, daemon=True).start()  # so that it can go on
            yield found[0]
        finally:
            process.terminate()
            process.wait(60)


def main() -> None:
    """Run the suite; exit 1 where something that applies does not pass."""
    folder, *roles = sys.argv[1:]
    if folder == "act":
        act(roles[0])
        return
    suite = Suite(Path(folder).resolve())
    command = shlex.join([sys.executable, str(Path(__file__).resolve()), "act"])
    problems: list[str] = []
    if "client" in (roles or ["client"]):
        problems += judged(suite, "client", ["--command", command])
    if "server" in (roles or ["server"]):
        with served() as url:
            problems += judged(suite, "server", ["--url", url])
    for problem in problems:
        print(f"wrong: {problem}")
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
