"""Tracebacks of failed programs on stderr, in Python's own form."""

from __future__ import annotations

import ast
import traceback
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pydantic_monty import Frame

_REPEATED = 3
"""The times that Python prints the same line of a recursion."""


def traceback_text(frames: Sequence[Frame], message: str, script: str, source: str) -> str:
    """Return a traceback with only the program's own frames, under the script's name.

    Args:
        frames: The engine's frames, outermost first.
        message: The exception's type and text.
        script: What to call the program.
        source: The program as its author wrote it.
    """
    lines = source.splitlines()
    printed = [line for frame in frames for line in [_frame(frame, script, lines)] if line]
    head = "Traceback (most recent call last):\n" if printed else ""
    return head + "".join(_folded(printed)) + message.rstrip("\n") + "\n"


def _frame(frame: Frame, script: str, lines: Sequence[str]) -> str:
    own = frame.filename.startswith("<python-input-") or frame.filename == script
    name, where = (script if own else frame.filename), frame.function_name or "<module>"
    text = f'  File "{name}", line {frame.line}, in {where}\n'
    if own and 0 < frame.line <= len(lines):
        text += f"    {lines[frame.line - 1].strip()}\n"
    return text


def _folded(printed: Sequence[str]) -> Iterator[str]:
    for text, group in groupby(printed):
        count = len(list(group))
        yield text * min(count, _REPEATED)
        if count > _REPEATED:
            yield f"  [Previous line repeated {count - _REPEATED} more times]\n"


def syntax_error_text(script: str, source: str, fallback: str) -> str:
    """Return Python's own words for a syntax error, else `fallback`."""
    try:
        ast.parse(source, filename=script)
    except SyntaxError as error:
        return "".join(traceback.format_exception_only(error))
    except (ValueError, RecursionError, MemoryError):
        return f"SyntaxError: {fallback}\n"
    return f"SyntaxError: {fallback}\n"
