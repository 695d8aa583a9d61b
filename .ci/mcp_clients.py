"""Nine MCP clients that others wrote, at work with `clawhive serve mcp` over stdio.

Run `python .ci/mcp_clients.py FOLDER [CLIENT ...]`. What is missing is installed below the folder.
Each client runs without a person and without a login; what it does is said by a scripted model on
loopback. It lists tools, searches, enables, calls, is refused, and has a call approved from a
terminal. What a client cannot do by nature stands in `CANNOT` with the reason; at least six must do
everything else. No process may be left.
"""

from __future__ import annotations

import asyncio  # noqa: TID253 - a script, which nothing imports
import json
import os
import pty
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.request import Request as WebRequest
from urllib.request import urlopen

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "benchmarks")]

from real_servers import (  # noqa: E402 - the folder is beside this one
    node_environment,
    node_folder,
    npm_install,
    pip_install,
)
from scripted_model import MODEL, Script, Step, served  # noqa: E402 - found there

PYTHON, PYTHON_OLD, NODE = "python", "python-mcp-1", "node"
PACKAGES: Mapping[str, Sequence[str]] = {
    PYTHON: ("fastmcp==4.1.2", "pydantic-ai-slim[mcp]==2.68.0", "openai-agents==0.24.0"),
    PYTHON_OLD: ("mcp<2", "langchain-mcp-adapters==0.3.2"),
    NODE: (
        "@modelcontextprotocol/inspector@2.12.0",
        "@anthropic-ai/claude-code@2.1.330",
        "@openai/codex@0.169.0",
        "@google/gemini-cli@0.61.0",
        "opencode-ai@1.18.33",
    ),
}
"""What is installed, by folder; versions are exact, so that what is checked stays the same."""
COMMAND = str(Path(sys.executable).with_name("clawhive"))
AT_LEAST = 6
AT_ONCE = 2
SECONDS = 240
"""The time that a client has for everything."""
STABLE = ("tool_search", "tool_enable", "tool_read", "tool_call", "tool_more")
LATE = "file__read"
COLUMNS = ("list", "search", "enable", "call", "refused", "approved")
PROCESS_PER_CALL = "each call is a process of its own: what it enabled ends with it"
CANNOT: Mapping[str, Mapping[str, str]] = {
    "fastmcp": {"enable": PROCESS_PER_CALL},
    "inspector": {"enable": PROCESS_PER_CALL},
}
"""What clients cannot do by nature, and why."""
MANY = """
from mcp.server import MCPServer

server = MCPServer("many")
for number in range(30):

    def count(word: str, number: int = number) -> str:
        return f"{number}: {word}"

    server.tool(name=f"count_{number}", description=f"Count in the way {number}.")(count)
server.run()
"""


def steps(name: str) -> list[Step]:
    """Return the calls that a client makes; the file that it writes is its own."""
    write = {"name": "file.write", "args": {"path": f"{name}.md", "text": "approved\n"}}
    page, secret = ({"name": "file.read", "args": {"path": p}} for p in ("page.md", "secret.md"))
    return [
        Step("search", "tool_search", {"query": "read a text file"}, "file.read"),
        Step("enable", "tool_enable", {"names": ["file.read", "file.write"]}, LATE),
        Step("call", "tool_read", page, "384400"),
        Step("refused", "tool_read", secret, "blocked by policy"),
        Step("asked", "tool_call", write, "approval_required"),
        Step("approved", "tool_call", write, f"{name}.md"),
    ]


