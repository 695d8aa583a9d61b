"""Notices where a server ignores native tool calls, and has calls chosen by the schema there."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Literal

from clawhive_core.errors import ModelError
from clawhive_core.model.constrained import constrained_request, constrained_response
from clawhive_core.model.messages import LlmMessage, LlmRequest, LlmResponse, Usage
from clawhive_core.model.tools import ToolDef

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


class ToolProbe:
    """What is known of one server, by model, and the way to a call that follows from it.

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
