"""An answer of the API, whole or in pieces, as one LlmResponse."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from clawhive_core import (
    ContentBlock,
    LlmResponse,
    StopReason,
    StreamEvent,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    WireTable,
    model_failure,
)
from clawhive_gemini.failures import api_failure
from clawhive_gemini.objects import as_object, object_in, objects_in
from clawhive_gemini.partial_call import PartialCall
from clawhive_gemini.parts import NAME, SIGNATURE, block_of
from clawhive_gemini.usage import usage_of

_STOPS: Mapping[str, StopReason] = {
    "STOP": "end_turn",
    "MAX_TOKENS": "max_tokens",
    "CONTINUATION": "max_tokens",
    "MALFORMED_FUNCTION_CALL": "malformed_call",
    **dict.fromkeys(
        (
            "SAFETY",
            "RECITATION",
            "LANGUAGE",
            "BLOCKLIST",
            "PROHIBITED_CONTENT",
            "SPII",
            "MODEL_ARMOR",
            "ESCALATION",
            "PUP_LIMITED_DISABLED",
            "IMAGE_SAFETY",
            "IMAGE_PROHIBITED_CONTENT",
            "IMAGE_RECITATION",
        ),
        "content_filter",
    ),
}
_NUMBERED = (
    "FINISH_REASON_UNSPECIFIED",
    "STOP",
    "MAX_TOKENS",
    "SAFETY",
    "RECITATION",
    "OTHER",
    "LANGUAGE",
    "BLOCKLIST",
    "PROHIBITED_CONTENT",
    "SPII",
    "MALFORMED_FUNCTION_CALL",
)
"""`Candidate.FinishReason` of google/ai/generativelanguage/v1beta/generative_service.proto."""
_KNOWN = frozenset(
    {"candidates", "promptFeedback", "usageMetadata"}
    | {"modelVersion", "responseId", "createTime", "modelStatus"}
)


class Answer:
    """Takes the pieces of an answer in their order.

    Args:
        table: The tools that were offered.
        streamed: Whether texts that follow each other are pieces of one.
    """

    def __init__(self, table: WireTable[Any], *, streamed: bool) -> None:
        self._table = table
        self._streamed = streamed
        self._blocks: list[ContentBlock] = []
        self._call = PartialCall()
        self._taken: set[str] = set()
        self._usage: Mapping[str, Any] = {}
        self._stop: str | None = None
        self._blocked: str | None = None
        self._model: str | None = None
        self._id: str | None = None

    def take(self, piece: Any) -> Iterator[StreamEvent]:
        """Take one piece, and yield what it adds.

        Raises:
            ModelError: It is an error, or no answer of this API.
        """
        value = _answer(piece)
        self._usage = object_in(value, "usageMetadata") or self._usage
        self._model = _text(value, "modelVersion") or self._model
        self._id = _text(value, "responseId") or self._id
        self._blocked = _text(object_in(value, "promptFeedback"), "blockReason") or self._blocked
        for candidate in objects_in(value, "candidates"):
            # Of several candidates the first is the answer.
            if not candidate.get("index"):
                self._stop = _reason(candidate.get("finishReason")) or self._stop
                yield from self._take_parts(objects_in(object_in(candidate, "content"), "parts"))
                break

    def response(self) -> LlmResponse:
        """Return the whole answer.

        Raises:
            ModelError: `invalid_response`: the stream ended before the answer did.
        """
        raw = self._stop or self._blocked
        if self._streamed and raw is None:
            raise model_failure("invalid_response", "the stream ended before the answer")
        stop = _STOPS.get(raw or "", "other") if self._blocked is None else "content_filter"
        calls = any(isinstance(block, ToolCall) for block in self._blocks)
        return LlmResponse(
            tuple(self._blocks),
            "tool_use" if calls and stop != "max_tokens" else stop,
            usage_of(self._usage, self._model),
            self._model,
            self._id,
            raw,
        )

    def _take_parts(self, parts: Sequence[Mapping[str, Any]]) -> Iterator[StreamEvent]:
        for piece in parts:
            part = self._call.joined(piece)
            if part is None:
                continue
            block = block_of(part, self._table, self._taken)
            match block:
                case TextBlock("", None):
                    continue  # the API ends many streams with an empty text
                case TextBlock() | ThinkingBlock():
                    self._add_text(block)
                    kind = "text" if isinstance(block, TextBlock) else "thinking"
                    if block.text:
                        yield StreamEvent(kind, block.text)
                case ToolCall():
                    self._blocks.append(block)
                    yield StreamEvent("tool_use", block=block)
                case _:
                    self._blocks.append(block)

    def _add_text(self, block: TextBlock | ThinkingBlock) -> None:
        last = self._blocks[-1] if self._blocks and self._streamed else None
        joined = None
        if isinstance(last, TextBlock | ThinkingBlock) and type(last) is type(block):
            joined = _joined(last, block)
        if joined is None:
            self._blocks.append(block)
        else:
            self._blocks[-1] = joined


def _joined(
    last: TextBlock | ThinkingBlock, block: TextBlock | ThinkingBlock
) -> TextBlock | ThinkingBlock | None:
    """Return both pieces as one block; None where a signature ends the first."""
    before, after = ((each.native or {}).get(NAME, {}) for each in (last, block))
    if SIGNATURE in before or after.keys() - before.keys() - {SIGNATURE}:
        return None
    native = {NAME: {**before, **after}} if before or after else None
    text = last.text + block.text
    if isinstance(last, TextBlock):
        return TextBlock(text, native)
    return ThinkingBlock(text, after.get(SIGNATURE), native=native)


def _reason(given: Any) -> str | None:
    """Return the API's word; gateways that ask it for numbers pass those on."""
    if isinstance(given, int) and not isinstance(given, bool):
        return _NUMBERED[given] if 0 <= given < len(_NUMBERED) else str(given)
    return given if isinstance(given, str) else None


def _text(value: Mapping[str, Any], key: str) -> str | None:
    given = value.get(key)
    return given if isinstance(given, str) else None


def _answer(piece: Any) -> Mapping[str, Any]:
    value = as_object(piece, "the answer")
    if "error" in value:
        raise api_failure(value, None, {})
    if not value.keys() & _KNOWN:
        raise model_failure("invalid_response", "the answer holds neither candidates nor feedback")
    return value
