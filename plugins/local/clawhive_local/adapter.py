"""The adapter: requests and responses of ClawHive to and from llama.cpp."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import replace

from clawhive_core import (
    LlmRequest,
    LlmResponse,
    StreamEvent,
    TextBlock,
    constrained_request,
    constrained_response,
    model_failure,
)
from clawhive_local.answer import NAME, Answer
from clawhive_local.chat import body_of
from clawhive_local.engine import Engine
from clawhive_local.server import Load, load
from clawhive_local.settings import Settings


class LocalAdapter:
    """Runs models in the process.

    Args:
        settings: How.
        load: Loads a GGUF file.
    """

    name = NAME
    host = None
    default_host = None
    supports_tools = False
    """llama.cpp does not hold small models to its native calls: a response that is constrained by
    a JSON Schema over the tools chooses instead."""

    def __init__(self, settings: Settings, load: Load = load) -> None:
        self._engine = Engine(settings, load)

    async def chat(self, request: LlmRequest) -> LlmResponse:
        """Answer a request.

        Raises:
            ModelError: The model cannot be loaded or shown this, or llama.cpp failed.
        """
        response = None
        async for event in self.stream(request):
            response = event.response
        if response is None:
            raise model_failure("invalid_response", "llama.cpp said nothing")
        return response

    async def stream(self, request: LlmRequest) -> AsyncIterator[StreamEvent]:
        """Answer piece by piece; a choice among tools comes at its end.

        Raises:
            ModelError: As `chat`.
        """
        chooses = bool(request.tools) and request.tool_choice != "none"
        asked = constrained_request(request) if chooses else replace(request, tools=())
        answer = Answer(request.model)
        async with aclosing(self._engine.answer(request.model, body_of(asked))) as pieces:
            async for piece in pieces:
                for event in answer.take(piece):
                    if not chooses or event.kind == "thinking":
                        yield event
        response = answer.response()
        if chooses:
            response = constrained_response(response)
            for block in response.content:
                if isinstance(block, TextBlock):
                    yield StreamEvent("text", block.text)
            for call in response.tool_calls:
                yield StreamEvent("tool_use", block=call)
        yield StreamEvent("done", response=response)

    async def close(self) -> None:
        """Unload all models."""
        await self._engine.close()
