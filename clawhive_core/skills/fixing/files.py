"""Fixing the files of skills: their findings get edits, and `--fix` makes them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path

from clawhive_core.diagnostics.files import replace_file, shown_path
from clawhive_core.diagnostics.finding import Finding, apply_fixes, sorted_findings
from clawhive_core.model.late import dataclass
from clawhive_core.skills.contracts.manifest import MANIFESTS
from clawhive_core.skills.discovery.skill_set import SkillSet
from clawhive_core.skills.documents.document import MAX_BYTES
from clawhive_core.skills.documents.source import Source
from clawhive_core.skills.documents.text import TEXT_FILE
from clawhive_core.skills.fixing.fixes import FIXABLE, with_edits
from clawhive_core.skills.fixing.moving import contract_move, move_contract

MOVED = frozenset({"CH0301", "CH0211", "CH0212"})
"""The codes of the findings about a contract in the frontmatter of a SKILL.md."""
_OWN_SOURCES = frozenset({"given", "flag", "config", "project"})
"""The sources whose files the user may change; plugins' and the wheel's are not among them."""


@dataclass(frozen=True, slots=True)
class FixedFile:
    """The fixes that `--fix` made in one file."""

    file: str
    fixes: int
    problem: str = ""
    """The reason why the file was left alone."""


KnownEdits = dict[str, tuple[list[Finding], list[Finding]]]
"""The findings of files, and the same with their edits."""


def with_fixes(findings: Sequence[Finding], known: KnownEdits | None = None) -> list[Finding]:
    """Return findings with the edits that fix them; a file that cannot be read has none.

    Args:
        findings: What was found.
        known: What was answered for files before; used where the findings are the same objects,
            which those of a file that was read again are not, and brought up to date.
    """
    done: list[Finding] = []
    for file, group in _by_file(findings):
        some = list(group)
        if file is None or all(each.code not in FIXABLE for each in some):
            done += some
            continue
        kept = None if known is None else known.get(file)
        if kept is None or list(map(id, kept[0])) != list(map(id, some)):
            kept = some, _with_edits(file, some)
        if known is not None:
            known[file] = kept
        done += kept[1]
    return done


def _with_edits(file: str, findings: list[Finding]) -> list[Finding]:
    data = _read(Path(file))
    text = None if data is None else _decoded(data)
    if text is None:
        return findings
    source = Source(text)
    return [with_edits(each, source) for each in findings]


def fix_files(
    skills: SkillSet, findings: Sequence[Finding], roots: Sequence[Path]
) -> list[FixedFile]:
    """Make the fixes of findings in the files of skills; each file is replaced whole or not at all.

    Args:
        skills: The skills that were checked: of what they are made is all that is changed.
        findings: What was found.
        roots: The folders that the user means; a link out of them is not followed.
    """
    own = {
        shown_path(file)
        for entry in skills.entries
        if entry.skill.source in _OWN_SOURCES
        for file in _files(entry.skill.folder, entry.skill.manifest, entry.skill.text_file)
    }
    done = [
        _fix_file(Path(file), list(group), roots)
        for file, group in _by_file(findings)
        if file is not None and file in own
    ]
    return [each for each in done if each is not None]


def _files(folder: Path, *files: Path | None) -> Iterator[Path]:
    """Yield the files of a skill that may be fixed; one that cannot be read has no other name."""
    yield from (folder / name for name in (TEXT_FILE, *MANIFESTS))
    yield from (file for file in files if file is not None)


def _fix_file(file: Path, findings: Sequence[Finding], roots: Sequence[Path]) -> FixedFile | None:
    data = _read(file)
    text = None if data is None else _decoded(data)
    if data is None or text is None:
        return None
    change = _edits(text, findings) or _rename(file, findings) or _move(file, text, findings)
    if change is None:
        return None
    real, shown = Path(os.path.realpath(file)), shown_path(file)
    if not any(real.is_relative_to(os.path.realpath(root)) for root in roots):
        return FixedFile(shown, 0, f"it is a link to {real}, outside of what is checked")
    try:
        if _read(real) != data:
            return FixedFile(shown, 0, "it was changed in the meantime")
        change.write(real)
    except OSError as error:
        return FixedFile(shown, 0, f"it cannot be written: {error.strerror}")
    return FixedFile(shown, change.fixes)


@dataclass(frozen=True, slots=True)
class _Change:
    """The change of one file."""

    fixes: int
    write: Callable[[Path], None]


def _edits(text: str, findings: Sequence[Finding]) -> _Change | None:
    source = Source(text)
    found = [with_edits(each, source) for each in findings]
    after, made = apply_fixes(text, [each.fix for each in found if each.fix and each.fix.edits])
    if after == text:
        return None
    return _Change(made, lambda file: replace_file(file, after.encode("utf-8")))


def _move(file: Path, text: str, findings: Sequence[Finding]) -> _Change | None:
    """Return the move of a contract out of a SKILL.md, when nothing else is left to fix in it."""
    if all(each.code not in MOVED for each in findings) or file.is_symlink():
        return None
    move = contract_move(file, text)
    return None if move is None else _Change(1, lambda real: move_contract(real, move))


def _rename(file: Path, findings: Sequence[Finding]) -> _Change | None:
    """Return the renaming of a `skill.md`, where nothing is called like it must be."""
    if all(each.code != "CH0008" for each in findings) or file.is_symlink():
        return None
    if os.path.lexists(file.with_name(TEXT_FILE)):
        return None
    return _Change(1, _to_right_name)


def _to_right_name(file: Path) -> None:
    file.rename(file.with_name(TEXT_FILE))


def _by_file(findings: Iterable[Finding]) -> Iterator[tuple[str | None, Iterable[Finding]]]:
    return groupby(sorted_findings(findings), key=lambda each: each.file)


def _read(file: Path) -> bytes | None:
    try:
        with file.open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
    except OSError:
        return None
    return data if len(data) <= MAX_BYTES else None


def _decoded(data: bytes) -> str | None:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return None
