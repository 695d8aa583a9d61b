"""Characters that a reader of a file does not see: hidden ones, controls, line ends, a BOM."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import replace

from clawhive_core.diagnostics.finding import Finding, Fix, Severity
from clawhive_core.model.patterns import pattern
from clawhive_core.skills.documents.place import Place

BOM = "\ufeff"

_CONTROLS = bytes(set(range(32)) - {9, 10, 12, 13}) + b"\x7f"
_ORDINARY = bytes(set(range(128)) - {*_CONTROLS, 12, 13})
_TURNING = pattern("[\u202a-\u202e\u2066-\u2069\U000e0001-\U000e007f]")
"""What turns the direction of the text around it, and tags, which nobody is shown."""
HIDDEN = pattern("[\u200b\u2060-\u2064\u180e\ufeff]")
"""Spaces of no width, and joiners that no script needs."""
_FLAG = pattern("\U0001f3f4[\U000e0020-\U000e007f]+")
"""The flag of a region, which is spelt with tags."""


def odd_characters(text: str, file: str) -> Iterator[Finding]:
    """Yield what a reader of a text would not see, each kind once, at its first place.

    Args:
        text: The whole file, with its byte order mark.
        file: The file as messages name it.
    """
    if is_ordinary(text.encode("utf-8", "replace")):
        return
    if text.startswith(BOM):
        message = "the file begins with a byte order mark, which other tools take for text"
        fix = Fix("save it as UTF-8 without one")
        yield replace(Place(file, 1, 1).finding("CH0010", "note", message), fix=fix)
    if "\r" in text:
        yield _line_ends(text, file)
    yield from _first(text, file, CONTROL, "CH0004")
    shown = _FLAG.sub(lambda match: "." * len(match[0]), text.removeprefix(BOM))
    yield from _first(shown, file, _TURNING, "CH0005", "error")
    yield from _first(shown, file, HIDDEN, "CH0005")


CONTROL = pattern(f"[{re.escape(_CONTROLS.decode())}\x80-\x84\x86-\x9f]")
"""Control characters; U+0085 ends a line."""
_ODD = pattern(
    f"[{''.join(each.pattern[1:-1] for each in (CONTROL, _TURNING, HIDDEN))}\r\f\x85\u2028\u2029]"
)


_HARMLESS = ("\u200d", "\xa0", "\u3000")
"""What many a text has of what Python calls not printable: a joiner, and two spaces."""


def is_ordinary(data: bytes) -> bool:
    """Whether a text in UTF-8 holds nothing odd, and LF is all that ends a line of it.

    What nearly no text holds is looked for in what is left of it without the usual characters.
    """
    rest = data.translate(None, _ORDINARY).decode()
    if rest.isprintable():
        return True
    for each in _HARMLESS:
        rest = rest.replace(each, "")
    return rest.isprintable() or _ODD.search(rest) is None


def _line_ends(text: str, file: str) -> Finding:
    at = text.index("\r")
    windows, others = text.count("\r\n"), text.count("\n") - text.count("\r\n")
    ends = "Windows and others" if windows and others else "Windows" if windows else "an old Mac"
    return _place(text, at, file).finding(
        "CH0003", "note", f"the lines end like those of {ends}", "end them by LF"
    )


def _place(text: str, at: int, file: str) -> Place:
    """Return where an offset stands; a byte order mark takes no column."""
    begin = text.rfind("\n", 0, at)
    column = at - begin - (begin < 0 and text.startswith(BOM))
    return Place(file, text.count("\n", 0, at) + 1, column)


def _first(
    text: str, file: str, kind: re.Pattern[str], code: str, severity: Severity = "warning"
) -> Iterator[Finding]:
    match = kind.search(text)
    if match is None:
        return
    at, count = match.start(), len(kind.findall(text))
    place = _place(text, at, file)
    name = unicodedata.name(match[0], "a control character")
    others = f", and {count - 1} more" if count > 1 else ""
    message = f"the text holds a character that nobody sees: U+{ord(match[0]):04X} {name}{others}"
    yield place.finding(code, severity, message, "remove it")
