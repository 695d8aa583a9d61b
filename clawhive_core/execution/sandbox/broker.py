"""The sandbox broker: which engine runs a program, in which directory, under which limits."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

import anyio

from clawhive_core.errors import SandboxUnavailable, ToolError
from clawhive_core.execution.sandbox.tools import (
    COLLECT_OUTPUTS,
    EXEC,
    PROVIDER_ID,
    WRITE_FILES,
    result_of,
    shown_stream,
)
from clawhive_core.model.canonical import canonical_text
from clawhive_core.model.late import dataclass
from clawhive_core.model.tools import ToolMeta, ToolResult
from clawhive_core.protocols.context import InvokeContext, Stream
from clawhive_core.protocols.sandbox import (
    SandboxCommand,
    SandboxEngine,
    SandboxLimits,
    SandboxOutcome,
    SandboxSpec,
    Unsupported,
)

if TYPE_CHECKING:
    from clawhive_core.execution.sandbox.directory import Outputs, SandboxDirectory


_ANSWER_MS = 750
"""Milliseconds kept back from a call's deadline to answer with what there was."""
_OVERHEAD_MS = 10_000


@dataclass(frozen=True, slots=True)
class Execution:
    """One program's run: by which engine, under which limits, and how it ended."""

    engine: SandboxEngine
    limits: SandboxLimits
    outcome: SandboxOutcome


