"""Canonical tool names: 1 to 4 segments `[A-Za-z0-9_-]+` joined by dots."""

from __future__ import annotations

from clawhive_core.model.patterns import pattern

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
