"""What the body of a SKILL.md points at: files that are not there, scripts, its own length."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

from clawhive_core.diagnostics.finding import Finding
from clawhive_core.diagnostics.shown import shown_path
from clawhive_core.model.patterns import pattern
from clawhive_core.skills.documents.document import read_text
from clawhive_core.skills.documents.place import InvalidSkill, Place
from clawhive_core.skills.documents.text import SkillText

MAX_LINES = 500
"""How long a SKILL.md should be at most, by the public standard."""
MAX_LINKS = 200
"""How many links and scripts of one body are looked up."""

_FENCED = pattern(r"(?m)^[ \t]*(`{3,}|~{3,})[^\n]*\n(?:.*\n)*?[ \t]*\1[`~]*[ \t]*$")
_CODE = pattern(r"(`+)[^`\n]+\1")
_LINK = pattern(r"!?\[[^\]\n]*\]\(<?([^()<>\s]+)>?(?:[ \t]+\"[^\"\n]*\")?\)")
_SCHEME = pattern(r"[A-Za-z][A-Za-z0-9+.-]*:|[#/\\?]|.*[{}$*|]")
_SCRIPT = pattern(
    r"(?<![\w/.~}-])(\./)?(scripts/[\w./-]*\w\.(?:py|sh|bash|js|mjs|ts|rb|pl))(?![\w/])"
)


def check_body(text: SkillText) -> Iterator[Finding]:
    """Yield what is wrong with the body of a SKILL.md, at its places in the file.

    Args:
        text: What was read; the file is read again for the places.
    """
    try:
        raw = read_text(text.file, "text")
    except InvalidSkill:
        return
    if not raw.endswith(text.body):  # it was cut by other rules, so that no place is known
        return
    body = _Body(raw, len(raw) - len(text.body), text.file)
    yield from body.length()
    yield from body.links()
    yield from body.scripts()


class _Body:
    """A body within its file."""

    def __init__(self, raw: str, start: int, file: Path) -> None:
        self._raw = raw
        self._start = start
        self._file = file

    def length(self) -> Iterator[Finding]:
        lines = self._raw.count("\n") + (not self._raw.endswith("\n"))
        if lines > MAX_LINES:
            message = f"the file has {lines} lines, and each use of the skill reads them all"
            fix = f"keep {MAX_LINES}; move details into files beside it that the text refers to"
            place = Place(shown_path(self._file), MAX_LINES + 1, 1)
            yield place.finding("CH0214", "note", message, fix)

    def links(self) -> Iterator[Finding]:
        prose = _CODE.sub(_blank, _FENCED.sub(_blank, self._raw[self._start :]))
        for number, match in enumerate(_LINK.finditer(prose)):
            target = match[1]
            if number >= MAX_LINKS:
                return
            if _SCHEME.match(target) is None and not self._there(target):
                message = f"the link leads to `{target}`, which is not there"
                yield self._place(match.start(1)).finding(
                    "CH0215", "warning", message, "mend the link, or add the file"
                )

    def scripts(self) -> Iterator[Finding]:
        seen: set[str] = set()
        for match in _SCRIPT.finditer(self._raw, self._start):
            name = match[2]
            if name in seen or len(seen) >= MAX_LINKS:
                continue
            seen.add(name)
            place = self._place(match.start() - self._start)
            file = self._file.parent / name
            if not os.path.lexists(file):
                message = f"the text names the script `{name}`, which is not there"
                yield place.finding("CH0216", "warning", message, "mend the name, or add the file")
            elif match[1] and os.name == "posix" and not os.access(file, os.X_OK):
                message = f"the text runs `./{name}`, which may not be executed"
                yield place.finding("CH0217", "note", message, f"chmod +x {name}")

    def _there(self, target: str) -> bool:
        path = unquote(re.split(r"[#?]", target, maxsplit=1)[0])
        try:
            return not path or os.path.lexists(self._file.parent / path)
        except ValueError:  # a NUL
            return False

    def _place(self, at: int) -> Place:
        offset = self._start + at
        begin = self._raw.rfind("\n", 0, offset)
        return Place(shown_path(self._file), self._raw.count("\n", 0, offset) + 1, offset - begin)


def _blank(match: re.Match[str]) -> str:
    return re.sub(r"[^\n]", " ", match[0])


def same_but_for_case(folder: Path) -> Iterator[Finding]:
    """Yield where two files of a skill differ by capital letters only: some systems keep one."""
    found = 0
    for where, folders, files in os.walk(folder):
        folders[:] = sorted(set(folders) - {"node_modules", ".git", ".venv", "__pycache__"})
        names: dict[str, str] = {}
        for name in sorted([*folders, *files]):
            found += 1
            first = names.setdefault(name.lower(), name)
            if first != name:
                message = f"`{name}` and `{first}` are one file where capital letters do not count"
                place = Place(shown_path(Path(where, name)))
                yield place.finding("CH0009", "error", message, "rename one of them")
        if found > _MOST_FILES:
            return


_MOST_FILES = 5_000
