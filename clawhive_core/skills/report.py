"""What a check of skills found."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any

from clawhive_core.diagnostics.finding import Finding, count
from clawhive_core.skills.skill_set import SkillSet


@dataclass(frozen=True, slots=True)
class SkillReport:
    """The checked skills, what is wrong with them, and how long that took."""

    skills: SkillSet
    seconds: float

    @classmethod
    def of(cls, check: Callable[[], SkillSet]) -> SkillReport:
        """Return the report of a check that is made now."""
        begin = perf_counter()
        found = check()
        return cls(found, perf_counter() - begin)

    @property
    def findings(self) -> Sequence[Finding]:
        """The findings, sorted by place."""
        return self.skills.findings

    @property
    def ok(self) -> bool:
        """Whether there is no error."""
        return count(self.findings)["errors"] == 0

    def to_dict(self) -> dict[str, Any]:
        """Return the object of `skills check --json` (schema `check/1`)."""
        numbers = count(self.findings)
        return {
            "schema": "check/1",
            "summary": {
                "skills": len(self.skills.entries),
                **numbers,
                "seconds": round(self.seconds, 3),
            },
            "findings": [finding.to_dict() for finding in self.findings],
        }
