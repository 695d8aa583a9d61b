"""The sandbox broker: which engine runs a program, in which directory, under which limits."""

from __future__ import annotations

import shlex
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakValueDictionary

import anyio

from clawhive_core.errors import SandboxUnavailable, ToolError
from clawhive_core.execution.sandbox.guests import Given, GuestCalls
from clawhive_core.execution.sandbox.tools import (
    CLOSE,
    COLLECT_OUTPUTS,
    EVAL,
    EXEC,
    OPEN,
    PROVIDER_ID,
    RUN_JAVASCRIPT,
    RUN_PYTHON,
    SHELL,
    WRITE_FILES,
    result_of,
    shown_stream,
)
from clawhive_core.execution.sandbox.views import Views, seen, with_views
from clawhive_core.model.canonical import canonical_text
from clawhive_core.model.late import dataclass
from clawhive_core.model.tools import ToolMeta, ToolResult
from clawhive_core.protocols.context import InvokeContext, Stream
from clawhive_core.protocols.sandbox import (
    ISOLATIONS,
    HandlerEngine,
    Isolation,
    PreparedEngine,
    SandboxCommand,
    SandboxEngine,
    SandboxLimits,
    SandboxOutcome,
    SandboxSession,
    SandboxSpec,
    SessionEngine,
    Unsupported,
)

if TYPE_CHECKING:
    from clawhive_core.execution.sandbox.directory import Outputs, SandboxDirectory


AnyEngine = SandboxEngine | HandlerEngine
E = TypeVar("E", bound=AnyEngine)

_SHELL = ("sh", "-c")
_ANSWER_MS = 750
"""Milliseconds kept back from a call's deadline to answer with what there was."""
_OVERHEAD_MS = 180_000
"""Milliseconds beside a program's own: the first use of an engine may compile its interpreter."""
MAX_OPEN = 4
"""Interpreters that one run may keep."""
_PROGRAMS = {"python": "python -c", "javascript": "node -e"}
INSTALL = 'pip install ".[sandbox]"'
"""The line that installs our own further engines; other plugins bring more."""


