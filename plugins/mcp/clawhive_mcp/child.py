"""A server over stdio: its process, the lines that are exchanged with it, and its sure end."""

from __future__ import annotations

import asyncio  # noqa: TID253 - imported where a server is started
import os
import re
import signal
import subprocess
import threading
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar

import anyio
from anyio.abc import ObjectReceiveStream, ObjectSendStream
from anyio.lowlevel import checkpoint

from clawhive_mcp.errors import printable
from clawhive_mcp.servers import Server

if TYPE_CHECKING:
    from anyio.abc import ByteReceiveStream, ByteSendStream, Process
    from mcp.shared.message import SessionMessage

MAX_LINE = 16 * 1024 * 1024
"""Bytes that one message may have; a longer one is an error of the call that it answers."""
_ENDS = 256
"""Bytes of both ends of an unreadable line, in which the id that it answers is looked for."""
_TAIL = 4_096
_SHOWN = 1_500
"""Characters of stderr's end that an error shows."""
_CHUNK = 64 * 1024
_EOF_SECONDS = 2.0
_TERM_SECONDS = 1.0
_REAP_SECONDS = 1.0
_POLL_SECONDS = 0.01
_INHERITED = ("HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER", "LANG", "LC_ALL", "TMPDIR", "TZ")
_ON_WINDOWS = (
    "APPDATA HOMEDRIVE HOMEPATH LOCALAPPDATA PATH PATHEXT PROCESSOR_ARCHITECTURE SYSTEMDRIVE"
    " SYSTEMROOT TEMP USERNAME USERPROFILE"
)
_FIRST_ID = re.compile(rb'\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*(\d{1,15})\s*,')
_LAST_ID = re.compile(rb',\s*"id"\s*:\s*(\d{1,15})\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*\Z')


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Overlong:
    """A line that was not kept: how long it was, and both ends of it."""

    size: int
    head: bytes
    tail: bytes


class Lines:
    """Splits bytes at line ends, holding at most `limit` bytes and the chunk that comes."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._clear()

    def feed(self, chunk: bytes) -> Iterator[bytes | Overlong]:
        """Yield the lines that a chunk ends."""
        *ended, rest = chunk.split(b"\n")
        for part in ended:
            self._add(part)
            if self._size > self._limit:
                yield Overlong(self._size, self._head, self._tail)
            else:
                yield b"".join(self._parts)
            self._clear()
        self._add(rest)

    def _add(self, part: bytes) -> None:
        was_over = self._size > self._limit
        self._size += len(part)
        if self._size <= self._limit:
            self._parts.append(part)
            return
        if not was_over:
            whole = b"".join(self._parts) + part
            self._head, self._tail = whole[:_ENDS], whole[-_ENDS:]
            self._parts = []
        else:
            self._head = (self._head + part[:_ENDS])[:_ENDS]
            self._tail = (self._tail + part)[-_ENDS:]

    def _clear(self) -> None:
        self._parts: list[bytes] = []
        self._size, self._head, self._tail = 0, b"", b""


def child_environment(server: Server, env: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of a server: a short list, and what its configuration names.

    `CLAWHIVE_RUN` is among them, so that nothing that it starts decides about itself.
    """
    names = _INHERITED if os.name == "posix" else tuple(_ON_WINDOWS.split())
    kept = {name: env[name] for name in names if name in env}
    return {**kept, **server.env, "CLAWHIVE_RUN": server.provider_id}


