"""Locking anew: what would be written, what is accepted with it, and what stands in the way."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from clawhive_core.diagnostics.files import shown_path
from clawhive_core.diagnostics.finding import Finding, count, sorted_findings
from clawhive_core.model.late import dataclass
from clawhive_core.skills.checks.required import KnownTools
from clawhive_core.skills.contracts.skill import Skill
from clawhive_core.skills.discovery.skill_set import SkillSet
from clawhive_core.skills.documents.document import with_severity
from clawhive_core.skills.locking.differences import Differences
from clawhive_core.skills.locking.lock_file import NAME, RELOCK, LockFile, encoded
from clawhive_core.skills.locking.locker import Locker
from clawhive_core.skills.locking.project_lock import ProjectLock

State = Literal["current", "stale", "written", "blocked"]
_ACCEPTED = frozenset({"CH0815", "CH0705", "CH0801", "CH0611", "CH0612"})
"""Errors that do not stand in the way: what locking accepts, what a catalog elsewhere may offer,
and what only follows from another error."""


@dataclass(frozen=True, slots=True)
class Relock:
    """A lock that could be written."""

    file: LockFile
    state: State
    findings: tuple[Finding, ...]
    """Findings that it would accept, else those that stand in the way; sorted."""
    data: bytes = b""
    skills: int = 0

    @classmethod
    def of(cls, found: SkillSet, root: Path, tools: KnownTools) -> Relock:
        """Return the lock of the skills that were found.

        Args:
            found: The project's skills, as every start finds them.
            root: The project's root.
            tools: What there is to require.
        """
        project = ProjectLock.open(root)
        if project.problem is not None:
            return cls(project.file, "blocked", (project.problem,))
        wrong = sorted_findings(_in_the_way(found, Locker(root, project.old)))
        if wrong:
            return cls(project.file, "blocked", tuple(wrong))
        skills = _winners(found)
        differences = project.differences(skills, frozenset(), datetime.now(UTC).date(), tools)
        data, before = encoded(differences.new), project.file.data()
        state: State = "current" if data == before else "stale"
        findings = () if before is None else tuple(_accepted(differences, project.file))
        return cls(project.file, state, findings, data, len(differences.new.skills))

    def frozen(self) -> Relock:
        """Return it as it counts where nothing may change: why it would, as errors."""
        if self.state != "stale":
            return self
        found = [with_severity(each, "error") for each in self.findings]
        if not found:
            there = self.file.path.exists()
            message = f"{NAME} is not as it would be written" if there else f"there is no {NAME}"
            code = "CH0823" if there else "CH0804"
            found = [self.file.place().finding(code, "error", message, RELOCK)]
        return Relock(self.file, "stale", tuple(found), self.data, self.skills)

    def write(self) -> Relock:
        """Write it where it would change, and return it as it is then.

        Raises:
            StorageError: It cannot be written; the old one is as it was.
        """
        if self.state != "stale":
            return self
        self.file.write(self.data)
        return Relock(self.file, "written", self.findings, self.data, self.skills)

    def to_dict(self) -> dict[str, Any]:
        """Return the object of `skills lock --json` (schema `skills-lock/1`)."""
        return {
            "schema": "skills-lock/1",
            "file": shown_path(self.file.path),
            "state": self.state,
            "summary": {"skills": self.skills, **count(self.findings)},
            "findings": [finding.to_dict() for finding in self.findings],
        }


def _winners(found: SkillSet) -> dict[str, Skill]:
    return {each.skill.id: each.skill for each in found.entries if each.state != "shadowed"}


def _in_the_way(found: SkillSet, locker: Locker) -> Iterator[Finding]:
    """Yield errors of what would be locked, and those that keep skills from being found."""
    chosen = locker.chosen(_winners(found))
    others = {
        finding
        for entry in found.entries
        if entry.skill.id not in chosen
        for finding in entry.findings
    }
    for each in found.findings:
        if each.severity == "error" and each.code not in _ACCEPTED and each not in others:
            yield each


def _accepted(differences: Differences, file: LockFile) -> list[Finding]:
    found = [each for some in differences.by_skill().values() for each in some]
    return sorted_findings([*found, *differences.gone(file)])
