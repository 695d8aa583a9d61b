"""Tool calls as a JSON-schema-constrained response, for models whose server ignores native ones.

The model is shown the tools in its system prompt and must answer one JSON object: a call, several
calls, or an answer. The server holds it to the schema; what is no such object is no call.
`ToolProbe` notices which servers need it.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, cast
from uuid import uuid4

from clawhive_core.errors import ModelError
from clawhive_core.model.failures import model_failure
from clawhive_core.model.messages import (
    ContentBlock,
    LlmMessage,
    LlmRequest,
    LlmResponse,
    TextBlock,
    Usage,
)
from clawhive_core.model.tools import ToolCall, ToolDef, ToolResult

_TEXT: Mapping[str, Any] = {"type": "string"}
Ask = Callable[[LlmRequest], Awaitable[LlmResponse]]
"""Answers a request natively."""

_PING = ToolDef(
    "ping",
    "Answers its word.",
    {
        "type": "object",
        "properties": {"word": {"type": "string"}},
        "required": ["word"],
        "additionalProperties": False,
    },
)
_PROBE = LlmRequest(
    "",
    (LlmMessage.text("user", 'Call the tool `ping` with the word "hello" now.'),),
    tools=(_PING,),
    max_tokens=512,
)


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


class ToolProbe:
    """Support of one server for native calls, by model, and the way to a call that follows from it.

    A native answer with a call is proof. After one without, or after a request with tools that was
    not accepted, the server is asked once for a call of a tool made for it.

    Args:
        ask: Answers a request natively.
        mode: `auto`, or what is known: `native`, `constrained`.
    """

    def __init__(self, ask: Ask, mode: Literal["auto", "native", "constrained"] = "auto") -> None:
        self._ask = ask
        self._mode = mode
        self._ignores: dict[str, bool] = {}

    def avoids(self, request: LlmRequest) -> bool:
        """Whether native calls are known to be ignored, so that the choice is a constrained one."""
        if not request.tools or request.tool_choice == "none":
            return False
        return self._mode == "constrained" or self._ignores.get(request.model, False)

    def is_open(self, request: LlmRequest) -> bool:
        """Whether it is still to be found out if native calls work."""
        asked = bool(request.tools) and request.tool_choice != "none"
        return asked and self._mode == "auto" and request.model not in self._ignores

    async def chat(self, request: LlmRequest) -> LlmResponse:
        """Answer a request by native calls, or by a constrained response.

        Raises:
            ModelError: What `ask` raises; `invalid_response` where the schema is ignored too.
        """
        if self.avoids(request):
            return await self._choose(request)
        try:
            response = await self._ask(request)
        except ModelError as error:
            refused = error.code == "invalid_request" and self.is_open(request)
            if not refused or not (await self._probe(request.model))[0]:
                raise
            return await self._choose(request)
        return await self.settle(request, response)

    async def settle(self, request: LlmRequest, response: LlmResponse) -> LlmResponse:
        """Return a native response, with the call added that its server kept from the model.

        Raises:
            ModelError: What `ask` raises.
        """
        if not self.is_open(request):
            return response
        if response.tool_calls:
            self._ignores[request.model] = False
            return response
        if response.stop_reason not in {"end_turn", "other"}:
            return response
        ignored, usage = await self._probe(request.model)
        response = replace(response, usage=response.usage + usage)
        if not ignored:
            return response
        try:
            chosen = await self._choose(request)
        except ModelError as error:
            if error.code not in {"invalid_response", "invalid_request"}:
                raise
            self._ignores[request.model] = False  # it follows no schema either
            return response
        calls = chosen.tool_calls
        return replace(
            response,
            content=(*response.content, *calls),
            stop_reason="tool_use" if calls else response.stop_reason,
            usage=response.usage + chosen.usage,
        )

    async def _choose(self, request: LlmRequest) -> LlmResponse:
        return constrained_response(await self._ask(constrained_request(request)))

    async def _probe(self, model: str) -> tuple[bool, Usage]:
        """Return whether tools are ignored, and what asking took; a cut answer tells nothing."""
        try:
            response = await self._ask(replace(_PROBE, model=model))
        except ModelError as error:
            if error.code != "invalid_request":
                raise
            ignored, usage = True, Usage()
        else:
            said = response.stop_reason in {"end_turn", "other"}
            ignored, usage = said and not response.tool_calls, response.usage
        self._ignores[model] = ignored
        return ignored, usage
