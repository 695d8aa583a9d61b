"""The texts of models, as the log can hold, adapters send back and terminals show them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

from clawhive_core.model.json_values import MAX_DEPTH
from clawhive_core.model.messages import ContentBlock, LlmResponse, TextBlock
from clawhive_core.model.texts import well_formed
from clawhive_core.model.tools import ToolCall

_CUT = "(nested too deep)"
_ROWS = (list, tuple)
_NESTS = (dict, *_ROWS)


def readable(response: LlmResponse) -> LlmResponse:
    """Return a response that everybody can read, the same where it is one.

    Half of a surrogate pair in a text is written as its escape. Arguments that are nested too deep
    become `malformed`, cut.
    """
    for block in response.content:
        if _readable(block) is not block:
            return replace(response, content=tuple(map(_readable, response.content)))
    return response


def _readable(block: ContentBlock) -> ContentBlock:
    if isinstance(block, TextBlock):
        text = well_formed(block.text)
        return block if text is block.text else replace(block, text=text)
    return _bounded(block) if isinstance(block, ToolCall) and _is_deep(block) else block


def _is_deep(call: ToolCall) -> bool:
    if _inside(call.input) and is_deeper(call.input, MAX_DEPTH):
        return True
    return call.native is not None and is_deeper(call.native, 2 * MAX_DEPTH)


def _bounded(call: ToolCall) -> ToolCall:
    written = call.malformed
    if written is None:
        written = json.dumps(_cut(call.input, MAX_DEPTH), default=str)
    native = None if is_deeper(call.native, 2 * MAX_DEPTH) else call.native
    return replace(call, input={}, malformed=written, native=native)


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
