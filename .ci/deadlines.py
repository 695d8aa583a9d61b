"""What hangs ends in time and leaves nothing behind: a provider, a tool, a person's Ctrl-C.

Run `python .ci/deadlines.py`. Each case is a `clawhive run` as a process, with a plugin that hangs
in some way. Asserted are how it ends, that no process of it is left, and a bound on the wall clock:
five times what the case needs, for a machine may be busy. Tests assert no time; this does.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
ENTRY = "import sys; from clawhive_core.cli import main; main()"
MARK = "CLAWHIVE_DEADLINES_CASE"
TO_SPARE = 5
START = 1.5
"""Seconds that a process needs to start, open the project and end."""
CLOSE = 11.0
"""Seconds that a plugin gets to close."""
DEADLINE = 1.0
"""Seconds that every provider and tool is given here."""
BLOCKED = 2.0
"""Seconds that the event loop may stand still until that is told, and again until the end."""
HELD = 2 * BLOCKED + 1.5
GRACE = 2.0
"""Seconds that what was cancelled gets to stop; where it does not, the process waits once more."""

PLUGIN = '''
import os
import sys
import time

import anyio
from clawhive_core import LlmResponse, TextBlock, ToolCall, ToolMeta, ToolResult, hookimpl

SCHEMA = {"type": "object", "properties": {}}


def began():
    print("hanging", file=sys.stderr, flush=True)


async def sleeping():
    await anyio.sleep(3600)


async def stubborn():
    """Swallow every cancellation."""
    import asyncio

    while True:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            pass


async def thread():
    """Block a thread, which nothing can stop."""
    import asyncio

    await asyncio.get_running_loop().run_in_executor(None, time.sleep, 3600)


async def child():
    """Wait for a program."""
    await anyio.run_process(["sleep", "3600"])


async def blocking():
    """Block the event loop."""
    time.sleep(3600)


async def spinning():
    """Keep the event loop busy."""
    while True:
        pass


if os.environ.get("HUNG_AT_IMPORT"):
    began()
    while True:
        pass


HANGS = {each.__name__: each for each in (sleeping, stubborn, thread, child, blocking, spinning)}


class Model:
    name, host, default_host, supports_tools = "hung", None, None, True

    async def chat(self, request):
        """Hang as the model's name says, or call the tool that it names, and answer."""
        if request.model in HANGS:
            began()
            await HANGS[request.model]()
        if len(request.messages) > 1 or request.model == "closing":
            self.closes = request.model == "closing"
            return LlmResponse((TextBlock("Done."),))
        return LlmResponse((ToolCall("call_1", request.model, {}),), "tool_use")

    async def stream(self, request):
        await self.chat(request)
        yield

    closes = False

    async def close(self):
        if self.closes:
            await stubborn()


class Tools:
    provider_id = "hung"

    async def list_tools(self):
        facts = {"risk": "safe", "timeout_ms": 1000}
        return [ToolMeta(f"hung.{name}", "Hang.", SCHEMA, "hung", **facts) for name in HANGS]

    async def invoke(self, tool_name, input, ctx):
        began()
        await HANGS[tool_name.removeprefix("hung.")]()
        return ToolResult(ctx.tool_call_id, "unreachable")

    async def close(self):
        pass


@hookimpl
def clawhive_llm_adapters(ctx):
    return [Model()]


@hookimpl
def clawhive_tool_providers(ctx):
    return [Tools()]
