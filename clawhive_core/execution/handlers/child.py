"""A handler in a Python process of its own, behind a fence.

It is for skills that the user trusts, where no sandbox engine can run their handlers. The process
gets no more environment than it needs, writes nothing but temporary files of its own (what is to
stay it writes by `ctx.call("file.write", ...)`, which is decided and recorded), and is gone, with
all that it started, when its call ends, is cancelled, or this process dies.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast, get_args

import anyio

from clawhive_core.errors import SandboxUnavailable, ToolError
from clawhive_core.protocols.context import Stream
from clawhive_core.protocols.sandbox import (
    HandlerCall,
    HandlerHost,
    HandlerOutcome,
    Isolation,
    Limit,
)

if TYPE_CHECKING:
    from anyio.abc import ByteReceiveStream, Process, TaskGroup

_PROGRAM = Path(__file__).with_name("handler_child.py")
_LONGEST_LINE = 32 * 1024 * 1024
_KEPT = ("PATH", "LANG", "LC_ALL", "TZ", "TMPDIR")
_END_SECONDS = 6.0
"""Seconds in which the child's watching process may end by itself: it spends up to 5 on killing."""
_LAST_WORDS = 1.0
"""Seconds in which what a handler printed before its end may arrive."""


class ChildPython:
    """Runs one handler in a process of this Python (`clawhive_core.HandlerEngine`).

    Args:
        folder: Where the process starts: the skill's folder.
        run_id: The run, which `CLAWHIVE_RUN` names to whatever the handler starts.
        guarded: Paths that the process cannot open.
        env: Where what the process needs is taken from.
        must_be_fenced: Whether to run nothing where this machine lacks a part of the fence.
        fenced: Told what the fence of a process lacks, before its handler runs.
    """

    name = "python"
    isolation: Isolation = "landlock"

    def __init__(
        self,
        folder: Path,
        run_id: str,
        guarded: Sequence[str] = (),
        env: Mapping[str, str] = os.environ,
        *,
        must_be_fenced: bool = False,
        fenced: Callable[[Sequence[str]], None] = lambda _: None,
    ) -> None:
        self._folder, self._guarded = folder, guarded
        self._must_be_fenced, self._fenced = must_be_fenced, fenced
        self._env = {key: env[key] for key in _KEPT if key in env} | {"CLAWHIVE_RUN": run_id}

    async def run_handler(
        self, call: HandlerCall, host: HandlerHost, output: Callable[[Stream, bytes], None]
    ) -> HandlerOutcome:
        """Run a handler to its end; on cancellation kill its process and re-raise.

        Raises:
            SandboxUnavailable: The process cannot be started, or lacks a part of the fence that it
                must have.
        """
        process = await self._start()
        conversation = _Conversation(process, call, host, output, self._fenced)
        fence = {"guarded": list(self._guarded), "must_be_fenced": self._must_be_fenced}
        try:
            outcome = await conversation.hold(fence)
            if self._must_be_fenced and conversation.missing:
                raise SandboxUnavailable(
                    f"its fence lacks {'; '.join(conversation.missing)}",
                    fix='set `[sandbox] unfenced = "run"` in your own file to run it all the same',
                )
            return outcome
        finally:
            with anyio.CancelScope(shield=True):
                await _end(process)

    async def _start(self) -> Process:
        if not hasattr(os, "fork") or not sys.executable:
            raise SandboxUnavailable("no handler's process can be started on this system")
        try:
            return await anyio.open_process(
                [sys.executable, "-I", "-X", "utf8", str(_PROGRAM)],
                cwd=self._folder,
                env=self._env,
                start_new_session=True,
            )
        except OSError as error:
            raise SandboxUnavailable(
                f"no process can be started for the handler: {error}",
                fix="check that the skill's folder can be entered",
            ) from error


def lacking() -> Sequence[str]:
    """Return what the fence of handlers' processes lacks on this machine; one is started for it.

    Raises:
        SandboxUnavailable: None can be started.
    """
    found: list[str] = []
    child = ChildPython(Path("/"), "", fenced=found.extend)
    call = HandlerCall("def f(input, ctx): ...", "handlers.py", "f", {})

    async def asked(method: str, arguments: Mapping[str, Any]) -> None: ...

    def printed(stream: Stream, data: bytes) -> None: ...

    anyio.run(child.run_handler, call, asked, printed)
    return found


async def _end(process: Process) -> None:
    """Wait until the child is gone, with all that it started; else kill its group."""
    await _let_go(process)
    with anyio.move_on_after(_END_SECONDS):
        await process.wait()
    if process.returncode is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
    await process.aclose()


async def _let_go(process: Process) -> None:
    """Close the child's stdin: it kills all that it started, and ends."""
    if process.stdin is not None:
        with suppress(OSError, anyio.BrokenResourceError):
            await process.stdin.aclose()


