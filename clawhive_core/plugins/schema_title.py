"""Titles that pydantic makes of names: noise for a model, and different from version to version."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

_MAPS = frozenset({"properties", "patternProperties", "$defs", "dependentSchemas"})
_DATA = frozenset({"default", "const", "enum", "examples", "required", "discriminator"})


def without_titles(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a JSON Schema without the keyword `title`; properties of that name stay."""
    return {key: _inside(key, value) for key, value in schema.items() if key != "title"}


def _inside(key: str, value: Any) -> Any:
    if key in _DATA:
        return value
    if isinstance(value, Mapping):
        inner = cast("Mapping[str, Any]", value)
        if key in _MAPS:
            return {name: _schema(item) for name, item in inner.items()}
        return without_titles(inner)
    if isinstance(value, list):
        return [_schema(item) for item in cast("list[Any]", value)]
    return value


def _schema(value: Any) -> Any:
    return without_titles(cast("Mapping[str, Any]", value)) if isinstance(value, Mapping) else value
