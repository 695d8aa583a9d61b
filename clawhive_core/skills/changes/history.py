"""The history of deprecations in a contract, as git tells it."""

from __future__ import annotations

from dataclasses import field
from datetime import UTC, date, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from clawhive_core.errors import UsageError
from clawhive_core.model.late import dataclass
from clawhive_core.skills.changes.git import NAMED, Repository, write_out
from clawhive_core.skills.contracts.skill import Exports, Skill
from clawhive_core.skills.discovery.reading import read_contract

MOST_COMMITS = 500
"""The number of commits that are searched for the start of a deprecation."""


@dataclass(frozen=True, slots=True)
class History:
    """The contracts of a commit, and of those before it."""

    repository: Repository
    commit: str
    _read: dict[tuple[str, str], Exports | None] = field(
        default_factory=dict[tuple[str, str], "Exports | None"]
    )

    def announced(self, path: str, tool: str, since: date | None = None) -> date | None:
        """Return the day of the first commit from which on a tool was deprecated.

        Args:
            path: The contract, from the root of the repository on.
            tool: Its name.
            since: The day that counts where the commit exports the tool and does not deprecate it.

        Raises:
            UsageError: `git_failed`: what is asked for is not in this clone.
        """
        found: date | None = None
        for commit, day in self.repository.history(self.commit, path, MOST_COMMITS):
            if (commit, path) not in self._read:  # another tool of it was asked about
                self._read[commit, path] = self._exports(commit, path)
            exports = self._read[commit, path]
            if exports is None:
                return found
            if all(each.tool != tool for each in exports.deprecated):
                return since if found is None and tool in exports.names() else found
            found = day
        return found

    def _exports(self, commit: str, path: str) -> Exports | None:
        """Return what a contract exported, None where it was not there."""
        blobs = [each for each in self.repository.files(commit, path) if each.path == path]
        if not blobs:
            return None
        with TemporaryDirectory(prefix="clawhive-") as folder:
            write_out(self.repository, blobs, Path(folder))
            file = Path(folder) / path
            if not file.exists():  # a link
                return None
            contract = file.parent if file.name in NAMED else file
            return read_contract(contract, "given").skill.exports


class WorkTreeDates:
    """Since when the contracts in work trees deprecate their tools.

    What is not committed yet counts from today on. The answers are kept, so that git is asked once
    about each tool; it is not asked at all about what its contract dates.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[Path, str], date | None] = {}
        self._histories: dict[tuple[Path, str], History] = {}

    def __call__(self, skill: Skill, tool: str) -> date | None:
        """Return the day; None where git does not know it, or is not there."""
        key = (skill.file, tool)
        if key not in self._known:
            try:
                self._known[key] = self._announced(skill.file, tool)
            except UsageError:
                self._known[key] = None
        return self._known[key]

    def _announced(self, file: Path, tool: str) -> date | None:
        repository = Repository.around(file.parent)
        path = repository.path_of(file)
        if path is None:
            return None
        commit = repository.commit("HEAD")
        key = (repository.root, commit)
        history = self._histories.setdefault(key, History(repository, commit))
        return history.announced(path, tool, datetime.now(UTC).date())
