"""The engine `monty`: Python programs in an interpreter that reaches nothing but one directory.

Monty (https://github.com/pydantic/monty) is an interpreter of a part of Python. Each program gets a
worker process of its own, which is gone when it ends, and which has no way to open a file, a socket
or a process: it asks this process, and gets its directory and no more.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING

from clawhive_builtin._monty_source import parsed, unknown_names, with_exits
from clawhive_core import (
    HandlerCall,
    HandlerHost,
    HandlerOutcome,
    Isolation,
    SandboxCommand,
    SandboxOutcome,
    SandboxSpec,
    Unsupported,
)

if TYPE_CHECKING:
    import anyio
    from pydantic_monty import MontyError, OSPolicy

    from clawhive_builtin._monty_job import Job
    from clawhive_core import Stream

PROGRAM = "python -c"
CONCURRENT = 8
"""The programs that run at once; further ones wait, and their time starts when they start."""

_WORDS = 3
_PARSE_SECONDS = 2.0
_UNSUPPORTED = "does not yet support "
_PHRASES = {
    "Wildcard imports (`from ... import *`) are not supported": "`from ... import *`",
    "yield expressions": "`yield` (generators)",
    "exception groups (try*/except*)": "`except*` (exception groups)",
    "the 'del' statement": "`del`",
    "type aliases": "`type` (type aliases)",
    "async for loops": "`async for`",
    "async context managers (async with)": "`async with`",
}
"""The engine's own words, and clearer ones."""


@dataclass(frozen=True, slots=True)
class MontyInstance:
    """A directory, mounts, environment and host, for programs one after another or at once."""

    engine: MontyEngine
    spec: SandboxSpec

    async def run(
        self, command: SandboxCommand, output: Callable[[Stream, bytes], None]
    ) -> SandboxOutcome:
        """Run a program; see `MontyEngine.run`."""
        return await self.engine.run(self.spec, command, output)

    async def close(self) -> None:
        """Do nothing: the worker of a program ends with it."""


