"""Engines that run code which nobody trusts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any, Literal, Protocol, runtime_checkable

from clawhive_core.model.late import dataclass
from clawhive_core.protocols.context import Stream

Limit = Literal["wall", "memory", "stdout", "stderr", "files", "processes", "tool_calls"]
Isolation = Literal["landlock", "jail", "guest"]
"""What separates a program from this machine, weakest first.

`landlock`: its system calls are limited (Landlock, seccomp); `jail`: namespaces of its own too, or
a container; `guest`: it makes no system call itself, as in an interpreter or a WebAssembly guest
that ask their host, or it has a kernel of its own.
"""
ISOLATIONS: tuple[Isolation, ...] = ("landlock", "jail", "guest")


@dataclass(frozen=True, slots=True)
class SandboxLimits:
    """The limits of one execution."""

    wall_ms: int = 5_000
    memory_bytes: int = 256 * 1024 * 1024
    stdout_bytes: int = 1024 * 1024
    stderr_bytes: int = 1024 * 1024
    files: int = 1_000
    file_bytes: int = 32 * 1024 * 1024
    """All files written, together."""
    processes: int = 32
    tool_calls: int = 100


@dataclass(frozen=True, slots=True)
class SandboxMount:
    """A folder of this machine that programs of an instance see too."""

    source: str
    """Absolute, resolved."""
    target: str
    """The path at which programs see it, absolute."""
    writable: bool = False


class SandboxHost(Protocol):
    """Answers a program's call of a tool, through the executor."""

    async def __call__(self, name: str, input: Mapping[str, Any]) -> Any:
        """Return what a tool answers, a JSON value; a refusal is a dict.

        Raises:
            ToolError: It becomes an exception inside the program. Whatever else is raised ends the
                program, and is raised where it was run.
        """
        ...


