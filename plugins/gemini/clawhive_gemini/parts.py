"""Blocks of messages as parts of the API, and back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast
from uuid import uuid4

from clawhive_core import (
    ContentBlock,
    MediaBlock,
    ProviderBlock,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    WireTable,
    wire_name,
)
from clawhive_gemini.objects import object_in

NAME = "gemini"
SIGNATURE = "thoughtSignature"


def block_of(part: Mapping[str, Any], table: WireTable[Any], taken: set[str]) -> ContentBlock:
    """Return the block for a part of a model's turn; unknown parts are kept as they are.

    Args:
        part: The part.
        table: The tools that were offered.
        taken: The ids of the calls before, to which this one's is added.
    """
    text = part.get("text")
    if isinstance(text, str):
        rest = {key: value for key, value in part.items() if key != "text"}
        native = {NAME: rest} if rest else None
        if part.get("thought"):
            return ThinkingBlock(text, part.get(SIGNATURE), native=native)
        return TextBlock(text, native)
    if part.get("functionCall") is not None:
        return _call(part, object_in(part, "functionCall"), table, taken)
    return ProviderBlock(NAME, dict(part))


def _call(
    part: Mapping[str, Any], call: Mapping[str, Any], table: WireTable[Any], taken: set[str]
) -> ToolCall:
    args: Any = {} if call.get("args") is None else call["args"]
    kept = {key: value for key, value in call.items() if key != "args"}
    native = {NAME: {**part, "functionCall": kept}}
    # The API gives ids only lately; one that is made up here does not go back.
    call_id = call.get("id")
    if not isinstance(call_id, str) or not call_id or call_id in taken:
        call_id = f"{NAME}-{uuid4().hex}"
    taken.add(call_id)
    name = table.canonical(str(call.get("name") or ""))
    if isinstance(args, dict):
        return ToolCall(call_id, name, cast("dict[str, Any]", args), native=native)
    kept["args"] = args
    return ToolCall(call_id, name, {}, malformed=json.dumps(args), native=native)


def part_of(block: ContentBlock) -> dict[str, Any] | None:
    """Return the part for a block; None for what another provider must have back.

    Tool results are no parts of their own: see `content`.
    """
    match block:
        case TextBlock():
            return {"text": block.text, **_native(block.native)}
        case ThinkingBlock():
            native = _native(block.native)
            return {"text": block.text, **native} if native else None
        case ToolCall():
            return _call_part(block)
        case MediaBlock():
            return _media(block)
        case ProviderBlock():
            return dict(block.value) if block.provider == NAME else None
        case _:
            return None


def _call_part(call: ToolCall) -> dict[str, Any]:
    native = _native(call.native)
    known = native.get("functionCall", {"id": call.id, "name": wire_name(call.name)})
    return {**native, "functionCall": {"args": call.input, **known}}


def _media(block: MediaBlock) -> dict[str, Any]:
    if block.data is not None:
        return {"inlineData": {"mimeType": block.media_type, "data": block.data}}
    return {"fileData": {"mimeType": block.media_type, "fileUri": block.url}}


def _native(native: Mapping[str, Any] | None) -> Mapping[str, Any]:
    return (native or {}).get(NAME) or {}
