"""Results and errors as they are printed: one JSON object on stdout, or lines for people.

Nothing else of this room writes to the terminal, so that nobody's text steers it or forges a line:
a field is one line (`say`, `note`, `table`), a text of many lines is set off (`put`,
`lines_of_text`, `OthersText`), JSON is escaped as JSON (`print_json`, `print_json_line`). What a
command was asked for goes to a file or program as it is (`hand_over`).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TextIO

import click

from clawhive_core.errors import ClawHiveError, UsageError
from clawhive_core.model.texts import (
    MARK,
    printable,
    printable_json,
    printable_lines,
    set_off,
)

format_option = click.option(
    "--format",
    "output",
    metavar="FORM",
    default="text",
    help="`text`, `json`, `sarif`, `github`, `gitlab` or `junit`.",
)
"""The form in which findings are written; `diagnostics.reports.render` knows the forms."""

_HARMLESS = "\t\xa0\u3000"
"""Characters that Python calls not printable and texts are full of: tabs, two spaces."""


_LONGEST_OF_OURS = 22
"""Characters that tell whether a line begins as one of ours."""


def visible(line: str) -> str:
    """Show what would steer the terminal, turn the line around or hide, as its code."""
    return printable(line, "\t")


def say(*lines: str, err: bool = False, label: tuple[str, str] = ("", "")) -> None:
    """Print lines for people, each of them one line whoever wrote it; none at all is an empty one.

    Args:
        lines: What steers a terminal, also a line's end, is shown as its code.
        err: Whether to print to stderr.
        label: A word to begin with, and its colour, for a terminal that wants any.
    """
    text = "\n".join(printable(line, _HARMLESS) for line in lines)
    _write(_style(*label, _stream(err=err)) + text + "\n", err=err)


def put(text: str, *, err: bool = False) -> None:
    """Print a whole text of somebody else, as `OthersText` does."""
    shown = OthersText(err=err)
    shown.write(text)
    shown.close()


def ask(prompt: str) -> None:
    """Print a prompt of ours on stderr; its answer follows on the same line."""
    _write(printable(prompt, _HARMLESS), err=True)


def lines_of_text(text: str) -> list[str]:
    """Return somebody's text of many lines, to `say` where a text of ours could stand."""
    first, *rest = printable_lines(text, _HARMLESS)
    return [set_off(first), *rest]


class OthersText:
    """Prints somebody else's text, which comes in pieces, so that no line of it passes for ours.

    Args:
        err: Whether to print to stderr, where ours stands and each line is set off; on stdout the
            lines are what was asked for, and only one that begins as ours do is.
    """

    def __init__(self, *, err: bool = False) -> None:
        self.inside = False
        """Whether something of a line is printed, and not its end."""
        self._err = err
        self._buffer = ""
        """The begin of a line of which too little is known."""

    def write(self, text: str) -> None:
        """Print a piece; the first word of a line waits until it is known."""
        *lines, last = text.split("\n")
        shown = [self._next(line, ended=True) for line in lines]
        if last:
            shown.append(self._next(last, ended=False))
        _write("".join(shown), err=self._err, by=self)

    def flush(self) -> None:
        """Print what was held back, as nothing may follow."""
        buffered, self._buffer = self._buffer, ""
        if buffered:
            self.inside = True
            _write(set_off(buffered), err=self._err, by=self)

    def close(self) -> None:
        """Print what was held back, and leave the line as it is."""
        self.flush()
        self.inside = False
        _unended.pop(self._err, None)

    def end(self) -> None:
        """End the line, where one was begun."""
        if self._buffer or self.inside:
            self.write("\n")

    def _next(self, piece: str, *, ended: bool) -> str:
        shown = printable(piece, _HARMLESS)
        if not self.inside:
            shown = self._buffer + shown
            if not ended and not self._err and len(shown.lstrip()) < _LONGEST_OF_OURS:
                self._buffer = shown
                return ""
            self._buffer = ""
            shown = f"{MARK}{shown}" if self._err and shown else set_off(shown)
        self.inside = not ended
        return f"{shown}\n" if ended else shown


_unended: dict[bool, OthersText] = {}
"""The text of others that left a line of stderr (True) or stdout unended: ours begins a new one."""


def confirm(question: str, *, default: bool = False, abort: bool = False) -> bool:
    """Ask on stderr for yes or no, or abort at a no."""
    return click.confirm(printable(question, _HARMLESS), default=default, abort=abort, err=True)


def require_yes(question: str, *, yes: bool, as_json: bool) -> None:
    """Ask on stderr for the yes that `--yes` gives beforehand, and abort at a no.

    Raises:
        UsageError: Nobody can be asked: with `--json`, or without a terminal.
    """
    if yes:
        return
    if as_json:
        raise UsageError("nobody is asked with --json", place="--json", fix="add --yes")
    if not is_terminal(sys.stdin, sys.stderr):
        raise UsageError(
            "nobody can be asked here: there is no terminal", place="--yes", fix="add --yes"
        )
    confirm(question, abort=True)


