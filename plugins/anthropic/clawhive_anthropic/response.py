"""An answer of the Messages API as ours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from clawhive_anthropic.blocks import CONTAINER, NAME, Value, read_block
from clawhive_anthropic.failures import unreadable
from clawhive_anthropic.json_values import well_formed, word
from clawhive_anthropic.prices import read_usage
from clawhive_core import ContentBlock, LlmResponse, ProviderBlock, StopReason, ToolCall, WireTable

_STOPS: Mapping[str, StopReason] = {
    "end_turn": "end_turn",
    "max_tokens": "max_tokens",
    "model_context_window_exceeded": "max_tokens",
    "stop_sequence": "stop_sequence",
    "pause_turn": "pause_turn",
    "compaction": "pause_turn",
    "refusal": "refusal",
}


def read_response(value: Any, table: WireTable[Value]) -> LlmResponse:
    """Return a whole answer.

    Raises:
        ModelError: `invalid_response`: it is no message of the API.
    """
    message: Value = well_formed(value) if isinstance(value, dict) else {}
    content = message.get("content")
    if not isinstance(content, list):
        raise unreadable("it has no content")
    taken: set[str] = set()
    blocks = [read_block(each, table, taken) for each in cast("list[Any]", content)]
    if was_cut(message) and blocks and isinstance(blocks[-1], ToolCall):
        del blocks[-1]  # whether its input is whole is not said
    return response_of(message, blocks)


def was_cut(message: Value) -> bool:
    """Return whether an answer ended for want of tokens."""
    return _STOPS.get(str(message.get("stop_reason"))) == "max_tokens"


def response_of(message: Value, blocks: Sequence[ContentBlock]) -> LlmResponse:
    """Return the answer of these blocks, with what else the message says.

    Calls of an answer that ends in a refusal are left out: the API takes the turn back.
    """
    raw = word(message.get("stop_reason"))
    stop = _STOPS.get(raw or "", "other")
    if stop == "refusal":
        blocks = [block for block in blocks if not isinstance(block, ToolCall)]
    elif stop != "max_tokens" and any(isinstance(block, ToolCall) for block in blocks):
        stop = "tool_use"
    model = word(message.get("model"))
    return LlmResponse(
        (*blocks, *_container(message)),
        stop,
        read_usage(model, message.get("usage")),
        model=model,
        response_id=word(message.get("id")),
        raw_stop_reason=raw,
    )


def _container(message: Value) -> tuple[ProviderBlock, ...]:
    given = message.get("container")
    if not isinstance(given, dict):
        return ()
    return (ProviderBlock(NAME, {"type": CONTAINER, **cast("Value", given)}),)
