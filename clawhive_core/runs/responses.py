"""The responses of models: their limits, their texts made readable, and whether they are of use."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, cast

from clawhive_core.catalog.bounded import Overdue
from clawhive_core.errors import ModelError, RunError
from clawhive_core.model.canonical import preview
from clawhive_core.model.embeddings import Embeddings
from clawhive_core.model.failures import model_failure
from clawhive_core.model.json_values import MAX_DEPTH, SAFE_INTEGER
from clawhive_core.model.late import dataclass
from clawhive_core.model.messages import (
    ContentBlock,
    LlmMessage,
    LlmResponse,
    MediaBlock,
    TextBlock,
    Usage,
)
from clawhive_core.model.texts import well_formed
from clawhive_core.model.tools import ToolCall
from clawhive_core.protocols.adapter import StreamEvent

LIMITS = {
    "size": "limits.response_bytes",
    "events": "limits.response_events",
    "seconds": "limits.response_sec",
}
"""The settings of the limits."""

MAX_REASKS = 2
"""The number of times that a model is asked again, in one turn, for an answer that can be used."""

CUT_SHORT = frozenset({"refusal", "content_filter", "max_tokens"})
"""Reasons to stop that leave no answer, and calls that nobody should make."""
_NUMBERS = (int, float)
_NEXT = {
    "max_tokens": "raise `model.max_tokens`, or ask for less at once",
    "refusal": "the model declines; put it otherwise, or choose another model",
    "content_filter": "the provider's filter stopped it; put it otherwise, or choose another model",
}
_GOES_ON = CUT_SHORT | {"pause_turn"}

_CUT = "(nested too deep)"
_ROWS = (list, tuple)
_NESTS = (dict, *_ROWS)
_VALUE_BYTES = 8
"""The size of everything that is no text, so that a million empty lists are not free."""
_NUMBER_BYTES = 4
"""The size of one number of a vector in the log."""


@dataclass(frozen=True, slots=True)
class ResponseLimits:
    """The bounds of every response, whatever adapter gives it."""

    size: int = 32 * 1024 * 1024
    """Bytes of all that a response holds: text, thinking, arguments of calls, media, vectors."""
    events: int = 1_000_000
    """Events of a stream."""
    seconds: float = 1_800.0
    """From the first attempt to the end of the answer, with all attempts and waits."""

    def check(self, response: Any, called: str) -> None:
        """Refuse a whole response that is too large.

        Raises:
            ModelError: `response_too_large`.
        """
        if isinstance(response, Embeddings):
            numbers = len(response.vectors) * response.dimension
            used = numbers * _NUMBER_BYTES + approximate_size(response.model, self.size)
        else:
            used = approximate_size(response, self.size)
        if used > self.size:
            raise _too_large(called, f"{self.size} bytes", "size")


class PartialResponse:
    """The part of a stream that came so far, counted against the limits.

    Args:
        limits: What it may come to.
        called: The model.
    """

    def __init__(self, limits: ResponseLimits, called: str) -> None:
        self._limits = limits
        self._called = called
        self.begin(0.0)

    def begin(self, seconds: float) -> None:
        """Begin a stream, which may take so long; nothing of an earlier one counts."""
        self._ends = time.monotonic() + seconds
        self.events = 0
        self._size = 0
        self._texts: list[str] = []

    @property
    def text(self) -> str:
        """The text that came."""
        return "".join(self._texts)

    def take(self, event: StreamEvent) -> None:
        """Count an event, and keep its text.

        Raises:
            ModelError: `response_too_large`.
            Overdue: The time is up, and nothing else could say so: the stream never waits.
        """
        self.events += 1
        if self.events > self._limits.events:
            raise _too_large(self._called, f"{self._limits.events} events", "events")
        self._size += approximate_size(event.text, self._limits.size)
        if event.block is not None:
            self._size += approximate_size(event.block, self._limits.size)
        if self._size > self._limits.size:
            raise _too_large(self._called, f"{self._limits.size} bytes", "size")
        if event.kind == "text":
            self._texts.append(str(event.text))
        if time.monotonic() > self._ends:
            raise Overdue("stopped")


def approximate_size(value: Any, most: int) -> int:
    """Return about how many bytes a value holds; what is above `most` is not looked at further."""
    used, levels = 0, [iter((value,))]
    while levels:
        for each in levels[-1]:
            used += _own(each, most - used)
            if used > most:
                return used
            inner = _inside(each)
            if inner is not None:
                levels.append(inner)
                break
        else:
            levels.pop()
    return used


def _own(value: Any, left: int) -> int:
    """Return what a value holds itself, what is inside it left out."""
    if isinstance(value, str):
        if value.isascii() or len(value) > left:
            return len(value)
        return len(value.encode("utf-8", "surrogatepass"))
    if isinstance(value, bytes | bytearray):
        return len(value)
    if isinstance(value, int):
        return max(_VALUE_BYTES, value.bit_length() // 8)
    return _VALUE_BYTES


def _inside(value: Any) -> Iterator[Any] | None:
    if isinstance(value, Mapping):
        return chain.from_iterable(cast("Mapping[Any, Any]", value).items())
    if isinstance(value, list | tuple | set | frozenset):
        return iter(cast("list[Any]", value))
    fields = getattr(cast("object", value), "__dataclass_fields__", None)
    return None if fields is None else (getattr(value, name) for name in fields)


def _too_large(called: str, most: str, limit: str) -> ModelError:
    return model_failure(
        "response_too_large",
        f"the answer of `{called}` holds more than {most}",
        fix=f"ask for less at once, or raise `{LIMITS[limit]}`",
    )


def readable(response: LlmResponse) -> LlmResponse:
    """Return a response that everybody can read and count, the same where it is one.

    Half of a surrogate pair in a text is written as its escape. Arguments that are nested too deep
    become `malformed`, cut. Its usage is `countable`.
    """
    if (usage := countable(response.usage)) is not response.usage:
        response = replace(response, usage=usage)
    for block in response.content:
        if _readable(block) is not block:
            return replace(response, content=tuple(map(_readable, response.content)))
    return response


def countable(usage: Usage) -> Usage:
    """Return a usage as a budget can count it, the same where it is so.

    What a server bills is its own word: a figure that is no number, endless or below nothing, would
    lift the budget, and becomes None.
    """
    said = (
        usage.input_tokens,
        usage.output_tokens,
        usage.cache_read_tokens,
        usage.cache_write_tokens,
    )
    cost = usage.cost
    if cost is None or type(cost) not in _NUMBERS or not 0 <= cost < math.inf:
        cost = None
    tokens = [each if type(each) is int and 0 <= each <= SAFE_INTEGER else None for each in said]
    found = Usage(*tokens, cost=cost)
    return usage if found == usage else found


def _readable(block: ContentBlock) -> ContentBlock:
    if isinstance(block, TextBlock):
        text = well_formed(block.text)
        return block if text is block.text else replace(block, text=text)
    return _bounded(block) if isinstance(block, ToolCall) and _is_deep(block) else block


def _is_deep(call: ToolCall) -> bool:
    if _nested_in(call.input) and is_deeper(call.input, MAX_DEPTH):
        return True
    return call.native is not None and is_deeper(call.native, 2 * MAX_DEPTH)


def _bounded(call: ToolCall) -> ToolCall:
    written = call.malformed
    if written is None:
        written = json.dumps(_cut(call.input, MAX_DEPTH), default=str)
    native = None if is_deeper(call.native, 2 * MAX_DEPTH) else call.native
    return replace(call, input={}, malformed=written, native=native)


def is_deeper(value: Any, most: int) -> bool:
    """Whether lists and objects are nested more than `most` levels deep, one at least."""
    level = [value]
    for _ in range(most):
        level = [inner for each in level for inner in _nested_in(each)]
        if not level:
            return False
    return True


def _nested_in(value: Any) -> list[Any]:
    """Return the lists and objects in a list or an object."""
    if isinstance(value, dict):
        items = cast("dict[str, Any]", value).values()
    elif isinstance(value, _ROWS):
        items = cast("Sequence[Any]", value)
    else:
        return []
    return [each for each in items if isinstance(each, _NESTS)]


def _cut(value: Any, left: int) -> Any:
    if not isinstance(value, _NESTS):
        return value
    if not left:
        return _CUT
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        return {key: _cut(each, left - 1) for key, each in fields.items()}
    return [_cut(each, left - 1) for each in cast("Sequence[Any]", value)]


@dataclass(frozen=True, slots=True)
class Unusable:
    """The fault of an answer of which nothing can be used."""

    code: str
    message: str
    told: str
    """The message for the model, so that it answers again."""
    fix: str

    def error(self, response: LlmResponse) -> RunError:
        """Return the error of a run whose model answered like this to the end."""
        raw, said = response.raw_stop_reason, preview(response.text, 200)
        more = (f"; it stopped with {raw}" if raw else "") + (f" (after: {said})" if said else "")
        return RunError(f"{self.message}{more}", code=self.code, fix=self.fix)


_MALFORMED = Unusable(
    "model_malformed_call",
    "the model wrote a tool call that its provider could not read",
    "Your last answer is lost: the tool call in it could not be read. Call the tool again by its "
    "exact name, with arguments that are one JSON object of its schema; or answer in text.",
    "choose another model with `--model`, or ask for less at once: long or deeply nested "
    "arguments break most often",
)
_EMPTY = Unusable(
    "model_no_answer",
    "the model answered nothing: no text and no tool call",
    "Your last answer was empty. Go on: call a tool, or answer in text.",
    "look at what it was told with `clawhive runs show last`; put it otherwise, or choose another "
    "model",
)


def unusable(response: LlmResponse) -> Unusable | None:
    """Return what is wrong with an answer, None where it can be used or was cut short."""
    if response.stop_reason == "malformed_call":
        return _MALFORMED
    if response.stop_reason in _GOES_ON:
        return None
    for block in response.content:
        if isinstance(block, ToolCall | MediaBlock):
            return None
        if isinstance(block, TextBlock) and block.text.strip():
            return None
    return _EMPTY


def with_remark(last: LlmMessage, remark: str) -> list[LlmMessage]:
    """Return a conversation's last message with a remark to the model after it.

    What a user says is one message: some models take no two of one role after each other.
    """
    if last.role == "user":
        return [LlmMessage("user", (*last.content, TextBlock(remark)))]
    return [last, LlmMessage.text("user", remark)]


def cut_short(response: LlmResponse) -> RunError:
    """Return the error of an answer that was cut short."""
    reason = response.stop_reason
    said = preview(response.text, 200)
    return RunError(
        f"the model stopped without an answer: {reason}" + (f" (after: {said})" if said else ""),
        code=f"model_{reason}",
        fix=_NEXT[reason],
    )


def no_answer(response: LlmResponse) -> RunError | None:
    """Return why an answer is none, where its model is asked once only; None where it is one."""
    if response.stop_reason in CUT_SHORT:
        return cut_short(response)
    problem = unusable(response)
    return None if problem is None else problem.error(response)


def stop_reason_warning(response: LlmResponse) -> dict[str, str] | None:
    """Return the warning about an answer that stopped for a reason nobody knows, else None."""
    if response.stop_reason != "other":
        return None
    reason = response.raw_stop_reason or "the provider does not say"
    return {
        "code": "unknown_stop_reason",
        "message": f"the model stopped for a reason that is not known: {reason}; its answer may "
        "not be whole",
    }