class Child:
    """The process of a server, started by `streams` and ended with it, children included."""

    def __init__(self, server: Server, env: Mapping[str, str]) -> None:
        self._server = server
        self._env = child_environment(server, env)
        self._process: asyncio.subprocess.Process | _InJail | None = None
        self._stderr = bytearray()
        self._noise = 0
        self._is_over = False  # from then on its id may be another process's

    @property
    def story(self) -> str:
        """The end of the process, and the last that it wrote on stderr, on one line."""
        process = self._process
        code = None if process is None else process.returncode
        parts = [] if code is None else [f"it ended with {_ending(code)}"]
        if self._noise:
            parts.append(f"{self._noise} lines on its stdout were no messages")
        if said := printable(self._stderr.decode("utf-8", "replace")[-_SHOWN:]):
            parts.append(f"stderr: {said}")
        return "; ".join(parts)

    def kill(self) -> None:
        """End it and what it started at once; from any thread, also without an event loop."""
        process = self._process
        if process is None or self._is_over:
            return
        if isinstance(process, _InJail):
            process.kill()
        else:
            _signal(process, force=True)
            _guardian.forget(process.pid)

    @asynccontextmanager
    async def streams(self) -> AsyncGenerator[tuple[_Incoming, _Outgoing]]:
        """Start it and give the two streams of the SDK; at the end, end it.

        Raises:
            OSError: It cannot be started.
            SandboxUnavailable: There is no jail here.
        """
        async with self._running() as process, anyio.create_task_group() as group:
            group.start_soon(self._keep_stderr, process)
            try:
                yield _Incoming(process, self._message), _Outgoing(process)
            finally:
                # Its own deadlines bound it, whatever cancels the caller.
                with anyio.CancelScope(shield=True):
                    if not isinstance(process, _InJail):
                        group.start_soon(_read_on, process)
                        await _stop(process)
                group.cancel_scope.cancel()

    @asynccontextmanager
    async def _running(self) -> AsyncGenerator[asyncio.subprocess.Process | _InJail]:
        if self._server.sandbox:
            async with _jailed(self._server) as jailed:
                self._process = jailed
                try:
                    yield jailed
                finally:
                    self._is_over = True
            return
        process = await self._start()
        try:
            yield process
        finally:
            self.kill()
            self._is_over = True
            _let_go(process)

    async def _start(self) -> asyncio.subprocess.Process:
        program, *args = self._server.command
        self._process = process = await asyncio.create_subprocess_exec(
            program,
            *args,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=self._server.cwd,
            env=self._env,
            start_new_session=True,
        )
        _guardian.watch(process.pid)
        return process

    def _message(self, line: bytes | Overlong) -> SessionMessage | None:
        from mcp.shared.message import SessionMessage
        from mcp_types import jsonrpc_message_adapter

        if isinstance(line, Overlong):
            return self._unreadable(line.head, line.tail, f"is longer than {MAX_LINE} bytes")
        if not line.strip():
            return None
        try:
            return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
        except ValueError:
            return self._unreadable(line[:_ENDS], line[-_ENDS:], "is no JSON-RPC message")

    def _unreadable(self, head: bytes, tail: bytes, what: str) -> SessionMessage | None:
        """Return an error for the request that an unreadable line answers, if that can be told."""
        from mcp.shared.message import SessionMessage
        from mcp_types import INTERNAL_ERROR, ErrorData, JSONRPCError

        found = _FIRST_ID.match(head) or _LAST_ID.search(tail)
        if found is None:
            self._noise += 1
            return None
        error = ErrorData(code=INTERNAL_ERROR, message=f"the server's answer {what}")
        return SessionMessage(JSONRPCError(jsonrpc="2.0", id=int(found[1]), error=error))

    async def _keep_stderr(self, process: asyncio.subprocess.Process | _InJail) -> None:
        assert process.stderr is not None  # noqa: S101 - it was started with a pipe
        while chunk := await process.stderr.read(_CHUNK):
            self._stderr = (self._stderr + chunk)[-_TAIL:]


class _Incoming(ObjectReceiveStream["SessionMessage | Exception"]):
    """The messages of a server, read where they are asked for: no task, no queue between."""

    def __init__(
        self,
        process: asyncio.subprocess.Process | _InJail,
        parse: Callable[[bytes | Overlong], SessionMessage | None],
    ) -> None:
        self._stdout, self._parse = _given(process.stdout), parse
        self._lines, self._ended = Lines(MAX_LINE), deque[bytes | Overlong]()

    async def receive(self) -> SessionMessage | Exception:
        """Return the next message.

        Raises:
            EndOfStream: The server closed its side.
        """
        if self._ended:
            await checkpoint()  # a server that floods keeps nothing else of the loop waiting
        while True:
            while self._ended:
                if (message := self._parse(self._ended.popleft())) is not None:
                    return message
            chunk = await self._stdout.read(_CHUNK)
            if not chunk:
                raise anyio.EndOfStream
            self._ended.extend(self._lines.feed(chunk))

    async def aclose(self) -> None:
        """Nothing is held."""


class _Outgoing(ObjectSendStream["SessionMessage"]):
    """The way to a server."""

    def __init__(self, process: asyncio.subprocess.Process | _InJail) -> None:
        self._stdin = _given(process.stdin)
        self._turn = anyio.Lock(fast_acquire=True)
        self._is_broken = False

    async def send(self, item: SessionMessage) -> None:
        """Send a message; after one that could not be, the end of its stdout says the rest.

        Raises:
            BrokenResourceError: It read no more before.
        """
        if self._is_broken:
            raise anyio.BrokenResourceError
        text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
        try:
            self._stdin.write(f"{text}\n".encode())
            async with self._turn:
                await self._stdin.drain()
        except OSError:
            self._is_broken = True

    async def aclose(self) -> None:
        """Nothing is held."""


async def _read_on(process: asyncio.subprocess.Process | _InJail) -> None:
    """Read on after the session's end, so that a server which still writes can end too."""
    stdout = _given(process.stdout)
    while await stdout.read(_CHUNK):
        pass


