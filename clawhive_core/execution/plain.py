"""Plain JSON: what may enter a tool and what may come back, copied so that nobody changes it."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, cast

from clawhive_core.errors import InvalidInput
from clawhive_core.model.canonical import is_plain_number
from clawhive_core.model.late import dataclass
from clawhive_core.model.tools import ToolCall

MAX_DEPTH = 100
"""How deep lists and objects may be nested."""

MAX_INPUT = 16 * 1024 * 1024
"""About the bytes of JSON that a call's input may be."""

_NODE = 2
_LISTS = (list, tuple)
_NUMBERS = (int, float)
_SMALL = frozenset({bool, type(None)})
_LARGE = 2**53
_MAX_BITS = 14_000  # Python itself writes no longer integer as text


def plain_json(value: Any, limit: int) -> Any:
    """Return a copy of a JSON value, made of dict, list, str, int, float, bool and None.

    Args:
        value: Dicts with text as keys, lists and tuples, texts, finite numbers (RFC 8259).
        limit: About how many bytes of JSON it may be.

    Raises:
        InvalidInput: It is no JSON, too deep or too large; `place` is the JSON pointer of that.
    """
    return plainly(value, limit)[0]


def plainly(value: Any, limit: int) -> tuple[Any, bool]:
    """Return what `plain_json` does, and whether the copy is plain for `canonical_plain`.

    Raises:
        InvalidInput: As `plain_json`.
    """
    copier = _Copier(limit)
    return copier.copy(value, "", 0), copier.is_plain


def plain_object(value: Any, limit: int) -> dict[str, Any]:
    """Return a copy of a JSON object.

    Raises:
        InvalidInput: As `plain_json`, or it is no object.
    """
    return _plain_object(value, limit)[0]


def _plain_object(value: Any, limit: int) -> tuple[dict[str, Any], bool]:
    kind = type(value)  # pyright: ignore[reportUnknownVariableType] - JSON
    if kind is not dict and not issubclass(kind, Mapping):
        raise InvalidInput(f"it is {kind.__name__}, and an object is needed")
    copier = _Copier(limit)
    return copier.object(value, "", 0), copier.is_plain


def input_of(call: ToolCall) -> tuple[dict[str, Any], bool]:
    """Return a copy of a call's input, and whether it is plain for `canonical_plain`.

    Raises:
        InvalidInput: As `plain_object`, or the model did not write its arguments as a JSON object.
    """
    if call.malformed is None:
        return _plain_object(call.input, MAX_INPUT)
    try:
        kind = type(json.loads(call.malformed)).__name__
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"the arguments are no JSON: {error}") from error
    if kind == "dict":  # which models are refused at the door, before the log takes them
        raise InvalidInput(f"the arguments are nested deeper than {MAX_DEPTH} levels")
    raise InvalidInput(f"the arguments are {kind}, and an object is needed")


def as_recorded(call: ToolCall) -> dict[str, Any]:
    """Return a call's input as the log holds it: empty where it is none that can be used."""
    try:
        return input_of(call)[0]
    except InvalidInput:
        return {}


@dataclass(slots=True)
class _Copier:
    left: int
    is_plain: bool = True
    """Whether all that was copied so far is, as `canonical_plain` understands it."""

    def copy(self, value: Any, place: str, depth: int) -> Any:
        self._spend(_NODE, place)
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, str):
            self._spend(len(value), place)
            return str(value)
        if isinstance(value, _NUMBERS):
            self.is_plain = self.is_plain and is_plain_number(value)
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
                self.is_plain = False
            kind = type(item)  # pyright: ignore[reportUnknownVariableType] - JSON
            is_small = kind in _SMALL or (kind is int and -_LARGE < item < _LARGE)
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
