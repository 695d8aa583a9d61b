"""The report of a check of skills."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any

from clawhive_core.diagnostics.baseline import Baseline
from clawhive_core.diagnostics.finding import Finding, count, sorted_findings
from clawhive_core.model.late import dataclass
from clawhive_core.skills.checks.profiles import Profile, at_profile
from clawhive_core.skills.discovery.skill_set import SkillSet
from clawhive_core.skills.fixing.files import KnownEdits, with_fixes


@dataclass(frozen=True, slots=True)
class SkillReport:
    """The checked skills, what is wrong with them, and how long that took."""

    skills: SkillSet
    seconds: float
    findings: Sequence[Finding] = ()
    """Sorted by place, each with the edits that mend it where these are certain."""
    baselined: int | None = None
    """The number of findings that a baseline keeps back, None without one."""

    @classmethod
    def of(
        cls,
        check: Callable[[], SkillSet],
        profile: Profile = "lenient",
        known: KnownEdits | None = None,
    ) -> SkillReport:
        """Return the report of a check that is made now.

        Args:
            check: Makes it.
            profile: How its findings weigh.
            known: The edits of findings that the same check made before.
        """
        begin = perf_counter()
        skills = check()
        found = with_fixes(sorted_findings(at_profile(skills, profile)), known)
        return cls(skills, perf_counter() - begin, found)

    @property
    def ok(self) -> bool:
        """Whether there is no error."""
        return self.passes()

    def passes(self, *, strict: bool = False) -> bool:
        """Whether there is no error, and if it is strict no warning."""
        numbers = count(self.findings)
        return not numbers["errors"] and not (strict and numbers["warnings"])

    @property
    def fixable(self) -> int:
        """The number of findings that `--fix` mends."""
        return sum(1 for each in self.findings if each.fix is not None and each.fix.edits)

    def without(self, baseline: Baseline) -> SkillReport:
        """Return the report without what a baseline knows."""
        new = baseline.new(self.findings)
        return SkillReport(self.skills, self.seconds, new, len(self.findings) - len(new))

    def to_dict(self) -> dict[str, Any]:
        """Return the object of `skills check --json` (schema `check/1`)."""
        known = {} if self.baselined is None else {"baselined": self.baselined}
        codes = Counter(finding.code for finding in self.findings)
        return {
            "schema": "check/1",
            "summary": {
                "skills": len(self.skills.entries),
                **count(self.findings),
                **known,
                "seconds": round(self.seconds, 3),
            },
            "codes": dict(sorted(codes.items())),
            "findings": [finding.to_dict() for finding in self.findings],
        }
