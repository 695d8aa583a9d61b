"""The engines `jail` and `landlock`: programs of this machine in a jail of the operating system."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from clawhive_core import (
    SandboxCommand,
    SandboxOutcome,
    SandboxSpec,
    SandboxUnavailable,
    Unsupported,
)
from clawhive_sandbox.jail import (
    PATH,
    WORK,
    Control,
    Kind,
    Runtime,
    bubblewrap,
    jailer,
    job,
    python_runtime,
    runtime,
)

if TYPE_CHECKING:
    import anyio

    from clawhive_core import Limit, Stream

SHELL = "sh -c"
CONCURRENT = 8
"""How many programs run at once; further ones wait, and their time starts when they start."""
_GRACE = 12.0
"""Seconds in which what is killed must be gone, and what it left be copied back."""
_CHUNK = 1 << 16
_TAIL = 400
_CPU_SIGNAL = 128 + signal.SIGXCPU
_MEMORY_WORDS = (b"MemoryError", b"Cannot allocate memory", b"out of memory", b"std::bad_alloc")
_PROCESS_WORDS = (b"Resource temporarily unavailable", b"can't start new thread", b"EAGAIN")


class JailEngine:
    """Runs the machine's own programs (`clawhive_core.SandboxEngine`).

    A program starts in its directory, which is `/work` in the jail, with an environment of what the
    spec names. What it writes there is kept when it ends, also when it was stopped.

    Args:
        commands: What may be run, such as `python -c`.
        environment: The Python environment whose packages `python` has; None for none.
        kind: What holds the programs.
        env: Where the programs are looked for.
    """

    deterministic = False
    aliases: Mapping[str, str] = {
        "py": "python",
        "python3": "python",
        "js": "node",
        "javascript": "node",
        "nodejs": "node",
    }

    def __init__(
        self,
        commands: Sequence[str],
        environment: str | None = None,
        kind: Kind = "jail",
        env: Mapping[str, str] = os.environ,
    ) -> None:
        self.name: Kind = kind
        self.isolation: Kind = kind
        self._commands, self._environment, self._env = tuple(commands), environment, env
        self._server = _Server()
        self._limiter: anyio.CapacityLimiter | None = None
        self._instances: set[JailInstance] = set()

    @property
    def version(self) -> str:
        """The version of bubblewrap, or of the kernel."""
        if self.name == "landlock":
            return os.uname().release
        try:
            return bubblewrap(self._env).version
        except SandboxUnavailable:
            return "not installed"

    @property
    def programs(self) -> frozenset[str]:
        """The listed commands whose programs are on this machine, and the shell."""
        return frozenset(each for each in (*self._commands, SHELL) if self.found(each.split()[0]))

    def unsupported(self, command: SandboxCommand) -> Unsupported | None:
        """Return None: what is on the machine runs as it is."""
        return None if self.found(command.program) else Unsupported(1, 1, command.program)

    def program(self, name: str) -> Runtime:
        """Return a program and what it needs.

        Raises:
            SandboxUnavailable: It is not there.
        """
        found = self.found(name)
        if found is None:
            where, fix = "here", f"install {name}"
            if name == "python" and self._environment:
                where = f"in the environment {self._environment}"
                fix = f"make one: python3 -m venv {self._environment}"
            raise SandboxUnavailable(f"there is no program `{name}` {where}", fix=fix)
        return found

    def found(self, name: str) -> Runtime | None:
        """Return a program of this machine, None where it is not there."""
        if name == "python":
            others = self.name == "landlock" and os.geteuid() == 0
            return python_runtime(self._environment, others=others)
        return runtime(name)

    async def open(self, spec: SandboxSpec) -> JailInstance:
        """Return an instance; each of its commands gets a jail of its own.

        Raises:
            SandboxUnavailable: The jail cannot be made here, or cannot give what is specified.
        """
        wanted = {
            "calls of tools": spec.host,
            "a fixed clock": spec.clock,
            "fixed randomness": spec.seed,
        }
        if self.name == "landlock":
            wanted["views of files"] = len(spec.mounts) or None
        if lacking := [what for what, value in wanted.items() if value is not None]:
            raise SandboxUnavailable(
                f"the engine `{self.name}` gives programs no {' and no '.join(lacking)}",
                fix="use an engine in WebAssembly for them",
            )
        path = bubblewrap(self._env).path if self.name == "jail" else None
        instance = JailInstance(self, spec, path)
        self._instances.add(instance)
        return instance

    async def close(self) -> None:
        """Kill every program, and end the process that starts them."""
        for instance in list(self._instances):
            await instance.close()
        await self._server.close()

    def limiter(self) -> anyio.CapacityLimiter:
        """Return what bounds the programs that run at once."""
        import anyio

        if self._limiter is None:
            self._limiter = anyio.CapacityLimiter(CONCURRENT)
        return self._limiter

    def start(self, stdin: bytes) -> _Started:
        """Start a process that waits for a job."""
        return self._server.start(stdin)

    def forget(self, instance: JailInstance) -> None:
        """Take note that an instance is closed."""
        self._instances.discard(instance)


def jail_engines(config: Mapping[str, Any], env: Mapping[str, str]) -> list[JailEngine]:
    """Return the engines of this operating system that the settings `[sandbox]` allow."""
    if sys.platform != "linux":
        return []
    kinds: list[Kind] = ["jail"]
    if config.get("minimum") == "landlock":
        kinds.append("landlock")
    commands = config.get("commands", ())
    return [JailEngine(commands, config.get("environment"), kind, env) for kind in kinds]


class JailInstance:
    """A directory, mounts and environment, for programs one after another or at once.

    Args:
        engine: The engine that opened it.
        spec: What its programs see and may use.
        bwrap: The path of bubblewrap; None for Landlock alone.
    """

    def __init__(self, engine: JailEngine, spec: SandboxSpec, bwrap: str | None) -> None:
        self._engine, self._spec, self._bwrap = engine, spec, bwrap
        self._running: set[_Run] = set()

    async def run(
        self, command: SandboxCommand, output: Callable[[Stream, bytes], None]
    ) -> SandboxOutcome:
        """Run a program to its end or limit; on cancellation kill it and re-raise.

        Raises:
            SandboxUnavailable: The jail cannot be made here.
        """
        program = self._engine.program(command.program)
        told = self._job(program, command)
        async with self._engine.limiter():
            run = _Run(self._engine.start(command.stdin), self._spec, output)
            self._running.add(run)
            try:
                return await run.to_end(told)
            finally:
                self._running.discard(run)

    def _job(self, program: Runtime, command: SandboxCommand) -> dict[str, Any]:
        spec, limits = self._spec, self._spec.limits
        bin_folder = os.path.dirname(program.path)  # noqa: PTH120 - a string
        env = {"PATH": f"{bin_folder}:{PATH}", **spec.env}
        argv = (program.path, *command.argv[1:])
        read = [each for each in spec.mounts if not each.writable]
        told = job(argv, program.folders, read, env, bwrap=self._bwrap)
        return {
            **told,
            "copies": [(each.source, each.target) for each in spec.mounts if each.writable],
            "cwd": WORK,
            "directory": spec.directory,
            "work": WORK,
            "memory": limits.memory_bytes,
            "processes": limits.processes,
            "wall_ms": limits.wall_ms,
            "file_bytes": limits.file_bytes,
            "files": limits.files,
        }

    async def close(self) -> None:
        """Kill what still runs."""
        for run in list(self._running):
            run.kill("cancel")
        self._engine.forget(self)


@dataclass(frozen=True, slots=True)
class _Started:
    """A process that waits for its job, and the reading ends of the program's output."""

    control: socket.socket
    streams: Mapping[Stream, int]

    def release(self) -> None:
        """Close its descriptors: what still runs is killed."""
        self.control.close()
        for handle in self.streams.values():
            os.close(handle)


