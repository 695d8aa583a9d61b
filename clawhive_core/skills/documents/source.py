"""The text of a file, with the places of its lines."""

from __future__ import annotations

from bisect import bisect_right

from clawhive_core.diagnostics.finding import Finding
from clawhive_core.model.patterns import pattern
from clawhive_core.skills.documents.characters import BOM

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
