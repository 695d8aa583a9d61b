"""The program of a handler's child process: it runs one handler and answers through pipes.

Run as `python -I handler_child.py`, with nothing of ClawHive imported but the fence beside it. It
forks: the first process watches over the second, in which the handler runs behind the fence, and
kills all that came from it as soon as it ends or the other end of stdin is closed, which the kernel
does where ClawHive dies.

Lines of JSON in: what to run, then answers `{"id", "value"}` or `{"id", "error"}`. Lines of JSON
out: `{"missing"}`, what the fence lacks here; `{"ask", "method", "arguments"}`; and at the end
`{"value"}`, or `{"error", "line"}`, `{"not_json"}` or `{"limit"}`. What the handler prints goes to
stderr.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import time
import traceback
import warnings
from contextlib import suppress
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from asyncio import Future, StreamReader
    from collections.abc import Awaitable, Coroutine

    from clawhive_core.execution.handlers.fence import Fence
else:
    _HERE = os.path.dirname(__file__)  # noqa: PTH120 - as below
    sys.path[:0] = [_HERE, os.path.dirname(os.path.dirname(_HERE))]  # noqa: PTH120 - as below
    from fence import Fence

    del sys.path[:2], sys.modules["fence"], sys.modules["confine"]

LONGEST_LINE = 32 * 1024 * 1024
KILLING_SECONDS = 5.0
"""The most that is spent on killing what starts itself anew."""


def main() -> None:
    """Fork into the watching process and the handler's."""
    given = json.loads(_first_line())
    scratch = _new_folder()
    fence = Fence(scratch, given["guarded"], given["file_bytes"], given["files"])
    worker = fence.fork()
    if worker == 0:
        _work(given, fence)
    _watch(worker, has_namespace=fence.has_namespace)
    _forget(scratch)
    os._exit(0)


def _first_line() -> bytes:
    """Return what to run; nothing else comes before something is asked for."""
    data = b""
    while not data.endswith(b"\n"):
        more = os.read(0, 1 << 20)
        if not more:
            os._exit(1)
        data += more
    return data


def _new_folder() -> str:
    """Return the handler's folder for temporary files, which it finds as all programs do."""
    above = os.environ.get("TMPDIR", "/tmp")  # noqa: S108 - a folder of its own is made in it
    folder = f"{above}/clawhive-{os.urandom(8).hex()}"
    os.mkdir(folder, 0o700)  # noqa: PTH102 - pathlib costs a tenth of this program's start
    os.environ["TMPDIR"] = folder
    return folder


def _forget(folder: str) -> None:
    try:
        os.rmdir(folder)  # noqa: PTH106 - as above
    except OSError:
        from shutil import rmtree

        rmtree(folder, ignore_errors=True)


