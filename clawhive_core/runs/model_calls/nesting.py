"""How deep what a model writes may be nested: beyond that it is kept as text, and refused."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

from clawhive_core.execution.plain import MAX_DEPTH
from clawhive_core.model.messages import ContentBlock, LlmResponse
from clawhive_core.model.tools import ToolCall

_CUT = "(nested too deep)"
_ROWS = (list, tuple)
_NESTS = (dict, *_ROWS)


def bounded_nesting(response: LlmResponse) -> LlmResponse:
    """Return a response whose calls' arguments everybody can read, the same where they are.

    Arguments that are nested too deep become `malformed`, cut: the log cannot hold them, nor can an
    adapter send them back.
    """
    for block in response.content:
        if isinstance(block, ToolCall) and _is_deep(block):
            return replace(response, content=tuple(map(_bounded, response.content)))
    return response


def _is_deep(call: ToolCall) -> bool:
    if is_deeper(call.input, MAX_DEPTH):
        return True
    return call.native is not None and is_deeper(call.native, 2 * MAX_DEPTH)


def _bounded(block: ContentBlock) -> ContentBlock:
    if not isinstance(block, ToolCall) or not _is_deep(block):
        return block
    written = block.malformed
    if written is None:
        written = json.dumps(_cut(block.input, MAX_DEPTH), default=str)
    native = None if is_deeper(block.native, 2 * MAX_DEPTH) else block.native
    return replace(block, input={}, malformed=written, native=native)


def is_deeper(value: Any, most: int) -> bool:
    """Whether lists and objects are nested more than `most` levels deep, one at least."""
    level = [value]
    for _ in range(most):
        level = [inner for each in level for inner in _inside(each)]
        if not level:
            return False
    return True


def _inside(value: Any) -> list[Any]:
    """Return the lists and objects in a list or an object."""
    if isinstance(value, dict):
        items = cast("dict[str, Any]", value).values()
    elif isinstance(value, _ROWS):
        items = cast("Sequence[Any]", value)
    else:
        return []
    return [each for each in items if isinstance(each, _NESTS)]


def _cut(value: Any, left: int) -> Any:
    if not isinstance(value, _NESTS):
        return value
    if not left:
        return _CUT
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        return {key: _cut(each, left - 1) for key, each in fields.items()}
    return [_cut(each, left - 1) for each in cast("Sequence[Any]", value)]
