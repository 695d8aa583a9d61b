"""Tokens and cost of an answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from clawhive_core import Usage


def usage_of(counts: Mapping[str, Any], model: str | None) -> Usage:
    """Return the usage.

    Input counts the whole prompt, cached tokens and what tools at the provider added included;
    output counts thoughts too.

    Args:
        counts: The answer's `usageMetadata`.
        model: The model's name, for its price.
    """
    usage = Usage(
        _sum(counts, "promptTokenCount", "toolUsePromptTokenCount"),
        _sum(counts, "candidatesTokenCount", "thoughtsTokenCount"),
        _sum(counts, "cachedContentTokenCount"),
    )
    return replace(usage, cost=_cost(usage, model))


def _sum(counts: Mapping[str, Any], *names: str) -> int | None:
    found = [count for name in names if (count := _count(counts.get(name))) is not None]
    return sum(found) if found else None


def _count(value: Any) -> int | None:
    """Return a count; JSON of Google's APIs may write large numbers as texts."""
    if isinstance(value, str) and value.isascii() and value.isdecimal():
        value = int(value[:18])
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        return None
    return value


def _cost(usage: Usage, model: str | None) -> float | None:
    """Return the price in US dollars, None where the model's is not known."""
    if model is None or usage.input_tokens is None:
        return None
    from genai_prices import Usage as Counted
    from genai_prices import calc_price

    try:
        counted = Counted(
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens or 0,
            cache_read_tokens=usage.cache_read_tokens or 0,
        )
        return float(calc_price(counted, model, provider_id="google").total_price)
    except (LookupError, ValueError):
        return None
