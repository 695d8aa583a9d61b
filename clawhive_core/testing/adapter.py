"""Checks a model adapter against its protocol, recorded exchanges and broken answers."""

# ruff: noqa: S101 - what the suite finds wrong is an AssertionError, as in the tests that call it

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any, get_args

from clawhive_core.errors import ModelError
from clawhive_core.model.late import dataclass
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
from clawhive_core.testing.recordings import Exchange, Recording
from clawhive_core.testing.wire_server import WireAnswer, WireServer
from clawhive_core.testing.wire_turns import Heard, continues, lack, says_failure

_TOOL = ToolDef(
    "test.echo",
    "Answer its text.",
    {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
)
_COUNTS = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens")

PIECES = (1, 7, 61)
"""Bytes: streams are played cut into such pieces, which split lines, events and characters."""


@dataclass(frozen=True, slots=True)
class Wire:
    """The facts about an API that the suite needs."""

    make: Callable[[str], LlmAdapter]
    """Makes the adapter for an API at a base URL, without retries of its SDK."""
    turns: Callable[[Any], list[Any]]
    """Returns the model's turns of a request's body, each a JSON value that is spelled one way."""
    recordings: Sequence[Recording] = ()
    model: str = "test"
    excused: Mapping[str, str] = field(default_factory=dict[str, str])
    """Recordings whose next request is not what the API asks for, each with the reason."""


@dataclass(slots=True)
class WireReport:
    """The report of a conformance run."""

    exchanges: int = 0
    streamed: int = 0
    errors: int = 0
    compared: int = 0
    """Answers that were sent back as a next turn and found equal to the recorded one."""
    tool_calls: int = 0


async def check_adapter(
    adapter: LlmAdapter, model: str = "test", wire: Wire | None = None
) -> WireReport | None:
    """Check a model adapter against its protocol, and against recorded exchanges of its API.

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
    for fact in ("host", "default_host"):
        host: Any = getattr(adapter, fact, "")
        assert host is None or (isinstance(host, str) and host), (
            f"`{fact}` must be a host's name, or None where nothing leaves the process: {host!r}"
        )
    supports: Any = getattr(adapter, "supports_tools", None)
    assert isinstance(supports, bool), f"`supports_tools` must be a bool, not {supports!r}"


def check_response(response: Any, where: str) -> None:
    """Check one response against its type."""
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
    for name in _COUNTS:
        count = getattr(usage, name)
        assert count is None or (isinstance(count, int) and count >= 0), (
            f"{where}: `usage.{name}` is {count!r}"
        )


def check_stream(events: list[StreamEvent], where: str) -> None:
    """Check a stream's events against each other and against the response that they end in."""
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


async def check_wire(wire: Wire) -> WireReport:
    """Play every recorded response to the adapter, and send each back as a next turn.

    Streams are played whole and cut into pieces of `PIECES` bytes; what is read must be the same. A
    status of 400 and above must become a ModelError; another answer only if it says that it failed
    or is not finished. Where a recording goes on, the adapter's next
    request must carry all of the model's turn that the recorded one carries: ids, order,
    signatures; and nothing that neither the model nor the recorded client said (see `lack`).

    Raises:
        AssertionError: With the recording, the exchange and the difference.
    """
    report = WireReport()
    for recording in wire.recordings:
        for index, exchange in enumerate(recording.exchanges):
            where = f"{recording.name}, exchange {index}"
            report.exchanges += 1
            if exchange.status >= 400:  # noqa: PLR2004 - HTTP's errors
                await _check_error(wire, exchange, where)
                report.errors += 1
                continue
            try:
                response = await _play(wire, exchange, where)
            except ModelError as error:
                if not says_failure(exchange.response):
                    raise AssertionError(f"{where}: was refused: {error}") from error
                report.errors += 1
                continue
            report.streamed += exchange.streamed
            report.tool_calls += len(response.tool_calls)
            recorded = _next_turn(wire, recording, index)
            if recorded is not None and recording.name not in wire.excused:
                sent = await _send_back(wire, exchange, response)
                wrong = lack(sent, recorded, Heard(exchange.response))
                assert wrong is None, f"{where}: {wrong}; sent back {sent!r}, recorded {recorded!r}"
                report.compared += 1
    return report


async def ask(
    wire: Wire, answer: WireAnswer, *, stream: bool, messages: tuple[LlmMessage, ...] = ()
) -> tuple[LlmResponse, Any]:
    """Return what the adapter makes of one answer, and the body of the request that it sent."""
    asked = LlmRequest(wire.model, messages or (LlmMessage.text("user", "Go on."),))
    async with WireServer([answer]) as server:
        adapter = wire.make(server.url)
        try:
            if not stream:
                response = await adapter.chat(asked)
                return response, server.requests[0].body if server.requests else None
            events = [event async for event in adapter.stream(asked)]
            check_stream(events, "stream")
            response = events[-1].response
            assert response is not None
            return response, server.requests[0].body
        finally:
            await adapter.close()


async def _play(wire: Wire, exchange: Exchange, where: str) -> LlmResponse:
    answer = WireAnswer.of(exchange.response, exchange.status)
    whole, _ = await ask(wire, answer, stream=exchange.streamed)
    check_response(whole, where)
    if exchange.streamed:
        for piece in PIECES:
            cut = WireAnswer.of(exchange.response, exchange.status, piece=piece)
            again, _ = await ask(wire, cut, stream=True)
            assert without_made_ids(again) == without_made_ids(whole), (
                f"{where}: cut into pieces of {piece} bytes it reads {again!r}, not {whole!r}"
            )
    return whole


async def _check_error(wire: Wire, exchange: Exchange, where: str) -> None:
    answer = WireAnswer.of(exchange.response, exchange.status)
    error = await failure(wire, answer, stream=False, where=where)
    assert error.data.get("status") == exchange.status, f"{where}: {error.data!r}"


async def failure(wire: Wire, answer: WireAnswer, *, stream: bool, where: str) -> ModelError:
    """Return the error that the adapter makes of an answer; it must make one."""
    try:
        response, _ = await ask(wire, answer, stream=stream)
    except ModelError as error:
        caught = error
    else:
        raise AssertionError(f"{where}: was read as {response!r}")
    assert isinstance(caught.data.get("retryable"), bool), f"{where}: {caught.data!r}"
    return caught


async def _send_back(wire: Wire, exchange: Exchange, response: LlmResponse) -> Any:
    """Return the model's turn in the request that follows a response."""
    results: tuple[ContentBlock, ...] = tuple(
        ToolResult(call.id, "done") for call in response.tool_calls
    )
    follow = LlmMessage("user", results) if results else LlmMessage.text("user", "Go on.")
    begun = (LlmMessage.text("user", "Begin."), LlmMessage("assistant", response.content))
    # A paused turn goes on when it is sent back by itself.
    messages = begun if response.stop_reason == "pause_turn" else (*begun, follow)
    answer = WireAnswer.of(exchange.response, exchange.status)
    _, body = await ask(wire, answer, stream=exchange.streamed, messages=messages)
    turns = wire.turns(body)
    assert len(turns) == 1, f"one turn of the model was sent back as {turns!r}"
    return turns[0]


def _next_turn(wire: Wire, recording: Recording, index: int) -> Any:
    """Return how the recorded conversation carries the answer to an exchange; None if nowhere."""
    asked = recording.exchanges[index].request
    before = len(wire.turns(asked))
    for later in recording.exchanges[index + 1 :]:
        turns = wire.turns(later.request)
        if len(turns) > before and continues(later.request, asked):
            return turns[before]
    return None


def without_made_ids(response: LlmResponse) -> Any:
    """Return what of a response must be equal when it is read twice: all but ids made up for it."""
    return [
        (block.name, block.input, block.malformed) if isinstance(block, ToolCall) else block
        for block in response.content
    ], response.stop_reason
