"""A conversation as the API's `contents`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from clawhive_core import LlmMessage, ToolCall, ToolResult, model_failure
from clawhive_gemini.parts import SIGNATURE, part_of

_UNSIGNED = "c2tpcF90aG91Z2h0X3NpZ25hdHVyZV92YWxpZGF0b3I="
"""`skip_thought_signature_validator` in base64: what the API's documentation asks for where a call
comes from another model, since Gemini 3 refuses a turn's first call without a signature."""

_CHECKED = re.compile(r"(?:models/)?gemini-(?![12]\b)")


def contents_of(messages: Sequence[LlmMessage], model: str) -> list[dict[str, Any]]:
    """Return the API's `contents`; a message of which nothing can be sent is left out.

    Args:
        messages: The conversation.
        model: The model's name; the first two generations know no signatures of calls.

    Raises:
        ModelError: `invalid_request`: a result without its call, or nothing to send.
    """
    calls: dict[str, Mapping[str, Any]] = {}
    contents: list[dict[str, Any]] = []
    for message in messages:
        parts = list(_parts(message, calls))
        if message.role == "assistant" and _CHECKED.match(model):
            _sign(parts)
        if parts:
            role = "model" if message.role == "assistant" else "user"
            contents.append({"role": role, "parts": parts})
    if not contents:
        raise model_failure("invalid_request", "there is no message that Gemini can be sent")
    return contents


def _parts(message: LlmMessage, calls: dict[str, Mapping[str, Any]]) -> Iterable[dict[str, Any]]:
    for block in message.content:
        if isinstance(block, ToolResult):
            yield _result(block, calls)
            continue
        part = part_of(block)
        if part is not None:
            if isinstance(block, ToolCall):
                calls[block.id] = part["functionCall"]
            yield part


def _result(result: ToolResult, calls: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    call = calls.get(result.tool_call_id)
    if call is None:
        raise model_failure(
            "invalid_request", f"the result of `{result.tool_call_id}` comes without its call"
        )
    named = {key: call[key] for key in ("id", "name") if key in call}
    key = "error" if result.is_error else "output"
    return {"functionResponse": {**named, "response": {key: result.output}}}


def _sign(parts: Sequence[dict[str, Any]]) -> None:
    """Give the turn's first call a signature, where it has none."""
    for part in parts:
        if "functionCall" in part:
            part.setdefault(SIGNATURE, _UNSIGNED)
            return
