"""The most that one answer of a model may be: bytes, events and seconds."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any, cast

from clawhive_core.catalog.bounded import Overdue
from clawhive_core.errors import ModelError
from clawhive_core.model.embeddings import Embeddings
from clawhive_core.model.failures import model_failure
from clawhive_core.model.late import dataclass
from clawhive_core.protocols.adapter import StreamEvent

_VALUE_BYTES = 8
"""What everything that is no text counts, so that a million empty lists are not free."""
_NUMBER_BYTES = 4
"""What one number of a vector takes in the log."""


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
            used = numbers * _NUMBER_BYTES + weight(response.model, self.size)
        else:
            used = weight(response, self.size)
        if used > self.size:
            raise _too_large(called, f"{self.size} bytes", "size")


class Heard:
    """The part of a stream that came so far, counted against the limits.

    Args:
        limits: What it may come to.
        called: The model.
        seconds: From now on.
    """

    def __init__(self, limits: ResponseLimits, called: str, seconds: float) -> None:
        self._limits = limits
        self._called = called
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
        self._size += weight(event.text, self._limits.size)
        if event.block is not None:
            self._size += weight(event.block, self._limits.size)
        if self._size > self._limits.size:
            raise _too_large(self._called, f"{self._limits.size} bytes", "size")
        if event.kind == "text":
            self._texts.append(str(event.text))
        if time.monotonic() > self._ends:
            raise Overdue("stopped")


def weight(value: Any, most: int) -> int:
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


LIMITS = {
    "size": "limits.response_bytes",
    "events": "limits.response_events",
    "seconds": "limits.response_sec",
}
"""The settings of the limits."""
