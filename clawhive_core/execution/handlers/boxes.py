"""The choice of a handler's runner: the first engine that can, else a trusted skill's process."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import anyio

from clawhive_core.errors import ClawHiveError, SandboxUnavailable, ToolError
from clawhive_core.events.kinds import HANDLER_STARTED
from clawhive_core.execution.context import ToolContext
from clawhive_core.policy.protected import FENCED
from clawhive_core.protocols.context import Stream
from clawhive_core.protocols.sandbox import (
    HandlerCall,
    HandlerEngine,
    HandlerOutcome,
    SandboxEngine,
    SandboxLimits,
    Unsupported,
)
from clawhive_core.skills.contracts.skill import Skill

SIDE_BY_SIDE = 16
"""How many handlers of one depth run at once. A handler waits for deeper ones only, so no number
of handlers that call each other can wait in a circle."""


class HandlerBoxes:
    """Runs handlers.

    Args:
        engines: The sandbox engines, preferred first; asked for at each call.
        limits: What one handler may use.
        private: Folders that are no handler's, beside the project's protected files.
        must_be_fenced: Whether no handler runs outside of the engines where this machine lacks a
            part of the fence of its process.
    """

    def __init__(
        self,
        engines: Callable[[], Sequence[SandboxEngine]],
        limits: SandboxLimits,
        private: Sequence[Path] = (),
        *,
        must_be_fenced: bool = False,
    ) -> None:
        self.limits = limits
        self._must_be_fenced = must_be_fenced
        self._private = tuple(map(str, private))
        self._engines = engines
        self._room: defaultdict[int, anyio.CapacityLimiter] = defaultdict(
            lambda: anyio.CapacityLimiter(SIDE_BY_SIDE)
        )

    async def run(self, skill: Skill, call: HandlerCall, context: ToolContext) -> Any:
        """Return the JSON value of a handler, run in the smallest box that can.

        Raises:
            ToolError: `tool_failed`, `limit_reached`, `invalid_output`, or `sandbox_unavailable`
                where no box can run it, with the place of what it cannot run.
        """
        from clawhive_core.execution.sandbox.tools import LIMIT_TEXT

        async with self._room[context.scope.depth]:
            outcome = await self._outcome(skill, call, context)
        if outcome.killed_by is not None:
            why = LIMIT_TEXT[outcome.killed_by].format(call.limits)
            raise ToolError(
                f"`{context.tool}` was stopped: {why}",
                code="limit_reached",
                data={"limit": outcome.killed_by},
            )
        if outcome.error is not None:
            raise _failure(skill, call, outcome)
        return outcome.value

    async def _outcome(
        self, skill: Skill, call: HandlerCall, context: ToolContext
    ) -> HandlerOutcome:
        host = Asked(context, call.limits.tool_calls)
        refusals: list[ToolError] = []
        for engine in self._engines():
            if not isinstance(engine, HandlerEngine):
                continue
            try:
                ended = await engine.run_handler(call, host, _printing(context))
            except SandboxUnavailable as error:
                refusals.append(_unusable(engine.name, error))
                continue
            if isinstance(ended, HandlerOutcome):
                return ended
            refusals.append(_cannot(skill, engine, call, ended))
        if skill.trusted:
            return await self._in_child(skill, call, host, context)
        raise refusals[0] if refusals else _no_engine(skill, call)

    async def _in_child(
        self, skill: Skill, call: HandlerCall, host: Asked, context: ToolContext
    ) -> HandlerOutcome:
        from clawhive_core.execution.handlers.child import ChildPython

        def fenced(missing: Sequence[str]) -> None:
            facts = {"engine": child.name, "missing": list(missing)}
            scope = context.scope
            event = scope.event(HANDLER_STARTED, facts, invocation_id=context.invocation_id)
            context.services.note(event, scope.run)

        own = (f"{context.scope.run.root}/{name}" for name in FENCED)
        child = ChildPython(
            skill.folder,
            context.run_id,
            (*own, *self._private),
            must_be_fenced=self._must_be_fenced,
            fenced=fenced,
        )
        try:
            return await child.run_handler(call, host, _printing(context))
        except SandboxUnavailable as error:
            raise _unusable(child.name, error) from error


def _printing(context: ToolContext) -> Callable[[Stream, bytes], None]:
    """Show what a handler prints on stderr: stdout is the task's, and its value is what counts."""
    return lambda _, data: context.output("stderr", data)


