"""Noticing a model that asks for the same again and again."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import Any

from clawhive_core.errors import RunError
from clawhive_core.model.canonical import canonical
from clawhive_core.model.late import dataclass
from clawhive_core.model.tools import ToolCall, ToolResult

MAX_EQUAL_CALLS = 3


@dataclass(slots=True)
class Repetition:
    """Counts consecutive calls with equal name and arguments.

    Tools of `polling` may well be asked the same again; of them the answers must be equal too.
    """

    polling: AbstractSet[str]
    _call: ToolCall | None = None
    _calls: int = 0
    _answer: Any = None
    _answers: int = 0

    def ask(self, calls: Sequence[ToolCall]) -> None:
        """Take a turn's calls, before any of them is made.

        Raises:
            RunError: `repeated_call`: one of them is the third in a row.
        """
        for call in calls:
            is_equal = self._call is not None and _are_equal(call, self._call)
            self._calls = self._calls + 1 if is_equal else 1
            self._call = call
            if self._calls >= MAX_EQUAL_CALLS and call.name not in self.polling:
                raise _repeated(call, "")

    def answer(self, calls: Sequence[ToolCall], results: Sequence[ToolResult]) -> None:
        """Take what a turn's calls came to.

        Raises:
            RunError: `repeated_call`: a polling tool answered the same for the third time.
        """
        for call, result in zip(calls, results, strict=True):
            if call.name not in self.polling:
                self._answer, self._answers = None, 0
                continue
            key = (_key(call), result.is_error, result.output)
            self._answers = self._answers + 1 if key == self._answer else 1
            self._answer = key
            if self._answers >= MAX_EQUAL_CALLS:
                raise _repeated(call, " and got the same answer")


def _are_equal(call: ToolCall, before: ToolCall) -> bool:
    """Whether two calls have one name and equal arguments, as JSON counts."""
    if call.name != before.name:
        return False
    try:
        if call.input != before.input:
            return False
    except RecursionError:
        return False  # the executor refuses both, with the reason
    # Only those that look alike are encoded: 1, 1.0 and true are equal to Python, not as JSON.
    return _key(call) == _key(before)


def _key(call: ToolCall) -> tuple[str, Any]:
    if call.malformed is not None:
        return call.name, call.malformed
    try:
        return call.name, canonical(call.input)
    except (TypeError, ValueError, RecursionError):
        return call.name, repr(call.input)  # the executor refuses it, with the reason


def _repeated(call: ToolCall, more: str) -> RunError:
    return RunError(
        f"the model called `{call.name}` {MAX_EQUAL_CALLS} times in a row with equal "
        f"arguments{more}",
        code="repeated_call",
        fix="look at what it got with `clawhive runs show last`; a tool that is meant to be asked "
        "again says `polling` in its manifest",
    )
