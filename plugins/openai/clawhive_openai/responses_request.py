"""Requests as the responses API takes them: stateless, with the model's items as they came."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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
    reasons,
    schema_format,
    unsupported,
    with_options,
)
from clawhive_openai.responses_calls import MAX_ID, result_items
from clawhive_openai.settings import Server
from clawhive_openai.values import Json, arguments_text, mapping, short_id

_NOT_SENT = frozenset({"created_by"})
"""Fields of items that the API says and refuses in those that it is sent."""
ENCRYPTED = "reasoning.encrypted_content"


def responses_tool(tool: ToolDef, wire: str) -> Json:
    """Return a tool as the API is sent it; unset, `strict` would change what its schema means."""
    return {
        "type": "function",
        "name": wire,
        "description": tool.description,
        "parameters": tool.parameters,
        "strict": False,
    }


def responses_body(request: LlmRequest, table: WireTable[Json], server: Server) -> dict[str, Any]:
    """Return the request's body, without `stream`.

    Raises:
        ModelError: `invalid_request` for what the API cannot take.
    """
    schema = request.response_schema
    much = effort(request, own=server.is_openai)
    body: dict[str, Any] = {
        "model": request.model,
        "instructions": request.system,
        "input": _items(request.messages, server),
        "tools": [*table.payload] or None,
        "tool_choice": _choice(request),
        "max_output_tokens": request.max_tokens,
        "temperature": request.temperature,
        "reasoning": None if much is None else {"effort": much},
        "prompt_cache_key": request.cache_hints.get("key"),
        "store": False,
        "include": [ENCRYPTED] if reasons(request.model) else None,
    }
    if schema is not None:
        body["text"] = {"format": {"type": "json_schema", **schema_format(request)}}
    return with_options(body, request.options)


def _choice(request: LlmRequest) -> Any:
    if not request.tools or request.tool_choice == "auto":
        return None
    if request.tool_choice in {"none", "required"}:
        return request.tool_choice
    return {"type": "function", "name": wire_name(request.tool_choice)}


def _items(messages: Sequence[LlmMessage], server: Server) -> list[Json]:
    found: list[Json] = []
    calls = {block.id: _item(block.native, server.name) for block in _calls(messages)}
    for message in messages:
        if message.role == "assistant":
            found += _assistant(message.content, server)
        else:
            found += _user(message.content, calls)
    return found


def _calls(messages: Sequence[LlmMessage]) -> Iterator[ToolCall]:
    for message in messages:
        yield from (block for block in message.content if isinstance(block, ToolCall))


def _item(native: Json | None, name: str) -> Json:
    return mapping(mapping((native or {}).get(name)).get("item"))


def _user(content: Sequence[ContentBlock], calls: Mapping[str, Json]) -> Iterator[Json]:
    rest: list[TextBlock | MediaBlock] = []
    for block in content:
        if isinstance(block, ToolResult):
            yield from result_items(block, calls.get(block.tool_call_id, {}))
        elif isinstance(block, TextBlock | MediaBlock):
            rest.append(block)
    if len(rest) == 1 and isinstance(rest[0], TextBlock):
        yield {"role": "user", "content": rest[0].text}
    elif rest:
        yield {"role": "user", "content": [_part(block) for block in rest]}


def _part(block: TextBlock | MediaBlock) -> Json:
    if isinstance(block, TextBlock):
        return {"type": "input_text", "text": block.text}
    if block.kind == "image":
        return {"type": "input_image", "image_url": data_url(block), "detail": "auto"}
    words = plain_text(block)
    if words is not None:
        return {"type": "input_text", "text": words}
    if block.media_type.startswith(("audio/", "video/")):
        raise unsupported(f"the responses API takes no {block.media_type}")
    if block.data is None:
        return {"type": "input_file", "file_url": block.url}
    ending = block.media_type.rpartition("/")[2]
    return {"type": "input_file", "filename": f"document.{ending}", "file_data": data_url(block)}


def _assistant(content: Sequence[ContentBlock], server: Server) -> Iterator[Json]:
    """Yield the model's items as they came; what another provider's model said by its fields."""
    last: Json = {}
    for block in content:
        if isinstance(block, ProviderBlock):
            if block.provider == server.name:
                yield _sent(block.value)
            continue
        if isinstance(block, ToolResult | MediaBlock):
            continue
        native = mapping((block.native or {}).get(server.name))
        item = mapping(native.get("item"))
        if isinstance(block, ToolCall) and block.malformed is not None and not server.is_openai:
            # Servers that read the arguments of former calls refuse the whole request over them.
            item = {**item, "arguments": arguments_text(block)} if item else item
        if item:
            if not (native.get("part") and item == last):
                yield _sent(item)
            last = item
        else:
            yield from _foreign(block)


def _sent(item: Json) -> Json:
    """Return an item as the API takes it back: as it came, without who made it."""
    kept = {key: value for key, value in item.items() if key not in _NOT_SENT}
    if isinstance(item.get("output"), list):
        kept["output"] = [
            {key: value for key, value in mapping(each).items() if key not in _NOT_SENT}
            for each in item["output"]
        ]
    return kept


def _foreign(block: TextBlock | ThinkingBlock | ToolCall) -> Iterator[Json]:
    if isinstance(block, TextBlock) and block.text:
        yield {"role": "assistant", "content": block.text}
    elif isinstance(block, ToolCall):
        yield {
            "type": "function_call",
            "call_id": short_id(block.id, MAX_ID),
            "name": wire_name(block.name),
            "arguments": arguments_text(block),
        }
