"""Answers of chat completions, read to blocks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from clawhive_core import (
    ContentBlock,
    LlmResponse,
    ProviderBlock,
    StopReason,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    WireTable,
    model_failure,
)
from clawhive_openai.failures import body_failure
from clawhive_openai.settings import Server
from clawhive_openai.usage import read_usage
from clawhive_openai.values import Json, arguments_of, listed, made_id, mapping, text

_REASONS: dict[str, StopReason] = {
    **dict.fromkeys(("stop", "tool_calls", "tool_use", "function_call", ""), "end_turn"),
    **dict.fromkeys(("eos", "eos_token", "end_turn", "complete", "stop_token"), "end_turn"),
    **dict.fromkeys(("stop_sequence", "stop_str"), "stop_sequence"),
    **dict.fromkeys(("length", "model_length", "max_tokens", "max_length"), "max_tokens"),
    **dict.fromkeys(("max_output_tokens", "model_context_window_exceeded"), "max_tokens"),
    **dict.fromkeys(("content_filter", "safety", "sensitive", "recitation"), "content_filter"),
    **dict.fromkeys(("prohibited_content", "blocklist", "spii", "guardrail"), "content_filter"),
    "refusal": "refusal",
}
"""`tool_use` follows from the calls that are there, whatever the server says."""
KEPT = ("images", "thinking_blocks", "extra_content")
"""Fields of a message that their servers want back: pictures (OpenRouter), another API's signed
thoughts (LiteLLM), signatures (Gemini)."""


def read_chat(answer: Json, table: WireTable[Json], server: Server) -> LlmResponse:
    """Return a whole answer; of several choices the first.

    Raises:
        ModelError: The answer is an error, or `invalid_response` where it is no chat completion.
    """
    choice = mapping(next(iter(listed(answer.get("choices"))), None))
    error = answer.get("error") or choice.get("error")
    if error or answer.get("object") == "error":
        raise body_failure(error or answer)
    raw = text(choice.get("finish_reason"))
    if not isinstance(choice.get("message"), dict) and not raw:  # Azure's filter leaves it out
        raise model_failure("invalid_response", "the answer holds no message")
    stop = _REASONS.get(raw.lower(), "other")
    message = mapping(choice.get("message"))
    content = tuple(_blocks(message, table, server.name, cut=stop == "max_tokens"))
    model = text(answer.get("model"))
    return LlmResponse(
        content,
        _stop(stop, content, refused=bool(text(message.get("refusal")))),
        read_usage(answer.get("usage"), model, server),
        model or None,
        text(answer.get("id")) or None,
        raw or None,
    )


def _stop(stop: StopReason, content: tuple[ContentBlock, ...], *, refused: bool) -> StopReason:
    if stop == "max_tokens":
        return stop
    if any(isinstance(block, ToolCall) for block in content):
        return "tool_use"
    return "refusal" if refused and stop == "end_turn" else stop


def _blocks(
    message: Json, table: WireTable[Json], name: str, *, cut: bool
) -> Iterator[ContentBlock]:
    yield from _thinking(message, name)
    yield from _content(message.get("content"), name)
    refusal = text(message.get("refusal"))
    if refusal:
        yield TextBlock(refusal, {name: {"refusal": True}})
    if message.get("audio"):
        yield ProviderBlock(name, {"audio": message["audio"]})
    kept = {key: message[key] for key in KEPT if message.get(key)}
    if kept:
        yield ProviderBlock(name, {"message": kept})
    calls = _numbered(message)
    for index, call in enumerate(calls):
        yield from _call(call, table, name, cut=cut and index == len(calls) - 1)
    legacy = mapping(message.get("function_call"))
    if legacy and not calls:
        native = {name: {"function_call": legacy}}
        yield from _function(made_id(), legacy, table, native, cut=cut)


def _numbered(message: Json) -> list[Json]:
    """Return a message's calls, each with an id of its own."""
    calls: list[Json] = []
    seen = {""}
    for call in map(mapping, listed(message.get("tool_calls"))):
        call_id = text(call.get("id"))
        calls.append({**call, "id": made_id() if call_id in seen else call_id})
        seen.add(call_id)
    return calls


def _thinking(message: Json, name: str) -> Iterator[ThinkingBlock]:
    details = listed(message.get("reasoning_details"))
    field = next((key for key in ("reasoning_content", "reasoning") if text(message.get(key))), "")
    if details:
        words = text(message.get(field)) or "".join(map(detail_text, details))
        yield ThinkingBlock(words, native={name: {"reasoning_details": details}})
    elif field:
        yield ThinkingBlock(message[field], native={name: {field: message[field]}})


def detail_text(detail: Any) -> str:
    """Return what can be read of one of OpenRouter's `reasoning_details`."""
    fields = mapping(detail)
    return text(fields.get("text")) or text(fields.get("summary"))


def _content(content: Any, name: str) -> Iterator[ContentBlock]:
    """Yield a message's content: a text, or the parts that Mistral's models answer in."""
    if text(content):
        yield TextBlock(content)
    for part in listed(content):
        fields = mapping(part)
        if fields.get("type") == "text":
            if text(fields.get("text")):
                more = any(fields[key] for key in fields.keys() - {"type", "text"})
                yield TextBlock(fields["text"], {name: {"part": fields}} if more else None)
        elif fields.get("type") == "thinking":
            yield ThinkingBlock(part_text(fields), native={name: {"part": fields}})
        else:
            yield ProviderBlock(name, fields)


def part_text(part: Json) -> str:
    """Return the text of a part of type `thinking`, which is a text or a list of texts."""
    inner = part.get("thinking")
    pieces = (text(mapping(each).get("text")) for each in listed(inner))
    return text(inner) or "".join(pieces)


def _call(call: Json, table: WireTable[Json], name: str, *, cut: bool) -> Iterator[ToolCall]:
    call_id = text(call["id"])
    native = {name: {"call": {key: value for key, value in call.items() if key != "index"}}}
    kind = text(call.get("type"))
    inner = mapping(call.get(kind))
    if mapping(call.get("function")):
        yield from _function(call_id, mapping(call["function"]), table, native, cut=cut)
    elif kind == "custom":
        tool = table.canonical(text(inner.get("name")))
        yield ToolCall(call_id, tool, {"input": text(inner.get("input"))}, native=native)
    else:  # a kind that is not known yet: the server waits for its result as for any other's
        tool = table.canonical(text(inner.get("name")) or kind)
        yield ToolCall(
            call_id, tool, {k: v for k, v in inner.items() if k != "name"}, native=native
        )


def _function(
    call_id: str, function: Json, table: WireTable[Json], native: Json, *, cut: bool
) -> Iterator[ToolCall]:
    """Yield a call, unless the answer was cut within its arguments."""
    written = function.get("arguments")
    value, malformed = arguments_of(written)
    unfinished = malformed is not None or (isinstance(written, str) and not written.strip())
    if cut and unfinished:
        return
    name = table.canonical(text(function.get("name")))
    yield ToolCall(call_id, name, value, malformed=malformed, native=native)
