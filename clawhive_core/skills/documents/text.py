"""Reading SKILL.md as the Agent Skills standard has it, and tolerantly.

Unknown keys are kept. A value that holds an unquoted colon is read as if it were quoted, with a
finding, because half of all broken files are broken in just that way.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import field
from pathlib import Path
from typing import Any, cast

from clawhive_core.diagnostics.files import shown_path
from clawhive_core.diagnostics.finding import Finding
from clawhive_core.model.late import dataclass
from clawhive_core.model.patterns import pattern
from clawhive_core.skills.documents.document import Document, decoded, read_bytes, with_severity
from clawhive_core.skills.documents.place import InvalidSkill, Place, is_file
from clawhive_core.skills.documents.source import BOM, is_ordinary, odd_characters

TEXT_FILE = "SKILL.md"
OTHER_NAME = "skill.md"
"""Another name for it, which the reference validators read too."""

_WHAT = "frontmatter"
_FENCE = "---"
_PLAIN = pattern(r"^([A-Za-z_][\w.-]*):[ \t]+([^\s\"'\[{|>&*!#].*|[@`%].*)$")


@dataclass(frozen=True, slots=True)
class SkillText:
    """A SKILL.md: its frontmatter, its body, what is wrong with it."""

    path: str
    values: Mapping[str, Any] = field(default_factory=dict[str, Any])
    text: str = field(default="", repr=False)
    """The body, and what stands before it."""
    begin: int = 0
    """The offset of the body in it."""
    document: Document | None = None
    """The frontmatter with its places; None where it cannot be read."""
    findings: tuple[Finding, ...] = ()

    @property
    def file(self) -> Path:
        """The SKILL.md."""
        return Path(self.path)

    @property
    def body(self) -> str:
        """The text after the frontmatter; most who read a SKILL.md have no need of it."""
        return self.text[self.begin :]

    def place(self, *keys: str) -> Place:
        """Return where a value of the frontmatter stands, the file's start where there is none."""
        known = self.document is not None
        return (
            self.document.place(keys) if self.document and known else Place(shown_path(self.path))
        )


@dataclass(frozen=True, slots=True)
class _Parts:
    front: str
    body: str
    first_line: int
    """The number of lines before the frontmatter."""


def text_file(folder: Path) -> Path | None:
    """Return the SKILL.md of a folder, else its `skill.md`; None where there is neither."""
    names = (folder / TEXT_FILE, folder / OTHER_NAME)
    return next((file for file in names if is_file(file)), None)


def read_skill_text(file: Path | str) -> SkillText:
    """Return what a SKILL.md says; it never raises, its findings tell what is wrong."""
    path = os.fspath(file)
    try:
        data = read_bytes(path, "text")
        raw = decoded(data, path, "text")
    except InvalidSkill as error:
        return SkillText(path, findings=(error.finding,))
    ordinary = is_ordinary(data)
    odd = [*_other_name(path)] if path.endswith(OTHER_NAME) else []
    if not ordinary:
        odd += odd_characters(raw, shown_path(path))
    end = _second_fence(raw) if ordinary else -1
    parts = None if end < 0 else _Parts(raw[4 : end + 1], raw[end + 5 :], 1)
    return _parsed(path, raw, parts, odd)


def _second_fence(text: str) -> int:
    """Return where the line before the second fence ends; -1 unless the first line is a fence.

    Args:
        text: An ordinary one, see `is_ordinary`.
    """
    if not text.startswith("---\n"):
        return -1
    end = text.find("\n---", 3)
    return end if text[end + 4 : end + 5] == "\n" else -1