class MontyEngine:
    """Runs `python -c CODE` (`clawhive_core.SandboxEngine`).

    A program sees its directory as `/work`, which is where it starts; an environment of what the
    spec names; a clock in UTC. `input()` reads the command's stdin, `sys.exit` works. With a host,
    `call_tool(name, input={})` calls a tool.

    Args:
        clock: The moment at which the program's clock stands still; None for the real time.
        seed: Where the program's randomness starts; None for real randomness.
    """

    name = "monty"
    isolation: Isolation = "guest"
    programs = frozenset({PROGRAM})
    aliases: Mapping[str, str] = {
        "py": "python",
        "python3": "python",
        "js": "node",
        "javascript": "node",
        "nodejs": "node",
    }

    def __init__(self, clock: datetime | None = None, seed: int | None = None) -> None:
        self._clock, self._seed = clock, seed
        self._jobs: set[Job] = set()
        self._limiter: anyio.CapacityLimiter | None = None

    @property
    def version(self) -> str:
        """The version of pydantic-monty."""
        from pydantic_monty import __version__  # the distribution's metadata says the same, slower

        return __version__

    @property
    def deterministic(self) -> bool:
        """Whether both the clock and the randomness are fixed."""
        return self._clock is not None and self._seed is not None

    def unsupported(self, command: SandboxCommand) -> Unsupported | None:
        """Return the first thing in a program that this engine cannot run; none of it is run.

        The engine's own parser is asked for syntax, in a worker of its own, and a table of what it
        knows for modules and names. A syntax error is the program's own affair.
        """
        if len(command.argv) > _WORDS:
            return Unsupported(1, 1, "arguments after the code")
        source = with_exits(command.code)
        tree = parsed(source)
        found = [] if tree is None else _unknown_names(source, tree)
        if tree is not None and (syntax := _unsupported_syntax(source)):
            found.append(syntax)
        return min(found, key=lambda one: (one.line, one.column), default=None)

    async def open(self, spec: SandboxSpec) -> MontyInstance:
        """Return an instance; each of its programs gets a worker of its own."""
        return MontyInstance(self, spec)

    async def run(
        self, spec: SandboxSpec, command: SandboxCommand, output: Callable[[Stream, bytes], None]
    ) -> SandboxOutcome:
        """Run a program to its end or limit; on cancellation its worker is killed.

        Raises:
            SandboxUnavailable: The engine cannot start here.
            ToolError: `io_error`: the command's directory cannot be opened.
        """
        import anyio
        from anyio import from_thread, to_thread

        from clawhive_builtin._monty_job import Job

        job = Job(spec, command, partial(from_thread.run_sync, output), self._policy())
        if self._limiter is None:
            self._limiter = anyio.CapacityLimiter(CONCURRENT)
        async with self._limiter:
            self._jobs.add(job)
            try:
                return await to_thread.run_sync(
                    job.run, abandon_on_cancel=True, limiter=anyio.CapacityLimiter(1)
                )
            except anyio.get_cancelled_exc_class():
                job.kill("cancel")
                with anyio.CancelScope(shield=True):
                    await to_thread.run_sync(job.ended.wait, 1.0, limiter=anyio.CapacityLimiter(1))
                raise
            finally:
                self._jobs.discard(job)

    async def run_handler(
        self, call: HandlerCall, host: HandlerHost, output: Callable[[Stream, bytes], None]
    ) -> HandlerOutcome | Unsupported:
        """Run a skill's handler to its end; on cancellation its worker is killed.

        Raises:
            SandboxUnavailable: The engine cannot start here.
        """
        from clawhive_builtin._monty_handler import HandlerJob

        source = call.source.replace("\r\n", "\n").replace("\r", "\n")
        tree = parsed(source)
        found = [] if tree is None else _unknown_names(source, tree)
        if found:
            return min(found, key=lambda one: (one.line, one.column))
        ended = await HandlerJob(replace(call, source=source), host, output, self._policy()).run()
        return ended if isinstance(ended, HandlerOutcome) else _unsupported(ended)

    async def close(self) -> None:
        """Kill every worker and wait until it is gone."""
        import anyio
        from anyio import to_thread

        jobs = list(self._jobs)
        for job in jobs:
            job.kill("cancel")
        with anyio.CancelScope(shield=True):
            for job in jobs:
                await to_thread.run_sync(job.ended.wait, 1.0, limiter=anyio.CapacityLimiter(1))

    def _policy(self) -> OSPolicy:
        policy: OSPolicy = {"sleep": "system", "sleep_system_max": float("inf")}
        if self._clock is not None:
            policy["datetime"] = self._clock
        if self._seed is not None:
            policy["random_start"] = {"seed": self._seed}
        return policy


def _unknown_names(source: str, tree: ast.Module) -> list[Unsupported]:
    try:
        return unknown_names(source, tree)
    except RecursionError:
        return []  # the engine refuses such nesting itself, as a syntax error


def _unsupported_syntax(source: str) -> Unsupported | None:
    """Ask the engine's parser, which reads a whole program before any of it runs."""
    from pydantic_monty import MontyError

    from clawhive_builtin._monty_worker import start_pool

    try:
        with start_pool(_PARSE_SECONDS) as pool, pool.checkout() as session:
            session.feed_run("raise SystemExit\n" + source)
    except MontyError as error:
        return _refused_syntax(error)
    return None


def _refused_syntax(error: MontyError) -> Unsupported | None:
    from pydantic_monty import MontyRuntimeError

    if not isinstance(error, MontyRuntimeError):
        return None
    if not isinstance(error.exception(), NotImplementedError):
        return None
    found = _unsupported(error)
    return replace(found, line=max(found.line - 1, 1))


def _unsupported(error: MontyError) -> Unsupported:
    """Return the place and the words of what the engine's parser refuses."""
    from pydantic_monty import MontyRuntimeError, MontySyntaxError

    frames = error.traceback() if isinstance(error, MontyRuntimeError | MontySyntaxError) else []
    message = str(error).removeprefix("NotImplementedError: ")
    phrase = message.partition(_UNSUPPORTED)[2] or message
    line, column = (frames[-1].line, frames[-1].column) if frames else (1, 1)
    return Unsupported(line, column, _PHRASES.get(phrase, phrase))
