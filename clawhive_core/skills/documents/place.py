"""Places in the files of skills."""

from __future__ import annotations

import os
from pathlib import Path

from clawhive_core.diagnostics.finding import Finding, Fix, Severity
from clawhive_core.errors import SkillError
from clawhive_core.model.late import dataclass
from clawhive_core.model.texts import printable

KeyPath = tuple[str | int, ...]
"""The keys and indexes that lead to a value in a document."""

_MAX_MESSAGE = 2000


@dataclass(frozen=True, slots=True)
class Place:
    """A place in a file; lines and columns count from 1."""

    file: str
    line: int | None = None
    column: int | None = None

    def finding(
        self,
        code: str,
        severity: Severity,
        message: str,
        fix: str | None = None,
        about: tuple[str, ...] = (),
    ) -> Finding:
        """Return a finding at this place; what it quotes is cut and fit for a terminal."""
        return Finding(
            code,
            severity,
            printable(message[:_MAX_MESSAGE]),
            file=self.file,
            line=self.line,
            column=self.column,
            fix=None if fix is None else Fix(printable(fix[:_MAX_MESSAGE])),
            about=about,
        )

    def __str__(self) -> str:
        known = (self.file, self.line, self.column)
        return ":".join(str(part) for part in known if part is not None)


@dataclass(frozen=True, slots=True)
class Named:
    """A name that a contract holds, and where it stands."""

    name: str
    place: Place


class InvalidSkill(SkillError):
    """A skill cannot be read, for the reason that its finding gives."""

    def __init__(self, finding: Finding) -> None:
        fix = None if finding.fix is None else finding.fix.title
        super().__init__(finding.message, place=finding.place, fix=fix)
        self.finding = finding


def is_file(path: Path | str) -> bool:
    """Whether a path is a regular file; one that cannot be looked at is none."""
    return os.path.isfile(path)  # noqa: PTH113 - never raises, as Path.is_file does


def is_folder(path: Path | str) -> bool:
    """Whether a path is a folder; one that cannot be looked at is none."""
    return os.path.isdir(path)  # noqa: PTH112 - never raises, as Path.is_dir does


def dotted(path: KeyPath) -> str:
    """Return the path of a value as messages name it."""
    return ".".join(str(part) for part in path)