class Place:
    """A project and a user; with `many`, of more tools than are enabled from the start."""

    def __init__(self, folder: Path, *, many: bool) -> None:
        self.root, self.home = folder / "project", folder / "home"
        own = self.home / ".config" / "clawhive"
        own.mkdir(parents=True)
        self.root.mkdir()
        subprocess.run(["git", "-C", str(self.root), "init", "-q"], check=True)
        (self.root / "page.md").write_text("The moon is 384400 km away.\n", encoding="utf-8")
        (self.root / "secret.md").write_text("Nobody may read this.\n", encoding="utf-8")
        (self.root / "clawhive.toml").write_text(
            '[policy]\ndeny = ["fs.read:${workspace}/secret.md"]\n', encoding="utf-8"
        )
        self.env = {
            "PATH": node_environment()["PATH"],
            "HOME": str(self.home),
            "TMPDIR": str(folder),
            "NO_COLOR": "1",
            "CI": "1",
            # What a client sends elsewhere, against its configuration, ends on loopback.
            "HTTP_PROXY": "http://127.0.0.1:9",
            "HTTPS_PROXY": "http://127.0.0.1:9",
            "NO_PROXY": "127.0.0.1,localhost",
        }
        if many:
            program = folder / "many.py"
            program.write_text(MANY, encoding="utf-8")
            command = json.dumps([sys.executable, str(program)])
            (own / "config.toml").write_text(
                f"[mcp.servers.many]\ncmd = {command}\n", encoding="utf-8"
            )
            self.clawhive("mcp", "test")  # lists come from what servers listed last

    def words(self, name: str) -> list[str]:
        """Return the command line that serves a client."""
        return [COMMAND, "--root", str(self.root), "serve", "mcp", "--client", name]

    def clawhive(self, *words: str) -> str:
        """Return what a command prints.

        Raises:
            RuntimeError: It failed.
        """
        argv = [COMMAND, "--root", str(self.root), *words]
        done = subprocess.run(
            argv, env=self.env, capture_output=True, text=True, check=False, timeout=SECONDS
        )
        if done.returncode != 0:
            raise RuntimeError(f"clawhive {' '.join(words)}: {(done.stderr or done.stdout)[-500:]}")
        return done.stdout

    def approve(self, answer: str) -> None:
        """Approve at a terminal what an answer asks for: its id, by its command.

        Raises:
            RuntimeError: The answer names none, or it was not approved.
        """
        found = re.search(r"clawhive (approvals approve appr_\w+)", answer)
        if found is None:
            raise RuntimeError(f"no command that approves is in {answer[:300]}")
        ours, its = pty.openpty()
        argv = [COMMAND, "--root", str(self.root), *found[1].split()]
        process = subprocess.Popen(argv, env=self.env, stdin=its, stdout=its, stderr=its)
        os.close(its)
        os.write(ours, b"y\n")  # it is read when the question is asked
        shown = b""
        with suppress(OSError):  # nobody has the other end any more
            while part := os.read(ours, 4096):
                shown += part
        os.close(ours)
        if process.wait(SECONDS) != 0:
            raise RuntimeError(f"it was not approved: {shown.decode()[-500:]}")

    def left(self) -> list[int]:
        """Return the processes of this place that are there, whoever is their parent."""
        wanted, found = str(self.home).encode(), list[int]()
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                with suppress(OSError):  # it has ended, or is somebody else's
                    if wanted in (entry / "environ").read_bytes():
                        found.append(int(entry.name))
        return found


@dataclass(slots=True)
class Report:
    """What a client did: by column, what was wrong, empty where nothing was."""

    name: str
    done: dict[str, str] = field(default_factory=dict[str, str])
    shows: str = ""
    """When an enabled tool was first there under its own name."""
    seconds: float = 0.0

    @property
    def is_fine(self) -> bool:
        """Whether it did everything that it can."""
        cannot = CANNOT.get(self.name, {})
        return all(self.done.get(each) == "" for each in COLUMNS if each not in cannot)


