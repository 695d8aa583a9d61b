"""Requests as chat completions take them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from clawhive_core import (
    ContentBlock,
    LlmMessage,
    LlmRequest,
    MediaBlock,
    ProviderBlock,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    ToolDef,
    ToolResult,
    WireTable,
    wire_name,
)
from clawhive_openai.parameters import (
    data_url,
    effort,
    plain_text,
    schema_format,
    unsupported,
    with_options,
)
from clawhive_openai.settings import Server
from clawhive_openai.values import Json, arguments_text, mapping, short_id

MAX_ID = 40
"""Characters of a call's id that OpenAI takes here."""
THOUGHTS = ("reasoning_content", "reasoning", "reasoning_details")
"""Fields of a message in which servers put the model's reasoning."""
_SOUNDS = {"audio/wav": "wav", "audio/x-wav": "wav", "audio/mpeg": "mp3", "audio/mp3": "mp3"}


def chat_tool(tool: ToolDef, wire: str) -> Json:
    """Return a tool as the API is sent it."""
    function = {
        "name": wire,
        "description": tool.description,
        "parameters": tool.parameters,
    }
    return {"type": "function", "function": function}


def chat_body(request: LlmRequest, table: WireTable[Json], server: Server) -> dict[str, Any]:
    """Return the request's body, without `stream`.

    Raises:
        ModelError: `invalid_request` for what the API cannot take.
    """
    own = server.is_openai
    limit = "max_completion_tokens" if own else "max_tokens"
    limited = request.options.keys() & {"max_completion_tokens", "max_tokens"}
    schema = request.response_schema
    body: dict[str, Any] = {
        "model": request.model,
        "messages": _messages(request, server),
        "tools": [*table.payload] or None,
        "tool_choice": _choice(request),
        limit: None if limited else request.max_tokens,
        "temperature": request.temperature,
        "reasoning_effort": effort(request, own=own),
        "prompt_cache_key": request.cache_hints.get("key") if own else None,
    }
    if schema is not None:
        body["response_format"] = {"type": "json_schema", "json_schema": schema_format(request)}
    return with_options(body, request.options)


def _choice(request: LlmRequest) -> Any:
    if not request.tools or request.tool_choice == "auto":
        return None
    if request.tool_choice in {"none", "required"}:
        return request.tool_choice
    return {"type": "function", "function": {"name": wire_name(request.tool_choice)}}


def _messages(request: LlmRequest, server: Server) -> list[Json]:
    found: list[Json] = []
    if request.system:
        found.append({"role": "system", "content": request.system})
    legacy = dict(_legacy_calls(request.messages, server.name))
    for message in request.messages:
        if message.role == "assistant":
            found += _assistant(message, server)
        else:
            found += _user(message.content, legacy)
    return found


def _legacy_calls(messages: Sequence[LlmMessage], name: str) -> Iterator[tuple[str, str]]:
    """Yield id and name of calls that came as `function_call`, which knows no ids."""
    for message in messages:
        for block in message.content:
            if isinstance(block, ToolCall):
                call = mapping(_own(block.native, name).get("function_call"))
                if call:
                    yield block.id, call["name"]


def _user(content: Sequence[ContentBlock], legacy: Json) -> Iterator[Json]:
    """Yield one message of role `tool` for each result, then what else is said."""
    rest: list[TextBlock | MediaBlock] = []
    for block in content:
        if isinstance(block, ToolResult):
            yield _result(block, legacy)
        elif isinstance(block, TextBlock | MediaBlock):
            rest.append(block)
    if rest:
        yield {"role": "user", "content": _content(rest)}


def _result(result: ToolResult, legacy: Json) -> Json:
    name = legacy.get(result.tool_call_id)
    if name is not None:
        return {"role": "function", "name": name, "content": result.output}
    call_id = short_id(result.tool_call_id, MAX_ID)
    return {"role": "tool", "tool_call_id": call_id, "content": result.output}