@dataclass(frozen=True, slots=True)
class Execution:
    """One program's run: by which engine, under which limits, and how it ended."""

    engine: SandboxEngine
    limits: SandboxLimits
    outcome: SandboxOutcome
    passed_over: tuple[ToolError, ...] = ()
    """The refusals of the engines before it, each with its name in `data`."""
    views: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The files of the project that it saw and changed, where it was given any."""


@dataclass(frozen=True, slots=True)
class OpenSandbox:
    """An interpreter between its evaluations."""

    name: str
    engine: SandboxEngine
    session: SandboxSession
    program: str
    given: Given
    """What its evaluations may call, each decided anew for the evaluation that calls it."""
    views: Views

    def to_dict(self) -> dict[str, Any]:
        """Return it as `sandbox.open` answers it."""
        return {
            "sandbox": self.name,
            "engine": self.engine.name,
            "engine_version": self.engine.version,
            "isolation": self.engine.isolation,
            **({"mounted": mounted} if (mounted := self.views.mounted()) else {}),
        }

    async def close(self) -> None:
        """End it, and what it saw."""
        try:
            await self.session.close()
        finally:
            await anyio.to_thread.run_sync(self.views.close)


class SandboxBroker:
    """Chooses an engine for each program and keeps each session's directory.

    Args:
        engines: The engines, preferred first; asked for at each execution.
        commands: What may be run, such as `python -c`: the first words of a command.
        limits: The most that one execution may use.
        workspace_root: Where the sessions' directories lie.
        minimum: The weakest isolation in which a program may run.
        env: The variables that programs may be given.
    """

    def __init__(
        self,
        engines: Callable[[], Sequence[SandboxEngine]],
        commands: Sequence[str],
        limits: SandboxLimits,
        workspace_root: Path,
        minimum: Isolation = "jail",
        env: Mapping[str, str] | None = None,
    ) -> None:
        self.limits = limits
        self._env = env or {}
        self._minimum: Isolation = minimum
        self._engines = engines
        self._commands = tuple(tuple(shlex.split(command)) for command in commands)
        self._root = workspace_root
        self._sandboxes: dict[tuple[str, str], OpenSandbox] = {}
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

    async def execute(
        self, input: Mapping[str, Any], ctx: InvokeContext, *, in_shell: bool = False
    ) -> Execution:
        """Run a command in the first engine that can.

        Args:
            input: As the tool `sandbox.exec` takes it, or `shell.exec`.
            ctx: The call; its `output` hears the program's output as it comes.
            in_shell: Whether it is a command of the shell, which need not be listed.

        Raises:
            ToolError: `command_not_allowed`, `invalid_input`, `sandbox_unavailable` with `line`,
                `column`, `engine` and `wants` where an engine cannot run the program, `io_error`.
        """
        directory = self._directory(ctx.conversation_id)
        if in_shell:
            program, argv = " ".join(_SHELL), (*_SHELL, input["command"])
        else:
            program, argv = self._allowed(input["command"])
        async with self._lock(ctx.conversation_id):
            limits = await anyio.to_thread.run_sync(self._limits, directory, input, ctx.remaining())
            stdin = input.get("stdin", "").encode("utf-8", "replace")
            command = SandboxCommand(argv, input.get("script", "main.py"), stdin)
            await anyio.to_thread.run_sync(directory.forget_output)
            async with seen(input, ctx, self.limits) as views:
                spec = self._spec(directory.path, limits, input, ctx, views)
                execution = await self._run(program, command, spec, ctx)
                told = await anyio.to_thread.run_sync(views.told)
            outcome = execution.outcome
            await anyio.to_thread.run_sync(directory.keep_output, outcome.stdout, outcome.stderr)
        return replace(execution, views=told)

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

    async def open(self, input: Mapping[str, Any], ctx: InvokeContext) -> OpenSandbox:
        """Start an interpreter that lives until it is closed, or its run ends.

        Args:
            input: As the tool `sandbox.open` takes it.
            ctx: The call.

        Raises:
            ToolError: `sandbox_unavailable`, `too_many_sandboxes`, `io_error`.
        """
        mine = [key for key in self._sandboxes if key[0] == ctx.run_id]
        if len(mine) >= MAX_OPEN:
            raise ToolError(
                f"{MAX_OPEN} sandboxes of this run are open already",
                code="too_many_sandboxes",
                fix="close one with sandbox.close",
            )
        program = _PROGRAMS[input["language"]]
        directory = self._directory(ctx.conversation_id)
        async with self._lock(ctx.conversation_id):
            limits = await anyio.to_thread.run_sync(self._limits, directory, input, ctx.remaining())
        async with seen(input, ctx, self.limits, keep=True) as views:
            spec = self._spec(directory.path, limits, input, ctx, views)
            engine, session = await self._opened(program, spec, ctx)
        name = f"sandbox_{ctx.invocation_id}"
        opened = OpenSandbox(name, engine, session, program, Given.of(input), views)
        self._sandboxes[ctx.run_id, opened.name] = opened
        return opened

    async def _opened(
        self, program: str, spec: SandboxSpec, ctx: InvokeContext
    ) -> tuple[SandboxEngine, SandboxSession]:
        refusals: list[ToolError] = []
        keeping = (
            each
            for each in self._engines()
            if program in each.programs and isinstance(each, SessionEngine)
        )
        for engine in strong_enough(keeping, self._minimum, refusals):
            try:
                await self._prepare(engine, ctx)
                return engine, await engine.open_session(spec)
            except SandboxUnavailable as error:
                refusals.append(unusable(engine.name, error))
        raise refusals[0] if refusals else _no_sessions(program)

    async def evaluate(self, input: Mapping[str, Any], ctx: InvokeContext) -> Execution:
        """Run code in an interpreter that is open.

        Args:
            input: As the tool `sandbox.eval` takes it.
            ctx: The call; its `output` hears the program's output as it comes.

        Raises:
            ToolError: `sandbox_closed`: it is not open, or ended meanwhile; `io_error`.
        """
        key = (ctx.run_id, input["sandbox"])
        opened = self._sandboxes.get(key)
        if opened is None:
            raise _closed(input["sandbox"])
        directory = self._directory(ctx.conversation_id)
        command = SandboxCommand((*opened.program.split(), input["code"]), "main")
        async with self._lock(ctx.conversation_id):
            limits = await anyio.to_thread.run_sync(self._limits, directory, input, ctx.remaining())
            await anyio.to_thread.run_sync(directory.forget_output)
            host = GuestCalls(ctx, opened.given, asks=True)
            try:
                outcome = await opened.session.evaluate(command, ctx.output, limits, host)
            except SandboxUnavailable as error:
                await self._sandboxes.pop(key).close()
                raise _closed(input["sandbox"]) from error
            except BaseException:
                self._sandboxes.pop(key, None)
                with anyio.CancelScope(shield=True):
                    await opened.close()
                raise
            await anyio.to_thread.run_sync(directory.keep_output, outcome.stdout, outcome.stderr)
        if outcome.killed_by is not None:
            await self.release(ctx.run_id, opened.name)
        return Execution(opened.engine, limits, outcome)

    async def release(self, run_id: str, name: str | None = None) -> bool:
        """End an interpreter of a run, without a name all of them; whether there was any."""
        names = [key for key in self._sandboxes if key[0] == run_id and name in {None, key[1]}]
        for key in names:
            await self._sandboxes.pop(key).close()
        return bool(names)

    async def close(self) -> None:
        """Kill every worker of every engine."""
        for opened in list(self._sandboxes.values()):
            await opened.close()
        self._sandboxes.clear()
        for engine in self._engines():
            await engine.close()

    def _spec(
        self,
        directory: str,
        limits: SandboxLimits,
        input: Mapping[str, Any],
        ctx: InvokeContext,
        views: Views,
    ) -> SandboxSpec:
        """Return what a program is given: files, variables, and a host for its calls.

        Raises:
            ToolError: `variable_not_set`.
        """
        given = Given.of(input)
        missing = [name for name in given.env if name not in self._env]
        if missing:
            raise ToolError(
                f"no environment variable is called `{missing[0]}`",
                code="variable_not_set",
                place="/env",
                fix=f"export {missing[0]}=... before starting clawhive, or leave it out",
            )
        env = {name: self._env[name] for name in given.env}
        host = GuestCalls(ctx, given) if given.tools or given.hosts else None
        return SandboxSpec(directory, views.mounts, env, limits, host)

    async def _prepare(self, engine: SandboxEngine, ctx: InvokeContext) -> None:
        if isinstance(engine, PreparedEngine):
            await engine.prepare(lambda text: ctx.progress(0, text=text))

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
        running = (each for each in self._engines() if program in each.programs)
        for engine in strong_enough(running, self._minimum, refusals):
            try:
                problem = await anyio.to_thread.run_sync(engine.unsupported, command)
                if problem is None:
                    await self._prepare(engine, ctx)
                    outcome = await run_once(engine, spec, command, ctx.output)
                    return Execution(engine, spec.limits, outcome, tuple(refusals))
                refusals.append(_cannot(engine, command, problem))
            except SandboxUnavailable as error:
                refusals.append(unusable(engine.name, error))
        raise refusals[0] if refusals else _no_engine(program, self._engines())


def in_order(engines: Sequence[SandboxEngine], names: Sequence[str]) -> list[SandboxEngine]:
    """Return engines in the order that is configured; those not named follow as they are."""
    places = {name: place for place, name in enumerate(names)}
    return sorted(engines, key=lambda engine: places.get(engine.name, len(places)))


def strong_enough(
    engines: Iterable[E], minimum: Isolation, refusals: list[ToolError]
) -> Iterator[E]:
    """Yield the engines that separate as is wanted; why the others may not run is added."""
    for engine in engines:
        if ISOLATIONS.index(engine.isolation) >= ISOLATIONS.index(minimum):
            yield engine
        else:
            refusals.append(_too_weak(engine, minimum))


def _too_weak(engine: AnyEngine, minimum: Isolation) -> ToolError:
    return ToolError(
        f"the engine `{engine.name}` isolates as `{engine.isolation}`, and `sandbox.minimum` is"
        f" `{minimum}`",
        code="sandbox_unavailable",
        fix=f"install an engine that isolates as `{minimum}`: `clawhive doctor` tells which;"
        f' or let the user set [sandbox] minimum = "{engine.isolation}"',
        data={"engine": engine.name},
    )


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
        fix=f"write it without that, or add an engine that runs all of {command.program}:"
        f" {INSTALL}",
        data={
            "line": problem.line,
            "column": problem.column,
            "engine": engine.name,
            "wants": command.program,
        },
    )


def unusable(name: str, error: SandboxUnavailable) -> ToolError:
    """Return the refusal of an engine that cannot start here."""
    return ToolError(
        f"the engine `{name}` is not usable here: {error.message}",
        code="sandbox_unavailable",
        fix=error.fix or "`clawhive doctor` tells what is missing",
        data={"engine": name},
    )


def engine_hint(program: str, engines: Sequence[SandboxEngine]) -> str:
    """Return what somebody can do who wants to run a program that no engine runs."""
    there = sorted({each.split()[0] for engine in engines for each in engine.programs})
    if not there:
        return "enable the plugin `builtin`, or another one that brings a sandbox engine"
    return (
        f"no engine here runs {program}: write it in {', '.join(there)}, or add an engine that"
        f" runs it: {INSTALL}"
    )


def _no_engine(program: str, engines: Sequence[SandboxEngine]) -> ToolError:
    name = program.split(maxsplit=1)[0]
    return ToolError(
        f"no installed sandbox engine runs `{program}`",
        code="sandbox_unavailable",
        fix=engine_hint(name, engines),
        data={"wants": name},
    )


def _no_sessions(program: str) -> ToolError:
    return ToolError(
        f"no sandbox engine here keeps the variables of `{program}` between evaluations",
        code="sandbox_unavailable",
        fix=f"run whole programs, or add an engine that does: {INSTALL}",
        data={"wants": program.split(maxsplit=1)[0]},
    )


def _closed(name: str) -> ToolError:
    return ToolError(
        f"the sandbox `{name}` is not open: it was closed, met a limit, or its run was resumed",
        code="sandbox_closed",
        place="/sandbox",
        fix="start another one with sandbox.open; files of the session's directory are still there",
    )


_Work = Callable[[Mapping[str, Any], InvokeContext], Awaitable[ToolResult]]


def _structured(ctx: InvokeContext, value: Mapping[str, Any]) -> ToolResult:
    return ToolResult(ctx.tool_call_id, canonical_text(value), structured=value)


def _ended(ctx: InvokeContext, done: Execution) -> ToolResult:
    passed_over = [
        {"engine": each.data["engine"], "reason": each.message} for each in done.passed_over
    ]
    result = result_of(ctx.tool_call_id, done.engine, done.outcome, done.limits, passed_over)
    return with_views(result, done.views)


class SandboxProvider:
    """The core tools `sandbox.*`, and `shell.exec`."""

    provider_id = PROVIDER_ID

    def __init__(self, broker: SandboxBroker) -> None:
        self._broker = broker
        self._works: Mapping[str, _Work] = {
            WRITE_FILES.name: self._written,
            EXEC.name: self._executed,
            RUN_PYTHON.name: partial(self._executed_code, ("python", "-c"), "main.py"),
            RUN_JAVASCRIPT.name: partial(self._executed_code, ("node", "-e"), "main.js"),
            SHELL.name: self._executed_in_shell,
            OPEN.name: self._opened,
            EVAL.name: self._evaluated,
            CLOSE.name: self._closed,
            COLLECT_OUTPUTS.name: self._collected,
        }

    async def list_tools(self) -> list[ToolMeta]:
        """Return the tools; those that run programs have time to prepare an engine, too."""
        timeout_ms = max(EXEC.timeout_ms, self._broker.limits.wall_ms + _OVERHEAD_MS)
        running = (EXEC, RUN_PYTHON, RUN_JAVASCRIPT, SHELL, OPEN, EVAL)
        longer = [replace(each, timeout_ms=timeout_ms) for each in running]
        return [WRITE_FILES, *longer, CLOSE, COLLECT_OUTPUTS]

    async def invoke(
        self, tool_name: str, input: Mapping[str, Any], ctx: InvokeContext
    ) -> ToolResult:
        """Execute one call.

        Raises:
            ToolError: With the code of what went wrong; a program that fails is an error result.
        """
        if (work := self._works.get(tool_name)) is None:
            raise ToolError(f"the sandbox has no tool `{tool_name}`", code="tool_not_found")
        return await work(input, ctx)

    async def close(self) -> None:
        """Kill every worker."""
        await self._broker.close()

    async def _written(self, input: Mapping[str, Any], ctx: InvokeContext) -> ToolResult:
        written = await self._broker.write_files(input["files"], ctx.conversation_id)
        return _structured(ctx, written)

    async def _executed(self, input: Mapping[str, Any], ctx: InvokeContext) -> ToolResult:
        return _ended(ctx, await self._broker.execute(input, ctx))

    async def _executed_code(
        self, words: Sequence[str], script: str, input: Mapping[str, Any], ctx: InvokeContext
    ) -> ToolResult:
        command = {**input, "command": [*words, input["code"]], "script": script}
        return await self._executed(command, ctx)

    async def _executed_in_shell(self, input: Mapping[str, Any], ctx: InvokeContext) -> ToolResult:
        return _ended(ctx, await self._broker.execute(input, ctx, in_shell=True))

    async def _opened(self, input: Mapping[str, Any], ctx: InvokeContext) -> ToolResult:
        opened = await self._broker.open(input, ctx)
        return _structured(ctx, opened.to_dict())

    async def _evaluated(self, input: Mapping[str, Any], ctx: InvokeContext) -> ToolResult:
        return _ended(ctx, await self._broker.evaluate(input, ctx))

    async def _closed(self, input: Mapping[str, Any], ctx: InvokeContext) -> ToolResult:
        closed = await self._broker.release(ctx.run_id, input["sandbox"])
        return _structured(ctx, {"closed": closed})

    async def _collected(self, input: Mapping[str, Any], ctx: InvokeContext) -> ToolResult:
        del input
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
