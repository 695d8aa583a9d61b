"""What is checked of each exported tool beyond its form: schemas, names, functions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, cast

from clawhive_core.diagnostics.finding import Finding
from clawhive_core.model.effects import beyond_own_state, risk_of
from clawhive_core.skills.contracts.regular import check_patterns
from clawhive_core.skills.contracts.schema import SchemaMistake, refused_by_providers
from clawhive_core.skills.contracts.skill import ExportedTool, Skill
from clawhive_core.skills.documents.fields import Fields
from clawhive_core.skills.documents.place import KeyPath

CORE_NAMES = ("tool_search", "tool_enable", "read", "save", "show", "skill_open")
"""The core's tools of one segment: a handler that calls one by its bare name means these."""

NAMESPACES = ("core", "local", "mcp", "sandbox")
"""First segments of tools' names that ClawHive keeps for its own tools and for those of servers."""


def check_exports(contract: Fields, skill: Skill) -> Iterator[Finding]:
    """Yield what is wrong with the exported tools of a contract that could be read."""
    exports = skill.exports
    if not exports.tools:
        return
    if skill.id in NAMESPACES and exports.place is not None:
        message = f"`{skill.id}.` is the beginning of tools' names that are not a skill's"
        fix = f"rename the skill; kept are {', '.join(NAMESPACES)}"
        yield exports.place.finding("CH0408", "error", message, fix)
    body = contract.below("exports")
    functions: dict[str, ExportedTool] = {}
    for (path, value), tool in zip(body.items("tools"), exports.tools, strict=True):
        at = path if isinstance(value, dict) else body.at("contracts", tool.name)
        yield from _of_tool(contract, at, tool)
        yield from _of_risk(contract, at, tool, skill)
        other = functions.setdefault(tool.function, tool)
        if other is not tool:
            message = f"`{tool.name}` and `{other.name}` mean one function, `{tool.function}`"
            fix = f"rename one; the other stands in line {other.place.line}"
            yield tool.place.finding("CH0502", "error", message, fix)


def _of_tool(contract: Fields, at: KeyPath, tool: ExportedTool) -> Iterator[Finding]:
    for key, schema in (("input", tool.input_schema), ("output", tool.output_schema)):
        if schema is None:
            message = f"`{tool.name}` states no {key}_schema"
            fix = f"add `{key}_schema: {{type: object, properties: ...}}`"
            yield tool.place.finding("CH0513", "error", message, fix)
    if tool.name in CORE_NAMES:
        message = f"`{tool.name}` is called like a tool of the core"
        fix = "rename it; a handler's bare name means the core's tool no more, else"
        yield tool.place.finding("CH0514", "warning", message, fix)
    yield from check_input_schema(contract, (*at, "input_schema"), tool.input_schema)
    yield from _placed(contract, (*at, "output_schema"), check_patterns(tool.output_schema))


def _of_risk(contract: Fields, at: KeyPath, tool: ExportedTool, skill: Skill) -> Iterator[Finding]:
    """Yield where a tool counts as safe and declares that it changes more than ClawHive's state.

    A risk that is not stated follows from the skill's permissions, as in the catalog.
    """
    stated, level = tool.facts.risk, tool.facts.level or "L0"
    if (stated or risk_of({"": skill.permissions})) != "safe":
        return
    why = beyond_own_state(tool.facts.effects, level, side_effects=tool.facts.side_effects)
    if why is None:
        return
    says = "declares itself safe" if stated else "states no risk, safe by the skill's permissions"
    message = f"`{tool.name}` {says}, and it {why}: it is decided as guarded outside of a sandbox"
    place = tool.place if stated is None else contract.document.place((*at, "risk"))
    fix = "write `guarded`" if stated else "add `risk: guarded`"
    if skill.risk_policy.beyond("L0", "guarded") is not None:
        fix = "name only what it touches: the skill's risk_policy caps it at safe"
    yield place.finding("CH0515", "warning", message, fix)


def check_input_schema(contract: Fields, at: KeyPath, schema: Any) -> Iterator[Finding]:
    """Yield what models' APIs would refuse in the schema that stands at a path."""
    yield from _placed(contract, at, refused_by_providers(cast("dict[str, Any]", schema or {})))
    yield from _placed(contract, at, check_patterns(schema))


def _placed(contract: Fields, at: KeyPath, mistakes: Iterable[SchemaMistake]) -> Iterator[Finding]:
    for each in mistakes:
        place = contract.document.place((*at, *each.path))
        yield place.finding(each.code, each.severity, each.message, each.fix)
