"""The profiles of a check: lenient, the public standard's own verdict, and what every tool takes.

Source: the Agent Skills standard (agentskills.io) and its reference validators for `strict`; what
known uploaders and validators refuse beyond it for `portable`.
"""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, Literal, cast
from urllib.parse import unquote

from clawhive_core.diagnostics.files import shown_path
from clawhive_core.diagnostics.finding import Finding
from clawhive_core.diagnostics.suggestions import did_you_mean
from clawhive_core.model.patterns import pattern
from clawhive_core.skills.contracts.skill import Skill
from clawhive_core.skills.discovery.reading import (
    STANDARD_KEYS,
    misspelt_key,
    no_description,
    not_text,
)
from clawhive_core.skills.discovery.skill_set import Entry, SkillSet
from clawhive_core.skills.documents.document import MAX_SAID, read_text
from clawhive_core.skills.documents.place import InvalidSkill, Place
from clawhive_core.skills.documents.text import SkillText, read_skill_text, text_file
from clawhive_core.skills.fixing.fixes import QUOTE

_WORD = pattern(r"\w+")
_FEWEST = 4
"""The least number of different words of a description that is compared with others."""


def check_similar(skills: Sequence[Skill]) -> Iterator[Finding]:
    """Yield a note for each skill whose description has just the words of one that stands before.

    Order, punctuation and capital letters do not count.
    """
    first: dict[frozenset[str], Skill] = {}
    for skill in sorted(skills, key=lambda each: (str(each.file), each.id)):
        words = frozenset(_WORD.findall(skill.description.lower()))
        if len(words) < _FEWEST:
            continue
        other = first.setdefault(words, skill)
        if other.id != skill.id:
            where = shown_path(other.file)
            message = f"`{skill.id}` describes itself as `{other.id}` does ({where})"
            fix = "say in which cases each of them is the right one"
            yield Place(shown_path(skill.text_file or skill.file)).finding(
                "CH0403", "note", message, fix
            )


MAX_LINES = 500
"""The most lines that a SKILL.md should have, by the public standard."""
MAX_LINKS = 200
"""The number of links and scripts of one body that are looked up."""

# Each begins where no other attempt did and gives nothing back, so that a body of brackets or of
# backticks is read once, however long it is.
_FENCE = pattern(r"[ \t]*(`{3,}(?![^\n]*`)|~{3,})")
_CODE = pattern(r"(?<!`)(`++)[^`\n]++\1")
_LINK = pattern(r"!?\[[^\[\]\n]*+\]\(<?([^()<>\s]++)>?(?:[ \t]++\"[^\"\n]*+\")?\)")
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
        prose = _CODE.sub(_blank, _unfenced(self._raw[self._start :]))
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


def _unfenced(text: str) -> str:
    """Return a text with blanks in place of its fenced code; a fence left open ends with it."""
    lines, fence = text.split("\n"), ""
    for number, line in enumerate(lines):
        mark = line.strip(" \t\r")
        if fence:
            lines[number] = " " * len(line)
            if mark.startswith(fence) and not mark.strip(fence[0]):
                fence = ""
        elif found := _FENCE.match(line):
            lines[number], fence = " " * len(line), found[1]
    return "\n".join(lines)


def _blank(match: re.Match[str]) -> str:
    return " " * len(match[0])


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


Profile = Literal["lenient", "strict", "portable"]
PROFILES: tuple[Profile, ...] = ("lenient", "strict", "portable")

_RAISED = frozenset({"CH0201", "CH0206", "CH0225", "CH0227"})
"""Codes of the standard's errors that weigh less where skills are only loaded."""
_COVERED = frozenset({"CH0202", "CH0204", "CH0301"})
"""Codes of the standard's own rules: CH0203, CH0204, CH0212."""
_MAX_NAME = 64
_MAX_COMPATIBILITY = 500


def at_profile(skills: SkillSet, profile: Profile) -> list[Finding]:
    """Return the findings of a set as a profile weighs them, with what else it demands."""
    if profile == "lenient":
        return [*skills.findings]
    used = {each.skill for entry in skills.entries for each in entry.skill.imports}
    texts = {shown_path(entry.skill.text_file) for entry in skills.entries if entry.skill.text_file}
    found = [_raised(each) if each.file in texts else each for each in skills.findings]
    found = [each for each in found if each.file not in texts or each.code not in _COVERED]
    found.extend(check_similar([each.skill for each in skills.entries]))
    for entry in skills.entries:
        found.extend(_Standard(entry, profile, imported=entry.skill.id in used).findings())
    return found


def _raised(finding: Finding) -> Finding:
    return replace(finding, severity="error") if finding.code in _RAISED else finding