'''

MANIFEST = """
[plugin]
id = "hung"
hook_api = 1
tools = "dynamic"
hooks = ["clawhive_llm_adapters", "clawhive_tool_providers"]
"""


@dataclass(frozen=True, slots=True)
class Case:
    """One run that hangs, and what must become of it."""

    name: str
    words: Sequence[str]
    seconds: float
    """What it needs, counted from the signal where it gets one."""
    status: str
    """That of the run; empty where none begins."""
    code: int
    signals: int = 0
    """How often Ctrl-C is pressed once it hangs."""
    call: str | None = None
    """How its one call ended."""
    env: Mapping[str, str] = field(default_factory=dict)
    term: bool = False
    """Whether the signals are SIGTERM."""


def prompts() -> Iterator[Case]:
    """Yield the cases of a model's run."""
    for hang, more in (("sleeping", 0.0), ("child", GRACE), ("stubborn", 2 * GRACE)):
        words = ("run", "Go.", "--model", f"hung:{hang}", "--json")
        needs = START + DEADLINE + more
        yield Case(f"a provider that hangs: {hang}", words, needs, "failed", 1)
        yield Case(f"Ctrl-C in a model call: {hang}", words, START + more, "cancelled", 130, 1)
    for hang, more in (
        ("sleeping", 0.0),
        ("child", GRACE),
        ("stubborn", 2 * GRACE),
        ("thread", 2 * GRACE),
    ):
        words = ("run", "Go.", "--model", f"hung:hung.{hang}", "--json")
        ended = "abandoned" if hang == "stubborn" else "failed"
        needs = START + DEADLINE + more
        yield Case(f"a tool that hangs: {hang}", words, needs, "succeeded", 0, call=ended)
        yield Case(f"Ctrl-C in a tool: {hang}", words, START + more, "cancelled", 130, 1)
    words = ("run", "Go.", "--model", "hung:closing", "--json")
    yield Case("a provider that does not close", words, CLOSE + 2 * GRACE, "succeeded", 0)
    words = ("run", "Go.", "--model", "hung:blocking", "--json")
    name = "three Ctrl-C in a model call: blocking"
    yield Case(name, words, START + DEADLINE, "interrupted", 130, 3)
    for hang in ("blocking", "spinning"):
        words = ("run", "Go.", "--model", f"hung:{hang}", "--json")
        yield Case(f"a provider that hangs: {hang}", words, START + HELD, "interrupted", 1)
        yield Case(
            f"SIGTERM in a model call: {hang}", words, HELD, "interrupted", 130, 1, term=True
        )
        words = ("run", "Go.", "--model", f"hung:hung.{hang}", "--json")
        yield Case(f"a tool that hangs: {hang}", words, START + HELD, "interrupted", 1)
        yield Case(f"Ctrl-C in a tool: {hang}", words, HELD, "interrupted", 130, 1)
    words = ("run", "Go.", "--model", "hung:hung.sleeping", "--json")
    more = {"HUNG_AT_IMPORT": "1"}
    yield Case("an import that never ends", words, START + HELD, "", 1, env=more)
    yield Case("SIGTERM in an import", words, HELD, "", 130, 1, env=more, term=True)


class Project:
    """A project whose only further plugin hangs."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "project"
        self.root.mkdir()
        packages = folder / "packages"
        info = packages / "hung-1.0.dist-info"
        (packages / "hung").mkdir(parents=True)
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: hung\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text("[clawhive.plugins]\nhung = hung\n")
        (packages / "hung" / "__init__.py").write_text(PLUGIN)
        (packages / "hung" / "clawhive-plugin.toml").write_text(MANIFEST)
        own = folder / "config" / "clawhive"
        own.mkdir(parents=True)
        settings = f"models.hung.timeout_sec = {DEADLINE}\nlimits.blocked_sec = {BLOCKED}\n"
        (own / "config.toml").write_text(settings)
        self.env = {
            "PATH": os.environ.get("PATH", ""),
            "HOME": str(folder),
            "XDG_CONFIG_HOME": str(folder / "config"),
            "PYTHONPATH": os.pathsep.join([str(packages), str(ROOT)]),
        }

    def start(
        self, words: Sequence[str], mark: str, env: Mapping[str, str] | None = None
    ) -> subprocess.Popen[str]:
        """Start `clawhive`; whatever it starts carries the mark too."""
        return subprocess.Popen(
            [sys.executable, "-c", ENTRY, *words],
            cwd=self.root,
            env={**self.env, **(env or {}), MARK: mark},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def said(self, *words: str) -> dict[str, Any]:
        """Return what a command prints as JSON."""
        process = self.start(words, "ask")
        return json.loads(process.communicate(timeout=60)[0])


def left_behind(mark: str) -> list[int]:
    """Return the processes that carry a mark: descendants, whoever is their parent by now."""
    wanted = f"{MARK}={mark}".encode()
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            marks = entry.joinpath("environ").read_bytes().split(b"\0")
        except OSError:  # it has ended, or is somebody else's
            continue
        if wanted in marks:
            found.append(int(entry.name))
    return found


def run(project: Project, case: Case, number: int) -> list[str]:
    """Run a case, print its line, and return what was wrong."""
    process = project.start(case.words, str(number), case.env)
    began = time.monotonic()
    if case.signals:
        assert process.stderr is not None
        while "hanging" not in process.stderr.readline():
            if process.poll() is not None:
                return ["it ended before it hung"]
        began = time.monotonic()
        press(process, case.signals, signal.SIGTERM if case.term else signal.SIGINT)
    bound = TO_SPARE * case.seconds
    try:
        said = process.communicate(timeout=bound)
    except subprocess.TimeoutExpired:
        process.kill()
        said = process.communicate()
        problems = [f"it had not ended after {bound:.1f} s"]
    else:
        problems = wrong(project, case, process.returncode)
    took = time.monotonic() - began
    problems += [f"process {pid} is left" for pid in left_behind(str(number))]
    print(f"{case.name:45} {took:5.1f} s of {bound:5.1f}  {'; '.join(problems) or 'ok'}")
    if problems:
        print(*said, sep="\n", file=sys.stderr)
    return problems


def press(process: subprocess.Popen[str], times: int, number: int) -> None:
    """Send a signal some times, with a pause between, for pending signals of a kind are one."""
    process.send_signal(number)
    for _ in range(times - 1):
        time.sleep(DEADLINE / 2)
        process.send_signal(number)


def wrong(project: Project, case: Case, code: int) -> list[str]:
    """Return how a run's end differs from what the case says."""
    if not case.status:
        return [] if code == case.code else [f"it ended with {code}"]
    shown = project.said("runs", "show", "last", "--json")
    problems: list[str] = []
    if (shown["status"], code) != (case.status, case.code):
        problems.append(f"it ended as {shown['status']} with {code}")
    calls = [call["status"] for step in shown["steps"] for call in invocations(step)]
    if case.call is not None and calls != [case.call]:
        problems.append(f"its calls ended as {calls}")
    return problems


def invocations(step: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """Return a step's calls."""
    return step.get("invocations") or ()


def main() -> None:
    """Run every case; exit 1 where one did not end as it must."""
    with tempfile.TemporaryDirectory() as folder:
        project = Project(Path(folder).resolve())
        problems = [run(project, case, number) for number, case in enumerate(prompts())]
        verified = project.said("audit", "verify", "--json")
        failed = sum(map(bool, problems)) + (not verified["ok"])
    print(f"{len(problems)} cases, {failed} failed")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
