"""Values of the types of an SDK: every kind of block, item and event that an API may answer."""

from __future__ import annotations

import datetime as dt
import enum
import types
from collections.abc import Iterator, Mapping
from typing import (
    Annotated,
    Any,
    Literal,
    NotRequired,
    Required,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

_PLAIN: Mapping[Any, Any] = {
    bool: True,
    int: 3,
    float: 0.5,
    bytes: "AAEC",
    dt.datetime: "2026-01-02T03:04:05Z",
    dt.date: "2026-01-02",
    Any: {"any": "thing"},
    object: {"any": "thing"},
    dict: {"any": "thing"},
}
_WRAPPED = (Annotated, Required, NotRequired)
_MAX_DEPTH = 8

Json = dict[str, Any]


def wire_kinds(kind: Any) -> list[Any]:
    """Return the types that a union holds, without None: `wire_kinds(anthropic.ContentBlock)`.

    Args:
        kind: Any annotation: a union, an alias of one, or a type by itself.
    """
    if hasattr(kind, "__value__"):  # a `type` statement
        return wire_kinds(kind.__value__)
    origin = get_origin(kind)
    if origin in _WRAPPED:
        return wire_kinds(get_args(kind)[0])
    if origin in {Union, types.UnionType}:
        return [each for inner in get_args(kind) for each in wire_kinds(inner)]
    return [] if kind is type(None) else [kind]


def wire_samples(kind: Any) -> list[Any]:
    """Return JSON values of a type as an API may send them.

    The first of a record has all fields, those after it differ from it by one field's other kinds,
    and the last has the required fields only; so that each literal, and each kind of a union at any
    depth, is in one of them. Recursion ends at eight levels.

    Args:
        kind: A pydantic model, a TypedDict, an enumeration, or any annotation over them.
    """
    return list(_values(kind, "value", 0))


def _values(kind: Any, name: str, depth: int) -> Iterator[Any]:
    for each in wire_kinds(kind):
        origin, inner = get_origin(each), get_args(each)
        if origin is Literal:
            yield from inner
        elif each is str:
            yield f"some_{name}"
        elif each in _PLAIN:
            yield _PLAIN[each]
        elif isinstance(each, type) and issubclass(each, enum.Enum):
            yield from (member.value for member in each)
        elif _fields(each):
            if depth < _MAX_DEPTH:
                yield from _records(each, depth)
        elif origin is not None and issubclass(origin, Mapping):
            yield {"key": next(_values(inner[1], name, depth + 1), None)}
        elif inner:
            yield from ([value] for value in _values(inner[0], name, depth + 1))


def _records(record: Any, depth: int) -> Iterator[Json]:
    fields = _fields(record)
    kinds = {name: list(_values(kind, name, depth + 1)) for name, (kind, _) in fields.items()}
    kinds = {name: values for name, values in kinds.items() if values}
    whole = {name: values[0] for name, values in kinds.items()}
    yield whole
    for name, values in kinds.items():
        yield from ({**whole, name: value} for value in values[1:])
    least = {name: value for name, value in whole.items() if fields[name][1]}
    if least != whole:
        yield least


def _fields(record: Any) -> dict[str, tuple[Any, bool]]:
    """Return a record's fields: name on the wire, type, and whether it is required."""
    models: Any = getattr(record, "model_fields", None)
    if models is not None:
        return {
            field.alias or name: (field.annotation, field.is_required())
            for name, field in models.items()
        }
    required: Any = getattr(record, "__required_keys__", None)
    if required is None:
        return {}
    hints = get_type_hints(record, include_extras=True)
    # Where annotations are texts, the class itself does not know what stands in them.
    told = {Required: True, NotRequired: False}
    return {
        name: (kind, told.get(get_origin(kind), name in required)) for name, kind in hints.items()
    }
