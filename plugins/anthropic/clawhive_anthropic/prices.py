"""The usage of an answer: tokens as the API counts them, dollars as `genai-prices` does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from clawhive_core import Usage

_COUNTED_APART = frozenset({"advisor_message", "compaction"})
"""Iterations that the API leaves out of the answer's own counts."""


def read_usage(model: str | None, value: Any) -> Usage:
    """Return tokens and cost of an answer, with those of models that it asked at the provider.

    `input_tokens` counts what was read from the cache and written to it too.

    Args:
        model: The model that answered.
        value: The API's `usage`.
    """
    if not isinstance(value, dict):
        return Usage()
    usage = cast("dict[str, Any]", value)
    total = _part(model, usage)
    for each in _iterations(usage):
        if str(each.get("type")) in _COUNTED_APART:
            part = _part(str(each.get("model") or model), each)
            known = total.cost is not None and part.cost is not None
            total = total + part if known else _without_cost(total + part)
    return total


def _iterations(usage: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    given = usage.get("iterations")
    found = cast("list[Any]", given) if isinstance(given, list) else []
    return [each for each in found if isinstance(each, dict)]


def _without_cost(usage: Usage) -> Usage:
    return Usage(
        usage.input_tokens,
        usage.output_tokens,
        usage.cache_read_tokens,
        usage.cache_write_tokens,
    )


def _part(model: str | None, usage: Mapping[str, Any]) -> Usage:
    read = _count(usage, "cache_read_input_tokens")
    written = _count(usage, "cache_creation_input_tokens")
    fresh = _count(usage, "input_tokens")
    total = None if fresh is None else fresh + (read or 0) + (written or 0)
    return Usage(total, _count(usage, "output_tokens"), read, written, _cost(model, usage))


def _count(usage: Mapping[str, Any], field: str) -> int | None:
    value = usage.get(field)
    return value if isinstance(value, int) and value >= 0 else None


def _cost(model: str | None, usage: Mapping[str, Any]) -> float | None:
    """Return US dollars, None for a model without a known price."""
    from genai_prices import extract_usage

    answer = {"model": model, "usage": {**usage, "iterations": None}}
    try:
        price = extract_usage(answer, provider_id="anthropic").calc_price()
    except (LookupError, TypeError, ValueError):
        return None
    return float(price.total_price)
