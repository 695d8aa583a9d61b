"""Engines that run code which nobody trusts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol

from clawhive_core.protocols.context import Stream

Limit = Literal["wall", "memory", "stdout", "stderr", "files", "processes", "tool_calls"]


@dataclass(frozen=True, slots=True)
class SandboxLimits:
    """What one execution may use."""

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
class SandboxCommand:
    """One command: argv, the directory it works in, and its limits."""

    argv: tuple[str, ...]
    directory: str
    """The session's sandbox directory, absolute: the only one it sees, read and write."""
    script: str = "main.py"
    """What to call the code in messages."""
    stdin: bytes = b""
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    limits: SandboxLimits = field(default_factory=SandboxLimits)

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
    """What an engine cannot run, found before anything ran."""

    line: int
    column: int
    what: str
    """Such as "`yield` (generators)"."""


@dataclass(frozen=True, slots=True)
class SandboxOutcome:
    """How an execution ended."""

    exit_code: int | None
    """None where it was killed."""
    stdout: bytes
    stderr: bytes
    killed_by: Limit | Literal["cancel"] | None = None
    truncated: tuple[Limit, ...] = ()
    """The limits at which something was cut."""
    duration_ms: int = 0


class SandboxEngine(Protocol):
    """Runs commands in a killable worker; nothing it runs reaches the host but its directory."""

    @property
    def name(self) -> str:
        """Such as `monty`."""
        ...

    @property
    def version(self) -> str:
        """The engine's own version, kept in the run's record."""
        ...

    @property
    def programs(self) -> frozenset[str]:
        """The commands it runs: `python -c`, `node -e`."""
        ...

    @property
    def deterministic(self) -> bool:
        """Whether equal input gives equal output, so that a run can be repeated bit by bit."""
        ...

    def unsupported(self, command: SandboxCommand) -> Unsupported | None:
        """Return what this engine cannot run of the command, without running any of it."""
        ...

    async def run(
        self, command: SandboxCommand, output: Callable[[Stream, bytes], None]
    ) -> SandboxOutcome:
        """Run a command to its end or limit; on cancellation kill it and re-raise."""
        ...

    async def close(self) -> None:
        """Kill every worker."""
        ...