def _parsed(path: str, text: str, parts: _Parts | None, odd: list[Finding]) -> SkillText:
    """Return the parsed text of a SKILL.md.

    Args:
        path: Its file.
        text: The text, with its byte order mark.
        parts: Its parts, where they are known.
        odd: What else is wrong with it.
    """
    shown = shown_path(path)
    try:
        parts = parts or _split(text.removeprefix(BOM), Place(shown))
    except InvalidSkill as error:
        return SkillText(path, findings=(error.finding, *odd))
    try:
        document, repaired = _parse(parts, shown)
    except InvalidSkill as error:
        return SkillText(path, text=parts.body, findings=(error.finding, *odd))
    found = [*odd, *repaired, *(with_severity(each, "warning") for each in document.problems)]
    value = document.value
    if not isinstance(value, dict):
        message = "the frontmatter must be a mapping"
        found.append(document.place(()).finding("CH0228", "error", message))
        return SkillText(path, text=parts.body, findings=tuple(found))
    values = {str(key): each for key, each in cast("dict[Any, Any]", value).items()}
    return SkillText(path, values, parts.body, 0, document, tuple(found))


def _other_name(path: str) -> Iterator[Finding]:
    if os.path.basename(path) == OTHER_NAME:  # noqa: PTH119 - of a text
        message = f"most tools see no skill here: they look for `{TEXT_FILE}`"
        fix = f"rename it to {TEXT_FILE}"
        yield Place(shown_path(path)).finding("CH0008", "warning", message, fix)


def _split(text: str, place: Place) -> _Parts:
    """Cut a text at its two fences, each a line of its own."""
    if not text.lstrip().startswith(_FENCE):
        raise _no_frontmatter(place)
    lines = text.splitlines(keepends=True) if "\x0c" not in text else text.split("\n")
    start = next(number for number, line in enumerate(lines) if line.strip())
    if lines[start].rstrip() != _FENCE:
        raise _no_frontmatter(place)
    rest = range(start + 1, len(lines))
    end = next((number for number in rest if lines[number].rstrip() == _FENCE), None)
    if end is None:
        message = "the frontmatter has no end"
        there = Place(place.file, start + 1, 1)
        fix = "write a line `---` after its last key"
        raise InvalidSkill(there.finding("CH0222", "error", message, fix))
    glue = "" if lines[start].endswith(("\n", "\r")) else "\n"
    return _Parts(glue.join(lines[start + 1 : end]), glue.join(lines[end + 1 :]), start + 1)


def _no_frontmatter(place: Place) -> InvalidSkill:
    message = "there is no frontmatter"
    fix = "begin the file with `---`, `name: ...`, `description: ...` and `---`"
    return InvalidSkill(Place(place.file, 1, 1).finding("CH0221", "error", message, fix))


def _parse(parts: _Parts, file: str) -> tuple[Document, list[Finding]]:
    try:
        return _document(parts.front, parts, file), []
    except InvalidSkill as error:
        if error.finding.code != "CH0224":
            raise
        quoted, places = _quoted(parts.front)
        if not places:
            raise
        try:
            document = _document(quoted, parts, file)
        except InvalidSkill:
            raise error from None
    message = "a value with a colon, or a sign of YAML's own, must be quoted; it was read as text"
    return document, [
        Place(file, parts.first_line + line, column).finding(
            "CH0225", "warning", message, "put the value in quotes"
        )
        for line, column in places
    ]


def _document(front: str, parts: _Parts, file: str) -> Document:
    return Document(front, file, first_line=parts.first_line, what=_WHAT)


def _quoted(front: str) -> tuple[str, list[tuple[int, int]]]:
    """Return the text with plain values quoted that YAML cannot read, and where these stand."""
    lines, changed = front.splitlines(), list[tuple[int, int]]()
    for index, line in enumerate(lines):
        found = unquoted(line)
        if found is None:
            continue
        column, value = found
        lines[index] = f"{line[:column]}{json.dumps(value, ensure_ascii=False)}"
        changed.append((index + 1, column + 1))
    return "\n".join(lines), changed


def unquoted(line: str) -> tuple[int, str] | None:
    """Return the value of a line that should stand in quotes, and the characters before it."""
    match = _PLAIN.match(line)
    if match is None or not _needs_quotes(match[2]):
        return None
    return match.start(2), match[2].rstrip()


def _needs_quotes(value: str) -> bool:
    return ": " in value or value.rstrip().endswith(":") or value[0] in "@`%"
