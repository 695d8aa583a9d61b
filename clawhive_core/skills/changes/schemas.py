"""What changed of a tool's schema, for those who call the tool."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal, cast

from clawhive_core.model.tools import JsonSchema
from clawhive_core.skills.changes.change import Accepts, Change, Impact, Witness
from clawhive_core.skills.compatibility import Compatibility, compare_inputs, compare_outputs
from clawhive_core.skills.contracts.skill import ExportedTool

Part = Literal["input", "output"]

_TEXTS = frozenset({"description", "title", "examples", "$comment"})
_NAMED = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
_VALUES = frozenset({"const", "enum", "default"})


def same(one: Any, other: Any) -> bool:
    """Whether two JSON values are written alike; the order of keys says nothing."""
    return _written(one) == _written(other)


def _written(value: Any) -> str:
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
