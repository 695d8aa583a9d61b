"""The exported tools of skills: handlers, run by a sandbox engine or in a process of their own.

A handler acts as its skill: with no more rights than its caller has and its skill declares, and it
calls only what its contract names.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import anyio

from clawhive_core.capabilities import normalise
from clawhive_core.catalog.listing import admitted, problem_of
from clawhive_core.diagnostics.files import file_digests
from clawhive_core.errors import ClawHiveError, SandboxUnavailable, ToolError
from clawhive_core.events.kinds import HANDLER_STARTED
from clawhive_core.execution.context import ToolContext
from clawhive_core.execution.sandbox.broker import strong_enough, unusable
from clawhive_core.execution.scope import CORE, Reach
from clawhive_core.model.canonical import digest
from clawhive_core.model.effects import level_of, risk_of
from clawhive_core.model.principal import Principal
from clawhive_core.model.tools import ToolMeta, ToolResult
from clawhive_core.plugins.invocation import to_result
from clawhive_core.policy.grounding import skill_grounds
from clawhive_core.policy.protected import FENCED
from clawhive_core.policy.rules import Rules
from clawhive_core.protocols.context import InvokeContext, Stream
from clawhive_core.protocols.sandbox import (
    HandlerCall,
    HandlerEngine,
    HandlerHost,
    HandlerOutcome,
    Isolation,
    SandboxEngine,
    SandboxLimits,
    Unsupported,
)
from clawhive_core.skills.contracts.skill import ExportedTool, Skill

_SHOWN_SOURCE = 16 * 1024
"""Characters of handlers that a right keeps for a person to compare; of longer ones the digest."""

CORE_CALLS = "*"
"""The tools of one segment: the core's own."""

ANY_CALLS = "**"


class SkillProvider:
    """The exported tools of one skill, `SKILL.TOOL` (`clawhive_core.ToolProvider`).

    Args:
        skill: A loaded skill.
        runner: What runs its handlers.
        skills: All loaded skills, whose contracts say what its calls lead to.
    """

    def __init__(self, skill: Skill, runner: HandlerRunner, skills: Sequence[Skill]) -> None:
        self._skill = skill
        self._runner = runner
        self._functions = {f"{skill.id}.{tool.name}": tool.function for tool in skill.exports.tools}
        self._reach = reach_of(skill)
        calls = sorted(calls_of(_callable(self._reach), skills) | {CORE_CALLS})
        if self._reach.is_open:
            calls = [ANY_CALLS]
        self._permissions = (*skill.permissions, *(f"tool.call:{name}" for name in calls))

    @property
    def provider_id(self) -> str:
        """`skill_` and the skill's id."""
        return f"skill_{self._skill.id}"

    async def list_tools(self) -> list[ToolMeta]:
        """Return the definitions that the contract gives, within the skill's `risk_policy`."""
        metas = [meta_of(self._skill, tool) for tool in self._skill.exports.tools]
        return [meta for meta in metas if _beyond_policy(self._skill, meta) is None]

    async def invoke(
        self, tool_name: str, input: Mapping[str, Any], ctx: InvokeContext
    ) -> ToolResult:
        """Run the handler of one call.

        Raises:
            ToolError: It raised (`tool_failed`), met a limit (`limit_reached`), returned what is
                no JSON (`invalid_output`), or nothing here can run it (`sandbox_unavailable`).
        """
        from clawhive_core.skills.contracts.handlers import HANDLERS

        context = cast("ToolContext", ctx)  # the executor's own, which alone calls providers
        skill = self._skill
        facts = {
            "skill_id": skill.id,
            "user_id": ctx.user_id,
            "profile": json.loads(json.dumps(dict(ctx.profile), default=str)),  # TOML has dates
            "run_id": ctx.run_id,
            "conversation_id": ctx.conversation_id,
        }
        function, source = self._functions[tool_name], skill.handlers or ""
        call = HandlerCall(source, HANDLERS, function, input, facts, self._runner.limits)
        context.act_as(Principal("skill", skill.id), self._rules(context), self._reach)
        context.grounds = skill_grounds(skill)
        value = await self._runner.run(skill, call, context)
        return replace(to_result(value, ctx.tool_call_id), is_error=_is_error(value))

    async def close(self) -> None:
        """Nothing is open: each worker ends with its call."""

    def _rules(self, context: ToolContext) -> Rules:
        """Return the caller's rules met with the skill's permissions."""
        run = context.scope.run
        variables = {
            "workspace": run.root,
            "run": run.artifacts,
            "home": run.home,
        }
        bounds = [normalise(permission, variables) for permission in self._permissions]
        return run.rules.bounded(bounds)


