"""JSON values as the API sends them, made fit to be kept."""

from __future__ import annotations

from typing import Any, cast


def well_formed(value: Any) -> Any:
    """Return a JSON value in which halves of characters, which no file can hold, are U+FFFD."""
    if isinstance(value, str):
        if value.isascii():
            return value
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        return {well_formed(key): well_formed(each) for key, each in fields.items()}
    if isinstance(value, list):
        return [well_formed(each) for each in cast("list[Any]", value)]
    return value


def word(value: Any) -> str | None:
    """Return a value if it is a text, else None."""
    return value if isinstance(value, str) else None