@dataclass(frozen=True, slots=True)
class Job:
    """One client at work."""

    name: str
    packages: Path
    place: Place

    def run(self, argv: Sequence[str], env: Mapping[str, str] | None = None) -> str:
        """Run a command of the client in the project; return what it said.

        What it leaves of its group is ended. Where it takes too long, that is said at the end.
        """
        with tempfile.TemporaryFile() as said:
            process = subprocess.Popen(
                argv,
                env={**self.place.env, **(env or {})},
                cwd=self.place.root,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            end = ""
            try:
                code = process.wait(SECONDS)
                end = f"\nexit code {code}" if code else ""
            except subprocess.TimeoutExpired:
                end = f"\nit did not end in {SECONDS} s"
            finally:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            said.seek(0)
            return said.read().decode("utf-8", "replace") + end

    def program(self, name: str) -> str:
        """Return a program of the packages of Node."""
        return str(self.packages / NODE / "node_modules" / ".bin" / name)

    def entry(self) -> str:
        """Return the entry that `clawhive serve mcp --for` prints for the client."""
        return self.place.clawhive("serve", "mcp", "--for", self.name)

    def file(self, path: str, text: str) -> Path:
        """Write a file of the user's own."""
        file = self.place.home / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        return file


Client = Callable[[Job, str], str]
"""Runs a client against the model at an address, returning what it said."""


def claude_code(job: Job, url: str) -> str:
    """Run Claude Code, its only allow rule our server's."""
    config = job.file("claude.json", job.entry())
    argv = [job.program("claude"), "-p", "Go.", "--model", MODEL, "--strict-mcp-config"]
    argv += ["--mcp-config", str(config), "--allowedTools", "mcp__clawhive"]
    return job.run(
        argv,
        {
            "ANTHROPIC_BASE_URL": url,
            "ANTHROPIC_API_KEY": "none",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
            "DISABLE_TELEMETRY": "1",
            "DISABLE_ERROR_REPORTING": "1",
            "ENABLE_TOOL_SEARCH": "false",  # it would hide our tools behind its own search
        },
    )


def codex(job: Job, url: str) -> str:
    """Run Codex; in `exec` it asks nobody."""
    lines = [
        f'model = "{MODEL}"',
        'model_provider = "loopback"',
        "check_for_update_on_startup = false",
        "[analytics]",
        "enabled = false",
        "[model_providers.loopback]",
        'name = "loopback"',
        f'base_url = "{url}/v1"',
        'env_key = "LOOPBACK_KEY"',
        'wire_api = "responses"',
        job.entry().rstrip(),
        "required = true",  # else its first turn does not wait for the server to start
    ]
    text = "\n".join(lines)
    tomllib.loads(text)
    job.file(".codex/config.toml", text)
    argv = [job.program("codex"), "exec", "--skip-git-repo-check", "Go."]
    return job.run(argv, {"LOOPBACK_KEY": "none"})


def gemini_cli(job: Job, url: str) -> str:
    """Run gemini-cli, which is told to ask nobody."""
    settings = {
        **json.loads(job.entry()),
        "security": {"auth": {"selectedType": "gemini-api-key"}},
        "privacy": {"usageStatisticsEnabled": False},
        "telemetry": {"enabled": False},
        "general": {"enableAutoUpdate": False, "disableAutoUpdate": True},
    }
    job.file(".gemini/settings.json", json.dumps(settings))
    argv = [job.program("gemini"), "-p", "Go.", "-m", "gemini-2.5-flash"]
    argv += ["--approval-mode", "yolo", "--skip-trust"]
    return job.run(argv, {"GEMINI_API_KEY": "none", "GOOGLE_GEMINI_BASE_URL": url})


def opencode(job: Job, url: str) -> str:
    """Run opencode with a provider that speaks Chat Completions."""
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "name": "loopback",
        "options": {"baseURL": f"{url}/v1", "apiKey": "none"},
        "models": {MODEL: {"name": MODEL, "tool_call": True}},
    }
    settings = {
        **json.loads(job.entry()),
        "provider": {"loopback": provider},
        "model": f"loopback/{MODEL}",
        "small_model": f"loopback/{MODEL}",
        "autoupdate": False,
        "share": "disabled",
    }
    job.file(".config/opencode/opencode.json", json.dumps(settings))
    return job.run(
        [job.program("opencode"), "run", "Go."],
        {
            "OPENCODE_DISABLE_AUTOUPDATE": "1",
            "OPENCODE_DISABLE_MODELS_FETCH": "1",
            "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
            "OPENCODE_DISABLE_DEFAULT_PLUGINS": "1",
        },
    )


def library(job: Job, url: str) -> str:
    """Run the program below that uses a library, with the library's Python."""
    home = PYTHON_OLD if job.name == "langchain-mcp-adapters" else PYTHON
    python = str(job.packages / home / "bin" / "python")
    argv = [python, str(Path(__file__).resolve()), "act", job.name, url]
    return job.run([*argv, *job.place.words(job.name)], {"PYDANTIC_DISABLE_PLUGINS": "__all__"})


MODELLED: Mapping[str, Client] = {
    "pydantic-ai": library,
    "openai-agents": library,
    "langchain-mcp-adapters": library,
    "claude-code": claude_code,
    "codex": codex,
    "gemini-cli": gemini_cli,
    "opencode": opencode,
}
"""The clients that a model drives, or a program in its place."""


def driven(job: Job) -> Report:
    """Let the scripted model drive a client; return what it did."""

    def before(step: str, answer: str) -> None:
        if step == "approved":
            job.place.approve(answer)

    script = Script(steps(job.name), STABLE, LATE, before)
    with served(script) as url:
        said = MODELLED[job.name](job, url)
    why = script.refused or " ".join(said.split())[-400:]
    done = {each: script.done.get(each, f"not done: {why}") for each in COLUMNS[1:]}
    done["list"] = "" if script.lists else f"the five tools were not listed: {why}"
    if script.done.get("asked"):
        done["approved"] = script.done["asked"]
    shows = {None: "never", 2: "next turn", 3: "a turn late"}.get(script.late_at, "later")
    return checked(job, Report(job.name, done, shows))


