"""Answers of the responses API, read to blocks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from clawhive_core import (
    ContentBlock,
    LlmResponse,
    ModelError,
    ProviderBlock,
    StopReason,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    WireTable,
    model_failure,
)
from clawhive_openai.failures import body_failure
from clawhive_openai.responses_calls import is_ours, read_call
from clawhive_openai.settings import Server
from clawhive_openai.usage import read_usage
from clawhive_openai.values import Json, arguments_of, listed, made_id, mapping, text

_INCOMPLETE: dict[str, StopReason] = {
    "max_output_tokens": "max_tokens",
    "max_tokens": "max_tokens",
    "content_filter": "content_filter",
}
_BLOCKED = frozenset(
    {"invalid_prompt", "content_filter", "content_policy_violation", "bio_policy"}
    | {"misalignment_policy_violation", "image_content_policy_violation"}
)
"""Codes of a failed answer that mean: the prompt itself was not let through."""


def read_responses(answer: Json, table: WireTable[Json], server: Server) -> LlmResponse:
    """Return a whole answer.

    Raises:
        ModelError: The answer failed, is not finished, or is no answer of this API.
    """
    if answer.get("object") != "response" and not isinstance(answer.get("output"), list):
        if answer.get("error"):
            raise body_failure(answer["error"])
        raise model_failure("invalid_response", "the answer holds no `output`")
    return assemble(answer, read_items(listed(answer.get("output")), table, server.name), server)


def read_items(items: Iterable[Any], table: WireTable[Json], name: str) -> tuple[ContentBlock, ...]:
    """Return the blocks of an answer's items, in their order."""
    seen: set[str] = set()
    return tuple(block for item in items for block in read_item(mapping(item), seen, table, name))


def read_item(
    item: Json, seen: set[str], table: WireTable[Json], name: str
) -> Sequence[ContentBlock]:
    """Return the blocks of one item; what is neither text, reasoning nor call stays as it is.

    Args:
        item: An item of an answer's output.
        seen: The ids of the answer's calls so far: a call without one, or with one of these,
            gets another, since the next turn names its result by it.
        table: The tools that were offered.
        name: The server's.
    """
    item = _with_own_id(item, seen)
    native = {name: {"item": item}}
    match item.get("type"):
        case "message":
            return _message(item, name)
        case "reasoning":
            return [_reasoning(item, native)]
        case "function_call":
            return _function_call(item, table, native)
        case "custom_tool_call":
            tool = table.canonical(text(item.get("name")))
            words = {"input": text(item.get("input"))}
            return [ToolCall(item["call_id"], tool, words, native=native)]
        case _ if is_ours(item):
            return read_call(item, table, name)
        case _:
            return [ProviderBlock(name, item)]


def _message(item: Json, name: str) -> Sequence[ContentBlock]:
    """Return a message's texts and refusals; the first takes the item along, for all of them."""
    parts = [mapping(part) for part in listed(item.get("content"))]
    blocks: list[ContentBlock] = []
    for part in parts:
        native: dict[str, Any] = {"item": item}
        if blocks:
            native["part"] = len(blocks)
        if part.get("type") == "refusal":
            blocks.append(TextBlock(text(part.get("refusal")), {name: native}))
        elif part.get("type") == "output_text":
            blocks.append(TextBlock(text(part.get("text")), {name: native}))
    return blocks or [ProviderBlock(name, item)]


def _reasoning(item: Json, native: Json) -> ThinkingBlock:
    """Return what the model thought: its summary, else the thoughts themselves."""
    parts = listed(item.get("summary")) or listed(item.get("content"))
    words = "\n\n".join(text(mapping(part).get("text")) for part in parts)
    signature = text(item.get("encrypted_content")) or None
    return ThinkingBlock(words, signature, redacted=not words, native=native)


def _function_call(item: Json, table: WireTable[Json], native: Json) -> Sequence[ToolCall]:
    """Return a call; none where the answer was cut within its arguments."""
    written = item.get("arguments")
    value, malformed = arguments_of(written)
    empty = not written or not str(written).strip()
    if item.get("status") == "incomplete" and (malformed is not None or empty):
        return []
    name = table.canonical(text(item.get("name")))
    return [ToolCall(item["call_id"], name, value, malformed=malformed, native=native)]


def _with_own_id(item: Json, seen: set[str]) -> Json:
    if item.get("type") not in {"function_call", "custom_tool_call"} and not is_ours(item):
        return item
    # An approval request knows no other id than its own.
    key = "id" if item.get("type") == "mcp_approval_request" else "call_id"
    call_id = text(item.get(key))
    if not call_id or call_id in seen:
        call_id = made_id()
    seen.add(call_id)
    return {**item, key: call_id}


def assemble(answer: Json, content: tuple[ContentBlock, ...], server: Server) -> LlmResponse:
    """Return the response that an answer and its blocks make.

    Raises:
        ModelError: The answer failed or is not finished.
    """
    model = text(answer.get("model"))
    stop, raw = _stop(answer, content)
    return LlmResponse(
        content,
        stop,
        read_usage(answer.get("usage"), model, server),
        model or None,
        text(answer.get("id")) or None,
        raw,
    )


def _stop(answer: Json, content: tuple[ContentBlock, ...]) -> tuple[StopReason, str | None]:
    status = text(answer.get("status"))
    reason = text(mapping(answer.get("incomplete_details")).get("reason"))
    if status == "failed":
        error = mapping(answer.get("error"))
        if error.get("code") not in _BLOCKED:
            raise _failed(error)
        return "content_filter", text(error["code"])
    if status in {"queued", "in_progress", "cancelled"}:
        raise model_failure("invalid_response", f"the answer is not finished but `{status}`")
    stop: StopReason = _INCOMPLETE.get(reason, "other") if status == "incomplete" else "end_turn"
    if status not in {"", "completed", "incomplete"}:
        stop = "other"
    if stop != "max_tokens" and any(isinstance(block, ToolCall) for block in content):
        stop = "tool_use"
    elif stop == "end_turn" and _refused(answer):
        stop = "refusal"
    return stop, reason or status or None


def _failed(error: Json) -> ModelError:
    return body_failure(error or {"message": "the answer failed without saying why"})


def _refused(answer: Json) -> bool:
    items = map(mapping, listed(answer.get("output")))
    parts = (mapping(part) for item in items for part in listed(item.get("content")))
    return any(part.get("type") == "refusal" for part in parts)
