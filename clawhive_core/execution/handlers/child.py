"""A handler in a Python process of its own: killable, and no fence.

It is for skills that the user trusts, where no sandbox engine can run their handlers. The process
gets no more environment than it needs, and is gone, with all that it started, when its call ends,
is cancelled, or this process dies.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio

from clawhive_core.errors import SandboxUnavailable, ToolError
from clawhive_core.protocols.context import Stream
from clawhive_core.protocols.sandbox import HandlerCall, HandlerHost, HandlerOutcome

if TYPE_CHECKING:
    from anyio.abc import ByteReceiveStream, Process, TaskGroup

_PROGRAM = Path(__file__).with_name("handler_child.py")
_LONGEST_LINE = 32 * 1024 * 1024
_KEPT = ("PATH", "LANG", "LC_ALL", "TZ")
_PATIENCE = 1.0
"""Seconds in which the child's watching process may end by itself."""


class ChildPython:
    """Runs one handler in a process of this Python (`clawhive_core.HandlerEngine`).

    Args:
        folder: Where the process starts: the skill's folder.
        run_id: The run, which `CLAWHIVE_RUN` names to whatever the handler starts.
        guarded: Paths that the process cannot open, where the kernel can fence them off (Landlock).
        env: Where what the process needs is taken from.
    """

    name = "python"

    def __init__(
        self,
        folder: Path,
        run_id: str,
        guarded: Sequence[str] = (),
        env: Mapping[str, str] = os.environ,
    ) -> None:
        self._folder, self._guarded = folder, guarded
        self._env = {key: env[key] for key in _KEPT if key in env} | {"CLAWHIVE_RUN": run_id}

    async def run_handler(
        self, call: HandlerCall, host: HandlerHost, output: Callable[[Stream, bytes], None]
    ) -> HandlerOutcome:
        """Run a handler to its end; on cancellation kill its process and re-raise.

        Raises:
            SandboxUnavailable: The process cannot be started.
        """
        process = await self._start()
        try:
            return await _Conversation(process, call, host, output, self._guarded).hold()
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


async def _end(process: Process) -> None:
    """Wait until the child is gone, with all that it started; else kill its group."""
    await _let_go(process)
    with anyio.move_on_after(_PATIENCE):
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
        guarded: Sequence[str],
    ) -> None:
        self._process, self._call, self._host, self._output = process, call, host, output
        self._guarded = list(guarded)
        self._sending = anyio.Lock()
        self._relayed = anyio.Event()
        self._fatal: BaseException | None = None
        self._ended: HandlerOutcome | None = None

    async def hold(self) -> HandlerOutcome:
        """Say what to run, answer what is asked, return how it ended."""
        call, limits = self._call, self._call.limits
        first = {
            "source": call.source,
            "script": call.script,
            "function": call.function,
            "input": dict(call.input),
            "facts": dict(call.facts),
            "guarded": self._guarded,
            "memory_bytes": limits.memory_bytes,
            "file_bytes": limits.file_bytes,
        }
        async with anyio.create_task_group() as group:
            group.start_soon(self._relay, group)
            await self._send(first)
            await self._listen(group)
            await _let_go(self._process)
            with anyio.move_on_after(_PATIENCE):
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
                message = json.loads(await lines.receive_until(b"\n", _LONGEST_LINE))
            except (anyio.IncompleteRead, anyio.EndOfStream, anyio.ClosedResourceError):
                return
            except (anyio.DelimiterNotFound, ValueError) as error:
                self._ended = HandlerOutcome(error=f"its process said what is no answer: {error}")
                return
            if "ask" in message:
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


def _outcome(message: Mapping[str, Any]) -> HandlerOutcome:
    if "limit" in message:
        return HandlerOutcome(killed_by=message["limit"])
    if "not_json" in message:
        return HandlerOutcome(error=message["not_json"], not_json=True)
    return HandlerOutcome(message.get("value"), message.get("error"), message.get("line"))
