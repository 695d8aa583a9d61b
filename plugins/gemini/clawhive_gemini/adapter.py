"""The adapter: requests and responses of ClawHive to and from `generateContent`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing
from typing import Any, cast

from clawhive_core import LlmRequest, LlmResponse, StreamEvent, WireTools
from clawhive_gemini.answer import Answer
from clawhive_gemini.connection import Connection
from clawhive_gemini.parts import NAME
from clawhive_gemini.request import body_of, declaration, path_of
from clawhive_gemini.settings import BASE_URL, Settings


class GeminiAdapter:
    """Speaks to the Gemini API.

    Args:
        settings: Where it is reached.
        env: The environment, from which the key is read at each call.
    """

    name = NAME
    supports_tools = True

    def __init__(self, settings: Settings, env: Mapping[str, str]) -> None:
        self.host: str | None = settings.host
        self.default_host: str | None = Settings(BASE_URL).host
        self._connection = Connection(settings, env)
        self._tools: WireTools[dict[str, Any]] = WireTools(declaration)

    async def chat(self, request: LlmRequest) -> LlmResponse:
        """Answer a request.

        Raises:
            ModelError: The API or the connection failed, or the API cannot do what is asked.
        """
        table = self._tools.table(request.tools)
        body = body_of(request, table)
        value = await self._connection.post(path_of(request.model, "generateContent"), body)
        # A stream that was asked for without server-sent events is one list.
        streamed = isinstance(value, list)
        answer = Answer(table, streamed=streamed)
        for piece in cast("list[Any]", value) if streamed else [value]:
            for _ in answer.take(piece):
                pass
        return answer.response()

    async def stream(self, request: LlmRequest) -> AsyncIterator[StreamEvent]:
        """Answer piece by piece.

        Raises:
            ModelError: As `chat`; a stream that ends early is `invalid_response`.
        """
        table = self._tools.table(request.tools)
        body = body_of(request, table)
        path = path_of(request.model, "streamGenerateContent?alt=sse")
        answer = Answer(table, streamed=True)
        async with aclosing(self._connection.stream(path, body)) as pieces:
            async for piece in pieces:
                for event in answer.take(piece):
                    yield event
        yield StreamEvent("done", response=answer.response())

    async def close(self) -> None:
        """Close the connections."""
        await self._connection.close()