class _InJail:
    """A process in the jail, with the ends of one of asyncio."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self.stdin = _Sent(_given(process.stdin))
        self.stdout = _Received(_given(process.stdout))
        self.stderr = _Received(_given(process.stderr))

    @property
    def pid(self) -> int:
        """The process that holds the jail."""
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """The end of it, None while it runs."""
        return self._process.returncode

    def kill(self) -> None:
        """End it; the jail ends with it."""
        if self.returncode is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)


def _given(pipe: T | None) -> T:
    assert pipe is not None  # noqa: S101 - it was started with pipes
    return pipe


@dataclass(slots=True)
class _Received:
    inner: ByteReceiveStream

    async def read(self, size: int) -> bytes:
        try:
            return await self.inner.receive(size)
        except (anyio.EndOfStream, anyio.ClosedResourceError):
            return b""


@dataclass(slots=True)
class _Sent:
    inner: ByteSendStream
    waiting: bytes = b""

    def write(self, data: bytes) -> None:
        self.waiting += data

    async def drain(self) -> None:
        data, self.waiting = self.waiting, b""
        try:
            await self.inner.send(data)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError) as error:
            raise BrokenPipeError("the server reads no more") from error


@asynccontextmanager
async def _jailed(server: Server) -> AsyncGenerator[_InJail]:
    """Start a server in the jail: it has no network, and reads what its `cwd` names and no more."""
    from clawhive_core import SandboxMount

    # Another plugin, which may not be installed: a server that needs it is refused before.
    jailed: Any = import_module("clawhive_sandbox.jail").jailed
    cwd = server.cwd
    mounts = () if cwd is None else (SandboxMount(cwd, cwd, writable=False),)
    env = {**server.env, "CLAWHIVE_RUN": server.provider_id}
    async with jailed(server.command, mounts, env, cwd) as process:
        yield _InJail(process)


async def _stop(process: asyncio.subprocess.Process) -> None:
    """Close its stdin, then ask it to end, then end it, as the protocol's life cycle says."""
    assert process.stdin is not None  # noqa: S101 - it was started with a pipe
    process.stdin.close()
    if await _has_ended(process, _EOF_SECONDS):
        return
    _signal(process, force=False)
    if await _has_ended(process, _TERM_SECONDS):
        return
    _signal(process, force=True)
    await _has_ended(process, _REAP_SECONDS)


async def _has_ended(process: asyncio.subprocess.Process, seconds: float) -> bool:
    """Whether it ends in time; `wait` would also wait for whoever inherited its pipes."""
    ends = asyncio.get_running_loop().time() + seconds
    while process.returncode is None:
        if asyncio.get_running_loop().time() >= ends:
            return False
        await asyncio.sleep(_POLL_SECONDS)
    return True


def _signal(process: asyncio.subprocess.Process, *, force: bool) -> None:
    """Signal its whole group, where there are groups."""
    with suppress(ProcessLookupError, PermissionError):
        if os.name == "posix":
            os.killpg(process.pid, signal.SIGKILL if force else signal.SIGTERM)
        elif process.returncode is None:
            process.kill()


def _let_go(process: asyncio.subprocess.Process) -> None:
    """Close our ends of its pipes, which a process that left the group may hold open."""
    transport: Any = getattr(process, "_transport", None)  # nothing public closes them
    if transport is not None:
        with suppress(PermissionError, RuntimeError):  # of another user; its loop is closed
            transport.close()


def _ending(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"


_GUARDIAN = """
groups=
while read -r change group; do
  kept=
  for each in $groups; do [ "$each" = "$group" ] || kept="$kept $each"; done
  groups=$kept
  [ "$change" = + ] && groups="$groups $group"
done
for each in $groups; do kill -9 "-$each"; done
"""


@dataclass(slots=True)
class _Guardian:
    """A small process that outlives ours, and then kills the groups that are left.

    It reads from a pipe of which only this process has the other end, so that `kill -9` is heard.
    """

    groups: set[int] = field(default_factory=set[int])
    process: subprocess.Popen[bytes] | None = None
    owner: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def watch(self, group: int) -> None:
        """Have a group killed when this process ends."""
        if os.name != "posix":
            return
        with self.lock:
            if self.process is None or self.owner != os.getpid():
                self.groups, self.owner = set(), os.getpid()
                self.process = subprocess.Popen(
                    ["/bin/sh", "-c", _GUARDIAN],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    cwd="/",
                    env={},
                    start_new_session=True,
                    bufsize=0,
                )
            self.groups.add(group)
            self._tell(f"+ {group}\n")

    def forget(self, group: int) -> None:
        """Leave a group alone; without any the small process ends."""
        with self.lock:
            if group not in self.groups or self.process is None:
                return
            self.groups.discard(group)
            self._tell(f"- {group}\n")
            if not self.groups:
                process, self.process = self.process, None
                if process.stdin is not None:
                    process.stdin.close()
                process.wait()

    def _tell(self, line: str) -> None:
        if self.process is not None and self.process.stdin is not None:
            with suppress(OSError):  # somebody ended it: servers still end at our own end
                self.process.stdin.write(line.encode())


_guardian = _Guardian()