def _content(blocks: Sequence[TextBlock | MediaBlock]) -> Any:
    """Return text alone as text, which every server takes, else a list of parts."""
    texts = [block.text for block in blocks if isinstance(block, TextBlock)]
    if len(texts) == len(blocks):
        return "\n\n".join(texts)
    return [_part(block) for block in blocks]


def _part(block: TextBlock | MediaBlock) -> Json:
    if isinstance(block, TextBlock):
        return {"type": "text", "text": block.text}
    if block.kind == "image":
        return {"type": "image_url", "image_url": {"url": data_url(block)}}
    words = plain_text(block)
    if words is not None:
        return {"type": "text", "text": words}
    if block.data is None:
        raise unsupported("chat completions take no documents by URL; send their bytes")
    sound = _SOUNDS.get(block.media_type)
    if sound is not None:
        return {"type": "input_audio", "input_audio": {"data": block.data, "format": sound}}
    ending = block.media_type.rpartition("/")[2]
    return {
        "type": "file",
        "file": {"filename": f"document.{ending}", "file_data": data_url(block)},
    }


def _assistant(message: LlmMessage, server: Server) -> Iterator[Json]:
    """Yield the model's turn as one message, nothing where all of it was another provider's."""
    turn: dict[str, Any] = {"role": "assistant", "content": None}
    words: list[str] = []
    parts: list[Json] = []
    calls: list[Json] = []
    for block in message.content:
        if isinstance(block, TextBlock):
            own = _own(block.native, server.name)
            if own.get("refusal"):
                turn["refusal"] = block.text
            else:
                words.append(block.text)
                parts.append(own.get("part") or {"type": "text", "text": block.text})
        elif isinstance(block, ToolCall):
            calls += _call(block, server, turn)
        else:
            _add_own(block, server.name, turn, parts)
    whole = "".join(words)
    plain = [{"type": "text", "text": each} for each in words]
    turn["content"] = parts if parts != plain else whole or turn["content"]
    if calls:
        turn["tool_calls"] = calls
    if turn["content"] is None and len(turn) > 2 and not turn.keys() & {"tool_calls", "refusal"}:  # noqa: PLR2004 - role and content
        turn["content"] = ""
    if len(turn) > 2 or turn["content"]:  # noqa: PLR2004 - role and content
        yield turn


def _call(call: ToolCall, server: Server, turn: dict[str, Any]) -> list[Json]:
    """Return a call as it came, or by its fields where it came from elsewhere."""
    native = _own(call.native, server.name)
    if native.get("function_call"):
        turn["function_call"] = native["function_call"]
        return []
    raw = dict(mapping(native.get("call")))
    kept = mapping(raw.get("function"))
    if raw and not kept:
        return [{**raw, "id": call.id}]
    function = {"name": wire_name(call.name), "arguments": arguments_text(call)}
    bad = call.malformed is not None and not server.is_openai
    if bad or not isinstance(kept.get("arguments"), str):
        # Servers that read the arguments of former calls refuse the whole request over bad ones,
        # and those that send an object still take a text only.
        kept = {key: value for key, value in kept.items() if key != "arguments"}
    call_id = call.id if raw else short_id(call.id, MAX_ID)
    return [{"type": "function", **raw, "id": call_id, "function": {**function, **kept}}]


def _add_own(block: ContentBlock, name: str, turn: dict[str, Any], parts: list[Json]) -> None:
    """Put back what only the server itself understands; another's is left out."""
    if isinstance(block, ThinkingBlock):
        native = _own(block.native, name)
        turn.update({field: native[field] for field in THOUGHTS if field in native})
        if "part" in native:
            parts.append(native["part"])
    elif isinstance(block, ProviderBlock) and block.provider == name:
        if "audio" in block.value:
            turn["audio"] = {"id": mapping(block.value["audio"]).get("id")}
        elif "message" in block.value:
            turn.update(block.value["message"])
        else:
            parts.append(block.value)


def _own(native: Json | None, name: str) -> Json:
    return mapping((native or {}).get(name))
