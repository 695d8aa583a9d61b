"""Listed tools, checked before they can take a name or break an assembly.

A canonical name is 1 to 4 segments `[A-Za-z0-9_-]+` joined by dots.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast, get_args

from clawhive_core.model.effects import beyond_own_state
from clawhive_core.model.patterns import pattern
from clawhive_core.model.sinks import sink_problems
from clawhive_core.model.tools import Level, Risk, ToolMeta

_NAME = pattern(r"[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+){0,3}")
_MAX_LENGTH = 200


def problem_of(name: str, provider_id: str) -> str | None:
    """Return why a provider may not offer this name, or None.

    One segment is reserved for core tools (`tool_search`, `read`, `save`, `show`).
    """
    if len(name) > _MAX_LENGTH or _NAME.fullmatch(name) is None:
        return "a tool's name is 1 to 4 segments of letters, digits, `_` and `-`, joined by dots"
    if "." not in name and provider_id != "core":
        return f"one segment is reserved for core tools; call it `{provider_id}.{name}`"
    return None


def admitted(meta: ToolMeta, level: Level | None = None) -> ToolMeta:
    """Return a tool that runs outside every sandbox engine, as it is admitted.

    One that declares itself safe and may change more than ClawHive's own state is guarded, and
    `raised` says why. What is declared decides, so that a tool's risk is one for all its calls.

    Args:
        meta: The tool as it is declared.
        level: The level that its author stated, where another one was derived.
    """
    why = None
    if meta.risk == "safe" and problem_of_tool(meta) is None:
        stated = level or meta.capability_level
        why = beyond_own_state(meta.effects, stated, side_effects=meta.side_effects)
    if why is not None:
        return replace(meta, risk="guarded", raised=f"declared safe, and it {why}")
    return replace(meta, raised="") if meta.raised else meta


def problem_of_tool(meta: ToolMeta) -> str | None:
    """Return why a tool cannot be in the catalog, or None."""
    given: Any = meta  # a provider may have put anything into it
    if not isinstance(given.name, str):
        return f"a tool's name is text, not {type(given.name).__name__}"
    if not isinstance(given.provider_id, str):
        return f"its provider_id is text, not {type(given.provider_id).__name__}"
    problem = problem_of(given.name, given.provider_id)
    return problem or _problem_of_contract(given)


def _problem_of_contract(meta: Any) -> str | None:
    if meta.risk not in get_args(Risk):
        return f"its risk {meta.risk!r} is none of {', '.join(get_args(Risk))}"
    if meta.capability_level not in get_args(Level):
        return f"its level {meta.capability_level!r} is none of {', '.join(get_args(Level))}"
    if not isinstance(meta.input_schema, Mapping) or not _are_effects(meta.effects):
        return "its input schema and its effects must be objects, each effect a text or some"
    if type(meta.timeout_ms) not in {int, float} or not 0 < meta.timeout_ms < float("inf"):
        return f"its timeout_ms {meta.timeout_ms!r} is no positive number"
    try:
        _ = meta.contract_hash, meta.text_hash
    except (TypeError, ValueError, RecursionError) as error:
        return f"its definition has no JSON form: {error}"
    return _problem_of_sinks(meta)


def _are_effects(value: Any) -> bool:
    if not isinstance(value, Mapping):
        return False
    effects = cast("Mapping[Any, Any]", value).values()
    return all(isinstance(text, str) for each in effects for text in _listed(each))


def _listed(effect: Any) -> list[Any]:
    return list(cast("list[Any]", effect)) if isinstance(effect, list | tuple) else [effect]


def _problem_of_sinks(meta: Any) -> str | None:
    if not all(isinstance(each, tuple) for each in (meta.sinks, meta.records)):
        return "its sinks and its records must be tuples of texts"
    records = sink_problems(meta.records, None, records=True)
    problems = (*sink_problems(meta.sinks, None), *records)
    return next((f"{problem}; {fix}" for problem, fix in problems), None)
