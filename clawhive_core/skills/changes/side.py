"""One side of a comparison: the skills below a path, without what is around them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field, replace
from datetime import date
from pathlib import Path

from clawhive_core.diagnostics.finding import Finding, Fix
from clawhive_core.diagnostics.shown import shown_path
from clawhive_core.model.late import dataclass
from clawhive_core.skills.changes.notice import Dated, undated
from clawhive_core.skills.documents.place import Place
from clawhive_core.skills.finding.reader import Reader
from clawhive_core.skills.finding.reading import ReadSkill, is_skill, read_contract
from clawhive_core.skills.finding.search import skills_below


@dataclass(frozen=True, slots=True)
class Side:
    """The skills of one side."""

    label: str
    """What the user wrote: a path, or `git:REF:PATH`."""
    root: Path
    skills: tuple[ReadSkill, ...]
    """The first of each id, in the order of their paths."""
    day: date
    """The day that it counts as published: today, or that of its commit."""
    dated: Dated = undated
    is_one: bool = False
    """Whether a skill was named, and not a folder of skills."""
    findings: tuple[Finding, ...] = ()
    """What could not be read at all."""
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
    for spot in skills_below(path, Reader()):
        if not named and spot.files is None and Path(spot.path).parent == path:
            continue
        read = read_contract(spot, "given")
        found.setdefault(read.skill.id, read)
    one = path.is_file() or is_skill(path)
    return Side(shown_path(path), path, tuple(found.values()), day, is_one=one)