class Asked:
    """The requests of a handler, on their way to the executor (`clawhive_core.HandlerHost`).

    Args:
        context: The handler's call.
        calls: How often it may ask.
    """

    def __init__(self, context: ToolContext, calls: int) -> None:
        self._context = context
        self._left = self._calls = calls

    async def __call__(self, method: str, arguments: Mapping[str, Any]) -> Any:
        """Answer one request.

        Raises:
            ToolError: A short form was refused or failed.
            ClawHiveError: `limit_reached`: the handler asked too often, and is ended.
        """
        self._left -= 1
        if self._left < 0:
            raise ClawHiveError(
                f"`{self._context.tool}` was stopped: it asked for more than {self._calls} calls",
                code="limit_reached",
                data={"limit": "tool_calls"},
            )
        if method == "call":
            return await self._call(arguments.get("name"), arguments.get("input"))
        if method not in _SHORT:
            raise ToolError(f"ctx has no `{method}`", code="invalid_input")
        return await getattr(self._context, method)(**arguments)

    async def _call(self, name: Any, input: Any) -> Any:
        if not isinstance(name, str):
            raise ToolError("ctx.call takes the name of a tool", code="invalid_input")
        reach = self._context.reach
        resolved = name if reach is None else reach.resolve(name)
        return await self._context.call(resolved, {} if input is None else input)


_SHORT = frozenset(("read", "save", "show"))
"""The methods that are short for a tool of the core; nothing else of the context is reached."""


def _failure(skill: Skill, call: HandlerCall, outcome: HandlerOutcome) -> ToolError:
    """Return the error of a handler that raised, or returned what is no JSON."""
    place = call.script if outcome.line is None else f"{call.script}:{outcome.line}"
    if outcome.not_json:
        return ToolError(
            f"`{call.function}` of the skill `{skill.id}` returned what is no JSON:"
            f" {outcome.error}",
            code="invalid_output",
            place=place,
            fix="return text, numbers, lists and dicts of them",
        )
    return ToolError(
        f"{place}: {outcome.error}",
        place=place,
        fix=f"this is an error of the skill `{skill.id}` itself; report it to its author",
        data={"file": str(skill.folder / call.script), "line": outcome.line},
    )


def _cannot(
    skill: Skill, engine: HandlerEngine, call: HandlerCall, problem: Unsupported
) -> ToolError:
    return ToolError(
        f"{call.script}:{problem.line}: the engine `{engine.name}` cannot run {problem.what}",
        code="sandbox_unavailable",
        place=f"{call.script}:{problem.line}:{problem.column}",
        fix=_way_out(skill, call, "write it without that", problem.line),
        data={"line": problem.line, "column": problem.column, "engine": engine.name},
    )


def _unusable(engine: str, error: SandboxUnavailable) -> ToolError:
    return ToolError(
        f"the engine `{engine}` is not usable here: {error.message}",
        code="sandbox_unavailable",
        fix=error.fix or "`clawhive doctor` tells what is missing",
        data={"engine": engine},
    )


def _no_engine(skill: Skill, call: HandlerCall) -> ToolError:
    return ToolError(
        "no sandbox engine here runs handlers",
        code="sandbox_unavailable",
        fix=_way_out(skill, call, "switch the plugin `builtin` on"),
    )


def _way_out(skill: Skill, call: HandlerCall, first: str, line: int | None = None) -> str:
    """Return what makes handlers run: trust does not where they import a file beside them.

    Args:
        skill: Whose handlers.
        call: The call that no engine runs.
        first: What to do about the engine.
        line: The line that the engine cannot run.
    """
    from clawhive_core.skills.contracts.code import imported_local

    local = imported_local(skill)
    if local is None:
        trust = f"in a Python process that reads what you can: clawhive skills trust {skill.id}"
        return f"{first}; or let the skill's handlers run outside of the engines, {trust}"
    own = f"write what `{local[1]}` holds into {call.script} itself"
    why = "no box gives handlers the files beside them, whether they are trusted or not (CH0618)"
    return f"{own}: {why}" if local[0] == line else f"{first}, and {own}: {why}"