class _Standard:
    """One skill, checked against the standard."""

    def __init__(self, entry: Entry, profile: Profile, *, imported: bool) -> None:
        self._skill = entry.skill
        self._profile = profile
        self._imported = imported

    def findings(self) -> Iterator[Finding]:
        file = self._skill.text_file or self._unread()
        if file is None:
            message = "there is no SKILL.md, so other tools do not see the skill"
            yield Place(shown_path(self._skill.file)).finding("CH0220", "error", message)
            return
        text = read_skill_text(file)
        yield from _begin(file)
        if text.document is None:
            return
        yield from self._name(text)
        yield from _description(text)
        yield from _compatibility(text)
        yield from _keys(text)
        yield from check_body(text)
        if self._profile == "portable":
            yield from _portable(text)
            yield from same_but_for_case(self._skill.folder)

    def _unread(self) -> Path | None:
        """Return the SKILL.md of a skill whose text could not be read."""
        if self._skill.content == self._skill.manifest:
            return None
        return text_file(self._skill.folder)

    def _name(self, text: SkillText) -> Iterator[Finding]:
        name, place = text.values.get("name"), text.place("name")
        if not isinstance(name, str) or not name.strip():
            return
        reason, folder = _name_problem(name.strip()), self._skill.folder.name
        same = unicodedata.normalize("NFKC", name.strip()) == unicodedata.normalize("NFKC", folder)
        free = self._may_rename(folder)
        if reason is not None:
            fix = f"write `name: {folder}`" if free else "rename it, and its folder with it"
            message = f"`{name}` is no name of the standard: {reason}"
            yield place.finding("CH0203", "error", message, fix)
        if not same and (reason is None or not free):
            fix = f"write `name: {folder}`" if free else "rename one of them"
            message = f"the folder is called `{folder}` and the skill `{name}`"
            yield place.finding("CH0204", "error", message, fix)

    def _may_rename(self, folder: str) -> bool:
        return not self._imported and folder.isascii() and _name_problem(folder) is None


def _name_problem(name: str) -> str | None:
    name = unicodedata.normalize("NFKC", name)
    if len(name) > _MAX_NAME:
        return f"it is longer than {_MAX_NAME} characters"
    if name != name.lower():
        return "it has capital letters"
    if name.startswith("-") or name.endswith("-"):
        return "it begins or ends with a hyphen"
    if "--" in name:
        return "it has two hyphens in a row"
    if not all(char.isalnum() or char == "-" for char in name):
        return "it has more than letters, digits and hyphens"
    return None


def _begin(file: Path) -> Iterator[Finding]:
    """Yield a finding for a byte order mark or blank lines: the fence must be the file's begin."""
    try:
        with file.open("rb") as stream:
            begin = stream.read(4096)
    except OSError:
        return
    if begin.startswith(b"---") or b"---" not in begin.removeprefix(b"\xef\xbb\xbf").lstrip()[:3]:
        return
    message = "a byte order mark or blank lines stand before the frontmatter"
    place = Place(shown_path(file), 1, 1)
    yield place.finding("CH0223", "error", message, "begin the file with `---`")


def _description(text: SkillText) -> Iterator[Finding]:
    value, place = text.values.get("description"), text.place("description")
    if value is not None and not isinstance(value, str):
        yield not_text(place)
    elif not (value or "").strip():
        yield no_description(text)


def _compatibility(text: SkillText) -> Iterator[Finding]:
    value = text.values.get("compatibility")
    if value is None or (isinstance(value, str) and len(value) <= _MAX_COMPATIBILITY):
        return
    message = f"`compatibility` must be a text of at most {_MAX_COMPATIBILITY} characters"
    fix = QUOTE if isinstance(value, int | float) else "shorten it"
    yield text.place("compatibility").finding("CH0209", "error", message, fix)


def _keys(text: SkillText) -> Iterator[Finding]:
    told = {misspelt_key(text, each) for each in ("name", "description")}
    unknown = (key for key in text.values if key not in STANDARD_KEYS and key not in told)
    for key in islice(unknown, MAX_SAID):
        if text.document is None:
            return
        close = did_you_mean(key, [each for each in STANDARD_KEYS if each not in text.values])
        ours = key in {"exports", "imports", "requires"}
        other = "move it to clawhive.yaml" if ours else "move it below `metadata`"
        place = text.document.place((key,), key=True)
        message = f"`{key}` is no key of the standard"
        yield place.finding("CH0212", "error", message, close or other)


def _portable(text: SkillText) -> Iterator[Finding]:
    description = text.values.get("description")
    if isinstance(description, str) and re.search(r"[<>]", description):
        message = "the description has `<` or `>`, which uploaders refuse"
        yield text.place("description").finding("CH0208", "error", message, "write it in words")
    tools = text.values.get("allowed-tools")
    if tools is not None and (not isinstance(tools, str) or "," in tools):
        message = "`allowed-tools` must be one text with spaces between the tools"
        place = text.place("allowed-tools")
        yield place.finding("CH0210", "error", message, "write it as one text, without commas")
    yield from _metadata(text)
    listed = text.place("allowed-tools") if tools is not None else None  # told of already
    flow = () if text.document is None else text.document.flow_styled()
    for place in islice(flow, MAX_SAID):
        if place == listed:
            continue
        message = "a list or mapping in brackets, which the reference validator cannot read"
        yield place.finding("CH0213", "error", message, "write it in lines")


def _metadata(text: SkillText) -> Iterator[Finding]:
    value: Any = text.values.get("metadata")
    if value is None:
        return
    if not isinstance(value, dict):
        message = "`metadata` must be a mapping of texts"
        yield text.place("metadata").finding("CH0211", "error", message)
        return
    entries = cast("dict[Any, Any]", value).items()
    for key, each in islice(
        (entry for entry in entries if not isinstance(entry[1], str)), MAX_SAID
    ):
        message = f"`metadata.{key}` must be a text"
        fix = QUOTE if isinstance(each, int | float) else None
        yield text.place("metadata", str(key)).finding("CH0211", "error", message, fix)
