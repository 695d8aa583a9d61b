"""The text of a file: its lines, and the characters in it that a reader does not see."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import replace

from clawhive_core.diagnostics.finding import Finding, Fix, Severity
from clawhive_core.model.patterns import pattern
from clawhive_core.skills.documents.place import Place

BOM = "\ufeff"

_CONTROLS = bytes(set(range(32)) - {9, 10, 12, 13}) + b"\x7f"
_ORDINARY = bytes(set(range(128)) - {*_CONTROLS, 12, 13})
_TURNING = pattern("[\u202a-\u202e\u2066-\u2069\U000e0001-\U000e007f]")
"""Characters that turn the direction of the text around them, and tags, which nobody is shown."""
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
"""Usual characters that Python calls not printable: a joiner, and two spaces."""


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


_BREAK = pattern(r"\r\n|[\n\r\x85\u2028\u2029]")


class Source:
    """A file's text, with the places of its lines; a byte order mark is a part of it."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._starts = [len(BOM) if text.startswith(BOM) else 0]
        self._breaks = _BREAK.finditer(text)

    def line(self, number: int) -> str:
        """Return a line without its end; empty where there is none."""
        begin = self._start(number)
        if number <= 0 or begin is None:
            return ""
        match = _BREAK.search(self.text, begin)
        return self.text[begin : len(self.text) if match is None else match.start()]

    def end(self, number: int) -> int:
        """Return the offset after a line and its end."""
        after = self._start(number + 1)
        return len(self.text) if after is None else after

    def offset(self, line: int, column: int = 1) -> int:
        """Return the offset of a place."""
        self._start(line)
        return self._starts[line - 1] + column - 1

    def _start(self, number: int) -> int | None:
        """Return where a line begins, None where there is none; lines are found up to it."""
        found = self._starts
        while len(found) < number and (match := next(self._breaks, None)) is not None:
            found.append(match.end())
        return found[number - 1] if number <= len(found) else None

    def line_end(self) -> str:
        """Return how the first line ends."""
        match = _BREAK.search(self.text)
        return "\n" if match is None else match[0]

    def number(self, offset: int) -> int:
        """Return the line of an offset."""
        while self._starts[-1] <= offset and self._start(len(self._starts) + 1) is not None:
            pass
        return bisect_right(self._starts, offset)

    def rest(self, finding: Finding) -> tuple[int, str]:
        """Return the offset of a finding, and its line from there on."""
        line, column = finding.line or 1, finding.column or 1
        return self.offset(line, column), self.line(line)[column - 1 :]


def title_of(finding: Finding) -> str:
    """Return the title of a finding's fix, empty where it has none."""
    return "" if finding.fix is None else finding.fix.title
