"""The pieces of a chat completion as one LlmResponse."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from clawhive_core import (
    ContentBlock,
    LlmResponse,
    StopReason,
    StreamEvent,
    TextBlock,
    ThinkingBlock,
    Usage,
    model_failure,
    status_code,
)

NAME = "local"
_STOPS: Mapping[str, StopReason] = {"stop": "end_turn", "length": "max_tokens"}


class Answer:
    """Takes the pieces of an answer in their order."""

    def __init__(self, model: str) -> None:
        self._model = model
        self._id: str | None = None
        self._text: list[str] = []
        self._thinking: list[str] = []
        self._stop: str | None = None
        self._usage = Usage()

    def take(self, piece: Mapping[str, Any]) -> Iterator[StreamEvent]:
        """Take one piece, and yield what it adds.

        Raises:
            ModelError: It is an error, or not of the form that pieces have.
        """
        try:
            if "error" in piece:
                raise _failure(piece["error"])
            yield from self._taken(piece)
        except (AttributeError, TypeError) as error:
            what = f"llama.cpp's answer cannot be read: {error}"
            raise model_failure("invalid_response", what) from error

    def _taken(self, piece: Mapping[str, Any]) -> Iterator[StreamEvent]:
        self._id = _text(piece.get("id")) or self._id
        if piece.get("usage"):
            self._usage = _usage(piece["usage"])
        choices: Sequence[Mapping[str, Any]] = piece.get("choices") or ()
        for choice in choices:
            self._stop = _text(choice.get("finish_reason")) or self._stop
            delta: Mapping[str, Any] = choice.get("delta") or {}
            thought, said = _text(delta.get("reasoning_content")), _text(delta.get("content"))
            if thought:
                self._thinking.append(thought)
                yield StreamEvent("thinking", thought)
            if said:
                self._text.append(said)
                yield StreamEvent("text", said)

    def response(self) -> LlmResponse:
        """Return the whole answer.

        Raises:
            ModelError: `invalid_response`: it has no end.
        """
        if self._stop is None:
            raise model_failure("invalid_response", "llama.cpp stopped before the answer's end")
        content: list[ContentBlock] = []
        if self._thinking:
            content.append(ThinkingBlock("".join(self._thinking), native={NAME: {}}))
        if self._text:
            content.append(TextBlock("".join(self._text)))
        stop = _STOPS.get(self._stop, "other")
        return LlmResponse(
            tuple(content), stop, self._usage, self._model, self._id, raw_stop_reason=self._stop
        )


def _text(value: Any) -> str:
    if value is not None and not isinstance(value, str):
        raise TypeError(f"{type(value).__name__} instead of text")
    return value or ""


def _usage(counts: Mapping[str, Any]) -> Usage:
    details: Mapping[str, Any] = counts.get("prompt_tokens_details") or {}
    return Usage(
        _count(counts.get("prompt_tokens")),
        _count(counts.get("completion_tokens")),
        _count(details.get("cached_tokens")),
        cost=0.0,
    )


def _count(value: Any) -> int | None:
    return value if type(value) is int and value >= 0 else None


def _failure(given: Any) -> Exception:
    error = cast("dict[str, Any]", given) if isinstance(given, dict) else {"message": given}
    code = error.get("code")
    status = code if type(code) is int else 500
    too_long = error.get("type") == "exceed_context_size_error"
    return model_failure(
        "request_too_large" if too_long else status_code(status),
        f"llama.cpp: {error.get('message', 'failed')}",
        status=status,
        fix="raise `plugins.local.context`, or start a new session" if too_long else None,
    )
