"""The exported tools of skills: each a handler that runs in the smallest box that can run it.

A handler acts as its skill: with no more rights than its caller has and its skill declares, and it
calls only what its contract names.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from clawhive_core.capabilities import normalise
from clawhive_core.catalog.listing import admitted, problem_of
from clawhive_core.execution.context import ToolContext
from clawhive_core.execution.handlers.boxes import HandlerBoxes
from clawhive_core.execution.scope import CORE, Reach
from clawhive_core.model.effects import level_of, risk_of
from clawhive_core.model.principal import Principal
from clawhive_core.model.tools import ToolMeta, ToolResult
from clawhive_core.plugins.invocation import to_result
from clawhive_core.policy.grounding import skill_grounds
from clawhive_core.policy.rules import Rules
from clawhive_core.protocols.context import InvokeContext
from clawhive_core.protocols.sandbox import HandlerCall
from clawhive_core.skills.contracts.skill import ExportedTool, Skill

CORE_CALLS = "*"
"""The tools of one segment: the core's own."""

ANY_CALLS = "**"


class SkillProvider:
    """The exported tools of one skill, `SKILL.TOOL` (`clawhive_core.ToolProvider`).

    Args:
        skill: A loaded skill.
        boxes: What runs its handlers.
        skills: All loaded skills, whose contracts say what its calls lead to.
    """

    def __init__(self, skill: Skill, boxes: HandlerBoxes, skills: Sequence[Skill]) -> None:
        self._skill = skill
        self._boxes = boxes
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
        return [meta for meta in metas if _beyond(self._skill, meta) is None]

    async def invoke(
        self, tool_name: str, input: Mapping[str, Any], ctx: InvokeContext
    ) -> ToolResult:
        """Run the handler of one call.

        Raises:
            ToolError: It raised (`tool_failed`), met a limit (`limit_reached`), returned what is
                no JSON (`invalid_output`), or no box can run it (`sandbox_unavailable`).
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
        call = HandlerCall(source, HANDLERS, function, input, facts, self._boxes.limits)
        context.act_as(Principal("skill", skill.id), self._rules(context), self._reach)
        context.grounds = skill_grounds(skill)
        value = await self._boxes.run(skill, call, context)
        return replace(to_result(value, ctx.tool_call_id), is_error=_is_error(value))

    async def close(self) -> None:
        """Nothing is open: each worker ends with its call."""

    def _rules(self, context: ToolContext) -> Rules:
        """Return the caller's rules met with the skill's permissions."""
        run = context.scope.run
        variables = {
            "workspace": run.root,
            "run": run.artifacts,
            "home": os.path.expanduser("~"),  # noqa: PTH111 - never raises, as Path.home may
        }
        bounds = [normalise(permission, variables) for permission in self._permissions]
        return run.rules.bounded(bounds)


def skill_providers(
    skills: Sequence[Skill], boxes: HandlerBoxes, taken: frozenset[str]
) -> tuple[list[SkillProvider], list[str]]:
    """Return the providers of the skills that export tools, and a sentence for each left out.

    Args:
        skills: The loaded skills.
        boxes: What runs their handlers.
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
        if (problem := _beyond(skill, meta)) is not None
    ]
    return [SkillProvider(skill, boxes, skills) for skill in served], notes


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
    )
    return admitted(meta, facts.level or "L0") if skill.trusted else meta


def _beyond(skill: Skill, meta: ToolMeta) -> str | None:
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
    required = {name: None for name in skill.requires.tools if name not in named}
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
