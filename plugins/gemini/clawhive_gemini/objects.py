"""JSON objects within an answer, or an error that names where one should be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from clawhive_core import model_failure


def as_object(value: Any, what: str) -> Mapping[str, Any]:
    """Return the value.

    Raises:
        ModelError: `invalid_response`: it is no object.
    """
    if not isinstance(value, dict):
        raise model_failure("invalid_response", f"{what} is no JSON object")
    return cast("dict[str, Any]", value)


def object_in(value: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """Return the object under a key, an empty one where there is none."""
    inner = value.get(key)
    return {} if inner is None else as_object(inner, f"`{key}`")


def objects_in(value: Mapping[str, Any], key: str) -> Sequence[Mapping[str, Any]]:
    """Return the objects of the list under a key, none where there is none."""
    inner = value.get(key)
    if inner is None:
        return ()
    if not isinstance(inner, list):
        raise model_failure("invalid_response", f"`{key}` is no list")
    return [as_object(each, f"an item of `{key}`") for each in cast("list[Any]", inner)]