def hand_over(text: str) -> None:
    """Print what a command was asked for: to a file or program as it is, to a terminal by `put`."""
    if is_terminal(sys.stdout):
        put(text)
    else:
        _write(text)


def print_json_line(text: str) -> None:
    """Print JSON that is one line, whatever its texts hold."""
    _write(printable_json(text) + "\n")


def print_json(value: Mapping[str, Any] | Sequence[Any]) -> None:
    """Print one JSON value, and nothing else, on stdout: what is not for every screen escaped."""
    import json

    text = printable_json(json.dumps(value, ensure_ascii=False, indent=2, default=list))
    if _encodable(text, sys.stdout) != text:
        text = printable_json(json.dumps(value, indent=2, default=list))
    _write(text + "\n")


def print_error(error: ClawHiveError, *, as_json: bool) -> None:
    """Print an error: code, what happened, where, what to do; on stderr where stdout fails."""
    if as_json and error.code != "output_failed":
        try:
            print_json(error.to_dict())
        except BrokenPipeError:
            discard(1)
        except ClawHiveError:
            as_json = False
        if as_json:
            return
    head = f"[{printable(error.code)}]: {error.message}"
    say(*printable_lines(head, _HARMLESS), err=True, label=("error", "red"))
    if error.place:
        say(f"  at:  {error.place}", err=True)
    if error.fix:
        say(*printable_lines(f"  fix: {error.fix}", _HARMLESS), err=True)


def output_error(problem: str) -> ClawHiveError:
    """Return the error of a stdout that takes nothing."""
    return ClawHiveError(
        f"the output cannot be written: {problem}",
        code="output_failed",
        place="stdout",
        fix="give stdout a place that takes it, such as `> FILE` on a disk with room",
    )


def wants_json(arguments: Sequence[str]) -> bool:
    """Whether `--json` stands among the arguments, before a `--`."""
    own = arguments[: arguments.index("--")] if "--" in arguments else arguments
    return "--json" in own


def next_line(error: Mapping[str, Any]) -> str | None:
    """Return what to do about an error or refusal: its fix, or the command or hint of `next`."""
    step: Mapping[str, Any] = error.get("next") or {}
    return error.get("fix") or step.get("command") or step.get("hint")


def note(text: str) -> None:
    """Print a line for people on stderr, unless they want it quiet."""
    context = click.get_current_context(silent=True)
    if context is None or not getattr(context.obj, "quiet", False):
        say(*printable_lines(text, _HARMLESS), err=True)


def table(rows: Iterable[Sequence[str]], header: Sequence[str]) -> Sequence[str]:
    """Return rows as lines of aligned columns under a header; no first cell passes for ours."""
    cells = [tuple(header)]
    for row in rows:
        first, *rest = (printable(str(cell), _HARMLESS) for cell in row)
        cells.append((set_off(first), *rest))
    widths = [max(len(row[index]) for row in cells) for index in range(len(header))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in cells
    ]


def short(identifier: str) -> str:
    """Return an id as people read it: its first eight characters after the kind."""
    kind, _, rest = identifier.partition("_")
    return rest[:8] if rest else kind


def is_terminal(*streams: TextIO | None) -> bool:
    """Whether all of these standard streams are a terminal; one that is closed is None."""
    return all(stream is not None and stream.isatty() for stream in streams)


def _style(word: str, color: str, stream: TextIO | None) -> str:
    wanted = word and is_terminal(stream) and not os.environ.get("NO_COLOR")
    return click.style(word, fg=color) if wanted else word


def _stream(*, err: bool) -> TextIO | None:
    return sys.stderr if err else sys.stdout


def _write(text: str, *, err: bool = False, by: OthersText | None = None) -> None:
    """Write to a standard stream, at once.

    Raises:
        ClawHiveError: `output_failed`: stdout takes nothing. What stderr does not take is lost: a
            run must not end for what is only told of it.
        BrokenPipeError: Nobody reads stdout any more.
    """
    if not text:
        return
    stream = _stream(err=err)
    before = _unended.pop(err, None)
    if before is not None and before is not by:
        before.inside = False
        text = f"\n{text}"
    if by is not None and by.inside:
        _unended[err] = by
    try:
        click.echo(_encodable(text, stream), nl=False, err=err)
    except OSError as error:
        if isinstance(error, BrokenPipeError) and not err:
            raise
        discard(2 if err else 1)
        if not err:
            raise output_error(error.strerror or str(error)) from error


def discard(descriptor: int) -> None:
    """Send what is still written to stdout or stderr nowhere, so that the process can end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), descriptor)


def _encodable(text: str, stream: TextIO | None) -> str:
    """Return the text with what the stream's encoding cannot hold, as half a character, escaped."""
    encoding = getattr(stream, "encoding", None) or "utf-8"
    return text.encode(encoding, "backslashreplace").decode(encoding)