@dataclass(frozen=True, slots=True)
class SandboxSpec:
    """The files, rights and limits of one instance's programs; later rights are another one's.

    An engine that cannot give one of these refuses to open.
    """

    directory: str
    """The session's sandbox directory, absolute: programs begin there, read and write."""
    mounts: tuple[SandboxMount, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    limits: SandboxLimits = field(default_factory=SandboxLimits)
    """Of each command."""
    host: SandboxHost | None = None
    """The host of their calls of tools; None where they may make none."""
    clock: float | None = None
    """The seconds since 1970 at which their clock begins, which then moves as they use it, so that
    a run can be repeated; None for the real time."""
    seed: int | None = None
    """The start of their randomness, for the same reason; None for real randomness."""


@dataclass(frozen=True, slots=True)
class SandboxCommand:
    """One command of an instance."""

    argv: tuple[str, ...]
    script: str = "main.py"
    """The name of the code in messages."""
    stdin: bytes = b""

    @property
    def program(self) -> str:
        """The first word: `python`, `node`."""
        return self.argv[0]

    @property
    def code(self) -> str:
        """The source of `python -c CODE` and `node -e CODE`."""
        return self.argv[2] if len(self.argv) > 2 else ""  # noqa: PLR2004 - program, flag, code


@dataclass(frozen=True, slots=True)
class Unsupported:
    """A command that an engine cannot run, found before anything ran."""

    line: int
    column: int
    what: str
    """Such as "`yield` (generators)"."""


@dataclass(frozen=True, slots=True)
class SandboxOutcome:
    """The end of an execution."""

    exit_code: int | None
    """None where it was killed."""
    stdout: bytes
    stderr: bytes
    killed_by: Limit | Literal["cancel"] | None = None
    truncated: tuple[Limit, ...] = ()
    """The limits at which something was cut."""
    duration_ms: int = 0


class SandboxInstance(Protocol):
    """An opened sandbox, whose commands see the same directory, mounts and environment."""

    async def run(
        self, command: SandboxCommand, output: Callable[[Stream, bytes], None]
    ) -> SandboxOutcome:
        """Run a command to its end or limit; on cancellation kill it and re-raise."""
        ...

    async def close(self) -> None:
        """Kill what still runs, and release what the instance holds."""
        ...


class SandboxEngine(Protocol):
    """Runs commands in killable workers; nothing they run reaches the host but by their spec."""

    @property
    def name(self) -> str:
        """Such as `monty`."""
        ...

    @property
    def version(self) -> str:
        """The engine's own version, kept in the run's record."""
        ...

    @property
    def isolation(self) -> Isolation:
        """The separation that it gives; where it cannot give it, it does not open."""
        ...

    @property
    def programs(self) -> frozenset[str]:
        """The commands it runs: a program's name, and its flag for code: `python -c`."""
        ...

    @property
    def aliases(self) -> Mapping[str, str]:
        """Other names of programs, also of such as it does not run: `python3` to `python`."""
        ...

    @property
    def deterministic(self) -> bool:
        """Whether equal input gives equal output, so that a run can be repeated bit by bit."""
        ...

    def unsupported(self, command: SandboxCommand) -> Unsupported | None:
        """Return what this engine cannot run of the command, without running any of it."""
        ...

    async def open(self, spec: SandboxSpec) -> SandboxInstance:
        """Return an instance in which commands run.

        Raises:
            SandboxUnavailable: The engine cannot start here, or cannot give what is specified.
            ToolError: `io_error`: the directory cannot be opened.
        """
        ...

    async def close(self) -> None:
        """Kill every worker."""
        ...


class SandboxSession(Protocol):
    """An interpreter that keeps its variables from one evaluation to the next."""

    async def evaluate(
        self,
        command: SandboxCommand,
        output: Callable[[Stream, bytes], None],
        limits: SandboxLimits | None = None,
        host: SandboxHost | None = None,
    ) -> SandboxOutcome:
        """Run code in it, and print the value of a last expression, as an interactive one does.

        One that meets a limit ends the session.

        Args:
            command: The code.
            output: Told what it prints.
            limits: The limits of this evaluation; None for those of the session's spec.
            host: The host of its calls of tools; None for that of the session's spec.

        Raises:
            SandboxUnavailable: The session has ended.
        """
        ...

    async def close(self) -> None:
        """End it."""
        ...


@runtime_checkable
class SessionEngine(Protocol):
    """A sandbox engine that also keeps interpreters between evaluations."""

    async def open_session(self, spec: SandboxSpec) -> SandboxSession:
        """Return a session; its rights are fixed, as those of an instance.

        Raises:
            SandboxUnavailable: As `SandboxEngine.open`.
            ToolError: As `SandboxEngine.open`.
        """
        ...


@runtime_checkable
class PreparedEngine(Protocol):
    """A sandbox engine whose first use on a machine takes long, such as one that compiles."""

    async def prepare(self, progress: Callable[[str], None]) -> bool:
        """Do what the first use needs, outside of any program's limits; whether anything was done.

        Args:
            progress: Told what is being done, as it goes on.

        Raises:
            SandboxUnavailable: It cannot be done.
        """
        ...


class HandlerHost(Protocol):
    """Answers what a handler asks its `ctx` for."""

    async def __call__(self, method: str, arguments: Mapping[str, Any]) -> Any:
        """Return what a method of `ctx` answers, a JSON value.

        Args:
            method: `call`, `read`, `save` or `show`.
            arguments: Its arguments by their names.

        Raises:
            ToolError: It becomes a RuntimeError `CODE: message` inside the handler. Whatever else
                is raised ends the handler, and is raised where the handler was run.
        """
        ...


@dataclass(frozen=True, slots=True)
class HandlerCall:
    """One call of a skill's handler: `FUNCTION(input, ctx)`, sync or async.

    Its `ctx` has what `facts` holds as attributes and the methods `call(name, input={})`,
    `read(path)`, `save(path, data)` and `show(card_type, data={})`. Each comes out through a
    `HandlerHost` at once and answers something to await; what nobody awaited is waited for at the
    end. An awaitable that the function returns is awaited.
    """

    source: str
    """The module that defines the function."""
    script: str
    """The name of the module in messages."""
    function: str
    input: Mapping[str, Any]
    facts: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """JSON values by name, such as `user_id`."""
    limits: SandboxLimits = field(default_factory=SandboxLimits)
    """Of these `memory_bytes`, `stdout_bytes` and `stderr_bytes` count; time is the caller's, who
    cancels, since a handler that waits for its host uses none of its own."""


@dataclass(frozen=True, slots=True)
class HandlerOutcome:
    """The end of a handler: by a value, by an exception, or by a limit."""

    value: Any = None
    """The JSON value that it returned."""
    error: str | None = None
    """The exception's type and text."""
    line: int | None = None
    """The line of the module that raised it, counted from 1."""
    not_json: bool = False
    """Whether the error is that what it returned is no JSON."""
    killed_by: Limit | None = None


@runtime_checkable
class HandlerEngine(Protocol):
    """A sandbox engine that also runs the handlers of skills, each in a killable worker."""

    @property
    def name(self) -> str:
        """As of `SandboxEngine`."""
        ...

    @property
    def isolation(self) -> Isolation:
        """As of `SandboxEngine`."""
        ...

    async def run_handler(
        self, call: HandlerCall, host: HandlerHost, output: Callable[[Stream, bytes], None]
    ) -> HandlerOutcome | Unsupported:
        """Run a handler to its end; on cancellation kill it and re-raise.

        Returns:
            How it ended; Unsupported where it cannot run here, found before it asked for anything.

        Raises:
            SandboxUnavailable: The engine cannot start here.
        """
        ...