def skill_providers(
    skills: Sequence[Skill], runner: HandlerRunner, taken: frozenset[str]
) -> tuple[list[SkillProvider], list[str]]:
    """Return the providers of the skills that export tools, and a sentence for each left out.

    Args:
        skills: The loaded skills.
        runner: What runs their handlers.
        taken: The ids of plugins and of ClawHive's own providers: no skill takes one.
    """
    exporting = [skill for skill in skills if skill.exports.tools]
    notes = [
        f"the tools of the skill `{skill.id}` are left out: a plugin's tools are called"
        f" `{skill.id}` already; rename the skill"
        for skill in exporting
        if skill.id in taken
    ]
    served = [skill for skill in exporting if skill.id not in taken]
    notes += [
        f"the tool `{meta.name}` is left out by the skill's risk_policy: {problem}"
        for skill in served
        for meta in (meta_of(skill, tool) for tool in skill.exports.tools)
        if (problem := _beyond_policy(skill, meta)) is not None
    ]
    return [SkillProvider(skill, runner, skills) for skill in served], notes


def meta_of(skill: Skill, tool: ExportedTool) -> ToolMeta:
    """Return the definition of an exported tool.

    Where the contract states no level and no risk, they follow from the skill's permissions as
    they follow from a plugin tool's effects: what declares nothing can do nothing. Where the skill
    is trusted, so that its handlers may run outside every sandbox engine, a tool that the contract
    calls safe is admitted as a plugin's is.
    """
    facts, declared = tool.facts, {"": skill.permissions}
    meta = ToolMeta(
        name=f"{skill.id}.{tool.name}",
        description=tool.description or f"A tool of the skill `{skill.id}`.",
        input_schema=tool.input_schema or {"type": "object"},
        output_schema=tool.output_schema,
        provider_id=f"skill_{skill.id}",
        text_counts=True,
        capability_level=facts.level or level_of(declared),
        risk=facts.risk or risk_of(declared),
        effects=facts.effects,
        sinks=facts.sinks,
        records=facts.records if skill.trusted else (),  # a promise, of somebody vouched for
        requires_confirm=facts.requires_confirm or skill.risk_policy.confirm,
        side_effects=facts.side_effects,
        idempotent=facts.idempotent,
        timeout_ms=facts.timeout_ms,
        category=skill.id,
        code=partial(_code, skill),
    )
    return admitted(meta, facts.level or "L0") if skill.trusted else meta


def _code(skill: Skill) -> dict[str, Any]:
    """Return the source of a skill's handlers, and the digests of the other Python files."""
    from clawhive_core.skills.contracts.handlers import HANDLERS

    source = skill.handlers or ""
    shown = source.splitlines() if len(source) <= _SHOWN_SOURCE else digest(source)
    return {**file_digests(skill.folder, ".py"), HANDLERS: shown}


def _beyond_policy(skill: Skill, meta: ToolMeta) -> str | None:
    return skill.risk_policy.beyond(meta.capability_level, meta.risk)


def reach_of(skill: Skill) -> Reach:
    """Return what a skill's handlers may call: own tools and task types, imports, requirements."""
    from clawhive_core.skills.contracts.limits import startable

    own = {f"{skill.id}.{name}": f"skill_{skill.id}" for name in skill.exports.names()}
    imported = {
        f"{each.skill}.{tool.name}": f"skill_{each.skill}"
        for each in skill.imports
        for tool in each.tools
    }
    started = {name: f"skill_{name.partition('.')[0]}" for name in startable(skill)}
    named = {**started, **own, **imported}
    required = {name: None for name in skill.requires.callable_tools if name not in named}
    return Reach(skill.id, {**named, **required}, is_open=skill.phase == "compat")


def calls_of(names: Iterable[str], skills: Sequence[Skill]) -> set[str]:
    """Return these tools and all that calls of them may call in turn, by the skills' contracts."""
    exporters = {f"{skill.id}.{name}": skill for skill in skills for name in skill.exports.names()}
    found: set[str] = set()
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        found.add(name)
        if name in exporters:
            waiting += (CORE_CALLS, *_callable(reach_of(exporters[name])))
    return found


def _callable(reach: Reach) -> list[str]:
    """Return the declared names that are names of tools."""
    return [name for name in reach.tools if problem_of(name, CORE) is None]


def _is_error(value: Any) -> bool:
    """Whether a value is a refusal, or an error in its form: a code and a message."""
    if not isinstance(value, dict):
        return False
    facts = cast("dict[str, Any]", value)
    given = (facts.get("error"), facts.get("message"))
    return all(isinstance(each, str) and each for each in given)


MAX_CONCURRENT = 16
"""Handlers of one depth that run at once. A handler waits for deeper ones only, so no number of
handlers that call each other can deadlock."""