def _watch(worker: int, *, has_namespace: bool) -> None:
    """Wait until the child ends or nobody is there for it any more; then kill all."""
    os.close(1)
    poll = select.poll()
    poll.register(0, 0)
    if hasattr(os, "pidfd_open"):
        poll.register(os.pidfd_open(worker), select.POLLIN)
    while not poll.poll(200):
        if os.waitid(os.P_PID, worker, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            break
    if has_namespace:
        os.kill(worker, signal.SIGKILL)
        os.waitpid(worker, 0)  # returns when all others of the namespace are gone, too
        return
    end = time.monotonic() + KILLING_SECONDS
    while (children := _children()) and time.monotonic() < end:
        for pid in children:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass


def _children() -> list[int]:
    """Return this process's children, none where the system does not tell."""
    try:
        with open(f"/proc/self/task/{os.getpid()}/children", encoding="ascii") as file:  # noqa: PTH123 - pathlib costs a tenth of this program's start
            return [int(pid) for pid in file.read().split()]
    except OSError:
        return []


def _work(given: dict[str, Any], fence: Fence) -> None:
    """Run the handler; stdin and stdout become nobody's, so that it cannot speak for itself."""
    import asyncio

    reading, writing = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    fence.close()
    line = Line(writing)
    line.say({"missing": fence.missing})
    if not (fence.missing and given["must_be_fenced"]):
        asyncio.run(_serve(given, line, reading))
    os._exit(0)


async def _serve(given: dict[str, Any], line: Line, reading: int) -> None:
    import asyncio

    reader = asyncio.StreamReader(limit=LONGEST_LINE)
    pipe = os.fdopen(reading, "rb", buffering=0)
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
    _limit(given["memory_bytes"], given["file_bytes"])
    answers = loop.create_task(line.listen(reader))
    outcome = await _outcome(given, line)
    sys.stdout.flush()
    sys.stderr.flush()
    line.say(outcome)
    answers.cancel()


def _limit(memory: int, file: int) -> None:
    """Bound this process: `memory` bytes over what it takes now, `file` bytes in one file."""
    import resource

    used = 0
    with suppress(OSError), open("/proc/self/statm", encoding="ascii") as statm:  # noqa: PTH123 - as above
        used = int(statm.read().split()[0]) * resource.getpagesize()
    for kind, value in (
        (resource.RLIMIT_AS, used + memory),
        (resource.RLIMIT_FSIZE, file),
        (resource.RLIMIT_CORE, 0),
    ):
        with suppress(OSError, ValueError):
            resource.setrlimit(kind, (value, value))


class Line:
    """The line to ClawHive: asks, and answers by their number."""

    def __init__(self, writing: int) -> None:
        self._writing = writing
        self._waiting: dict[int, Future[Any]] = {}
        self._untaken: set[Future[Any]] = set()
        self._count = 0

    def say(self, message: dict[str, Any]) -> None:
        """Write one message, whole."""
        data = json.dumps(message).encode() + b"\n"
        while data:
            data = data[os.write(self._writing, data) :]

    def ask(self, method: str, arguments: dict[str, Any]) -> Coroutine[Any, Any, Any]:
        """Ask for something at once; the answer is to be awaited."""
        from asyncio import get_running_loop

        self._count += 1
        self.say({"ask": self._count, "method": method, "arguments": arguments})
        answer = self._waiting[self._count] = get_running_loop().create_future()
        self._untaken.add(answer)
        return self._take(answer)

    async def _take(self, answer: Future[Any]) -> Any:
        self._untaken.discard(answer)
        return await answer

    async def listen(self, reader: StreamReader) -> None:
        """Hand each answer over to who asked."""
        while line := await reader.readline():
            message = json.loads(line)
            answer = self._waiting.pop(message["id"])
            if answer.done():
                continue
            if "error" in message:
                answer.set_exception(RuntimeError(message["error"]))
            else:
                answer.set_result(message["value"])

    async def rest(self) -> None:
        """Wait for what was asked for and not awaited; raise the first error among it."""
        for answer in list(self._untaken):
            await answer


class Context:
    """The context that the handler gets beside its input."""

    def __init__(self, line: Line, facts: dict[str, Any]) -> None:
        self.__dict__.update(facts)
        self._line = line

    def call(self, name: str, input: Any = None) -> Awaitable[Any]:
        """Call a tool."""
        return self._line.ask("call", {"name": name, "input": input})

    def read(self, path: str) -> Awaitable[Any]:
        """Return what the skill saved under a path, None where it saved nothing."""
        return self._line.ask("read", {"path": path})

    def save(self, path: str, data: Any) -> Awaitable[Any]:
        """Save a JSON value below the skill's own namespace."""
        return self._line.ask("save", {"path": path, "data": data})

    def show(self, card_type: str, data: Any = None) -> Awaitable[Any]:
        """Show a card to the user."""
        return self._line.ask("show", {"card_type": card_type, "data": data})


async def _outcome(given: dict[str, Any], line: Line) -> dict[str, Any]:
    script = given["script"]
    try:
        value = await _value(given, line)
    except MemoryError:
        return {"limit": "memory"}
    except BaseException as error:  # noqa: BLE001 - whatever a handler raises is told
        text = traceback.format_exception_only(error)[-1].strip()
        lines = [
            one.lineno
            for one in traceback.extract_tb(error.__traceback__)
            if one.filename == script
        ]
        return {"error": text, "line": lines[-1] if lines else None}
    try:
        return {"value": json.loads(json.dumps(value))}
    except (TypeError, ValueError, RecursionError) as error:
        return {"not_json": str(error) or type(error).__name__}


async def _value(given: dict[str, Any], line: Line) -> Any:
    from inspect import isawaitable

    warnings.filterwarnings("ignore", "coroutine .* was never awaited")  # `Line.rest` awaits it
    module = ModuleType("handlers")
    module.__file__ = given["script"]
    sys.modules["handlers"] = module
    exec(compile(given["source"], given["script"], "exec"), module.__dict__)  # noqa: S102 - this is what the process is for
    value = getattr(module, given["function"])(given["input"], Context(line, given["facts"]))
    if isawaitable(value):
        value = await value
    await line.rest()
    return value


if __name__ == "__main__":
    main()