class _Server:
    """The process that forks one around each program, started when it is first needed."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._stream: socket.socket | None = None
        self._lock = threading.Lock()

    def start(self, stdin: bytes) -> _Started:
        """Let it fork a process, with a control socket, given input and pipes for output.

        Raises:
            SandboxUnavailable: It cannot be started.
        """
        with self._lock:
            stream = self._alive()
            ours, theirs = socket.socketpair()
            out, out_end = os.pipe()
            err, err_end = os.pipe()
            given = _sealed(stdin)
            handles = [given, out_end, err_end, theirs.fileno()]
            try:
                socket.send_fds(stream, [b"+"], handles)
            finally:
                theirs.close()
                for handle in handles[:3]:
                    os.close(handle)
        for handle in (out, err):
            os.set_blocking(handle, False)
        return _Started(ours, {"stdout": out, "stderr": err})

    def _alive(self) -> socket.socket:
        if self._process is not None and self._process.poll() is None and self._stream is not None:
            return self._stream
        ours, theirs = socket.socketpair()
        try:
            self._process = subprocess.Popen(
                jailer("serve", theirs.fileno()),
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
                env={},
                cwd="/",
            )
        except OSError as error:
            raise SandboxUnavailable(f"the jailer cannot be started: {error}") from error
        finally:
            theirs.close()
        self._stream = ours
        return ours

    async def close(self) -> None:
        """End it."""
        import anyio

        process, stream = self._process, self._stream
        self._process = self._stream = None
        if stream is not None:
            stream.close()
        if process is not None:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(_ended, process)


def _ended(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait(_GRACE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _sealed(data: bytes) -> int:
    """Return a descriptor from which these bytes are read, and to which none can be added."""
    import fcntl

    handle = os.memfd_create("stdin", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    with os.fdopen(handle, "wb", closefd=False) as file:
        file.write(data)
    os.lseek(handle, 0, os.SEEK_SET)
    seals = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL
    fcntl.fcntl(handle, fcntl.F_ADD_SEALS, seals)
    return handle


@dataclass(slots=True, eq=False)
class _Run:
    """One run of a program, from here."""

    started: _Started
    spec: SandboxSpec
    output: Callable[[Stream, bytes], None]
    killed_by: Limit | Literal["cancel"] | None = None
    _text: dict[Stream, bytearray] = field(
        default_factory=lambda: {"stdout": bytearray(), "stderr": bytearray()}
    )
    _control: Control = field(init=False)

    def __post_init__(self) -> None:
        self._control = Control(self.started.control)

    def kill(self, reason: Limit | Literal["cancel"]) -> None:
        """Kill the program with all that it started; the first reason stays."""
        self.killed_by = self.killed_by or reason
        self._control.kill()

    async def to_end(self, told: Mapping[str, Any]) -> SandboxOutcome:
        """Run the program, and return how it ended."""
        import anyio

        ended: dict[str, Any] = {}
        began = time.monotonic()
        try:
            await self._control.say(told)
            await self._control.started()
            began = time.monotonic()
            async with anyio.create_task_group() as group:
                group.start_soon(self._relay, "stdout", self.spec.limits.stdout_bytes)
                group.start_soon(self._relay, "stderr", self.spec.limits.stderr_bytes)
                ended = await self._awaited()
                group.cancel_scope.deadline = anyio.current_time() + _GRACE
        except anyio.get_cancelled_exc_class():
            with anyio.CancelScope(shield=True), anyio.move_on_after(_GRACE):
                self.kill("cancel")
                await self._control.next()
            raise
        finally:
            self.started.release()
        return self._outcome(ended, time.monotonic() - began)

    async def _awaited(self) -> dict[str, Any]:
        """Wait for the program's end, and cause it when its time is up."""
        import anyio

        message: dict[str, Any] | None = None
        with anyio.move_on_after(self.spec.limits.wall_ms / 1000):
            message = await self._control.next()
        if message is None:
            self.kill("wall")
            with anyio.move_on_after(_GRACE):
                message = await self._control.next()
        if message is not None and "refused" in message:
            raise SandboxUnavailable(
                f"the jail cannot be made here: {message['refused']}",
                fix="`clawhive sandbox doctor` tells what is missing",
            )
        return {} if message is None else message["ended"]

    async def _relay(self, stream: Stream, room: int) -> None:
        """Keep and hand on what the program prints, to its limit; then it is killed."""
        import anyio

        handle, kept = self.started.streams[stream], self._text[stream]
        while True:
            await anyio.wait_readable(handle)
            try:
                data = os.read(handle, _CHUNK)
            except BlockingIOError:
                continue
            if not data:
                return
            shown = data[: room - len(kept)]
            if shown:
                kept += shown
                self.output(stream, shown)
            if len(shown) < len(data):
                self.kill(stream)

    def _outcome(self, ended: Mapping[str, Any], seconds: float) -> SandboxOutcome:
        code = ended.get("code")
        stderr = bytes(self._text["stderr"])
        killed_by = self.killed_by or self._limit_behind(ended, stderr)
        cut: set[Limit] = set()
        if killed_by is not None and killed_by != "cancel":
            cut.add(killed_by)
        if ended.get("full"):
            cut.add("files")
        if problem := ended.get("problem"):
            stderr += f"not all of its files could be kept: {problem}\n".encode()
            cut.add("files")
        return SandboxOutcome(
            exit_code=None if killed_by else code,
            stdout=bytes(self._text["stdout"]),
            stderr=stderr,
            killed_by=killed_by,
            truncated=tuple(sorted(cut)),
            duration_ms=round(seconds * 1000),
        )

    def _limit_behind(self, ended: Mapping[str, Any], stderr: bytes) -> Limit | None:
        """Return the limit that made a program fail by itself, None where it was none."""
        code = ended.get("code", 1)
        last = stderr[-_TAIL:]
        if ended.get("memory"):
            return "memory"
        if code == 0:
            return None
        if code in {_CPU_SIGNAL, -signal.SIGXCPU}:
            return "wall"
        if ended.get("full"):
            return "files"
        if any(each in last for each in _MEMORY_WORDS):
            return "memory"
        return "processes" if any(each in last for each in _PROCESS_WORDS) else None
