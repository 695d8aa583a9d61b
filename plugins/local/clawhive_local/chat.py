"""A request as the body of a chat completion."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from clawhive_core import (
    ContentBlock,
    LlmMessage,
    LlmRequest,
    MediaBlock,
    TextBlock,
    ToolCall,
    ToolResult,
    model_failure,
)
from clawhive_local.grammar import held


def body_of(request: LlmRequest) -> dict[str, Any]:
    """Return the body; tools are not in it, see `constrained_request`.

    Raises:
        ModelError: `invalid_request`: there is nothing to answer, or media.
    """
    messages = list(_messages(request.messages))
    if not messages:
        raise model_failure("invalid_request", "there is no message to answer")
    if request.system:
        messages.insert(0, {"role": "system", "content": request.system})
    body: dict[str, Any] = {"messages": messages, "max_tokens": request.max_tokens}
    if request.temperature is not None:
        body["temperature"] = request.temperature
    if request.response_schema is not None:
        schema = {"name": "answer", "schema": held(request.response_schema)}
        body["response_format"] = {"type": "json_schema", "json_schema": schema}
    return {**body, **request.options, "stream": True, "stream_options": {"include_usage": True}}


def _messages(messages: Sequence[LlmMessage]) -> Iterator[dict[str, str]]:
    for message in messages:
        text = "\n\n".join(filter(None, map(_text, message.content)))
        if text:
            yield {"role": message.role, "content": text}


def _text(block: ContentBlock) -> str:
    """Return a block as the model reads it; thoughts and others' blocks are left out."""
    match block:
        case TextBlock():
            return block.text
        case ToolCall():
            called = {"tool": block.name, "arguments": dict(block.input)}
            return json.dumps(called, ensure_ascii=False)
        case ToolResult():
            return f"{'The tool failed' if block.is_error else 'The tool gave'}:\n{block.output}"
        case MediaBlock():
            raise model_failure("invalid_request", f"local models are shown no {block.kind}")
        case _:
            return ""
