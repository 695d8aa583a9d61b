"""One program in one worker process of the engine `monty`, watched from here.

The worker asks this process for everything that lies outside it: files, sleep, environment, input.
Each such request passes `_Job._answer`, where files are counted and time is kept.
"""

from __future__ import annotations

import os
import posixpath
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

from clawhive_builtin._monty_source import EXIT, with_exits
from clawhive_builtin._monty_trace import syntax_error_text, traceback_text
from clawhive_builtin._monty_worker import (
    GRACE,
    UNCOUNTED,
    WORKER_ITSELF,
    Worker,
    limit_behind,
    no_worker,
    start_pool,
)
from clawhive_core import SandboxCommand, SandboxMount, SandboxOutcome, SandboxSpec, ToolError

if TYPE_CHECKING:
    from pydantic_monty import FunctionSnapshot, Monty, MontySession, MountDir, OSPolicy

    from clawhive_core import Limit, SandboxHost, Stream

WORK = "/work"
"""The path at which the program sees its directory."""

_FAILED = 1


class _Stopped(Exception):
    """The program was stopped; `Job.killed_by` says why."""


class Job:
    """One run: made, run once in a worker thread, killed from any thread.

    Args:
        spec: What the program sees and may use.
        command: What to run.
        output: Told of output as it comes, in the thread that runs the job.
        policy: The clock and randomness of the program.
    """

    def __init__(
        self,
        spec: SandboxSpec,
        command: SandboxCommand,
        output: Callable[[Stream, bytes], None],
        policy: OSPolicy,
    ) -> None:
        self.ended = threading.Event()
        self.killed_by: Limit | Literal["cancel"] | None = None
        self._command, self._output, self._policy = command, output, policy
        self._spec, self._limits = spec, spec.limits
        self._room: dict[str, int] = {
            "stdout": self._limits.stdout_bytes,
            "stderr": self._limits.stderr_bytes,
        }
        self._text: dict[str, bytearray] = {"stdout": bytearray(), "stderr": bytearray()}
        self._cut: set[Limit] = set()
        self._files = _Files(spec)
        self._calls = 0
        self._fatal: Exception | None = None
        self._input = command.stdin.decode("utf-8", "replace").splitlines()
        self._exit: tuple[str, int] | None = None
        self._due: dict[int, float] = {}
        self._deadline = 0.0
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._worker: Worker | None = None

    def run(self) -> SandboxOutcome:
        """Run the program to its end or limit, in a worker process of its own.

        Raises:
            SandboxUnavailable: The engine cannot start here.
            ToolError: The directory cannot be opened.
        """
        import_module("pydantic_monty")  # its first import is slow, and no part of the program
        started = time.monotonic()
        self._deadline = started + self._limits.wall_ms / 1000
        watch = threading.Timer(self._limits.wall_ms / 1000 + GRACE, self.kill, ("wall",))
        watch.daemon = True
        watch.start()
        try:
            code = self._supervise()
        finally:
            watch.cancel()
            self._release()
            self.ended.set()
        if self._fatal is not None:
            raise self._fatal
        return SandboxOutcome(
            exit_code=None if self.killed_by else code,
            stdout=bytes(self._text["stdout"]),
            stderr=bytes(self._text["stderr"]),
            killed_by=self.killed_by,
            truncated=tuple(sorted(self._cut)),
            duration_ms=round((time.monotonic() - started) * 1000),
        )

    def kill(self, reason: Limit | Literal["cancel"]) -> None:
        """Kill the worker; the first reason stays. Nothing happens after the end."""
        with self._lock:
            if self.ended.is_set():
                return
            self._note(reason)
            self._stop.set()
            if self._worker is not None:
                self._worker.kill()

    def _note(self, reason: Limit | Literal["cancel"]) -> None:
        self.killed_by = self.killed_by or reason
        if self.killed_by != "cancel":
            self._cut.add(self.killed_by)

    def _supervise(self) -> int:
        from pydantic_monty import MontyError

        with ExitStack() as stack:
            mounts = [stack.enter_context(mount) for mount in self._mounts()]
            try:
                self._work(mounts)
            except _Stopped:
                return _FAILED
            except MontyError as error:
                return self._failed(error)
        return 0

    def _mounts(self) -> Iterator[MountDir]:
        """Yield the folders that the program sees, opened."""
        yield self._mount(SandboxMount(self._spec.directory, WORK, writable=True))
        for mount in self._spec.mounts:
            yield self._mount(mount)

    def _mount(self, mount: SandboxMount) -> MountDir:
        from pydantic_monty import MountDir

        try:
            return MountDir(
                host_path=mount.source,
                virtual_path=mount.target,
                mode="read-write" if mount.writable else "read-only",
                write_bytes_limit=self._limits.file_bytes,
            )
        except (OSError, TypeError, ValueError) as error:
            raise ToolError(
                f"the sandbox directory {mount.source} cannot be opened: {error}",
                code="io_error",
                fix="check that the directory exists and may be read and written",
            ) from error

    def _work(self, mounts: list[MountDir]) -> None:
        with start_pool() as pool, self._session(pool) as session:
            self._adopt(session.worker_pid)
            self._drive(session, mounts)

    def _session(self, pool: Monty) -> MontySession:
        wall = self._limits.wall_ms / 1000
        return pool.checkout(
            script_name=self._command.script,
            limits={
                "max_feed_duration_secs": wall,
                "max_memory": self._limits.memory_bytes,
                "max_suspensions": UNCOUNTED,
            },
            os_policy=self._policy,
            assert_message_annotations=False,
        )

    def _adopt(self, pid: int | None) -> None:
        """Take hold of the worker, and fence it further where the system can."""
        if pid is None:
            raise no_worker()
        with self._lock:
            worker = self._worker = Worker(pid)
            stopped = self._stop.is_set()
        if stopped:
            worker.kill()
            raise _Stopped
        worker.fence(self._limits.memory_bytes + WORKER_ITSELF)

    def _release(self) -> None:
        with self._lock:
            if self._worker is not None:
                self._worker.release()
                self._worker = None

    def _drive(self, session: MontySession, mounts: list[MountDir]) -> None:
        from pydantic_monty import FunctionSnapshot, FutureSnapshot, MontyComplete

        leave: dict[str, Any] = dict.fromkeys((EXIT, "exit", "quit"), self._leave)
        names = {**leave, "input": self._read}
        if self._spec.host is not None:
            names["call_tool"] = self._call
        state: Any = session.feed_start(
            with_exits(self._command.code),
            mount=mounts,
            cwd=WORK,
            external_lookup=names,
            print_callback=self._print,
        )
        while not isinstance(state, MontyComplete):
            if time.monotonic() >= self._deadline:
                self._give_up("wall")
            if isinstance(state, FutureSnapshot):
                first = min(state.pending_call_ids, key=lambda call: self._due.get(call, 0.0))
                self._sleep_until(self._due.get(first, 0.0))
                state = state.resume({first: {"return_value": None}})
            elif isinstance(state, FunctionSnapshot) and state.is_os_function:
                state = self._answer(state)
            else:
                state = state.resume_auto()

    def _answer(self, asked: FunctionSnapshot) -> Any:
        """Answer one request of the worker for something outside it."""
        name, args = str(asked.function_name), asked.args
        match name:
            case "system.sleep":
                self._sleep_until(time.monotonic() + float(args[0]))
                return asked.resume({"return_value": None})
            case "system.async_sleep":
                self._due[asked.call_id] = time.monotonic() + float(args[0])
                return asked.resume({"future": ...})
            case "os.environ":
                return asked.resume({"return_value": dict(self._spec.env)})
            case "os.getenv":
                return asked.resume({"return_value": self._spec.env.get(args[0], args[1])})
            case _:
                if self._files.exceeds(name, args):
                    self._give_up("files")
                return asked.resume_auto()

    def _give_up(self, reason: Limit) -> None:
        self.kill(reason)
        raise _Stopped

    def _sleep_until(self, moment: float) -> None:
        self._stop.wait(max(0.0, min(moment, self._deadline) - time.monotonic()))
        if self._stop.is_set():
            raise _Stopped
        if moment > self._deadline:
            self._give_up("wall")

    def _print(self, stream: Literal["stdout", "stderr"], text: str) -> None:
        if not self._keep(stream, text.encode("utf-8", "replace")):
            self.kill(stream)

    def _keep(self, stream: Literal["stdout", "stderr"], data: bytes) -> bool:
        """Keep output as far as there is room; whether all of it was kept."""
        kept = data[: self._room[stream]]
        self._room[stream] -= len(kept)
        self._text[stream] += kept
        if kept:
            self._output(stream, kept)
        if len(kept) < len(data):
            self._cut.add(stream)
        return len(kept) == len(data)

    def _leave(self, *code: Any) -> None:
        value = code[0] if code else None
        if isinstance(value, int):
            self._exit = (str(int(value)), int(value) & 0xFF)
            raise SystemExit(self._exit[0])
        if value is None:
            raise SystemExit
        raise SystemExit(str(value))

    def _call(self, name: str, input: Any = None) -> Any:
        """Call a tool for the program; its time is the program's."""
        from anyio import from_thread

        self._calls += 1
        if self._calls > self._limits.tool_calls:
            self.kill("tool_calls")
            raise RuntimeError("it asked for too many calls")
        try:
            given: Mapping[str, Any] = {} if input is None else input
            return from_thread.run(cast("SandboxHost", self._spec.host), name, given)
        except ToolError as error:
            raise RuntimeError(f"{error.code}: {error.message}") from error
        except Exception as error:
            self._fatal = error
            self.kill("cancel")
            raise

    def _read(self, prompt: Any = "") -> str:
        self._print("stdout", str(prompt))
        if self._input:
            return self._input.pop(0)
        self._exit = ("EOFError: EOF when reading a line", _FAILED)
        self._keep("stderr", b"EOFError: EOF when reading a line\n")
        raise SystemExit(self._exit[0])

    def _failed(self, error: Exception) -> int:
        """Return the exit code of a program that ended by `error`, its traceback on stderr."""
        from pydantic_monty import MontyRuntimeError, MontySyntaxError

        if self.killed_by:
            return _FAILED
        message = str(error)
        if isinstance(error, MontySyntaxError):
            self._say(syntax_error_text(self._command.script, self._command.code, message))
        elif not isinstance(error, MontyRuntimeError):
            self._say(f"the engine's worker died: {message}\n")
        elif isinstance(kind := error.exception(), SystemExit):
            return self._exited(str(kind))
        else:
            if (limit := limit_behind(kind, message)) is not None:
                self._note(limit)
            frames = error.traceback()
            self._say(traceback_text(frames, message, self._command.script, self._command.code))
        return _FAILED

    def _exited(self, text: str) -> int:
        if self._exit is not None and text == self._exit[0]:
            return self._exit[1]
        if text:
            self._say(text + "\n")
        return _FAILED if text else 0

    def _say(self, text: str) -> None:
        self._keep("stderr", text.encode("utf-8", "replace"))


class _Files:
    """Counts what a program writes, before it is written."""

    def __init__(self, spec: SandboxSpec) -> None:
        self._directory = Path(spec.directory)
        self._files, self._bytes = spec.limits.files, spec.limits.file_bytes
        self._made: set[str] = set()

    def exceeds(self, name: str, args: tuple[Any, ...]) -> bool:
        """Note a request; whether it goes beyond the limits of files or bytes."""
        if name in {"Path.write_text", "Path.write_bytes", "Path.append_text", "Path.append_bytes"}:
            data = args[1]
            self._bytes -= len(data.encode("utf-8", "replace") if isinstance(data, str) else data)
            self._make(args[0])
        elif name == "Path.mkdir" or (name == "open" and set(str(args[1])) & set("wax+")):
            self._make(args[0])
        return self._bytes < 0 or len(self._made) > self._files

    def _make(self, path: Any) -> None:
        inside = posixpath.relpath(posixpath.normpath(str(path)), WORK)
        if inside not in self._made and not os.path.lexists(self._directory / inside):
            self._made.add(inside)
