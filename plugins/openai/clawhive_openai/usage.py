"""Tokens and cost of an answer."""

from __future__ import annotations

from typing import Any

from clawhive_core import Usage
from clawhive_openai.settings import Server
from clawhive_openai.values import Json, mapping


def read_usage(value: Any, model: str, server: Server) -> Usage:
    """Return the usage that either API reports; input tokens count the cached ones too.

    Args:
        value: The answer's `usage`.
        model: The model that answered.
        server: Who answered, for the price.
    """
    fields = mapping(value)
    details = mapping(fields.get("input_tokens_details") or fields.get("prompt_tokens_details"))
    usage = Usage(
        _first(fields, "input_tokens", "prompt_tokens"),
        _first(fields, "output_tokens", "completion_tokens"),
        _first(details, "cached_tokens") or _first(fields, "prompt_cache_hit_tokens"),
        _first(details, "cache_write_tokens"),
    )
    billed = fields.get("cost")  # OpenRouter says what it took
    if isinstance(billed, int | float) and not isinstance(billed, bool):
        cost = float(billed)
    else:
        cost = _price(usage, model, server)
    return Usage(
        usage.input_tokens,
        usage.output_tokens,
        usage.cache_read_tokens,
        usage.cache_write_tokens,
        cost,
    )


def _first(fields: Json, *names: str) -> int | None:
    for name in names:
        count = fields.get(name)
        if isinstance(count, int) and not isinstance(count, bool) and count >= 0:
            return count
    return None


def _price(usage: Usage, model: str, server: Server) -> float | None:
    """Return US dollars, None where the model's price is not known."""
    if usage.input_tokens is None or not model:
        return None
    import genai_prices

    counts = genai_prices.Usage(
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cache_read_tokens=usage.cache_read_tokens,
        cache_write_tokens=usage.cache_write_tokens,
    )
    try:
        if server.is_openai:
            price = genai_prices.calc_price(counts, model, provider_id="openai")
        else:
            price = genai_prices.calc_price(counts, model, provider_api_url=server.base_url)
    except (LookupError, ValueError):
        return None
    return float(price.total_price)
