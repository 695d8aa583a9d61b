"""Skills of a git revision: the files of contracts, written out while they are compared."""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from datetime import date
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory

from clawhive_core.diagnostics.finding import Finding
from clawhive_core.diagnostics.shown import shown_path
from clawhive_core.errors import UsageError
from clawhive_core.model.late import dataclass
from clawhive_core.model.patterns import pattern
from clawhive_core.skills.changes.git import Blob, Repository
from clawhive_core.skills.changes.history import History
from clawhive_core.skills.changes.side import Side, side_of
from clawhive_core.skills.changes.written_out import NAMED, write_out
from clawhive_core.skills.contracts.skill import Skill
from clawhive_core.skills.documents.place import Place

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
