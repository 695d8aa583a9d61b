"""One side of a comparison: the skills below a path, now or in a revision."""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import field, replace
from datetime import date
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory

from clawhive_core.diagnostics.files import shown_path
from clawhive_core.diagnostics.finding import Finding, Fix
from clawhive_core.errors import UsageError
from clawhive_core.model.late import dataclass
from clawhive_core.model.patterns import pattern
from clawhive_core.skills.changes.change import Dated, undated
from clawhive_core.skills.changes.git import NAMED, Blob, Repository, write_out
from clawhive_core.skills.changes.history import History
from clawhive_core.skills.contracts.skill import Skill
from clawhive_core.skills.discovery.reading import Reader, ReadSkill, is_skill, read_contract
from clawhive_core.skills.discovery.search import skills_below
from clawhive_core.skills.documents.place import Place


@dataclass(frozen=True, slots=True)
class Side:
    """The skills of one side."""

    label: str
    """The user's words: a path, or `git:REF:PATH`."""
    root: Path
    skills: tuple[ReadSkill, ...]
    """The first of each id, in the order of their paths."""
    day: date
    """The day that it counts as published: today, or that of its commit."""
    dated: Dated = undated
    is_one: bool = False
    """Whether a skill was named, and not a folder of skills."""
    findings: tuple[Finding, ...] = ()
    """Findings of skills that could not be read at all."""
    shown: Callable[[str], str] = field(default=str)
    """Turns a text with paths of files into one with the names that its reader knows."""

    def told(self, finding: Finding) -> Finding:
        """Return a finding with names of files that its reader knows."""
        fix = finding.fix
        return replace(
            finding,
            message=self.shown(finding.message),
            file=None if finding.file is None else self.shown(finding.file),
            fix=None if fix is None else Fix(self.shown(fix.title), fix.edits),
        )

    @property
    def place(self) -> Place:
        """The place of what belongs to no file of it."""
        return Place(self.shown(shown_path(self.root)))


def side_of(path: Path, day: date, *, strays: bool = True) -> Side:
    """Return the skills of a path: a skill's folder, a folder of skills, or a manifest.

    Args:
        path: The path.
        day: The day that it counts as published.
        strays: Whether a manifest alone right in it is a skill; what lies in a folder that nobody
            named may be anything.

    Raises:
        UsageError: There is no such path.
    """
    found: dict[str, ReadSkill] = {}
    named = strays or path.name == "skills"
    for location in skills_below(path, Reader()):
        if not named and location.files is None and Path(location.path).parent == path:
            continue
        read = read_contract(location, "given")
        found.setdefault(read.skill.id, read)
    one = path.is_file() or is_skill(path)
    return Side(shown_path(path), path, tuple(found.values()), day, is_one=one)


SCHEME = "git:"
_SPELLING = pattern(r"((?:[^:{]|\{[^}]*\})+)(?::(.*))?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Revision:
    """`git:REF` or `git:REF:PATH`, as it was written."""

    ref: str
    path: str | None
    """From the root of the repository on, from the current folder where it begins with `./` or
    `../`, as git reads it; None where none was written."""

    @classmethod
    def read(cls, text: str) -> Revision | None:
        """Return the revision that a text spells, None where it is a path.

        Raises:
            UsageError: It begins with `git:` and names nothing.
        """
        if not text.startswith(SCHEME):
            return None
        match = _SPELLING.fullmatch(text.removeprefix(SCHEME))
        if match is None or "\0" in text:
            fix = "write git:REF or git:REF:PATH, such as git:origin/main:skills"
            raise UsageError(f"`{text}` names no revision", place=text, fix=fix)
        return cls(match[1], match[2])

    def path_in(self, repository: Repository) -> str | None:
        """Return the path from the root of the repository on; empty for the root itself.

        Raises:
            UsageError: It leads out of the repository.
        """
        if self.path is None:
            return None
        is_relative = self.path.split("/", 1)[0] in {".", ".."}
        here = repository.path_of(Path.cwd()) if is_relative else ""
        path = posixpath.normpath(posixpath.join(here or "", self.path) or ".")
        if here is None or path.startswith(("/", "../")) or path == "..":
            raise UsageError(
                f"`{self.path}` leads out of the repository",
                place=f"{SCHEME}{self.ref}:{self.path}",
                fix="write it from the root of the repository on, or begin it with ./",
            )
        return "" if path == "." else path


@contextmanager
def side_of_revision(
    repository: Repository, revision: Revision, path: str, *, strays: bool
) -> Generator[Side]:
    """Give the skills of a revision, below a path or at it.

    Args:
        repository: The repository.
        revision: Names the commit.
        path: From the root of the repository on.
        strays: As for `side_of`.

    Raises:
        UsageError: There is no such commit or path, it is too large, or git fails.
    """
    commit = repository.commit(revision.ref)
    if _name(path) in NAMED:
        path = path.rpartition("/")[0]
    label = f"{SCHEME}{revision.ref}{f':{path}' if path else ''}"
    blobs = [each for each in repository.files(commit, path) if _is_safe(each.path)]
    if not blobs and revision.path is not None:
        raise UsageError(
            f"`{revision.ref}` holds no {path or 'files'}",
            code="unknown_revision",
            place=label,
            fix=f"look what it holds: git ls-tree -r --name-only {revision.ref}",
        )
    with TemporaryDirectory(prefix="clawhive-") as folder:
        top = Path(folder) / (repository.root.name or "root")
        shown = _Names(f"{shown_path(top)}{os.sep}", f"{SCHEME}{revision.ref}:")
        write_out(repository, [each for each in blobs if is_wanted(each.path, path)], top)
        at = top / path
        day = repository.day(commit)
        side = side_of(at, day, strays=strays) if at.exists() else Side(label, at, (), day)
        links = [each for each in blobs if each.is_link and _name(each.path) in NAMED]
        history = History(repository, commit)

        def announced(skill: Skill, tool: str) -> date | None:
            return history.announced(skill.file.relative_to(top).as_posix(), tool)

        yield replace(
            side,
            label=label,
            dated=announced,
            findings=tuple(_link_finding(each, label) for each in links),
            shown=shown,
        )


def is_wanted(path: str, below: str) -> bool:
    """Whether a file may be a contract: of a skill's folder, or a manifest alone.

    Args:
        path: The file, from the root of the repository on.
        below: The path that skills are looked for at and below.
    """
    file = PurePosixPath(path)
    if file.name in NAMED or path == below:
        return True
    holder = str(file.parent)
    return file.suffix in {".yaml", ".json"} and (
        file.parent.name == "skills" or holder == (below or ".")
    )


def _is_safe(path: str) -> bool:
    """Whether a path stays below the folder that it is written into; a tree may hold any name."""
    return all(part not in {"", ".", ".."} for part in path.split("/")) and (
        os.sep == "/" or not any(sign in path for sign in "\\:")
    )


def _name(path: str) -> str:
    return path.rpartition("/")[2]


def _link_finding(blob: Blob, label: str) -> Finding:
    message = f"{blob.path} is a link in {label}, and links of a revision are not followed"
    return Place(blob.path).finding("CH0837", "note", message, "compare two folders")


@dataclass(frozen=True, slots=True)
class _Names:
    """Turns paths in the temporary folder into names of the revision's files."""

    folder: str
    prefix: str

    def __call__(self, text: str) -> str:
        return text.replace(self.folder, self.prefix)
