"""The program of a handler's child process: it runs one handler and answers through pipes.

Run as `python -I handler_child.py`, with nothing of ClawHive imported. It forks: the first process
watches over the second, in which the handler runs, and kills all that came from it as soon as it
ends or the other end of stdin is closed, which the kernel does where ClawHive dies.

Lines of JSON in: what to run, then answers `{"id", "value"}` or `{"id", "error"}`. Lines of JSON
out: `{"ask", "method", "arguments"}`, and at the end `{"value"}`, or `{"error", "line"}`,
`{"not_json"}` or `{"limit"}`. What the handler prints goes to stderr.
"""

from __future__ import annotations

import json
import os
import select
import signal
import struct
import sys
import time
import traceback
import warnings
from contextlib import suppress
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from asyncio import Future, StreamReader
    from collections.abc import Awaitable, Callable, Coroutine

LONGEST_LINE = 32 * 1024 * 1024
_SUBREAPER = 36
_ROUNDS, _PAUSE = 200, 0.005

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_BENEATH, _NO_NEW_PRIVILEGES = 1, 38
_RIGHTS = ((5, 16), (3, 15), (2, 14), (1, 13))
"""From which version of Landlock on how many rights over files there are."""
_LIST_FOLDER = 1 << 3
_OF_FILES = 0b111 | 1 << 14 | 1 << 15
"""To execute, write, read, truncate and control a file: the others are a folder's."""


def main() -> None:
    """Fork into the watching process and the handler's."""
    _become_subreaper()
    worker = os.fork()
    if worker == 0:
        _work()
    else:
        _watch(worker)


def _become_subreaper() -> None:
    """Let processes whose parents end come here, so that none escapes; on Linux."""
    with suppress(Exception):
        import ctypes

        ctypes.CDLL(None, use_errno=True).prctl(_SUBREAPER, 1, 0, 0, 0)


def _watch(worker: int) -> None:
    """Wait until the handler's process ends or nobody is there for it any more; then kill all."""
    os.close(1)
    poll = select.poll()
    poll.register(0, 0)
    if hasattr(os, "pidfd_open"):
        poll.register(os.pidfd_open(worker), select.POLLIN)
    while not poll.poll(200):
        if os.waitpid(worker, os.WNOHANG)[0]:
            break
    for _ in range(_ROUNDS):
        children = _children()
        if not children:
            break
        for pid in children:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        time.sleep(_PAUSE)
    os.killpg(0, signal.SIGKILL)


def _children() -> list[int]:
    """Return this process's children, none where the system does not tell."""
    try:
        with open(f"/proc/self/task/{os.getpid()}/children", encoding="ascii") as file:  # noqa: PTH123 - pathlib costs a tenth of this program's start
            return [int(pid) for pid in file.read().split()]
    except OSError:
        return []


def _work() -> None:
    """Run the handler; stdin and stdout become nobody's, so that it cannot speak for itself."""
    import asyncio

    reading, writing = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    asyncio.run(_serve(reading, writing))
    os._exit(0)


async def _serve(reading: int, writing: int) -> None:
    import asyncio

    reader = asyncio.StreamReader(limit=LONGEST_LINE)
    pipe = os.fdopen(reading, "rb", buffering=0)
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
    given = json.loads(await reader.readline())
    _fence(given["guarded"])
    _limit(given["memory_bytes"], given["file_bytes"])
    line = Line(writing)
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


def _fence(guarded: list[str]) -> None:
    """Take from this process, and from all that it starts, the files at these paths.

    Landlock (Linux 5.13, https://docs.kernel.org/userspace-api/landlock.html) only gives rights, so
    what lies beside the ways to the guarded paths is given and used as before, while nothing new is
    made in the folders on the way. Where the kernel has no Landlock nothing happens.
    """
    import ctypes

    kernel = ctypes.CDLL(None, use_errno=True)
    version = kernel.syscall(_CREATE_RULESET, None, 0, 1)
    if version < 1 or not guarded:
        return
    every = (1 << next(bits for least, bits in _RIGHTS if version >= least)) - 1
    handled = (ctypes.c_uint64 * 1)(every)
    ruleset = kernel.syscall(_CREATE_RULESET, handled, ctypes.sizeof(handled), 0)
    if ruleset < 0:
        return

    def give(path: str, rights: int) -> None:
        with suppress(OSError):
            handle = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
            rule = struct.pack("=Qi", rights, handle)
            kernel.syscall(_ADD_RULE, ruleset, _BENEATH, rule, 0)
            os.close(handle)

    _give_beside({os.path.realpath(path) for path in guarded}, every, give)
    if kernel.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0) == 0:
        kernel.syscall(_RESTRICT_SELF, ruleset, 0)
    os.close(ruleset)


def _give_beside(guarded: set[str], every: int, give: Callable[[str, int], None]) -> None:
    """Give all rights beside the ways to the guarded paths, and on the ways to look around."""
    folders = ["/"]
    while folders:
        folder = folders.pop()
        give(folder, _LIST_FOLDER)
        with suppress(OSError), os.scandir(folder) as entries:
            for entry in entries:
                if entry.path in guarded or entry.is_symlink():
                    continue  # what a link leads to has its own rights
                is_folder = entry.is_dir(follow_symlinks=False)
                if is_folder and any(path.startswith(f"{entry.path}/") for path in guarded):
                    folders.append(entry.path)
                else:
                    give(entry.path, every if is_folder else every & _OF_FILES)


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
