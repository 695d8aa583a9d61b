"""What reads skills for a set: from their files, or from what is kept of an earlier reading."""

from __future__ import annotations

from collections.abc import Sequence

from clawhive_core.skills.finding.reading import ReadSkill, read_skill
from clawhive_core.skills.finding.spot import Spot, skill_files


class Reader:
    """Reads every file anew: what a start does, because trust must not rest on a cache."""

    def expect(self, paths: Sequence[str]) -> None:
        """Prepare for questions about some paths."""

    def known(self, path: str) -> Spot | None:
        """Return the skill that a path is known to be, without a look at its files."""
        del path
        return None

    def files(self, folder: str) -> tuple[str, ...]:
        """Return which files of a skill a folder holds, as `skill_files` does."""
        known = self.known(folder)
        return skill_files(folder) if known is None else known.files or ()

    def read(self, spot: Spot, source: str) -> ReadSkill:
        """Return a skill, as `read_skill` does."""
        return read_skill(spot, source)
