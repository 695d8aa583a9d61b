"""The engines `cpython-wasi` and `quickjs-wasi`: interpreters in WebAssembly, in workers."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from clawhive_core import (
    SandboxCommand,
    SandboxHost,
    SandboxLimits,
    SandboxOutcome,
    SandboxSpec,
    SandboxUnavailable,
    ToolError,
    Unsupported,
)
from clawhive_sandbox.absent import absent_in_python, absent_in_quickjs
from clawhive_sandbox.frames import BrokenStream, read_json
from clawhive_sandbox.modules import (
    PYTHON,
    QUICKJS,
    GuestModule,
    ModuleUnusable,
    cache_folder,
    is_compiled,
    wasmtime_version,
)

if TYPE_CHECKING:
    import anyio
    from anyio.abc import TaskGroup

    from clawhive_core import Limit, Stream
    from clawhive_sandbox.processes import ForkServer, Worker

WORK = "/work"
"""Where a program sees its directory."""
GRACE = 0.5
"""Seconds past the deadline after which the worker is killed from outside."""
CONCURRENT = 8
"""How many programs run at once; further ones wait, and their time starts when they start."""
KEPT = 4
"""How many interpreters are kept started, each for programs of one trust domain."""
_SEEN = 64
_TOLD_SECONDS = 2.0
_WORDS = 3
_ALIASES = {
    "py": "python",
    "python3": "python",
    "js": "node",
    "javascript": "node",
    "nodejs": "node",
}


class WasmEngine:
    """Runs programs in an interpreter that is a WebAssembly module (`clawhive_core.SandboxEngine`).

    Args:
        module: The interpreter.
        program: The command that it runs: `python -c`.
        env: The environment that says where the user's cache lies.
    """

    isolation: Literal["guest"] = "guest"
    aliases: Mapping[str, str] = _ALIASES
    deterministic = False

    def __init__(self, module: GuestModule, program: str, env: Mapping[str, str]) -> None:
        self.module = module
        self.programs = frozenset({program})
        self.folder: Path = cache_folder(env)
        self._server: ForkServer | None = None
        self._limiter: anyio.CapacityLimiter | None = None
        self._starting: anyio.Lock | None = None
        self._instances: set[WasmInstance | WasmSession] = set()
        self._kept: dict[str, Worker] = {}
        self._seen: dict[str, None] = {}

    @property
    def name(self) -> str:
        """The name of the engine."""
        return self.module.name

    @property
    def version(self) -> str:
        """The interpreter's version, and wasmtime's."""
        return f"{self.module.version} (wasmtime {wasmtime_version()})"

    def unsupported(self, command: SandboxCommand) -> Unsupported | None:
        """Return what of a command cannot be run here."""
        if len(command.argv) > _WORDS:
            return Unsupported(1, 1, "arguments after the code")
        absent = absent_in_python if self.module is PYTHON else absent_in_quickjs
        return absent(command.code)

    async def open(self, spec: SandboxSpec) -> WasmInstance:
        """Return an instance; each of its programs gets a worker of its own.

        Raises:
            SandboxUnavailable: The engine cannot start here.
        """
        await self._served()
        instance = WasmInstance(self, spec)
        self._instances.add(instance)
        return instance

    async def open_session(self, spec: SandboxSpec) -> WasmSession:
        """Return an interpreter that keeps its variables.

        Raises:
            SandboxUnavailable: The engine cannot start here.
        """
        session = WasmSession(self, spec, await self.worker(spec))
        self._instances.add(session)
        return session

    async def close(self) -> None:
        """Kill every worker, and end the server that starts them."""
        for instance in list(self._instances):
            await instance.close()
        while self._kept:
            self._kept.popitem()[1].end()
        server, self._server = self._server, None
        if server is not None:
            await server.close()

    async def prepare(self, progress: Callable[[str], None]) -> bool:
        """Compile the module where that was not done yet; whether it was done now.

        Raises:
            SandboxUnavailable: It cannot be compiled.
        """
        import anyio

        from clawhive_sandbox.processes import compiled

        async def tell() -> None:
            begun = time.monotonic()
            while True:
                seconds = time.monotonic() - begun
                progress(f"compiling {self.name} for this machine, once: {seconds:.0f} s")
                await anyio.sleep(_TOLD_SECONDS)

        problem = ""
        try:
            if is_compiled(self.module, self.folder):
                return False
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(tell)
                problem = await compiled(self.module, self.folder)
                tasks.cancel_scope.cancel()
        except ModuleUnusable as error:
            raise _unusable(self.module, error) from error
        if problem:
            raise _unusable(self.module, ModuleUnusable(problem))
        return True

    def limiter(self) -> anyio.CapacityLimiter:
        """Return what bounds the programs that run at once."""
        import anyio

        if self._limiter is None:
            self._limiter = anyio.CapacityLimiter(CONCURRENT)
        return self._limiter

    async def worker(self, spec: SandboxSpec) -> Worker:
        """Return a worker for a spec: the one that was kept started for it, or a new one.

        Raises:
            SandboxUnavailable: None can be started.
            ToolError: `io_error`: a folder cannot be opened.
        """
        kept = self._kept.pop(_domain(spec), None)
        # One that was kept may have found a folder while somebody replaced it.
        if kept is not None and await _refusal(kept) is None:
            return kept
        worker = await self._started(spec)
        problem = await _refusal(worker)
        if problem is not None:
            raise ToolError(
                f"the sandbox cannot be opened: {problem}",
                code="io_error",
                fix="check that the folder exists, may be read and written, and is no link",
            )
        return worker

    async def keep_one(self, spec: SandboxSpec) -> None:
        """Keep an interpreter started for a spec that programs come for again and again."""
        domain = _domain(spec)
        if domain not in self._seen:
            self._seen[domain] = None
            return
        if domain in self._kept or self._server is None or not self._server.alive():
            return
        with suppress(SandboxUnavailable):
            self._kept[domain] = await self._started(spec)
        while len(self._kept) > KEPT:
            self._kept.pop(next(iter(self._kept))).end()
        while len(self._seen) > _SEEN:
            self._seen.pop(next(iter(self._seen)))

    async def _started(self, spec: SandboxSpec) -> Worker:
        worker = await (await self._served()).fork()
        await worker.say({"open": opening(spec)})
        return worker

    def forget(self, instance: WasmInstance | WasmSession) -> None:
        """Take note that an instance is closed."""
        self._instances.discard(instance)

    async def _served(self) -> ForkServer:
        import anyio

        from clawhive_sandbox.processes import start_server

        if self._starting is None:
            self._starting = anyio.Lock()
        async with self._starting:
            if self._server is None or not self._server.alive():
                await self.prepare(_untold)
                try:
                    self._server = await start_server(self.module, self.folder)
                except ModuleUnusable as error:
                    raise _unusable(self.module, error) from error
        return self._server


def wasm_engines(env: Mapping[str, str]) -> list[WasmEngine]:
    """Return the engines, whose compiled modules lie in the cache that an environment names."""
    return [WasmEngine(PYTHON, "python -c", env), WasmEngine(QUICKJS, "node -e", env)]


def _unusable(module: GuestModule, error: ModuleUnusable) -> SandboxUnavailable:
    return SandboxUnavailable(
        f"the engine `{module.name}` cannot start: {error}",
        fix='install it again: pip install --force-reinstall "clawhive-sandbox"',
    )


class WasmInstance:
    """A directory, mounts, environment and host, for programs one after another or at once."""

    def __init__(self, engine: WasmEngine, spec: SandboxSpec) -> None:
        self._engine, self._spec = engine, spec
        self._workers: set[Worker] = set()

    async def run(
        self, command: SandboxCommand, output: Callable[[Stream, bytes], None]
    ) -> SandboxOutcome:
        """Run a program to its end or limit; on cancellation its worker is killed.

        Raises:
            SandboxUnavailable: No worker can be started.
            ToolError: `io_error`: a folder cannot be opened.
        """
        import anyio

        async with self._engine.limiter():
            worker = await self._engine.worker(self._spec)
            self._workers.add(worker)
            try:
                outcome = await _Run(worker, self._spec, output).to_end(command, keep=False)
            finally:
                self._workers.discard(worker)
                worker.end()
        with anyio.CancelScope(shield=True):
            await self._engine.keep_one(self._spec)
        return outcome

    async def close(self) -> None:
        """Kill what still runs."""
        for worker in list(self._workers):
            worker.kill()
        self._engine.forget(self)


class WasmSession:
    """An interpreter in a worker of its own, which keeps its variables."""

    def __init__(self, engine: WasmEngine, spec: SandboxSpec, worker: Worker) -> None:
        self._engine, self._spec, self._worker = engine, spec, worker

    async def evaluate(
        self,
        command: SandboxCommand,
        output: Callable[[Stream, bytes], None],
        limits: SandboxLimits | None = None,
        host: SandboxHost | None = None,
    ) -> SandboxOutcome:
        """Run code in the interpreter; whatever stops it ends the session.

        Raises:
            SandboxUnavailable: The session has ended.
        """
        if not self._worker.alive():
            raise SandboxUnavailable(
                "the session has ended", fix="open another one: variables do not outlive a session"
            )
        given = self._spec
        spec = replace(given, limits=limits or given.limits, host=host or given.host)
        is_over = False
        try:
            outcome = await _Run(self._worker, spec, output).to_end(command, keep=True)
            is_over = outcome.killed_by is not None
        except BaseException:
            is_over = True
            raise
        finally:
            if is_over:
                await self.close()
        return outcome

    async def close(self) -> None:
        """Kill the worker."""
        self._worker.end()
        self._engine.forget(self)


async def _refusal(worker: Worker) -> str | None:
    """Return why a started worker cannot open its folders, None where it did; else end it."""
    try:
        heard = await worker.frame()
    except BaseException:
        worker.end()
        raise
    message = {"refused": "its worker ended"} if heard is None else read_json(heard[1])
    if "refused" not in message:
        return None
    worker.end()
    return str(message["refused"])


def _domain(spec: SandboxSpec) -> str:
    """Return the trust domain of a spec: the very same folders, rights and memory."""
    folders = [spec.directory, *(each.source for each in spec.mounts)]
    places: list[tuple[int, int]] = []
    for folder in folders:
        with suppress(OSError):
            about = Path(folder).stat()
            places.append((about.st_dev, about.st_ino))
    return json.dumps([opening(spec), places], sort_keys=True)


def _untold(text: str) -> None:
    """Take progress of which nobody wants to hear."""


def opening(spec: SandboxSpec) -> dict[str, Any]:
    """Return what a worker is told of a spec."""
    own = (spec.directory, WORK, True)
    return {
        "mounts": [own, *((each.source, each.target, each.writable) for each in spec.mounts)],
        "env": dict(spec.env),
        "memory": spec.limits.memory_bytes,
        "clock": spec.clock,
        "seed": spec.seed,
    }


def _limits(limits: SandboxLimits) -> dict[str, int]:
    """Return what a worker is told of the limits of one program."""
    return {
        "wall": limits.wall_ms,
        "stdout": limits.stdout_bytes,
        "stderr": limits.stderr_bytes,
        "files": limits.files,
        "file_bytes": limits.file_bytes,
        "tool_calls": limits.tool_calls,
    }


@dataclass(slots=True)
class _Text:
    """One stream of a program's output."""

    data: bytearray
    room: int


