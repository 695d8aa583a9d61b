"""A message's content blocks: read from the API, and written for it again."""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Mapping
from hashlib import sha256
from typing import Any, cast
from uuid import uuid4

from clawhive_anthropic.failures import unreadable
from clawhive_anthropic.json_values import well_formed, word
from clawhive_core import (
    ContentBlock,
    MediaBlock,
    ProviderBlock,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    ToolResult,
    WireTable,
    model_failure,
    wire_name,
)

NAME = "anthropic"
CONTAINER = "container"
"""The type of a ProviderBlock that is no block of the API: the container in which code ran, which
the next request names."""

Value = dict[str, Any]

_DIRECT = {"type": "direct"}
_ID = re.compile(r"[A-Za-z0-9_-]+")


def read_block(value: Any, table: WireTable[Value], taken: set[str]) -> ContentBlock:
    """Return what a block of an answer is; one that is not known is kept as it came.

    Args:
        value: The block; the input of a `tool_use` may be a text, as streams have it.
        table: The tools that were offered.
        taken: The ids of the calls before, to which this one's is added.

    Raises:
        ModelError: `invalid_response`: a known block without what it needs.
    """
    if not isinstance(value, dict) or not isinstance(cast("Value", value).get("type"), str):
        raise unreadable("a content block has no type")
    block = cast("Value", value)
    match block["type"]:
        case "text":
            extra = _rest(block, "text")
            return TextBlock(_text(block, "text"), {NAME: extra} if extra else None)
        case "thinking":
            own = {"type": "thinking", **_rest(block, "thinking", "signature")}
            return ThinkingBlock(
                _text(block, "thinking"), word(block.get("signature")), native={NAME: own}
            )
        case "redacted_thinking":
            return ThinkingBlock("", redacted=True, native={NAME: block})
        case "tool_use":
            return _read_call(block, table, taken)
        case _:
            return ProviderBlock(NAME, block)


def _read_call(block: Value, table: WireTable[Value], taken: set[str]) -> ToolCall:
    wire = _text(block, "name")
    name = table.canonical(wire)
    extra = _rest(block, "id", "name", "input")
    if wire_name(name) != wire:
        extra["name"] = wire
    given = block.get("id")
    call_id = given if isinstance(given, str) and given and given not in taken else _new_id()
    taken.add(call_id)
    value, malformed = _arguments(block.get("input"))
    native = {NAME: extra} if extra else None
    return ToolCall(call_id, name, value, malformed=malformed, native=native)


def _new_id() -> str:
    return f"toolu_{uuid4().hex[:24]}"


def _arguments(given: Any) -> tuple[Value, str | None]:
    """Return a call's input, and the text of it where it is no JSON object."""
    if isinstance(given, dict):
        return cast("Value", given), None
    if given is None:
        return {}, None
    if not isinstance(given, str):
        return {}, json.dumps(given)
    try:
        value: Any = json.loads(given.strip() or "{}", parse_constant=_refuse)
    except (ValueError, RecursionError):
        return {}, given
    return (well_formed(value), None) if isinstance(value, dict) else ({}, given)


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")


def _rest(block: Value, *known: str) -> Value:
    """Return the fields that our types have no place for and that say something."""
    return {
        key: value
        for key, value in block.items()
        if key not in known and key != "type" and value is not None and value != []
    }


def _text(block: Value, field: str) -> str:
    value = block.get(field)
    if not isinstance(value, str):
        raise unreadable(f"a `{block['type']}` block has no `{field}`")
    return value


def write_block(block: ContentBlock) -> Value | None:
    """Return a block as the API takes it; None for what it does not take.

    That is another provider's own, and text without a visible character, which the API refuses.

    Raises:
        ModelError: `invalid_request`: a document of a kind that the API cannot read.
    """
    match block:
        case TextBlock():
            said = {"type": "text", "text": block.text, **_own(block.native)}
            return said if block.text.strip() else None
        case ToolCall():
            return _write_call(block)
        case ToolResult():
            return {
                "type": "tool_result",
                "tool_use_id": _write_id(block.tool_call_id),
                # The API refuses an error without a word.
                "content": block.output or ("error" if block.is_error else ""),
                "is_error": block.is_error,
            }
        case ThinkingBlock():
            return _write_thinking(block)
        case MediaBlock():
            return {"type": block.kind, "source": _source(block)}
        case ProviderBlock():
            return dict(block.value) if block.provider == NAME else None


def _own(native: Mapping[str, Any] | None) -> Value:
    return dict((native or {}).get(NAME, {}))


def _write_call(call: ToolCall) -> Value:
    own = _own(call.native)
    if own.get("caller") == _DIRECT:  # what the API takes it for without being told
        del own["caller"]
    # Arguments that are no JSON object go back in the form that Anthropic's documentation gives.
    given = call.input if call.malformed is None else {"INVALID_JSON": call.malformed}
    name = own.pop("name", None) or wire_name(call.name)
    return {"type": "tool_use", "id": _write_id(call.id), "name": name, "input": given, **own}


def _write_id(call_id: str) -> str:
    """Return a call's id; another provider's may have characters that this API refuses."""
    if _ID.fullmatch(call_id):
        return call_id
    return f"toolu_{sha256(call_id.encode()).hexdigest()[:24]}"


def _write_thinking(block: ThinkingBlock) -> Value | None:
    own = _own(block.native)
    if not own or block.redacted:
        return own or None
    signed = {} if block.signature is None else {"signature": block.signature}
    return {**own, "thinking": block.text, **signed}


def _source(media: MediaBlock) -> Value:
    if media.url is not None:
        return {"type": "url", "url": media.url}
    if media.data is None:
        raise model_failure("invalid_request", f"the {media.kind} has neither data nor a URL")
    if media.kind == "document" and media.media_type.startswith("text/"):
        return {"type": "text", "media_type": "text/plain", "data": _decoded(media.data)}
    if media.kind == "document" and media.media_type != "application/pdf":
        raise model_failure(
            "invalid_request",
            f"Anthropic's API reads PDF and text as documents, not `{media.media_type}`",
            fix="convert the document to PDF or text",
        )
    return {"type": "base64", "media_type": media.media_type, "data": media.data}


def _decoded(data: str) -> str:
    try:
        return base64.b64decode(data, validate=True).decode()
    except (binascii.Error, ValueError) as error:
        raise model_failure("invalid_request", f"the text document is no text: {error}") from error
