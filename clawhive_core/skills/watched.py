"""A set of skills that is checked again after each change, as far as the change reaches."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from pathlib import Path

from clawhive_core.config.config import Config
from clawhive_core.model.late import dataclass
from clawhive_core.protocols.stores import SkillSource
from clawhive_core.skills.changes.history import WorkTreeDates
from clawhive_core.skills.checks.required import KnownTools
from clawhive_core.skills.checks.resolve import CheckCache
from clawhive_core.skills.discovery.reading import Location, Reader, ReadSkill, read_skill
from clawhive_core.skills.discovery.search import search_path
from clawhive_core.skills.discovery.shipped import SOURCE
from clawhive_core.skills.discovery.skill_set import SkillSet
from clawhive_core.skills.load import FoundSkills

_MANY = 20
"""The number of changes outside of known skills from which reading everything again is cheaper."""


class WatchedSkills:
    """The skills of a project while their files change.

    A change inside of a skill's folder reads that skill again; any other change looks for skills
    again, and reads those that are new. What each skill says of the others is checked again where
    something has changed that the check looked at.

    Args:
        config: See `load_skills`; it is not read again.
        sources: See there.
        paths: See there.
        tools: See there.
    """

    def __init__(
        self,
        config: Config,
        sources: Sequence[SkillSource],
        paths: Sequence[Path],
        tools: KnownTools | None,
    ) -> None:
        self._config = config
        self._sources = sources
        self._paths = paths
        self._tools = tools
        self._checks = CheckCache()
        self._dates = WorkTreeDates()
        self._reads = _Reads()
        self._found: FoundSkills | None = None
        self._index: dict[str, int] = {}

    def folders(self) -> list[str]:
        """Return where skills are looked for, the shipped ones left out; some may not exist."""
        roots = search_path(self._config, self._sources).roots
        found = [root.folder for root in roots if root.source != SOURCE]
        given = [path.parent if path.is_file() else path for path in self._paths]
        return list(dict.fromkeys(os.path.realpath(folder) for folder in (*given, *found)))

    def check(self, changed: Collection[str] | None = None) -> SkillSet:
        """Return the set as it is now.

        Args:
            changed: The absolute paths that changed since the last time; None for all.

        Raises:
            UsageError: A path to be checked does not exist.
        """
        if changed is None or not self._updated(changed):
            self._collect(everything=changed is None)
        if self._found is None:
            raise AssertionError("the skills were just collected")
        return self._found.result(self._tools, self._checks)

    def _updated(self, changed: Collection[str]) -> bool:
        """Read the changed skills again; answer whether it is still the same set."""
        inside = {path: self._skill_around(path) for path in changed}
        outside = [path for path, index in inside.items() if index is None]
        dirty = {index for index in inside.values() if index is not None}
        if self._found is None or len(outside) > _MANY:
            self._reads.forget_all()
            return False
        for path in outside:
            self._reads.forget_below(path)
        for index in dirty:
            self._reads.forget(self._found.locations[index][0])
        done = [self._found.read_again(index) for index in sorted(dirty)]
        return not outside and all(done)

    def _skill_around(self, path: str) -> int | None:
        """Return the skill inside of which a path lies; a skill's own path does not."""
        if path in self._index:
            return None
        while (above := os.path.dirname(path)) != path:  # noqa: PTH120 - as a text
            if above in self._index:
                return self._index[above]
            path = above
        return None

    def _collect(self, *, everything: bool) -> None:
        if everything:
            self._reads.forget_all()
        found = FoundSkills(self._config, self._reads, seen_by_git=self._dates)
        found.collect(self._paths, self._sources)
        self._found, self._index = found, {}
        for index, (location, real) in enumerate(found.locations):
            self._index[real] = self._index[os.path.abspath(location.path)] = index  # noqa: PTH100 - links stay


class _Reads(Reader):
    """A reader that reads a skill again when it is told to."""

    def __init__(self) -> None:
        self._reads: dict[str, _Read] = {}

    def known(self, path: str) -> Location | None:
        """Return the skill at a path that was read before."""
        kept = self._reads.get(path)
        return None if kept is None else kept.location

    def read(self, location: Location, source: str) -> ReadSkill:
        """Return a skill, as it was read before where it is known."""
        kept = self._reads.get(location.path)
        if kept is None or kept.source != source:
            whole = os.path.join(os.path.abspath(location.path), "")  # noqa: PTH100, PTH118 - as texts
            kept = _Read(location, source, whole, read_skill(location, source))
            self._reads[location.path] = kept
        return kept.read

    def forget(self, location: Location) -> None:
        """Forget one skill."""
        self._reads.pop(location.path, None)

    def forget_below(self, path: str) -> None:
        """Forget every skill at or below an absolute path."""
        folder = os.path.join(path, "")  # noqa: PTH118 - as a text
        for name, kept in list(self._reads.items()):
            if kept.whole.startswith(folder):
                del self._reads[name]

    def forget_all(self) -> None:
        """Forget every skill."""
        self._reads.clear()


@dataclass(frozen=True, slots=True)
class _Read:
    """A skill that was read."""

    location: Location
    source: str
    whole: str
    """Its absolute path, with a separator at its end."""
    read: ReadSkill
