"""What a person changed in a call's input, as a sentence for whoever made the call."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, cast

from clawhive_core.model.canonical import canonical_text, preview

_MAX_PLACES = 10
_MAX_VALUE = 200
_NOTHING = object()


def edits(asked: Mapping[str, Any], executed: Mapping[str, Any]) -> str:
    """Return how two inputs differ, empty where they do not; the same for equal inputs.

    Each place is a JSON pointer (RFC 6901) with the value that stands there now.
    """
    found = list(_places(asked, executed, ""))
    if not found:
        return ""
    shown = [f"{place} {_now(value)}" for place, value in found[:_MAX_PLACES]]
    if len(found) > _MAX_PLACES:
        shown.append(f"and {len(found) - _MAX_PLACES} more places")
    return f"A person edited the input before approving the call: {'; '.join(shown)}."


def changed(asked: Mapping[str, Any], executed: Mapping[str, Any]) -> list[Any]:
    """Return the values of an input that differ from those that were asked for."""
    return [value for _, value in _places(asked, executed, "") if value is not _NOTHING]


def _places(before: Any, after: Any, place: str) -> Iterator[tuple[str, Any]]:
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        one, other = cast("Mapping[str, Any]", before), cast("Mapping[str, Any]", after)
        for key in sorted({*one, *other}):
            inner = key.replace("~", "~0").replace("/", "~1")
            yield from _places(one.get(key, _NOTHING), other.get(key, _NOTHING), f"{place}/{inner}")
    elif before is _NOTHING or after is _NOTHING or canonical_text(before) != canonical_text(after):
        yield place, after


def _now(value: Any) -> str:
    if value is _NOTHING:
        return "is left out"
    return f"is now {preview(canonical_text(value), _MAX_VALUE)}"