class SandboxBroker:
    """Chooses an engine for each program and keeps each session's directory.

    Args:
        engines: The engines, preferred first; asked for at each execution.
        commands: What may be run, such as `python -c`: the first words of a command.
        limits: The most that one execution may use.
        workspace_root: Where the sessions' directories lie.
    """

    def __init__(
        self,
        engines: Callable[[], Sequence[SandboxEngine]],
        commands: Sequence[str],
        limits: SandboxLimits,
        workspace_root: Path,
    ) -> None:
        self.limits = limits
        self._engines = engines
        self._commands = tuple(tuple(shlex.split(command)) for command in commands)
        self._root = workspace_root
        self._locks: WeakValueDictionary[str, anyio.Lock] = WeakValueDictionary()

    async def write_files(self, files: Mapping[str, str], conversation_id: str) -> dict[str, Any]:
        """Write files into a session's directory, all or none.

        Raises:
            ToolError: As `SandboxDirectory.write`.
        """
        directory = self._directory(conversation_id)
        async with self._lock(conversation_id):
            usage = await anyio.to_thread.run_sync(directory.write, files, self.limits)
        return {"files": sorted(files), "bytes": usage.bytes}

    async def execute(self, input: Mapping[str, Any], ctx: InvokeContext) -> Execution:
        """Run a command in the first engine that can.

        Args:
            input: As the tool `sandbox.exec` takes it.
            ctx: The call; its `output` hears the program's output as it comes.

        Raises:
            ToolError: `command_not_allowed`, `invalid_input`, `sandbox_unavailable` with `line`,
                `column`, `engine` and `wants` where an engine cannot run the program, `io_error`.
        """
        directory = self._directory(ctx.conversation_id)
        program, argv = self._allowed(input["command"])
        async with self._lock(ctx.conversation_id):
            limits = await anyio.to_thread.run_sync(self._limits, directory, input, ctx.remaining())
            stdin = input.get("stdin", "").encode("utf-8", "replace")
            command = SandboxCommand(argv, input.get("script", "main.py"), stdin)
            await anyio.to_thread.run_sync(directory.forget_output)
            spec = SandboxSpec(directory.path, limits=limits)
            execution = await self._run(program, command, spec, ctx)
            outcome = execution.outcome
            await anyio.to_thread.run_sync(directory.keep_output, outcome.stdout, outcome.stderr)
        return execution

    async def collect(self, ctx: InvokeContext) -> tuple[Outputs, dict[str, str]]:
        """Copy outputs into the call's artifacts folder.

        Returns:
            What was collected, and the text of stdout and stderr.

        Raises:
            ToolError: `io_error`.
        """
        from clawhive_core.execution.sandbox.directory import collect

        directory = self._directory(ctx.conversation_id)
        async with self._lock(ctx.conversation_id):
            outputs = await anyio.to_thread.run_sync(collect, directory, ctx.artifacts, self.limits)
            out, err = await anyio.to_thread.run_sync(
                lambda: (directory.output("stdout"), directory.output("stderr"))
            )
        return outputs, {
            "stdout": shown_stream(out or b"")[0],
            "stderr": shown_stream(err or b"")[0],
        }

    async def close(self) -> None:
        """Kill every worker of every engine."""
        for engine in self._engines():
            await engine.close()

    def _directory(self, conversation_id: str) -> SandboxDirectory:
        from clawhive_core.execution.sandbox.directory import SandboxDirectory

        return SandboxDirectory(self._root, conversation_id)

    def _lock(self, conversation_id: str) -> anyio.Lock:
        """Return the lock of a session: one program at a time works in its directory."""
        return self._locks.setdefault(conversation_id, anyio.Lock())

    def _allowed(self, asked: Sequence[str]) -> tuple[str, tuple[str, ...]]:
        """Return the listed command that was asked for, and argv under its program's own name."""
        argv = self._under_own_name(asked)
        for words in self._commands:
            if argv[: len(words)] != words:
                continue
            if len(argv) == len(words) and words[-1].startswith("-"):
                raise ToolError(
                    f"`{' '.join(words)}` needs the code as its next item",
                    code="invalid_input",
                    place=f"/command/{len(words)}",
                    fix=f'command: ["{words[0]}", "{words[-1]}", "CODE"]',
                )
            return " ".join(words), argv
        raise self._not_allowed(argv)

    def _under_own_name(self, asked: Sequence[str]) -> tuple[str, ...]:
        """Return argv with the program's own name and its own flag for code on the command line."""
        program = asked[0]
        for engine in reversed(self._engines()):
            program = engine.aliases.get(asked[0], program)
        flags = {words[0]: words[1] for words in self._commands if words[1:]}
        rest = tuple(asked[1:])
        if rest and rest[0] in flags.values():
            rest = (flags.get(program, rest[0]), *rest[1:])
        return (program, *rest)

    def _not_allowed(self, argv: Sequence[str]) -> ToolError:
        listed = [" ".join(words) for words in self._commands]
        shown = shlex.join(argv[:2] if argv[1:] and argv[1].startswith("-") else argv[:1])[:80]
        lines = ", ".join(f'"{one}"' for one in (*listed, shown))
        return ToolError(
            f"`{shown}` is not among the commands that may run in the sandbox: {', '.join(listed)}",
            code="command_not_allowed",
            place="/command",
            fix=f"use one of those, or let the user set in clawhive.toml:"
            f" [sandbox] commands = [{lines}]",
            data={"commands": listed},
        )

    def _limits(
        self, directory: SandboxDirectory, input: Mapping[str, Any], remaining: float
    ) -> SandboxLimits:
        """Return what this execution may use: never more than configured, than asked, than left."""
        from clawhive_core.execution.sandbox.directory import SESSION_FACTOR

        directory.create()
        used, limits = directory.usage(), self.limits
        left = max(1, int(min(remaining, 1e9) * 1000) - _ANSWER_MS)
        return replace(
            limits,
            wall_ms=min(limits.wall_ms, input.get("timeout_ms", limits.wall_ms), left),
            files=max(0, min(limits.files, SESSION_FACTOR * limits.files - used.files)),
            file_bytes=max(
                0, min(limits.file_bytes, SESSION_FACTOR * limits.file_bytes - used.bytes)
            ),
        )

    async def _run(
        self, program: str, command: SandboxCommand, spec: SandboxSpec, ctx: InvokeContext
    ) -> Execution:
        """Run in the first engine that can; before that, nothing of the program has run."""
        refusals: list[ToolError] = []
        for engine in self._engines():
            if program not in engine.programs:
                continue
            try:
                problem = await anyio.to_thread.run_sync(engine.unsupported, command)
                if problem is None:
                    outcome = await run_once(engine, spec, command, ctx.output)
                    return Execution(engine, spec.limits, outcome)
                refusals.append(_cannot(engine, command, problem))
            except SandboxUnavailable as error:
                refusals.append(_unusable(engine, error))
        raise refusals[0] if refusals else _no_engine(program, self._engines())


