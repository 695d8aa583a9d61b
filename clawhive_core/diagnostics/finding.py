"""The finding: something that a check found, its place, and the edits that mend it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise
from operator import itemgetter
from typing import Any, Literal

from clawhive_core.model.late import dataclass
from clawhive_core.model.texts import counted, printable, set_off

_first = itemgetter(0)

Severity = Literal["error", "warning", "note"]

SEVERITIES: tuple[Severity, ...] = ("error", "warning", "note")
"""The most severe first."""


@dataclass(frozen=True, slots=True)
class Edit:
    """One replacement in a text file: `text` takes the place of what lies between two offsets.

    Offsets count Unicode characters from the start of the file, read as UTF-8 with its line ends as
    they are; a byte order mark is one of them. `start == end` inserts.
    """

    start: int
    end: int
    text: str

    def to_dict(self) -> dict[str, Any]:
        """Return the edit as JSON."""
        return {"start": self.start, "end": self.end, "text": self.text}


@dataclass(frozen=True, slots=True)
class Fix:
    """The way to mend a finding: a sentence and, where a machine can do it, the edits."""

    title: str
    edits: tuple[Edit, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the fix as JSON."""
        return {"title": self.title, "edits": [edit.to_dict() for edit in self.edits]}


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that a check found, where it is and how to mend it.

    Lines and columns count from 1, columns in Unicode characters; None where the place is unknown
    or the whole file is meant. `end_column` is the column after the last character.
    """

    code: str
    """`CHnnnn`, explained by `clawhive explain`."""
    severity: Severity
    message: str
    """A sentence for its reader, without a final stop."""
    file: str | None = None
    line: int | None = None
    column: int | None = None
    end_line: int | None = None
    end_column: int | None = None
    fix: Fix | None = None
    url: str | None = None
    about: tuple[str, ...] = ()
    """The names that tie it to other findings; they are not printed."""

    @property
    def place(self) -> str | None:
        """The place as `file:line:column`, as far as it is known."""
        if self.file is None:
            return None
        known = (self.file, self.line, self.column if self.line is not None else None)
        return ":".join(str(part) for part in known if part is not None)

    @property
    def sentence(self) -> str:
        """The message and what mends it, for outputs that have one text for both."""
        return self.message if self.fix is None else f"{self.message}; fix: {self.fix.title}"

    def to_dict(self) -> dict[str, Any]:
        """Return the finding as the JSON object that `--json` prints."""
        return {
            "code": self.code,
            "severity": self.severity,
            "message": self.message,
            "file": self.file,
            "line": self.line,
            "column": self.column,
            "end_line": self.end_line,
            "end_column": self.end_column,
            "fix": None if self.fix is None else self.fix.to_dict(),
            "url": self.url,
        }


def sort_key(finding: Finding) -> tuple[str, int, int, int, str, str, str]:
    """Return what findings are ordered by: file, place, severity, code, message, all the rest."""
    rest = repr((finding.end_line, finding.end_column, finding.fix, finding.url))
    return (*_short_key(finding), rest)


def _short_key(finding: Finding) -> tuple[str, int, int, int, str, str]:
    return (
        finding.file or "",
        finding.line or 0,
        finding.column or 0,
        SEVERITIES.index(finding.severity),
        finding.code,
        finding.message,
    )


def sorted_findings(findings: Iterable[Finding]) -> list[Finding]:
    """Return findings in the order of their places; equal ones once."""
    keyed = sorted(((_short_key(each), each) for each in dict.fromkeys(findings)), key=_first)
    if any(one[0] == other[0] for one, other in pairwise(keyed)):
        return sorted((each for _, each in keyed), key=sort_key)
    return [each for _, each in keyed]


def count(findings: Iterable[Finding]) -> dict[str, int]:
    """Return how many errors, warnings and notes there are: `{errors, warnings, notes}`."""
    counts = Counter(finding.severity for finding in findings)
    return {
        "errors": counts["error"],
        "warnings": counts["warning"],
        "notes": counts["note"],
    }


def summary(findings: Sequence[Finding]) -> str:
    """Return the closing line, such as `3 findings: 1 error, 2 warnings`."""
    if not findings:
        return "no findings"
    named = [counted(number, word[:-1]) for word, number in count(findings).items() if number]
    return f"{counted(len(findings), 'finding')}: {', '.join(named)}"


def lines_of(finding: Finding) -> list[str]:
    """Return a finding as its line for people, and one for its fix."""
    place = f"{finding.place}: " if finding.place else ""
    head = f"{place}{finding.severity} {finding.code} {finding.message}"
    fix = [f"    fix: {printable(finding.fix.title)}"] if finding.fix else []
    return [set_off(printable(head)) if place else printable(head), *fix]


def apply_fixes(text: str, fixes: Iterable[Fix]) -> tuple[str, int]:
    """Return a text with fixes made, and how many were.

    A fix is made whole or not at all. Of two that touch the same characters, or insert at the same
    place, the one that begins first is made; the other waits for the next look at the file.
    """
    taken: list[Edit] = []
    made = 0
    for fix in sorted(dict.fromkeys(fixes), key=_begin):
        with_it = [*taken]
        for edit in fix.edits:
            if not _fits(edit, with_it, len(text)):
                break
            with_it.append(edit)
        else:
            made += len(with_it) > len(taken)
            taken = with_it
    for edit in sorted(taken, key=lambda each: (each.start, each.end), reverse=True):
        text = text[: edit.start] + edit.text + text[edit.end :]
    return text, made


def _begin(fix: Fix) -> tuple[int, int]:
    return min(((edit.start, edit.end) for edit in fix.edits), default=(0, 0))


def _fits(edit: Edit, taken: list[Edit], length: int) -> bool:
    inside = 0 <= edit.start <= edit.end <= length
    return inside and not any(_touch(edit, other) for other in taken)


def _touch(one: Edit, other: Edit) -> bool:
    if one.start == other.start:
        return True
    return one.start < other.end and other.start < one.end
