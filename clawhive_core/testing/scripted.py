"""A model that answers from a script."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any, cast

from clawhive_core.errors import ModelError
from clawhive_core.model.messages import (
    ContentBlock,
    LlmRequest,
    LlmResponse,
    TextBlock,
    Usage,
    block_from_json,
)
from clawhive_core.model.tools import ToolCall
from clawhive_core.protocols.adapter import StreamEvent

Answer = LlmResponse | str | Callable[[LlmRequest], LlmResponse | str]
"""One answer: a response, its text, or a function of the request."""


class ScriptedModel:
    """Answers requests in the order of a script (`clawhive_core.LlmAdapter`).

    Args:
        script: The answers. Tool calls whose id is empty get `call_ROUND_INDEX`, both from 1.
        name: The part of `PROVIDER:NAME` before the colon.

    Example:
        model = ScriptedModel([calling("file.list", {"path": "."}), "There are two files."])
    """

    host = None
    default_host = None
    supports_tools = True

    def __init__(self, script: Sequence[Answer], name: str = "scripted") -> None:
        self.name = name
        self.requests: list[LlmRequest] = []
        """Every request so far."""
        self._script = tuple(script)

    async def chat(self, request: LlmRequest) -> LlmResponse:
        """Return the next answer.

        Raises:
            ModelError: `script_exhausted` after the last one.
        """
        self.requests.append(request)
        return answer(self._script, len(self.requests), request)

    async def stream(self, request: LlmRequest) -> AsyncIterator[StreamEvent]:
        """Yield the next answer's blocks, then the whole."""
        response = await self.chat(request)
        for event in events_of(response):
            yield event

    async def close(self) -> None:
        """Do nothing: there is nothing to release."""


def answer(script: Sequence[Answer], number: int, request: LlmRequest) -> LlmResponse:
    """Return a script's answer to a request, its tool calls under ids that follow from the round.

    Args:
        script: The answers in order.
        number: Which of them, from 1.
        request: What a function in the script is called with.

    Raises:
        ModelError: `script_exhausted` where the script is shorter.
    """
    if number > len(script):
        raise ModelError(
            f"the script has {len(script)} answers and was asked for number {number}",
            code="script_exhausted",
            fix="add an answer to the script, or end the run earlier",
            data={"answers": len(script)},
        )
    given = script[number - 1]
    response = given(request) if callable(given) else given
    if isinstance(response, str):
        return LlmResponse((TextBlock(response),))
    if not response.tool_calls:
        return response
    return LlmResponse(
        _with_ids(response.content, number),
        response.stop_reason,
        response.usage,
        response.model,
        response.response_id,
        response.raw_stop_reason,
    )


def _with_ids(content: Sequence[ContentBlock], number: int) -> tuple[ContentBlock, ...]:
    blocks = list(content)
    for index, block in enumerate(blocks):
        if isinstance(block, ToolCall) and not block.id:
            blocks[index] = _with_id(block, f"call_{number}_{index + 1}")
    return tuple(blocks)


def _with_id(call: ToolCall, id: str) -> ToolCall:
    return ToolCall(id, call.name, call.input, call.catalog_revision, call.malformed, call.native)


def calling(name: str, input: Mapping[str, Any], text: str = "") -> LlmResponse:
    """Return a response that calls one tool, after some text."""
    said: tuple[ContentBlock, ...] = (TextBlock(text),) if text else ()
    return LlmResponse((*said, ToolCall("", name, input)), "tool_use")


def events_of(response: LlmResponse) -> list[StreamEvent]:
    """Return a whole response as a stream's events."""
    events: list[StreamEvent] = []
    for block in response.content:
        if isinstance(block, TextBlock):
            events.append(StreamEvent("text", block.text))
        elif isinstance(block, ToolCall):
            events.append(StreamEvent("tool_use", block=block))
    return [*events, StreamEvent("done", response=response)]


def response_from_json(value: Any) -> LlmResponse:
    """Return the response that a script's JSON describes.

    A string is its text. An object has `text`, `tool_calls` (`[{"name", "input"}]`) or both, or
    `content` with blocks as the event log holds them; and optionally `stop_reason` and `usage`.

    Raises:
        ValueError: It is neither; the message says what is wrong.
    """
    if isinstance(value, str):
        return LlmResponse((TextBlock(value),))
    if not isinstance(value, dict):
        raise ValueError(f"an answer is a text or an object, not {type(value).__name__}")  # noqa: TRY004 - it is read from a file
    fields = cast("dict[str, Any]", value)
    unknown = fields.keys() - {"text", "tool_calls", "content", "stop_reason", "usage"}
    if unknown or not fields.keys() & {"text", "tool_calls", "content"}:
        raise ValueError("an answer has `text`, `tool_calls` or `content`, and no other keys")
    try:
        content = _content(fields)
        usage = Usage(**fields.get("usage", {}))
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"an answer's blocks or usage are incomplete: {error!r}") from error
    calls = any(isinstance(block, ToolCall) for block in content)
    return LlmResponse(
        content, fields.get("stop_reason", "tool_use" if calls else "end_turn"), usage
    )


def _content(fields: Mapping[str, Any]) -> tuple[ContentBlock, ...]:
    if "content" in fields:
        return tuple(block_from_json(block) for block in fields["content"])
    said: list[ContentBlock] = [TextBlock(str(fields["text"]))] if fields.get("text") else []
    calls = [
        ToolCall(str(call.get("id", "")), str(call["name"]), dict(call.get("input", {})))
        for call in fields.get("tool_calls", ())
    ]
    return (*said, *calls)