async def run_once(
    engine: SandboxEngine,
    spec: SandboxSpec,
    command: SandboxCommand,
    output: Callable[[Stream, bytes], None],
) -> SandboxOutcome:
    """Run one command in an instance of its own, which is closed whatever comes of it."""
    instance = await engine.open(spec)
    try:
        return await instance.run(command, output)
    finally:
        with anyio.CancelScope(shield=True):
            await instance.close()


def _cannot(engine: SandboxEngine, command: SandboxCommand, problem: Unsupported) -> ToolError:
    return ToolError(
        f"line {problem.line}: the engine `{engine.name}` cannot run {problem.what}",
        code="sandbox_unavailable",
        place=f"{command.script}:{problem.line}:{problem.column}",
        fix=f"write it without that, or add a plugin whose engine runs all of {command.program}"
        " (hook `clawhive_sandboxes`); ClawHive ships none yet",
        data={
            "line": problem.line,
            "column": problem.column,
            "engine": engine.name,
            "wants": command.program,
        },
    )


def _unusable(engine: SandboxEngine, error: SandboxUnavailable) -> ToolError:
    return ToolError(
        f"the engine `{engine.name}` is not usable here: {error.message}",
        code="sandbox_unavailable",
        fix=error.fix or "`clawhive doctor` tells what is missing",
        data={"engine": engine.name},
    )


def engine_hint(program: str, engines: Sequence[SandboxEngine]) -> str:
    """Return what somebody can do who wants to run a program that no engine runs."""
    there = sorted({each.split()[0] for engine in engines for each in engine.programs})
    if not there:
        return "enable the plugin `builtin`, or another one that brings a sandbox engine"
    return (
        f"no engine here runs {program}: write it in {', '.join(there)}, or add a plugin whose"
        f" engine runs it (hook `clawhive_sandboxes`)"
    )


def _no_engine(program: str, engines: Sequence[SandboxEngine]) -> ToolError:
    name = program.split(maxsplit=1)[0]
    return ToolError(
        f"no installed sandbox engine runs `{program}`",
        code="sandbox_unavailable",
        fix=engine_hint(name, engines),
        data={"wants": name},
    )


class SandboxProvider:
    """The core tools `sandbox.write_files`, `sandbox.exec` and `sandbox.collect_outputs`."""

    provider_id = PROVIDER_ID

    def __init__(self, broker: SandboxBroker) -> None:
        self._broker = broker

    async def list_tools(self) -> list[ToolMeta]:
        """Return the three tools."""
        timeout_ms = max(EXEC.timeout_ms, self._broker.limits.wall_ms + _OVERHEAD_MS)
        return [WRITE_FILES, replace(EXEC, timeout_ms=timeout_ms), COLLECT_OUTPUTS]

    async def invoke(
        self, tool_name: str, input: Mapping[str, Any], ctx: InvokeContext
    ) -> ToolResult:
        """Execute one call.

        Raises:
            ToolError: With the code of what went wrong; a program that fails is an error result.
        """
        if tool_name == WRITE_FILES.name:
            written = await self._broker.write_files(input["files"], ctx.conversation_id)
            return ToolResult(ctx.tool_call_id, canonical_text(written), structured=written)
        if tool_name == EXEC.name:
            done = await self._broker.execute(input, ctx)
            return result_of(ctx.tool_call_id, done.engine, done.outcome, done.limits)
        if tool_name == COLLECT_OUTPUTS.name:
            return await self._collected(ctx)
        raise ToolError(f"the sandbox has no tool `{tool_name}`", code="tool_not_found")

    async def close(self) -> None:
        """Kill every worker."""
        await self._broker.close()

    async def _collected(self, ctx: InvokeContext) -> ToolResult:
        outputs, streams = await self._broker.collect(ctx)
        files = [artifact.to_dict() for artifact in outputs.artifacts]
        skipped = [asdict(one) for one in outputs.skipped]
        lines = [f"{one.path} ({one.bytes} bytes)" for one in outputs.artifacts]
        lines += [f"skipped {one.path}: {one.reason}" for one in outputs.skipped]
        return ToolResult(
            ctx.tool_call_id,
            "\n".join(lines) or "there is nothing to collect",
            structured={**streams, "files": files, "skipped": skipped},
            artifacts=tuple(outputs.artifacts),
        )
