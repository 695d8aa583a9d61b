"""Values of the types of an SDK: every kind of block, item and event that an API may answer."""

from __future__ import annotations

import datetime as dt
import enum
import types
from collections.abc import Iterator, Mapping
from functools import cache
from typing import (
    Annotated,
    Any,
    Literal,
    NotRequired,
    Required,
    Union,
    cast,
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
    return _fields_of_class(record) if isinstance(record, type) else _fields_of(record)


@cache
def _fields_of_class(record: type) -> dict[str, tuple[Any, bool]]:
    return _fields_of(record)


def _fields_of(record: Any) -> dict[str, tuple[Any, bool]]:
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


def wire_misfits(value: Any, kind: Any) -> list[str]:
    """Return the places at which a JSON value is not of a type; none where it is.

    APIs refuse fields that they do not know: a turn that is sent back must fit the types by which
    the SDK knows requests.

    Args:
        value: What is sent.
        kind: Any annotation, as `wire_samples` takes it; of a union the kind that fits best counts.
    """
    if value is None:
        return []
    found = [_misfits(value, each) for each in wire_kinds(kind)]
    return min(found, key=len, default=[" must be null"])


def _misfits(value: Any, kind: Any) -> list[str]:
    origin, inner, fields = get_origin(kind), get_args(kind), _fields(kind)
    wrong: list[str] = []
    if fields:
        wrong = _field_misfits(value, fields)
    elif origin is Literal:
        wrong = [] if value in inner else [f" is {value!r}, none of {inner}"]
    elif origin is not None and issubclass(origin, Mapping):
        wrong = [] if isinstance(value, dict) else [" is no object"]
    elif inner:
        wrong = _item_misfits(value, inner[0])
    elif kind in {str, int, float, bool}:
        right: Any = (int, float) if kind is float else kind
        wrong = [] if isinstance(value, right) else [f" is {value!r}, no {kind.__name__}"]
    return wrong


def _item_misfits(value: Any, kind: Any) -> list[str]:
    if not isinstance(value, list):
        return [" is no list"]
    places = enumerate(cast("list[Any]", value))
    return [f"[{at}]{wrong}" for at, each in places for wrong in wire_misfits(each, kind)]


def _field_misfits(value: Any, fields: Mapping[str, tuple[Any, bool]]) -> list[str]:
    if not isinstance(value, dict):
        return [" is no object"]
    given = cast("Json", value)
    if "type" in given and "type" in fields and wire_misfits(given["type"], fields["type"][0]):
        return [f".type is {given['type']!r}"] * (len(given) + len(fields) + 1)  # the worst fit
    wrong = [f".{name} is unknown" for name in given.keys() - fields.keys()]
    wrong += [
        f".{name} is missing"
        for name, (_, required) in fields.items()
        if required and name not in given
    ]
    known = [(name, each) for name, each in given.items() if name in fields]
    return wrong + [
        f".{name}{bad}" for name, each in known for bad in wire_misfits(each, fields[name][0])
    ]
