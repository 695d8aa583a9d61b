"""A call whose arguments come in pieces (`streamFunctionCallArguments`)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any

from clawhive_core import model_failure
from clawhive_gemini.objects import object_in, objects_in

_STEP = re.compile(r"\.([\w-]+)|\[(\d+)\]|\[(?:'([^']*)'|\"([^\"]*)\")\]")
_VALUES = ("stringValue", "numberValue", "boolValue")
_MAX_INDEX = 10_000


class PartialCall:
    """Joins the parts of one call."""

    def __init__(self) -> None:
        self._part: dict[str, Any] = {}
        self._args: dict[str, Any] = {}
        self._open = False

    def joined(self, part: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Return a part as it is, or the whole call that it ends; None where one goes on.

        Raises:
            ModelError: `invalid_response`: a piece says not where it belongs.
        """
        call = object_in(part, "functionCall")
        if "functionCall" not in part or not (self._open or _is_piece(call)):
            return part
        kept = {key: value for key, value in call.items() if key not in {"args", *_PIECES}}
        known = self._part.get("functionCall", {})
        self._part = {**self._part, **part, "functionCall": {**known, **kept}}
        self._args |= object_in(call, "args")
        for piece in objects_in(call, "partialArgs"):
            _put(self._args, piece)
        self._open = bool(call.get("willContinue"))
        if self._open:
            return None
        whole = {**self._part, "functionCall": {**self._part["functionCall"], "args": self._args}}
        self._part, self._args = {}, {}
        return whole


_PIECES = frozenset({"partialArgs", "willContinue"})


def _is_piece(call: Mapping[str, Any]) -> bool:
    return bool(call.keys() & _PIECES)


def _put(args: dict[str, Any], piece: Mapping[str, Any]) -> None:
    """Put a piece where its JSON path (RFC 9535, names and indices) says; texts are appended."""
    value = next((piece[key] for key in _VALUES if key in piece), None)
    inside: Any = args
    steps = list(_steps(str(piece.get("jsonPath", ""))))
    for step, following in pairwise(steps):
        inside = _entered(inside, step, [] if isinstance(following, int) else {})
    last = steps[-1]
    old = _entered(inside, last, "" if isinstance(value, str) else value)
    inside[last] = old + value if isinstance(old, str) and isinstance(value, str) else value


def _steps(path: str) -> Iterator[str | int]:
    found = list(_STEP.finditer(path))
    if not found or "".join(("$", *(each[0] for each in found))) != path:
        raise model_failure("invalid_response", f"`{path[:100]}` is no place in arguments")
    for each in found:
        if each[2] is None:
            yield each[1] or each[3] or each[4] or ""
        elif int(each[2]) <= _MAX_INDEX:
            yield int(each[2])
        else:
            raise model_failure("invalid_response", f"`{path[:100]}` is too far")


def _entered(inside: Any, step: str | int, empty: Any) -> Any:
    """Return what is at a step, which is made where it is not yet."""
    if isinstance(step, str) and isinstance(inside, dict):
        return inside.setdefault(step, empty)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType] - JSON
    if isinstance(step, int) and isinstance(inside, list):
        inside.extend([None] * (step + 1 - len(inside)))  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType] - JSON
        if inside[step] is None:
            inside[step] = empty
        return inside[step]  # pyright: ignore[reportUnknownVariableType] - JSON
    raise model_failure("invalid_response", "pieces of arguments contradict each other")