def by_fastmcp(job: Job, tool: str | None, args: Mapping[str, Any]) -> str:
    """List with fastmcp's command line, or call a tool."""
    program = str(job.packages / PYTHON / "bin" / "fastmcp")
    server = ["--command", " ".join(job.place.words(job.name))]
    words = ["list", *server] if tool is None else ["call", *server, "--target", tool]
    given = [] if tool is None else ["--input-json", json.dumps(args)]
    return job.run([program, *words, *given, "--json"], {"FASTMCP_CHECK_FOR_UPDATES": "off"})


def by_inspector(job: Job, tool: str | None, args: Mapping[str, Any]) -> str:
    """List with the inspector's command line, or call a tool."""
    argv = [job.program("mcp-inspector"), "--cli", *job.place.words(job.name), "--method"]
    if tool is None:
        return job.run([*argv, "tools/list"])
    given = [word for key, value in args.items() for word in ("--tool-arg", pair(key, value))]
    return job.run([*argv, "tools/call", "--tool-name", tool, *given])


def pair(key: str, value: Any) -> str:
    """Return an argument as the inspector's command line takes it."""
    return f"{key}={value if isinstance(value, str) else json.dumps(value)}"


BY_HAND: Mapping[str, Callable[[Job, str | None, Mapping[str, Any]], str]] = {
    "fastmcp": by_fastmcp,
    "inspector": by_inspector,
}
"""The command lines: each call is a process."""


def typed(job: Job) -> Report:
    """Make the calls by a command line; return what it did."""
    run, done = BY_HAND[job.name], dict[str, str]()
    listed = run(job, None, {})
    done["list"] = "" if all(each in listed for each in STABLE) else f"listed {listed[-300:]}"
    answer = ""
    for step in steps(job.name):
        if step.name == "approved":
            job.place.approve(answer)
        answer = run(job, step.tool, step.args)
        done[step.name] = "" if step.says in answer else f"answered {answer[-300:]}"
    done["approved"] = done.pop("asked") or done["approved"]
    return checked(job, Report(job.name, done, "-"))


def checked(job: Job, report: Report) -> Report:
    """Return a report with what the approved call must have left."""
    file = job.place.root / f"{job.name}.md"
    if report.done["approved"] == "" and not file.exists():
        report.done["approved"] = "the file was not written"
    return report


def worked(job: Job) -> Report:
    """Run one client; what breaks on the way is in its report."""
    began = time.monotonic()
    try:
        report = typed(job) if job.name in BY_HAND else driven(job)
    except (OSError, RuntimeError, ValueError, subprocess.SubprocessError) as error:
        report = Report(job.name, {"list": f"{type(error).__name__}: {error}"})
    report.seconds = time.monotonic() - began
    print(f"{job.name}: {report.seconds:.0f} s", flush=True)
    return report


async def with_pydantic_ai(url: str, words: Sequence[str]) -> None:
    """Run an agent of pydantic-ai."""
    from fastmcp.client.transports import StdioTransport
    from pydantic_ai import Agent
    from pydantic_ai.mcp import MCPToolset
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    transport = StdioTransport(words[0], [*words[1:]], env={**os.environ})
    provider = OpenAIProvider(base_url=f"{url}/v1", api_key="none")
    agent = Agent(OpenAIChatModel(MODEL, provider=provider), toolsets=[MCPToolset(transport)])
    async with agent:
        print((await agent.run("Go.")).output)


async def with_openai_agents(url: str, words: Sequence[str]) -> None:
    """Run an agent of openai-agents; its own patience with a call, 5 s, is left as it is."""
    from agents import Agent, OpenAIResponsesModel, Runner, set_tracing_disabled
    from agents.mcp import MCPServerStdio
    from openai import AsyncOpenAI

    set_tracing_disabled(disabled=True)
    params = {"command": words[0], "args": [*words[1:]], "env": {**os.environ}}
    model = OpenAIResponsesModel(MODEL, AsyncOpenAI(base_url=f"{url}/v1", api_key="none"))
    async with MCPServerStdio(params) as server:
        agent = Agent("scripted", model=model, mcp_servers=[server])
        print((await Runner.run(agent, "Go.", max_turns=20)).final_output)


