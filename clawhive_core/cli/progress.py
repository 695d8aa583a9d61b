"""A running run on a terminal: the line about its progress, and a model's text as it comes."""

from __future__ import annotations

import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
from threading import RLock, Timer
from typing import TYPE_CHECKING, Any, Self

from clawhive_core.cli.output import OthersText, is_terminal, note
from clawhive_core.cli.settings import Settings
from clawhive_core.model.canonical import preview
from clawhive_core.model.texts import printable

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.live import Live

    from clawhive_core.execution.scope import Signal

DELAY_SECONDS = 0.3
"""The time that a run must take before it gets a line."""
_REDRAWN = 8
"""Times a second."""
_BAR_WIDTH = 20


class ProgressLine:
    """One line on stderr, redrawn in place and gone at the end.

    What listeners are told only changes what is drawn next, so that telling never waits for the
    terminal. Whoever prints while a run goes on does it through `write` or within `hidden`.

    Args:
        shown: Whether there is a terminal that wants it; without one nothing is ever drawn.
    """

    def __init__(self, *, shown: bool) -> None:
        self._shown = shown
        self._lock = RLock()
        self._timer: Timer | None = None
        self._live: Live | None = None
        self._spinner: Any = None
        self._hidden = 0
        self._at_margin = True
        self._programs = OthersText(err=True)
        self._facts: tuple[str, float, float | None] = ("", 0, None)
        self._detail = ""

    def __enter__(self) -> Self:
        """Do nothing yet: the line comes with `begin`."""
        return self

    def __exit__(self, *_: object) -> None:
        """Take the line away for good."""
        with self._lock:
            self._shown = False
            self._erase()
            self._programs.close()
            if self._timer is not None:
                self._timer.cancel()

    def begin(self) -> None:
        """Draw the line in a moment; what has ended by then gets none."""
        with self._lock:
            if self._shown and self._timer is None:
                self._timer = Timer(DELAY_SECONDS, self._draw)
                self._timer.daemon = True
                self._timer.start()

    def take(self, signal: Signal) -> None:
        """Take note of how far a run, or a tool of it, is."""
        if signal.kind == "step":
            name, _, _ = self._facts
            self._facts = (signal.text or name, signal.done, signal.total)
            self._detail = ""
        elif signal.kind == "progress":
            self._detail = _detail(signal)

    def write(self, text: str) -> None:
        """Print what a program says; the line comes back below it, once it stands below."""
        if not self._shown:
            self._programs.write(text)
            return
        with self._lock:
            self._erase()
            self._programs.write(text)
            self._at_margin = text.endswith("\n") if text else self._at_margin
            self.begin()

    @contextmanager
    def hidden(self) -> Generator[None]:
        """Leave the terminal to somebody else."""
        with self._lock:
            self._hidden += 1
            self._erase()
        try:
            yield
        finally:
            with self._lock:
                self._hidden -= 1
                self.begin()

    def _draw(self) -> None:
        with self._lock:
            self._timer = None
            if self._live is not None or self._hidden or not (self._shown and self._at_margin):
                return
            from rich.live import Live
            from rich.spinner import Spinner

            self._spinner = self._spinner or Spinner("dots")
            self._live = Live(
                console=_console(),
                get_renderable=self._line,
                refresh_per_second=_REDRAWN,
                transient=True,
                redirect_stdout=is_terminal(sys.stdout),
            )
            self._live.start()

    def _erase(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _line(self) -> RenderableType:
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        name, done, total = self._facts
        text = " ".join(each for each in (name, self._detail) if each)
        row: list[RenderableType] = [self._spinner]
        if total is not None:
            row += [ProgressBar(total, done, _BAR_WIDTH), Text(f"{done:g}/{total:g}")]
        grid = Table.grid(padding=(0, 1))
        for _ in row:
            grid.add_column(no_wrap=True)
        grid.add_column(no_wrap=True, overflow="ellipsis")
        grid.add_row(*row, Text(text, no_wrap=True, overflow="ellipsis"))
        return grid


def progress_line(settings: Settings, *, as_json: bool) -> ProgressLine:
    """Return the line of a command: drawn on a terminal, for people who want it."""
    dumb = os.environ.get("TERM", "dumb") in {"dumb", "unknown"}
    wanted = not (as_json or settings.quiet or dumb)
    return ProgressLine(shown=wanted and is_terminal(sys.stderr))


def _console() -> Any:
    from rich.console import Console

    class Steady(Console):
        """A console that never hides the cursor: a killed process could not bring it back."""

        def show_cursor(self, show: bool = True) -> bool:
            return show

    return Steady(stderr=True)


def _detail(signal: Signal) -> str:
    """Return how far a tool is, without what would steer the terminal."""
    count = f"{signal.done:g}" if signal.total is None else f"{signal.done:g}/{signal.total:g}"
    return printable(f"{signal.tool}: {preview(signal.text) or count}")


class LiveText:
    """Prints pieces of text to stdout at once, and knows what it has printed of each answer.

    Args:
        line: The progress line, which makes room.
    """

    def __init__(self, line: ProgressLine) -> None:
        self._line = line
        self._text = OthersText()
        self._step = ""
        self._said = ""

    def take(self, step_id: str, text: str) -> None:
        """Print a piece of the answer of a step."""
        with self._line.hidden():
            if step_id != self._step:
                self._break()
            self._step, self._said = step_id, self._said + text
            self._text.write(text)

    def pause(self) -> None:
        """Print what is held back of a line, as something else goes on."""
        with self._line.hidden():
            self._text.flush()

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
        self._text.end()
        self._step, self._said = "", ""
