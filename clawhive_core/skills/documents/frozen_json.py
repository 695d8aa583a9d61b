"""Frozen dataclasses as JSON values and back, without what has its default."""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any, Union, cast, get_args, get_origin, get_type_hints

Read = Callable[[Any], Any]

_LARGEST: dict[type, float] = {int: 1 << 53, float: float("inf")}
"""What a number must be less than to be read as it was written."""


class NoJson(Exception):
    """A value is not what JSON holds without loss."""


def packed(value: Any) -> Any:
    """Return a value as JSON: a dataclass as a mapping of what differs from its defaults.

    Raises:
        NoJson: It holds something that would not come back as it is.
    """
    kind = value.__class__
    if kind is str or kind is bool or value is None:
        return value
    if kind in _LARGEST and abs(value) < _LARGEST[kind]:
        return value
    if kind is list or kind is tuple:
        return [packed(each) for each in value]
    if kind is dict:
        return _packed_mapping(cast("dict[Any, Any]", value))
    if isinstance(value, Path | date):
        return str(value)
    if is_dataclass(value):
        return {
            name: packed(each)
            for name, default in _defaults(kind)
            if (each := getattr(value, name)) != default
        }
    raise NoJson(kind.__name__)


def _packed_mapping(value: Mapping[Any, Any]) -> dict[str, Any]:
    if any(type(key) is not str for key in value):
        raise NoJson("a key that is no text")
    return {key: packed(each) for key, each in value.items()}


def unpack(kind: Any) -> Read:
    """Return the function that makes a value of a type from what `packed` made of it."""
    return _reader(kind)


@cache
def _defaults(kind: type) -> tuple[tuple[str, Any], ...]:
    return tuple((each.name, _default(each)) for each in fields(kind))


def _default(field: Field[Any]) -> Any:
    if field.default_factory is not MISSING:
        return field.default_factory()
    return field.default


@cache
def _reader(kind: Any) -> Read:
    """Return what reads a type; every part of it is looked at once."""
    origin, inner = get_origin(kind), get_args(kind)
    if is_dataclass(kind):
        return _of_dataclass(cast("type", kind))
    if kind in {Path, date}:
        return Path if kind is Path else date.fromisoformat
    if origin is tuple:
        read = _reader(inner[0])
        return lambda value: tuple([read(each) for each in value])
    if origin in {Union, types.UnionType}:
        return _of_union(tuple(each for each in inner if each is not type(None)))
    if origin in {dict, Mapping} and (read := _reader(inner[1])) is not _same:
        return lambda value: {key: read(each) for key, each in value.items()}
    return _same


def _of_dataclass(kind: type) -> Read:
    @cache
    def others() -> dict[str, Read]:
        """Return what reads the fields that JSON holds otherwise than the class."""
        hints = get_type_hints(kind)
        readers = {each.name: _reader(hints[each.name]) for each in fields(kind)}
        return {name: each for name, each in readers.items() if each is not _same}

    def read(value: Any) -> Any:
        readers = others()
        if readers.keys().isdisjoint(value):
            return kind(**value)
        made = {name: readers[name](each) for name, each in value.items() if name in readers}
        return kind(**{**value, **made})

    return read


def _of_union(kinds: tuple[Any, ...]) -> Read:
    """Return what reads one of some types, or None; a list can only be the one that is a tuple."""
    if len(kinds) == 1:
        read = _reader(kinds[0])
        return lambda value: None if value is None else read(value)
    listed = next((_reader(each) for each in kinds if get_origin(each) is tuple), _same)
    return lambda value: listed(value) if isinstance(value, list) else value


def _same(value: Any) -> Any:
    return value
