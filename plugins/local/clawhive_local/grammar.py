"""The part of a JSON Schema that llama.cpp's grammar can enforce."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

_DATA = frozenset(("const", "default", "enum", "examples"))
_NAMED = frozenset(("$defs", "definitions", "dependentSchemas", "patternProperties", "properties"))


def held(schema: Any) -> Any:
    """Return a schema without the patterns that are not anchored.

    llama.cpp's grammar takes any text for those and says so on stderr, past every log. A tool's
    input is validated against the whole schema before the tool runs.
    """
    if isinstance(schema, list):
        return [held(each) for each in cast("list[Any]", schema)]
    if not isinstance(schema, Mapping):
        return schema
    return {
        key: _under(key, value)
        for key, value in cast("Mapping[str, Any]", schema).items()
        if not (key == "pattern" and isinstance(value, str) and not _anchored(value))
    }


def _under(key: str, value: Any) -> Any:
    """Return what stands under a keyword: data, schemas by name, or a schema."""
    if key in _DATA:
        return value
    if key in _NAMED and isinstance(value, Mapping):
        named = cast("Mapping[str, Any]", value)
        return {name: held(each) for name, each in named.items()}
    return held(value)


def _anchored(pattern: str) -> bool:
    return pattern.startswith("^") and pattern.endswith("$")
