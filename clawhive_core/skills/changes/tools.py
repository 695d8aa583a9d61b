"""Changes of tools that both versions of a skill export, and of their schemas."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, cast

from clawhive_core.model.tools import JsonSchema
from clawhive_core.skills.changes.change import Accepts, Change, Impact, Witness, exports_of
from clawhive_core.skills.compatibility import Compatibility, compare_inputs, compare_outputs
from clawhive_core.skills.contracts.skill import LEVELS, RISKS, ExportedTool, Skill

Part = Literal["input", "output"]

_TEXTS = frozenset({"description", "title", "examples", "$comment"})
_NAMED = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
_VALUES = frozenset({"const", "enum", "default"})


def same(one: Any, other: Any) -> bool:
    """Whether two JSON values are written the same; the order of keys says nothing."""
    return _encoded(one) == _encoded(other)


def _encoded(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def changed_schema(old: ExportedTool, new: ExportedTool, part: Part) -> Change | None:
    """Return the change of a tool's input or output schema, None where it is the same.

    Inputs are contravariant: what was accepted must be accepted. Outputs are covariant: nothing
    may be answered that could not be answered before.
    """
    key = f"{part}_schema"
    before: JsonSchema = getattr(old, key) or {}
    after: JsonSchema = getattr(new, key) or {}
    if same(before, after):
        return None
    subject = f"{part} of `{new.name}`"
    if same(without_texts(before), without_texts(after)):
        message = f"{subject}: texts of the schema changed"
        return Change("schema_text", new.name, "none", message, new.place)
    compare = compare_inputs if part == "input" else compare_outputs
    forth = compare(before, after)
    if forth.verdict == "unknown":
        message = f"{subject}: whether the change breaks is not known: {forth.reason}"
        return Change(key, new.name, "unknown", message, new.place)
    if forth.verdict == "breaking":
        witness = _witness(forth, "old" if part == "input" else "new")
        message = f"{subject}: {_broken(part, witness)}"
        return Change(key, new.name, "breaking", message, new.place, witness)
    impact, message, seen = _harmless(part, compare(after, before))
    return Change(key, new.name, impact, f"{subject}: {message}", new.place, seen)


def _harmless(part: Part, back: Compatibility) -> tuple[Impact, str, Witness | None]:
    """Return what a compatible change is, from the comparison the other way round."""
    if back.verdict == "compatible":
        return "none", "the schema is written otherwise and means the same", None
    if back.verdict == "unknown":
        return "additive", "the schema changed, and nothing of it breaks", None
    witness = _witness(back, "new" if part == "input" else "old")
    if part == "input":
        return "additive", f"{witness} is accepted now", witness
    return "additive", f"{witness} is not answered any more", witness


def _broken(part: Part, witness: Witness) -> str:
    why = f"{witness.reason} ({witness.pointer or '/'})"
    if part == "input":
        return f"{witness} was accepted and is refused now: {why}"
    return f"{witness} may be answered now, which the old schema refuses: {why}"


def _witness(found: Compatibility, accepted_by: Accepts) -> Witness:
    return Witness(found.witness, accepted_by, found.where, found.reason)


def without_texts(schema: Any) -> Any:
    """Return a schema without what is for readers only."""
    if isinstance(schema, list):
        return [without_texts(each) for each in cast("list[Any]", schema)]
    if not isinstance(schema, Mapping):
        return schema
    entries = cast("Mapping[str, Any]", schema).items()
    return {key: _below(key, value) for key, value in entries if key not in _TEXTS}


def _below(key: str, value: Any) -> Any:
    if key in _VALUES:
        return value
    if key in _NAMED and isinstance(value, Mapping):
        named = cast("Mapping[str, Any]", value)
        return {name: without_texts(each) for name, each in named.items()}
    return without_texts(value)


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
