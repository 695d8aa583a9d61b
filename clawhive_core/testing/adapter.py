"""What every model adapter must keep to."""

# ruff: noqa: S101 - what the suite finds wrong is an AssertionError, as in the tests that call it

from __future__ import annotations

from typing import TYPE_CHECKING, Any, get_args

from clawhive_core.model.messages import (
    ContentBlock,
    LlmMessage,
    LlmRequest,
    LlmResponse,
    StopReason,
    Usage,
)
from clawhive_core.model.tools import ToolCall, ToolDef, ToolResult
from clawhive_core.protocols.adapter import LlmAdapter, StreamEvent

if TYPE_CHECKING:
    from clawhive_core.testing.wire_check import Wire, WireReport

_TOOL = ToolDef(
    "test.echo",
    "Answer its text.",
    {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
)
_COUNTS = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens")


async def check_adapter(
    adapter: LlmAdapter, model: str = "test", wire: Wire | None = None
) -> WireReport | None:
    """Hold a model adapter against its protocol, and against recorded exchanges of its API.

    It is asked three times, by `chat` and by `stream`: a text, the same with a tool on offer, and a
    conversation with a tool's result. What the model says is its own affair; the types, the ids of
    calls, the reason to stop and the shape of the stream are checked.

    Args:
        adapter: The adapter, over the real provider, a recording or a script; it is closed after.
        model: The part after the colon.
        wire: How to make it for another address, and the recordings; see `check_wire`. Broken
            answers are a suite of their own, `check_faults`.

    Raises:
        AssertionError: With the question and what was wrong.
    """
    _check_facts(adapter)
    try:
        for what, request in _questions(model).items():
            check_response(await adapter.chat(request), f"chat, {what}")
            events = [event async for event in adapter.stream(request)]
            check_stream(events, f"stream, {what}")
    finally:
        await adapter.close()
    if wire is None:
        return None
    from clawhive_core.testing.wire_check import check_wire

    return await check_wire(wire)


def _questions(model: str) -> dict[str, LlmRequest]:
    asked = LlmMessage.text("user", "Say hello.")
    call = ToolCall("call_1", _TOOL.name, {"text": "hello"})
    conversation = (
        asked,
        LlmMessage("assistant", (call,)),
        LlmMessage("user", (ToolResult(call.id, "hello", structured={"text": "hello"}),)),
    )
    return {
        "a text": LlmRequest(model, (asked,), system="You are polite.", max_tokens=64),
        "a tool on offer": LlmRequest(model, (asked,), tools=(_TOOL,), max_tokens=64),
        "a tool's result": LlmRequest(model, conversation, tools=(_TOOL,), max_tokens=64),
    }


def _check_facts(adapter: LlmAdapter) -> None:
    name: Any = getattr(adapter, "name", None)
    assert isinstance(name, str), f"`name` must be a text, not {name!r}"
    assert name, "`name` must not be empty"
    assert ":" not in name, f"`name` is what stands before the colon, and {name!r} holds one"
    for field in ("host", "default_host"):
        host: Any = getattr(adapter, field, "")
        assert host is None or (isinstance(host, str) and host), (
            f"`{field}` must be a host's name, or None where nothing leaves the process: {host!r}"
        )
    supports: Any = getattr(adapter, "supports_tools", None)
    assert isinstance(supports, bool), f"`supports_tools` must be a bool, not {supports!r}"


def check_response(response: Any, where: str) -> None:
    """Hold one response against its type."""
    assert isinstance(response, LlmResponse), (
        f"{where}: answered {type(response).__name__}, not LlmResponse"
    )
    content: Any = response.content
    assert isinstance(content, tuple), f"{where}: `content` must be a tuple"
    for block in response.content:
        assert isinstance(block, get_args(ContentBlock)), (
            f"{where}: `content` holds {type(block).__name__}, which is no content block"
        )
        assert not isinstance(block, ToolResult), f"{where}: a model answers no tool results"
    assert response.stop_reason in get_args(StopReason), (
        f"{where}: the stop reason {response.stop_reason!r} is none of {get_args(StopReason)}"
    )
    _check_calls(response, where)
    _check_usage(response.usage, where)


def _check_calls(response: LlmResponse, where: str) -> None:
    calls = response.tool_calls
    assert response.stop_reason != "tool_use" or calls, f"{where}: `tool_use` without a tool call"
    assert not calls or response.stop_reason in {"tool_use", "max_tokens"}, (
        f"{where}: {len(calls)} tool calls and the stop reason {response.stop_reason!r}"
    )
    ids = [call.id for call in calls]
    assert all(ids), f"{where}: a tool call has no id; an adapter makes one up"
    assert len(set(ids)) == len(ids), f"{where}: two tool calls have one id: {ids}"
    for call in calls:
        value: Any = call.input
        assert isinstance(value, dict), f"{where}: the input of {call.name} is no object"


def _check_usage(usage: Any, where: str) -> None:
    assert isinstance(usage, Usage), f"{where}: `usage` is {type(usage).__name__}, not Usage"
    for field in _COUNTS:
        count = getattr(usage, field)
        assert count is None or (isinstance(count, int) and count >= 0), (
            f"{where}: `usage.{field}` is {count!r}"
        )


def check_stream(events: list[StreamEvent], where: str) -> None:
    """Hold a stream's events against each other and against the response that they end in."""
    assert events, f"{where}: it yields nothing"
    kinds = [event.kind for event in events]
    assert kinds.count("done") == 1, f"{where}: it must yield exactly one `done`: {kinds}"
    last = events[-1]
    assert last.kind == "done", f"{where}: `done` must come last: {kinds}"
    assert last.response is not None, f"{where}: `done` must carry the whole response"
    check_response(last.response, where)
    said = "".join(event.text for event in events if event.kind == "text")
    assert said == last.response.text, (
        f"{where}: the pieces of text make {said!r}, the response says {last.response.text!r}"
    )
    called = tuple(event.block for event in events if event.kind == "tool_use")
    assert called == last.response.tool_calls, f"{where}: the calls are not the response's"