class HandlerRunner:
    """Runs a handler in the first sandbox engine that can, else in a trusted skill's process.

    Args:
        engines: The sandbox engines, preferred first; asked for at each call.
        limits: What one handler may use.
        private: Further folders than the project's protected files that no handler may see.
        minimum: The weakest isolation of an engine that may run one.
        must_be_fenced: Whether no handler runs outside of the engines where this machine lacks a
            part of the fence of its process.
    """

    def __init__(
        self,
        engines: Callable[[], Sequence[SandboxEngine]],
        limits: SandboxLimits,
        private: Sequence[Path] = (),
        *,
        minimum: Isolation = "jail",
        must_be_fenced: bool = False,
    ) -> None:
        self.limits = limits
        self._minimum: Isolation = minimum
        self._must_be_fenced = must_be_fenced
        self._private = tuple(map(str, private))
        self._engines = engines
        self._limiters: defaultdict[int, anyio.CapacityLimiter] = defaultdict(
            lambda: anyio.CapacityLimiter(MAX_CONCURRENT)
        )

    async def run(self, skill: Skill, call: HandlerCall, context: ToolContext) -> Any:
        """Return the JSON value of a handler.

        Raises:
            ToolError: `tool_failed`, `limit_reached`, `invalid_output`, or `sandbox_unavailable`
                where nothing can run it, with the place of what no engine runs.
        """
        from clawhive_core.execution.sandbox.tools import LIMIT_TEXT

        async with self._limiters[context.scope.depth]:
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
        host = HandlerRequests(context, call.limits.tool_calls)
        refusals: list[ToolError] = []
        ended = await run_in_first(
            self._engines(),
            self._minimum,
            call,
            host,
            _print_to_stderr(context),
            partial(_unsupported, skill, call),
            refusals,
        )
        if ended is not None:
            return ended[1]
        if skill.trusted:
            return await self._in_child(skill, call, host, context)
        raise refusals[0] if refusals else _no_engine(skill, call)

    async def _in_child(
        self, skill: Skill, call: HandlerCall, host: HandlerRequests, context: ToolContext
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
            return await child.run_handler(call, host, _print_to_stderr(context))
        except SandboxUnavailable as error:
            raise unusable(child.name, error) from error


async def run_in_first(
    engines: Iterable[SandboxEngine],
    minimum: Isolation,
    call: HandlerCall,
    host: HandlerHost,
    output: Callable[[Stream, bytes], None],
    cannot: Callable[[HandlerEngine, Unsupported], ToolError],
    refusals: list[ToolError],
) -> tuple[HandlerEngine, HandlerOutcome] | None:
    """Run a handler in the first engine that can; before that, it has asked for nothing.

    Args:
        engines: The engines, preferred first.
        minimum: The weakest isolation in which it may run.
        call: The handler's call.
        host: Answers what it asks for.
        output: Told what it prints.
        cannot: The refusal of an engine that cannot run the code.
        refusals: Gets why each engine before it, or every one, did not run it.

    Returns:
        The engine and how it ended; None where none can run it.
    """
    running = (each for each in engines if isinstance(each, HandlerEngine))
    for engine in strong_enough(running, minimum, refusals):
        try:
            ended = await engine.run_handler(call, host, output)
        except SandboxUnavailable as error:
            refusals.append(unusable(engine.name, error))
            continue
        if isinstance(ended, HandlerOutcome):
            return engine, ended
        refusals.append(cannot(engine, ended))
    return None


def _print_to_stderr(context: ToolContext) -> Callable[[Stream, bytes], None]:
    """Show what a handler prints on stderr: stdout is the task's, and its value is what counts."""
    return lambda _, data: context.output("stderr", data)


class HandlerRequests:
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
        if method not in _SHORT_FORMS:
            raise ToolError(f"ctx has no `{method}`", code="invalid_input")
        return await getattr(self._context, method)(**arguments)

    async def _call(self, name: Any, input: Any) -> Any:
        if not isinstance(name, str):
            raise ToolError("ctx.call takes the name of a tool", code="invalid_input")
        reach = self._context.reach
        resolved = name if reach is None else reach.resolve(name)
        return await self._context.call(resolved, {} if input is None else input)


_SHORT_FORMS = frozenset(("read", "save", "show"))
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


def _unsupported(
    skill: Skill, call: HandlerCall, engine: HandlerEngine, problem: Unsupported
) -> ToolError:
    return ToolError(
        f"{call.script}:{problem.line}: the engine `{engine.name}` cannot run {problem.what}",
        code="sandbox_unavailable",
        place=f"{call.script}:{problem.line}:{problem.column}",
        fix=_fix_for_handler(skill, call, "write it without that", problem.line),
        data={"line": problem.line, "column": problem.column, "engine": engine.name},
    )


def _no_engine(skill: Skill, call: HandlerCall) -> ToolError:
    return ToolError(
        "no sandbox engine here runs handlers",
        code="sandbox_unavailable",
        fix=_fix_for_handler(skill, call, "switch the plugin `builtin` on"),
    )


def _fix_for_handler(skill: Skill, call: HandlerCall, first: str, line: int | None = None) -> str:
    """Return what makes handlers run: trust does not where they import another file.

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
    why = "handlers get no other files of their folder, trusted or not (CH0618)"
    return f"{own}: {why}" if local[0] == line else f"{first}, and {own}: {why}"
