"""Reading SKILL.md as the Agent Skills standard has it, and tolerantly.

Unknown keys are kept. A value that holds an unquoted colon is read as if it were quoted, with a
finding, because half of all broken files are broken in just that way.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import field
from pathlib import Path
from typing import Any, cast

from clawhive_core.diagnostics.finding import Finding
from clawhive_core.diagnostics.shown import shown_path
from clawhive_core.model.late import dataclass
from clawhive_core.model.patterns import pattern
from clawhive_core.skills.characters import BOM, is_ordinary, odd_characters
from clawhive_core.skills.document import Document, decoded, read_bytes, with_severity
from clawhive_core.skills.place import InvalidSkill, Place, is_file
from clawhive_core.skills.plain import plain_mapping

TEXT_FILE = "SKILL.md"
OTHER_NAME = "skill.md"
"""How some call it, which the reference validators read too."""

_FENCE = "---"
_PLAIN = pattern(r"^([A-Za-z_][\w.-]*):[ \t]+([^\s\"'\[{|>&*!#].*|[@`%].*)$")


@dataclass(frozen=True, slots=True)
class SkillText:
    """A SKILL.md: its frontmatter, its body, what is wrong with it."""

    file: Path
    values: Mapping[str, Any] = field(default_factory=dict[str, Any])
    text: str = field(default="", repr=False)
    """The body, and what stands before it."""
    begin: int = 0
    """Where the body begins in it."""
    document: Document | None = None
    """The frontmatter with its places; None where it cannot be read."""
    findings: tuple[Finding, ...] = ()

    @property
    def body(self) -> str:
        """What follows the frontmatter; most who read a SKILL.md have no need of it."""
        return self.text[self.begin :]

    def place(self, *keys: str) -> Place:
        """Return where a value of the frontmatter stands, the file's start where there is none."""
        known = self.document is not None
        return (
            self.document.place(keys) if self.document and known else Place(shown_path(self.file))
        )


@dataclass(frozen=True, slots=True)
class _Parts:
    front: str
    text: str
    begin: int
    """Where the body begins in the text."""
    first_line: int = 1
    """How many lines stand before the frontmatter."""
    is_plain: bool = False
    """Whether LF is all that ends a line."""


def text_file(folder: Path) -> Path | None:
    """Return the SKILL.md of a folder, else its `skill.md`; None where there is neither."""
    names = (folder / TEXT_FILE, folder / OTHER_NAME)
    return next((file for file in names if is_file(file)), None)


def read_skill_text(file: Path) -> SkillText:
    """Return what a SKILL.md says; it never raises, its findings tell what is wrong."""
    try:
        data = read_bytes(file, "text")
        raw = decoded(data, file, "text")
    except InvalidSkill as error:
        return SkillText(file, findings=(error.finding,))
    shown, ordinary = shown_path(file), is_ordinary(data)
    odd = () if ordinary else odd_characters(raw, shown)
    odd = (*_other_name(file), *odd)
    try:
        parts = _split_plain(raw) if ordinary else None
        parts = parts or _split(raw.removeprefix(BOM), Place(shown))
    except InvalidSkill as error:
        return SkillText(file, findings=(error.finding, *odd))
    try:
        document, repaired = _parse(parts, shown)
    except InvalidSkill as error:
        found = (error.finding, *odd)
        return SkillText(file, text=parts.text, begin=parts.begin, findings=found)
    found = [*odd, *repaired, *(with_severity(each, "warning") for each in document.problems)]
    value = document.value
    if not isinstance(value, dict):
        message = "the frontmatter must be a mapping"
        found.append(document.place(()).finding("CH0228", "error", message))
        return SkillText(file, text=parts.text, begin=parts.begin, findings=tuple(found))
    values = {str(key): each for key, each in cast("dict[Any, Any]", value).items()}
    return SkillText(file, values, parts.text, parts.begin, document, tuple(found))


def _split_plain(text: str) -> _Parts | None:
    """Return what `_split` does for a text whose fences are its first line and one of its own.

    Args:
        text: An ordinary one, see `is_ordinary`.
    """
    if not text.startswith("---\n"):
        return None
    end = text.find("\n---", 3)
    if end < 0 or text[end + 4 : end + 5] != "\n":
        return None
    return _Parts(text[4 : end + 1], text, end + 5, is_plain=True)


def _other_name(file: Path) -> Iterator[Finding]:
    if file.name == OTHER_NAME:
        message = f"most tools see no skill here: they look for `{TEXT_FILE}`"
        fix = f"rename it to {TEXT_FILE}"
        yield Place(shown_path(file)).finding("CH0008", "warning", message, fix)


def _split(text: str, place: Place) -> _Parts:
    """Cut a text at its two fences, each a line of its own."""
    lines = text.splitlines(keepends=True) if "\x0c" not in text else text.split("\n")
    start = next((number for number, line in enumerate(lines) if line.strip()), len(lines))
    if start == len(lines) or lines[start].rstrip() != _FENCE:
        message = "there is no frontmatter"
        fix = "begin the file with `---`, `name: ...`, `description: ...` and `---`"
        raise InvalidSkill(Place(place.file, 1, 1).finding("CH0221", "error", message, fix))
    rest = range(start + 1, len(lines))
    end = next((number for number in rest if lines[number].rstrip() == _FENCE), None)
    if end is None:
        message = "the frontmatter has no end"
        there = Place(place.file, start + 1, 1)
        fix = "write a line `---` after its last key"
        raise InvalidSkill(there.finding("CH0222", "error", message, fix))
    glue = "" if lines[start].endswith(("\n", "\r")) else "\n"
    front, body = glue.join(lines[start + 1 : end]), glue.join(lines[end + 1 :])
    return _Parts(front, body, 0, start + 1)


def _parse(parts: _Parts, file: str) -> tuple[Document, list[Finding]]:
    known = plain_mapping(parts.front) if parts.is_plain else None
    try:
        return _document(parts.front, parts, file, known), []
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


def _document(front: str, parts: _Parts, file: str, value: Any = None) -> Document:
    return Document(front, file, first_line=parts.first_line, what="frontmatter", value=value)


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
