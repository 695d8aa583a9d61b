"""A model's answer on a terminal, as it comes."""

from __future__ import annotations

from clawhive_core.cli.output import note, put, say
from clawhive_core.cli.progress import ProgressLine


class LiveText:
    """Prints pieces of text to stdout at once, and knows what it has printed of each answer.

    Args:
        line: The progress line, which makes room.
    """

    def __init__(self, line: ProgressLine) -> None:
        self._line = line
        self._step = ""
        self._said = ""

    def take(self, step_id: str, text: str) -> None:
        """Print a piece of the answer of a step."""
        with self._line.hidden():
            if step_id != self._step:
                self._break()
            self._step, self._said = step_id, self._said + text
            put(text)

    def again(self, reason: str) -> None:
        """Say that the answer begins anew, where some of it was printed."""
        with self._line.hidden():
            if self._said:
                self._break()
                note(f"  (the answer broke off and begins anew: {reason})")

    def ended(self, output: object) -> bool:
        """Finish the last line; return whether the run's output is what was printed last."""
        said = self._said
        self._break()
        return said == output

    def _break(self) -> None:
        if self._said and not self._said.endswith("\n"):
            say()
        self._step, self._said = "", ""
