"""What changed of the tools that a skill exports."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence

from clawhive_core.skills.changes.change import Change, Impact, exports_of
from clawhive_core.skills.changes.schemas import changed_schema
from clawhive_core.skills.contracts.risk_policy import LEVELS, RISKS
from clawhive_core.skills.contracts.skill import ExportedTool, Skill

_Tools = Mapping[str, ExportedTool]


def changed_tools(old: Skill, new: Skill) -> Iterator[Change]:
    """Yield what changed of the exported tools, without who may call them."""
    before = {tool.name: tool for tool in old.exports.tools}
    after = {tool.name: tool for tool in new.exports.tools}
    renamed = _renames(before, after)
    for name, tool in before.items():
        if name in after:
            yield from _changed(tool, after[name])
            yield from _rated(old, new, tool, after[name])
        elif name in renamed:
            there = after[renamed[name]]
            message = f"the tool `{name}` is called `{there.name}` now"
            yield Change("tool_renamed", name, "breaking", message, there.place)
        else:
            message = f"the tool `{name}` is not exported any more"
            yield Change("tool_removed", name, "breaking", message, exports_of(new))
    for name, tool in after.items():
        if name not in before and name not in renamed.values():
            message = f"the tool `{name}` is new"
            yield Change("tool_added", name, "additive", message, tool.place)


def _renames(before: _Tools, after: _Tools) -> dict[str, str]:
    """Return the new names of tools that differ from one other tool by their name alone."""
    gone = _by_schemas(tool for name, tool in before.items() if name not in after)
    come = _by_schemas(tool for name, tool in after.items() if name not in before)
    return {
        names[0]: come[key][0]
        for key, names in gone.items()
        if len(names) == 1 and len(come.get(key, ())) == 1
    }


def _by_schemas(tools: Iterator[ExportedTool]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for tool in tools:
        key = json.dumps((tool.input_schema, tool.output_schema), sort_keys=True)
        found.setdefault(key, []).append(tool.name)
    return found


def _changed(old: ExportedTool, new: ExportedTool) -> Iterator[Change]:
    for part in ("input", "output"):
        change = changed_schema(old, new, part)
        if change is not None:
            yield change
    if old.description != new.description:
        message = f"the description of `{new.name}` changed"
        yield Change("description", new.name, "none", message, new.place)
    yield from _facts(old, new)


def _facts(old: ExportedTool, new: ExportedTool) -> Iterator[Change]:
    before, after = old.facts, new.facts
    yield from _set(new, "effects", _effects(old), _effects(new))
    yield from _set(new, "sinks", before.sinks, after.sinks)
    if before.side_effects != after.side_effects:
        yes, impact = after.side_effects, "breaking" if after.side_effects else "none"
        message = (
            f"`{new.name}` {'has side effects now' if yes else 'has no side effects any more'}"
        )
        yield Change("side_effects", new.name, impact, message, new.place)
    if before.idempotent != after.idempotent:
        yes = after.idempotent
        impact, word = ("additive", "may") if yes else ("breaking", "may not")
        message = f"`{new.name}` {word} be called twice for one effect now (idempotent)"
        yield Change("idempotent", new.name, impact, message, new.place)
    if before.records != after.records:
        message = f"`{new.name}` records other places of its input"
        yield Change("records", new.name, "none", message, new.place)
    if before.timeout_ms != after.timeout_ms:
        message = f"`{new.name}` has {after.timeout_ms} ms for a call, not {before.timeout_ms}"
        yield Change("timeout_ms", new.name, "none", message, new.place)


def _set(tool: ExportedTool, kind: str, old: Sequence[str], new: Sequence[str]) -> Iterator[Change]:
    """Yield what a call needs besides: more may be refused where less was not."""
    more = [each for each in new if each not in old]
    less = [each for each in old if each not in new]
    if more:
        message = f"{kind} of `{tool.name}`: {', '.join(more)} is new, so calls may be refused"
        yield Change(kind, tool.name, "breaking", message, tool.place)
    elif less:
        message = f"{kind} of `{tool.name}`: {', '.join(less)} is gone"
        yield Change(kind, tool.name, "none", message, tool.place)


def _effects(tool: ExportedTool) -> list[str]:
    return [
        f"{argument or 'every call'} -> {effect}"
        for argument, given in tool.facts.effects.items()
        for effect in ([given] if isinstance(given, str) else given)
    ]


def _rated(old: Skill, new: Skill, before: ExportedTool, after: ExportedTool) -> Iterator[Change]:
    """Yield what changed of a tool's level and risk, and of whether a person confirms its calls."""
    for kind, scale in (("capability_level", LEVELS), ("risk", RISKS)):
        fact = "level" if kind == "capability_level" else kind
        was, now = getattr(before.facts, fact), getattr(after.facts, fact)
        if was == now:
            continue
        one = was or (None if old.permissions else scale[0])
        other = now or (None if new.permissions else scale[0])
        impact: Impact = "unknown"
        if one is not None and other is not None:
            impact = "breaking" if scale.index(other) > scale.index(one) else "none"
        message = f"{kind} of `{after.name}`: {_stated(was)}, now {_stated(now)}"
        yield Change(kind, after.name, impact, message, after.place)
    was_asked = before.facts.requires_confirm or old.risk_policy.confirm
    is_asked = after.facts.requires_confirm or new.risk_policy.confirm
    if was_asked != is_asked:
        impact = "breaking" if is_asked else "none"
        message = f"a person {'confirms' if is_asked else 'need not confirm'} `{after.name}` now"
        yield Change("requires_confirm", after.name, impact, message, after.place)


def _stated(value: str | None) -> str:
    return value or "as the permissions of the skill say"