async def with_langchain(url: str, words: Sequence[str]) -> None:
    """Call LangChain's tools in one session; one per call, as by default, enables nothing."""
    from langchain_mcp_adapters.client import MultiServerMCPClient
    from langchain_mcp_adapters.tools import load_mcp_tools

    server = {"transport": "stdio", "command": words[0], "args": [*words[1:]]}
    client = MultiServerMCPClient({"clawhive": {**server, "env": {**os.environ}}})
    answers: list[str] = []
    async with client.session("clawhive") as session:
        tools = {each.name: each for each in await load_mcp_tools(session)}
        while True:
            body = json.dumps({"tools": [*tools], "answers": answers}).encode()
            with urlopen(WebRequest(f"{url}/plain", body), timeout=SECONDS) as response:  # noqa: ASYNC210 - nothing else goes on here
                turn = json.load(response)
            if turn["tool"] is None:
                return
            call = {"name": turn["tool"], "args": turn["args"], "id": "call", "type": "tool_call"}
            answers.append(str((await tools[turn["tool"]].ainvoke(call)).content))


ACTS = {
    "pydantic-ai": with_pydantic_ai,
    "openai-agents": with_openai_agents,
    "langchain-mcp-adapters": with_langchain,
}


def home_of(name: str) -> str:
    """Return the folder of a client's packages."""
    if name == "langchain-mcp-adapters":
        return PYTHON_OLD
    return PYTHON if name in {*ACTS, "fastmcp"} else NODE


def install(folder: Path) -> dict[str, str]:
    """Install what is missing, side by side; return what could not be, and why."""
    missing = [home for home in PACKAGES if not (folder / home / ".installed").exists()]

    def install_one(home: str) -> str | None:
        installer = npm_install if home == NODE else pip_install
        try:
            problem = installer(folder / home, PACKAGES[home])
        except (OSError, ImportError, subprocess.SubprocessError) as error:
            return str(error)
        if problem is None:
            (folder / home / ".installed").touch()
        return problem

    with ThreadPoolExecutor() as pool:
        found = zip(missing, pool.map(install_one, missing), strict=True)
        return {home: problem for home, problem in found if problem is not None}


def shown(reports: Sequence[Report]) -> None:
    """Print the table, and what is wrong below it."""
    head = ("client", *COLUMNS, "seconds", "enabled tool by its own name")
    print(("{:24}" + "{:9}" * 7 + "{}").format(*head))
    notes: dict[tuple[str, str], list[str]] = {}
    for each in reports:
        cells: list[str] = []
        for column in COLUMNS:
            why = CANNOT.get(each.name, {}).get(column) or each.done.get(column, "not reached")
            cells.append("no" if why else "yes")
            if why:
                notes.setdefault((each.name, why), []).append(column)
        cells += [f"{each.seconds:.0f}", each.shows]
        print(("{:24}" + "{:9}" * 7 + "{}").format(each.name, *cells))
    for (name, why), columns in notes.items():
        print(f"{name}, {', '.join(columns)}: {why}")


def left(places: Sequence[Place]) -> list[int]:
    """Return the processes that are left after a while; they are ended."""
    deadline = time.monotonic() + 20
    found: list[int] = []
    while time.monotonic() < deadline:
        found = [pid for place in places for pid in place.left()]
        if not found:
            return []
        time.sleep(0.5)
    for pid in found:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return found


def main() -> None:
    """Install, run the clients, and exit 1 where something is wrong."""
    folder, *names = sys.argv[1:]
    if folder == "act":
        name, url, *words = names
        asyncio.run(ACTS[name](url, words))
        return
    packages = Path(folder).resolve()
    began = time.monotonic()
    missing = install(packages)
    print(f"installed in {time.monotonic() - began:.0f} s, with {node_folder().name}", flush=True)
    with tempfile.TemporaryDirectory(dir=packages, ignore_cleanup_errors=True) as made:
        for name in ("few", "many"):
            Path(made, name).mkdir()
        few, many = Place(Path(made, "few"), many=False), Place(Path(made, "many"), many=True)
        chosen = names or [*BY_HAND, *MODELLED]
        jobs = [Job(name, packages, few if name in BY_HAND else many) for name in chosen]
        ready = [job for job in jobs if home_of(job.name) not in missing]
        with ThreadPoolExecutor(AT_ONCE) as pool:
            reports = list(pool.map(worked, ready))
        remaining = left((few, many))
    shown(reports)
    for job in jobs:
        if job not in ready:
            print(f"{job.name} cannot be installed: {missing[home_of(job.name)]}")
    fine = sum(each.is_fine for each in reports)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"{fine} of {len(jobs)} clients do everything that they can", end="; ")
    print(f"{time.monotonic() - began:.0f} s, {used.ru_utime + used.ru_stime:.0f} s of processor")
    problems = [f"process {pid} was left" for pid in remaining]
    problems += [] if fine >= min(AT_LEAST, len(jobs)) else [f"fewer than {AT_LEAST} clients do"]
    for problem in problems:
        print(f"wrong: {problem}")
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
