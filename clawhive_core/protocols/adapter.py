"""A model provider, behind one set of types."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Literal, Protocol

from clawhive_core.model.late import dataclass
from clawhive_core.model.messages import ContentBlock, LlmRequest, LlmResponse


@dataclass(frozen=True, slots=True)
class StreamEvent:
    """One piece of a streamed answer; the last one carries the whole response."""

    kind: Literal["text", "thinking", "tool_use", "done"]
    text: str = ""
    block: ContentBlock | None = None
    response: LlmResponse | None = None


class LlmAdapter(Protocol):
    """Converts requests and responses of one model provider."""

    @property
    def name(self) -> str:
        """The part of `PROVIDER:NAME` before the colon."""
        ...

    @property
    def host(self) -> str | None:
        """The host it talks to, None where nothing leaves the process."""
        ...

    @property
    def default_host(self) -> str | None:
        """The provider's own host; another `host` needs a right of its own."""
        ...

    @property
    def supports_tools(self) -> bool:
        """Whether native tool calls work; where not, calls are chosen by a constrained response."""
        ...

    async def chat(self, request: LlmRequest) -> LlmResponse:
        """Answer a request whose `model` is the part after the colon.

        Raises:
            ModelError: With a code and, where known, `data["retry_after"]` in seconds.
        """
        ...

    def stream(self, request: LlmRequest) -> AsyncIterator[StreamEvent]:
        """Answer piece by piece; the last event is `done`."""
        ...

    async def close(self) -> None:
        """Release connections."""
        ...