class _Conversation:
    """The conversation with one child."""

    def __init__(
        self,
        process: Process,
        call: HandlerCall,
        host: HandlerHost,
        output: Callable[[Stream, bytes], None],
        fenced: Callable[[Sequence[str]], None],
    ) -> None:
        self._process, self._call, self._host, self._output = process, call, host, output
        self._fenced = fenced
        self.missing: tuple[str, ...] | None = None
        self._sending = anyio.Lock()
        self._relayed = anyio.Event()
        self._fatal: BaseException | None = None
        self._ended: HandlerOutcome | None = None

    async def hold(self, fence: Mapping[str, Any]) -> HandlerOutcome:
        """Say what to run behind which fence, answer what is asked, return how it ended."""
        call, limits = self._call, self._call.limits
        first = {
            "source": call.source,
            "script": call.script,
            "function": call.function,
            "input": dict(call.input),
            "facts": dict(call.facts),
            **fence,
            "memory_bytes": limits.memory_bytes,
            "file_bytes": limits.file_bytes,
            "files": limits.files,
        }
        async with anyio.create_task_group() as group:
            group.start_soon(self._relay, group)
            await self._send(first)
            await self._listen(group)
            await _let_go(self._process)
            with anyio.move_on_after(_LAST_WORDS):
                await self._relayed.wait()
            group.cancel_scope.cancel()
        if self._fatal is not None:
            raise self._fatal
        return self._ended or HandlerOutcome(error="its process ended without an answer")

    async def _send(self, message: Mapping[str, Any]) -> None:
        stdin = self._process.stdin
        data = json.dumps(message).encode() + b"\n"
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            async with self._sending:
                if stdin is not None:
                    await stdin.send(data)

    async def _listen(self, group: TaskGroup) -> None:
        """Take the child's messages until it says how it ended, or says no more."""
        from anyio.streams.buffered import BufferedByteReceiveStream

        lines = BufferedByteReceiveStream(_stream(self._process.stdout))
        while self._ended is None and self._fatal is None:
            try:
                message = _message(await lines.receive_until(b"\n", _LONGEST_LINE))
            except (anyio.IncompleteRead, anyio.EndOfStream, anyio.ClosedResourceError):
                return
            except (anyio.DelimiterNotFound, ValueError) as error:
                self._ended = HandlerOutcome(error=f"its process said what is no answer: {error}")
                return
            if self.missing is None:  # its first words, which no handler can have said
                self.missing = tuple(message["missing"])
                self._fenced(self.missing)
            elif "ask" in message:
                group.start_soon(self._answer, message, group)
            else:
                self._ended = _outcome(message)

    async def _answer(self, asked: Mapping[str, Any], group: TaskGroup) -> None:
        try:
            value = await self._host(asked["method"], asked["arguments"])
        except ToolError as error:
            await self._send({"id": asked["ask"], "error": f"{error.code}: {error.message}"})
        except Exception as error:  # noqa: BLE001 - it is raised by `hold`, out of the task group
            self._fatal = error
            group.cancel_scope.cancel()
        else:
            await self._send({"id": asked["ask"], "value": value})

    async def _relay(self, group: TaskGroup) -> None:
        """Hand on what the handler prints, to its limit."""
        room = self._call.limits.stderr_bytes
        with suppress(anyio.EndOfStream, anyio.ClosedResourceError):
            while room >= 0:
                data = await _stream(self._process.stderr).receive()
                if room:
                    self._output("stderr", data[:room])
                room -= len(data)
        if room < 0:
            self._ended = HandlerOutcome(killed_by="stderr")
            group.cancel_scope.cancel()
        self._relayed.set()


def _stream(stream: ByteReceiveStream | None) -> ByteReceiveStream:
    if stream is None:
        raise SandboxUnavailable("the handler's process has no pipes")
    return stream


def _message(line: bytes) -> Mapping[str, Any]:
    """Return a line of the child, into whose pipe a handler may have written by itself.

    Raises:
        ValueError: It is no message that the child's program sends.
    """
    try:
        message: Any = json.loads(line)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    if not isinstance(message, dict):
        raise ValueError("it is no object")  # noqa: TRY004 - as the others
    found = cast("dict[str, Any]", message)
    if "ask" in found and not ("method" in found and isinstance(found.get("arguments"), dict)):
        raise ValueError("it asks without arguments")
    for name, kinds in _FORMS.items():
        if name in found and not isinstance(found[name], kinds):
            raise ValueError(f"its `{name}` is {type(found[name]).__name__}")
    if found.get("limit") not in {None, *get_args(Limit)}:
        raise ValueError("it names no limit")
    return found


_FORMS: Mapping[str, tuple[type, ...]] = {
    "ask": (int,),
    "method": (str,),
    "limit": (str,),
    "not_json": (str,),
    "error": (str, type(None)),
    "line": (int, type(None)),
    "missing": (list,),
}
"""The types of the fields of messages."""


def _outcome(message: Mapping[str, Any]) -> HandlerOutcome:
    if "limit" in message:
        return HandlerOutcome(killed_by=message["limit"])
    if "not_json" in message:
        return HandlerOutcome(error=message["not_json"], not_json=True)
    return HandlerOutcome(message.get("value"), message.get("error"), message.get("line"))
