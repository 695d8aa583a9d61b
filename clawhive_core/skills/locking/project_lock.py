"""The lock of a project, and a set of skills checked against it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

from clawhive_core.diagnostics.finding import Finding
from clawhive_core.model.late import dataclass
from clawhive_core.skills.checks.required import KnownTools, Locked
from clawhive_core.skills.contracts.skill import Skill
from clawhive_core.skills.locking.lock_file import InvalidLock, Lock, LockFile
from clawhive_core.skills.locking.locker import Locker, dated

if TYPE_CHECKING:
    from clawhive_core.skills.locking.differences import Differences


@dataclass(frozen=True, slots=True)
class ProjectLock:
    """The lock of a project; empty, where there is none or it cannot be used."""

    file: LockFile
    lock: Lock | None
    problem: Finding | None = None
    """The reason why the file cannot be used."""

    @classmethod
    def open(cls, root: Path) -> ProjectLock:
        """Return the lock of the project whose root this is."""
        file = LockFile(root)
        try:
            return cls(file, file.read())
        except InvalidLock as error:
            return cls(file, None, error.finding)

    @property
    def tools(self) -> Locked:
        """The providers of what each skill requires, by the skill's id."""
        return {name: skill.tools for name, skill in self.old.skills.items()}

    @property
    def old(self) -> Lock:
        """The locked skills."""
        return Lock() if self.lock is None else self.lock

    def dated(self, skills: Iterable[Skill], today: date) -> list[Skill]:
        """Return the skills that are locked, each removal with the day it was first seen."""
        known = self.old.skills
        if not known:
            return []
        return [dated(each, known[each.id], today) for each in skills if each.id in known]

    def differences(
        self,
        skills: Mapping[str, Skill],
        unread: frozenset[str],
        today: date,
        tools: KnownTools | None,
    ) -> Differences:
        """Return what skills are against what was locked; without a lock, nothing was.

        Args:
            skills: All that are found and can be read, by their ids.
            unread: The ids of those that cannot.
            today: The day that removals are checked against.
            tools: What there is to require; without it no file is read for its digest.
        """
        from clawhive_core.skills.locking.differences import Differences

        locker = Locker(self.file.root, self.old, tools, contents=tools is not None)
        return Differences(self.old, locker.lock(skills), skills, today, unread)
