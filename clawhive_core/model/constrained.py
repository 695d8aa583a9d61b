"""Tool calls as a JSON-schema-constrained response, for models whose server ignores native ones.

The model is shown the tools in its system prompt and must answer one JSON object: a call, several
calls, or an answer. The server holds it to the schema; what is no such object is no call.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast
from uuid import uuid4

from clawhive_core.model.failures import model_failure
from clawhive_core.model.messages import (
    ContentBlock,
    LlmMessage,
    LlmRequest,
    LlmResponse,
    TextBlock,
)
from clawhive_core.model.tools import ToolCall, ToolDef, ToolResult

_TEXT: Mapping[str, Any] = {"type": "string"}


def constrained_request(request: LlmRequest) -> LlmRequest:
    """Return the same question without native tools: the answer's schema holds the choice.

    Former calls and their results become text, since a server that ignores tools does not show
    them to the model either.
    """
    offered = _offered(request)
    return replace(
        request,
        system="\n\n".join(filter(None, (request.system, _prompt(request, offered)))),
        messages=tuple(_as_text(request.messages)),
        tools=(),
        tool_choice="auto",
        response_schema=choice_schema(offered, _answer_schema(request)),
    )


def choice_schema(
    tools: Sequence[ToolDef], answer: Mapping[str, Any] | None = _TEXT
) -> dict[str, Any]:
    """Return the schema of a choice: `{"tool": NAME, "arguments": {...}}` or `{"answer": ...}`.

    Args:
        tools: The tools to choose from.
        answer: The schema of an answer; None where a tool must be called.
    """
    definitions: dict[str, Any] = {}
    branches = [_branch(tool, f"tool{index}", definitions) for index, tool in enumerate(tools)]
    if answer is not None:
        branches.append(_object({"answer": _moved(answer, "answer", definitions)}))
    schema: dict[str, Any] = {"anyOf": branches}
    return {**schema, "$defs": definitions} if definitions else schema


def constrained_response(response: LlmResponse) -> LlmResponse:
    """Return the response that a constrained one means: a call, or the answer as text.

    Raises:
        ModelError: `invalid_response`: the text is no choice, so the server ignored the schema.
    """
    others = tuple(block for block in response.content if not isinstance(block, TextBlock))
    if response.stop_reason not in {"end_turn", "other", "stop_sequence"}:
        return replace(response, content=others)
    chosen = _parsed(response.text)
    if "answer" in chosen:
        answer = chosen["answer"]
        words = answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False)
        return replace(response, content=(*others, TextBlock(words)), stop_reason="end_turn")
    name, arguments = chosen.get("tool"), chosen.get("arguments")
    if not isinstance(name, str) or not isinstance(arguments, dict):
        raise model_failure("invalid_response", "the answer chooses neither a tool nor an answer")
    call = ToolCall(f"call_{uuid4().hex}", name, cast("dict[str, Any]", arguments))
    return replace(response, content=(*others, call), stop_reason="tool_use")


def _offered(request: LlmRequest) -> Sequence[ToolDef]:
    named = [tool for tool in request.tools if tool.name == request.tool_choice]
    return named or request.tools


def _answer_schema(request: LlmRequest) -> Mapping[str, Any] | None:
    if request.tool_choice == "auto":
        return request.response_schema or _TEXT
    return None


def _prompt(request: LlmRequest, offered: Sequence[ToolDef]) -> str:
    lines = [
        json.dumps(
            {"tool": tool.name, "description": tool.description, "arguments": tool.parameters},
            ensure_ascii=False,
        )
        for tool in offered
    ]
    answer = ', or {"answer": ...} to answer' if _answer_schema(request) is not None else ""
    task = (
        "You can use the tools below, one at a time. Write one JSON object and nothing else: "
        f'{{"tool": NAME, "arguments": {{...}}}} to use a tool{answer}. You are then shown '
        "what the tool gave."
    )
    return "\n".join((task, *lines))


def _as_text(messages: Sequence[LlmMessage]) -> Iterator[LlmMessage]:
    names: dict[str, str] = {}
    for message in messages:
        yield LlmMessage(message.role, tuple(_block(block, names) for block in message.content))


def _block(block: ContentBlock, names: dict[str, str]) -> ContentBlock:
    if isinstance(block, ToolCall):
        names[block.id] = block.name
        called = {"tool": block.name, "arguments": dict(block.input)}
        return TextBlock(json.dumps(called, ensure_ascii=False))
    if isinstance(block, ToolResult):
        name = names.get(block.tool_call_id, "the tool")
        return TextBlock(f"{name} {'failed' if block.is_error else 'gave'}:\n{block.output}")
    return block


def _branch(tool: ToolDef, key: str, definitions: dict[str, Any]) -> dict[str, Any]:
    arguments = _moved(tool.parameters, key, definitions)
    return _object({"tool": {"type": "string", "const": tool.name}, "arguments": arguments})


def _object(properties: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": [*properties],
        "additionalProperties": False,
    }


def _moved(schema: Mapping[str, Any], key: str, definitions: dict[str, Any]) -> Mapping[str, Any]:
    """Return a schema as it stands inside another; one with references becomes a definition."""
    moved = _with_references(schema, f"#/$defs/{key}")
    if moved == schema:
        return schema
    definitions[key] = moved
    return {"$ref": f"#/$defs/{key}"}


def _with_references(value: Any, root: str) -> Any:
    """Return a schema whose references to its own root lead to `root`."""
    if isinstance(value, list):
        return [_with_references(each, root) for each in cast("list[Any]", value)]
    if not isinstance(value, Mapping):
        return value
    fields = {
        key: _with_references(each, root) for key, each in cast("Mapping[str, Any]", value).items()
    }
    target = fields.get("$ref")
    if isinstance(target, str) and target.startswith("#"):
        fields["$ref"] = root + target[1:]
    return fields


def _parsed(text: str) -> Mapping[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise model_failure(
            "invalid_response", f"the server does not hold to the response schema: {error}"
        ) from error
    return cast("Mapping[str, Any]", value) if isinstance(value, dict) else {}
