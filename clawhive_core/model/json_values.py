"""JSON values: copied from outside, and those that every encoder writes in one way."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import repeat
from typing import Any, cast

from clawhive_core.errors import InvalidInput
from clawhive_core.model.late import dataclass

MAX_DEPTH = 100
"""The depth to which lists and objects may be nested in a copy."""
MAX_STRUCTURED = 8 * 1024 * 1024
"""About the bytes of JSON that a tool's structured value may be; a larger one is refused."""
SAFE_INTEGER = 2**53 - 1
"""The largest whole number that each reader of JSON reads as it was written."""

_NODE = 2
_LISTS = (list, tuple)
_NUMBERS = (int, float)
_SMALL = frozenset({bool, type(None)})
_SCALARS = frozenset({str, bool, type(None)})
_SMALLEST, _LARGEST = 1e-4, 1e15
_MAX_BITS = 14_000  # Python itself writes no longer integer as text
_NOTHING: frozenset[str] = frozenset()


def json_copy(value: Any, limit: int) -> tuple[Any, bool]:
    """Return a copy of a JSON value, made of dict, list, str, int, float, bool and None.

    Args:
        value: Dicts with text as keys, lists and tuples, texts, finite numbers (RFC 8259).
        limit: About how many bytes of JSON it may be.

    Returns:
        The copy, and whether it is portable.

    Raises:
        InvalidInput: It is no JSON, too deep or too large; `place` is the JSON pointer of that.
    """
    copier = _Copier(limit)
    return copier.copy(value, "", 0), copier.is_portable


def json_object(value: Any, limit: int) -> tuple[dict[str, Any], bool]:
    """Return a copy of a JSON object, and whether it is portable.

    Raises:
        InvalidInput: As `json_copy`, or it is no object.
    """
    kind = type(value)  # pyright: ignore[reportUnknownVariableType] - JSON
    if kind is not dict and not issubclass(kind, Mapping):
        raise InvalidInput(f"it is {kind.__name__}, and an object is needed")
    copier = _Copier(limit)
    return copier.object(value, "", 0), copier.is_portable


def is_larger(value: Any, limit: int) -> bool:
    """Whether a JSON value takes more than about `limit` bytes, without a copy of any of it."""
    left, level = limit, [value]
    while level:
        below: list[Any] = []
        for item in level:
            left -= _NODE
            if isinstance(item, str):
                left -= len(item)
            elif isinstance(item, dict):
                texts = cast("dict[str, Any]", item)
                left -= sum(map(len, texts))
                below.extend(texts.values())
            elif isinstance(item, list):
                below.extend(cast("list[Any]", item))
        if left < 0:
            return True
        level = below
    return False


def is_portable(
    value: Any,
    *,
    leaf: type | None = None,
    reserved: frozenset[str] = _NOTHING,
    levels: int | None = None,
) -> bool:
    """Whether a value holds only text, booleans, null and numbers that encoders write in one way.

    At keys nobody looks: the encoder takes none that are not text.

    Args:
        value: Any value.
        leaf: A class whose values count as portable too, whatever is in them.
        reserved: Keys that no object may have.
        levels: How deep it may be; without it, an endless value is looked at without end.
    """
    level: list[Any] = [value]
    for _ in repeat(None) if levels is None else range(levels):
        below: list[Any] = []
        for item in level:
            kind = type(item)  # pyright: ignore[reportUnknownVariableType] - JSON
            if kind is dict:
                if reserved and not item.keys().isdisjoint(reserved):
                    return False
                values = item.values()
            elif kind is list or kind is tuple:
                values = item
            elif kind in _SCALARS or kind is leaf or is_portable_number(item):
                continue
            else:
                return False
            # Most objects hold scalars only, which the interpreter sees without a loop of ours.
            if not _SCALARS.issuperset(map(type, values)):
                below.extend([each for each in values if type(each) not in _SCALARS])
        if not below:
            return True
        level = below
    return False


def is_portable_number(value: Any) -> bool:
    """Whether orjson and RFC 8785 write a value in one way, as a number.

    Both write the shortest digits of a float; they differ in where exponents begin, and in whether
    a whole number has a point.
    """
    if type(value) is int:
        return -SAFE_INTEGER <= value <= SAFE_INTEGER
    return type(value) is float and _SMALLEST <= abs(value) < _LARGEST and not value.is_integer()


@dataclass(slots=True)
class _Copier:
    left: int
    is_portable: bool = True
    """Whether all that was copied so far is."""

    def copy(self, value: Any, place: str, depth: int) -> Any:
        self._spend(_NODE, place)
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, str):
            self._spend(len(value), place)
            return str(value)
        if isinstance(value, _NUMBERS):
            self.is_portable = self.is_portable and is_portable_number(value)
            return _number(value, place)
        if depth >= MAX_DEPTH:
            raise InvalidInput(f"it is nested deeper than {MAX_DEPTH} levels", place=place)
        if isinstance(value, _LISTS):
            items = cast("list[Any]", value)
            return [
                self.copy(item, f"{place}/{index}", depth + 1) for index, item in enumerate(items)
            ]
        if isinstance(value, Mapping):
            return self.object(cast("Mapping[Any, Any]", value), place, depth)
        raise InvalidInput(f"{type(value).__name__} is no JSON value", place=place)

    def object(self, value: Mapping[Any, Any], place: str, depth: int) -> dict[str, Any]:
        copied: dict[str, Any] = {}
        for key, item in value.items():
            if type(key) is not str:
                if not isinstance(key, str):
                    raise InvalidInput("the keys of an object are text", place=place)
                self.is_portable = False
            kind = type(item)  # pyright: ignore[reportUnknownVariableType] - JSON
            is_small = kind in _SMALL or (kind is int and -SAFE_INTEGER <= item <= SAFE_INTEGER)
            left = self.left - len(key) - _NODE - (len(item) if kind is str else 0)
            if left >= 0 and (kind is str or is_small):
                self.left = left
                copied[key] = item  # most arguments: no call for each
                continue
            self._spend(len(key), place)
            inner = key.replace("~", "~0").replace("/", "~1")
            copied[key] = self.copy(item, f"{place}/{inner}", depth + 1)
        return copied

    def _spend(self, size: int, place: str) -> None:
        self.left -= size
        if self.left < 0:
            raise InvalidInput("it is too large", place=place)


def _number(value: float, place: str) -> int | float:
    if isinstance(value, float) and not math.isfinite(value):
        raise InvalidInput(f"{value} is no JSON number", place=place)
    if isinstance(value, int) and value.bit_length() > _MAX_BITS:
        raise InvalidInput("the number is too large", place=place)
    return value
