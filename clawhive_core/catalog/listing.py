"""What a provider lists, checked before it can take a name or break an assembly."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args

from clawhive_core.catalog.names import problem_of
from clawhive_core.model.sinks import sink_problems
from clawhive_core.model.tools import Level, Risk, ToolMeta


def problem_of_tool(meta: ToolMeta) -> str | None:
    """Return why a tool cannot be in the catalog, or None."""
    given: Any = meta  # a provider may have put anything into it
    if not isinstance(given.name, str):
        return f"a tool's name is text, not {type(given.name).__name__}"
    problem = problem_of(given.name, given.provider_id)
    return problem or _problem_of_contract(given)


def _problem_of_contract(meta: Any) -> str | None:
    if meta.risk not in get_args(Risk):
        return f"its risk {meta.risk!r} is none of {', '.join(get_args(Risk))}"
    if meta.capability_level not in get_args(Level):
        return f"its level {meta.capability_level!r} is none of {', '.join(get_args(Level))}"
    if not isinstance(meta.input_schema, Mapping) or not isinstance(meta.effects, Mapping):
        return "its input schema and its effects must be objects"
    if type(meta.timeout_ms) not in {int, float} or not 0 < meta.timeout_ms < float("inf"):
        return f"its timeout_ms {meta.timeout_ms!r} is no positive number"
    try:
        _ = meta.contract_hash, meta.text_hash
    except (TypeError, ValueError, RecursionError) as error:
        return f"its definition has no JSON form: {error}"
    return _problem_of_sinks(meta)


def _problem_of_sinks(meta: Any) -> str | None:
    if not all(isinstance(each, tuple) for each in (meta.sinks, meta.records)):
        return "its sinks and its records must be tuples of texts"
    records = sink_problems(meta.records, None, records=True)
    problems = (*sink_problems(meta.sinks, None), *records)
    return next((f"{problem}; {fix}" for problem, fix in problems), None)
