"""The adapter: one server, one of two APIs, native or constrained tool calls."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Protocol

from clawhive_core import (
    LlmRequest,
    LlmResponse,
    ModelError,
    StreamEvent,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    ToolDef,
    ToolProbe,
    WireTable,
    WireTools,
)
from clawhive_openai.api import Api
from clawhive_openai.chat_request import chat_body, chat_tool
from clawhive_openai.chat_response import read_chat
from clawhive_openai.chat_stream import ChatStream
from clawhive_openai.responses_request import responses_body, responses_tool
from clawhive_openai.responses_response import read_responses
from clawhive_openai.responses_stream import ResponsesStream
from clawhive_openai.settings import DEFAULT_HOST, Server
from clawhive_openai.values import Json


class _Stream(Protocol):
    def feed(self, chunk: Json, /) -> Iterator[StreamEvent]: ...
    def finish(self) -> LlmResponse: ...


class _Body(Protocol):
    def __call__(
        self, request: LlmRequest, table: WireTable[Json], server: Server, /
    ) -> dict[str, Any]: ...


class _Read(Protocol):
    def __call__(self, answer: Json, table: WireTable[Json], server: Server, /) -> LlmResponse: ...


class _Reader(Protocol):
    def __call__(self, table: WireTable[Json], server: Server, /) -> _Stream: ...


class _Tool(Protocol):
    def __call__(self, tool: ToolDef, wire: str, /) -> Json: ...


@dataclass(frozen=True, slots=True)
class _Dialect:
    """One way of speaking to an API."""

    path: str
    tool: _Tool
    body: _Body
    read: _Read
    stream: _Reader
    streaming: Json
    """Further parameters of a streamed request."""


_CHAT = _Dialect(
    "/chat/completions",
    chat_tool,
    chat_body,
    read_chat,
    ChatStream,
    {"stream_options": {"include_usage": True}},
)
_RESPONSES = _Dialect(
    "/responses", responses_tool, responses_body, read_responses, ResponsesStream, {}
)


class OpenAIAdapter:
    """Serves the models of one server (`clawhive_core.LlmAdapter`).

    Args:
        server: Which server, and how it is spoken to.
        env: The environment, in which the key is.
    """

    default_host = DEFAULT_HOST

    def __init__(self, server: Server, env: Mapping[str, str]) -> None:
        self.name = server.name
        self.host = server.host
        self._server = server
        self._api = Api(server, env)
        self._dialect = _RESPONSES if server.dialect == "responses" else _CHAT
        self._tools: WireTools[Json] = WireTools(self._dialect.tool)
        self._probe = ToolProbe(self._ask, server.probes)

    @property
    def supports_tools(self) -> bool:
        """Whether native tool calls are tried; where they are ignored, calls work all the same."""
        return self._server.probes != "constrained"

    async def chat(self, request: LlmRequest) -> LlmResponse:
        """Answer a request.

        Raises:
            ModelError: See `model_failure`.
        """
        return await self._probe.chat(request)

    async def stream(self, request: LlmRequest) -> AsyncIterator[StreamEvent]:
        """Answer piece by piece; the last event is `done`.

        Raises:
            ModelError: See `model_failure`.
        """
        began = self._probe.avoids(request)
        if not began:
            try:
                async with aclosing(self._streamed(request)) as events:
                    async for event in events:
                        began = True
                        yield event
            except ModelError as error:
                refused = error.code == "invalid_request" and self._probe.is_open(request)
                if began or not refused:
                    raise
            else:
                return
        response = await self._probe.chat(request)
        for event in _said(response):
            yield event

    async def _streamed(self, request: LlmRequest) -> AsyncGenerator[StreamEvent]:
        """Yield the events of an answer by native calls."""
        called = 0
        table = self._tools.table(request.tools)
        reader = self._dialect.stream(table, self._server)
        body = {**self._body(request, table), **self._streaming(request)}
        with self._api.translated():
            async with aclosing(self._api.stream(self._dialect.path, body)) as chunks:
                async for chunk in chunks:
                    for event in reader.feed(chunk):
                        called += event.kind == "tool_use"
                        yield event
            native = reader.finish()
        response = await self._probe.settle(request, native)
        for call in response.tool_calls[called:]:
            yield StreamEvent("tool_use", block=call)
        yield StreamEvent("done", response=response)

    async def close(self) -> None:
        """Close the connections of this event loop; the next request opens new ones."""
        await self._api.close()

    async def _ask(self, request: LlmRequest) -> LlmResponse:
        table = self._tools.table(request.tools)
        body = self._body(request, table)
        with self._api.translated():
            answer = await self._api.post(self._dialect.path, body)
            return self._dialect.read(answer, table, self._server)

    def _streaming(self, request: LlmRequest) -> Json:
        """Return what a streamed request holds beside; the user's options count more."""
        own = self._dialect.streaming
        return {name: own[name] for name in own.keys() - request.options.keys()}

    def _body(self, request: LlmRequest, table: WireTable[Json]) -> dict[str, Any]:
        return self._dialect.body(request, table, self._server)


def _said(response: LlmResponse) -> Iterator[StreamEvent]:
    """Yield the events of an answer that came at once."""
    for block in response.content:
        if isinstance(block, TextBlock):
            yield StreamEvent("text", block.text)
        elif isinstance(block, ThinkingBlock):
            yield StreamEvent("thinking", block.text)
        elif isinstance(block, ToolCall):
            yield StreamEvent("tool_use", block=block)
    yield StreamEvent("done", response=response)
