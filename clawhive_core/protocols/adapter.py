"""A model provider, behind one set of types."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from contextvars import ContextVar
from typing import Any, Final, Literal, Protocol

from clawhive_core.errors import ModelError
from clawhive_core.model.failures import model_failure
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


MAX_BODY: Final = ContextVar("bytes of the answer that is being read", default=32 * 1024 * 1024)
"""The most bytes of an HTTP answer's body; `Models` sets `limits.response_bytes`."""


async def bound_body(response: Any) -> None:
    """Bound the body of an HTTP answer while an SDK reads it, which by itself takes any size.

    A hook of httpx and httpx2: `event_hooks={"response": [bound_body]}`. The body is counted as it
    is unpacked; of an event stream each event by itself, for only that is held. What is larger ends
    in the ModelError `response_too_large`, which an SDK may wrap: see `body_failure`.

    Args:
        response: The SDK's answer, nothing of whose body was read.
    """
    unpacked, most = response.aiter_bytes, MAX_BODY.get()
    is_stream = response.headers.get("content-type", "").startswith("text/event-stream")

    async def bounded(*args: Any) -> AsyncGenerator[bytes]:
        used, tail = 0, b""
        async with aclosing(unpacked(*args)) as pieces:
            async for piece in pieces:
                used += len(piece)
                if is_stream:
                    near = tail + piece
                    ends = [at + len(end) for end in _ENDS if (at := near.rfind(end)) >= 0]
                    used = len(near) - max(ends) if ends else used
                    tail = near[-3:]
                if used > most:
                    message = f"the body of the answer holds more than {most} bytes"
                    fix = "ask for less at once, or raise `limits.response_bytes`"
                    raise model_failure("response_too_large", message, fix=fix)
                yield piece

    response.aiter_bytes = bounded


_ENDS = (b"\n\n", b"\r\n\r\n", b"\r\r")
"""Ends of an event; the tail of a piece may hold all but the last byte of one."""


def body_failure(error: BaseException) -> ModelError | None:
    """Return the error of `bound_body` that an SDK's error comes from, None where it is another."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, ModelError):
        cause = cause.__cause__ or cause.__context__
    return cause