class _Run:
    """One run of a program in a worker, as the engine sees it; the worker is not believed."""

    def __init__(
        self, worker: Worker, spec: SandboxSpec, output: Callable[[Stream, bytes], None]
    ) -> None:
        self._worker, self._spec, self._output = worker, spec, output
        limits = spec.limits
        self._text: dict[Stream, _Text] = {
            "stdout": _Text(bytearray(), limits.stdout_bytes),
            "stderr": _Text(bytearray(), limits.stderr_bytes),
        }
        self._cut: set[Limit] = set()
        self._calls_of: TaskGroup
        self._ended: dict[str, Any] | None = None
        self._fatal: Exception | None = None

    async def to_end(self, command: SandboxCommand, *, keep: bool) -> SandboxOutcome:
        """Run a program, and return how it ended."""
        import anyio

        started = time.monotonic()
        wall = self._spec.limits.wall_ms / 1000
        run = {
            "code": command.code,
            "script": command.script,
            "stdin": command.stdin.decode("latin-1"),
            "keep": keep,
            "limits": _limits(self._spec.limits),
        }
        with anyio.move_on_after(wall + GRACE):
            await self._worker.say({"run": run})
            async with anyio.create_task_group() as tasks:
                self._calls_of = tasks
                with suppress(BrokenStream):
                    await self._listen()
                tasks.cancel_scope.cancel()
        if self._fatal is not None:
            raise self._fatal
        took = time.monotonic() - started
        return self._outcome(self._ended or self._lost(took >= wall), took)

    async def _listen(self) -> None:
        """Take what the worker says until the program, or the worker, has ended."""
        while self._fatal is None and (heard := await self._worker.frame()) is not None:
            kind, body = heard
            if kind in _STREAMS:
                self._printed(_STREAMS[kind], body)
                continue
            message = read_json(body)
            if "ended" in message:
                self._ended = message["ended"]
                return
            self._calls_of.start_soon(self._called, message)

    async def _called(self, message: Mapping[str, Any]) -> None:
        """Answer a call of a tool; what is no refusal of it ends the program."""
        import anyio

        answer: dict[str, Any] = {"answer": message["call"]}
        try:
            if self._spec.host is None:
                answer["error"] = "no tools can be called here"
            else:
                answer["value"] = await self._spec.host(str(message["name"]), message["input"])
        except ToolError as error:
            answer["error"] = f"{error.code}: {error.message}"
        except Exception as error:  # noqa: BLE001 - it is raised where the program was run
            self._fatal = error
            self._calls_of.cancel_scope.cancel()
            return
        with anyio.CancelScope(shield=True):  # half an answer would spoil what follows it
            await self._worker.say(answer)

    def _printed(self, stream: Stream, data: bytes) -> None:
        text = self._text[stream]
        kept = data[: text.room]
        text.room -= len(kept)
        text.data += kept
        if kept:
            self._output(stream, kept)

    def _lost(self, late: bool) -> dict[str, Any]:
        if late:
            return {"exit_code": None, "killed_by": "wall"}
        self._printed("stderr", b"the engine's worker died\n")
        return {"exit_code": 1, "killed_by": None}

    def _outcome(self, ended: Mapping[str, Any], took: float) -> SandboxOutcome:
        killed_by = ended["killed_by"] or self._memory_behind(ended["exit_code"])
        if killed_by:
            self._cut.add(killed_by)
        return SandboxOutcome(
            exit_code=None if killed_by else ended["exit_code"],
            stdout=bytes(self._text["stdout"].data),
            stderr=bytes(self._text["stderr"].data),
            killed_by=killed_by,
            truncated=tuple(sorted(self._cut)),
            duration_ms=round(took * 1000),
        )

    def _memory_behind(self, code: int) -> Limit | None:
        """Return the limit of memory where the interpreter's own last words are of it."""
        said = bytes(self._text["stderr"].data[-_LAST_WORDS:]).splitlines()
        return "memory" if code and any(line.endswith(_NO_MEMORY) for line in said) else None


_STREAMS: dict[int, Stream] = {ord("o"): "stdout", ord("e"): "stderr"}
_LAST_WORDS = 1000
_NO_MEMORY = (b"MemoryError", b"Error: out of memory")
