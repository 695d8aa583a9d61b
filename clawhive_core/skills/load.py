"""The set of skills: found, read, compared with each other, each with its state.

One function for `clawhive skills check` and for every start: what is invalid is left out with its
findings, before the catalog is assembled.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime
from functools import partial
from pathlib import Path

from clawhive_core.config.config import Config
from clawhive_core.diagnostics.files import shown_path
from clawhive_core.diagnostics.finding import Finding, sorted_findings
from clawhive_core.errors import StorageError
from clawhive_core.model.texts import printable
from clawhive_core.protocols.stores import SkillSource
from clawhive_core.skills.checks.required import KnownTools
from clawhive_core.skills.checks.resolve import CheckCache
from clawhive_core.skills.checks.set_check import SetCheck
from clawhive_core.skills.contracts.deprecation import dated
from clawhive_core.skills.contracts.skill import Phase, Skill
from clawhive_core.skills.discovery.decisions import SkillTrust, Switches, is_trusted
from clawhive_core.skills.discovery.gate import missing
from clawhive_core.skills.discovery.reading import (
    Location,
    Reader,
    ReadSkill,
    is_skill,
    skill_files,
    weighed,
)
from clawhive_core.skills.discovery.search import empty_finding, search_path, skills_below
from clawhive_core.skills.discovery.shipped import SOURCE as SHIPPED
from clawhive_core.skills.discovery.shipped import changed_file
from clawhive_core.skills.discovery.skill_set import Entry, SkillSet
from clawhive_core.skills.documents.place import Place
from clawhive_core.skills.locking.locker import GIVEN
from clawhive_core.skills.locking.project_lock import ProjectLock


def load_skills(
    config: Config,
    sources: Sequence[SkillSource] = (),
    *,
    env: Mapping[str, str] | None = None,
    paths: Sequence[Path] = (),
    tools: KnownTools | None = None,
) -> SkillSet:
    """Return the set of skills; it never raises for what a skill's file says.

    Args:
        config: Says where the project and the user are, and which skills are off.
        sources: Further places, from plugins.
        env: The environment that gates skills; this process's otherwise.
        paths: What is to be checked, before the search path; findings are then of these only.
        tools: What `requires.tools` is checked against; without it, `check_tools` does so later,
            and files that only the lock has a digest of are not read.

    Raises:
        UsageError: One of `paths` does not exist.
        StorageError: The list of skills that are off cannot be used.
    """
    found = FoundSkills(config, Reader(), env)
    found.collect(paths, sources)
    return found.result(tools)


class FoundSkills:
    """The skills while they are collected.

    Args:
        config: See `load_skills`.
        reader: What reads their files.
        env: See `load_skills`.
        seen_by_git: Says when git first saw the deprecation of a tool that its contract does not
            date; a start does not ask for it.
    """

    def __init__(
        self,
        config: Config,
        reader: Reader,
        env: Mapping[str, str] | None = None,
        seen_by_git: Callable[[Skill, str], date | None] | None = None,
    ) -> None:
        self.locations: list[tuple[Location, str]] = []
        """The location of each entry, and its real path."""
        self._config = config
        self._reader = reader
        self._only_given = False
        self.findings: list[Finding] = []
        self._env = os.environ if env is None else env
        self._seen_by_git = seen_by_git
        self._phase: Phase = config.get("contracts.phase")
        self._off = Switches(config).reasons()
        self._trusted = self._digests(SkillTrust(config.user_dir))
        self._entries: list[Entry] = []
        self._winners: dict[str, int] = {}
        """The index of the entry that an id means."""
        self._seen: dict[str, int] = {}
        """The index of the entry of each real path."""
        self._homes: dict[int, str] = {}
        """The part of the search path that leads to an entry that was given by its path."""
        self._whole: set[str] = set()
        """Real paths of folders whose skills were all added."""
        self._real_folders: dict[str, str] = {}

    def collect(self, paths: Sequence[Path], sources: Sequence[SkillSource]) -> None:
        """Find and read the skills below paths, then those of the search path.

        Raises:
            UsageError: One of `paths` does not exist.
        """
        self._only_given = bool(paths)
        for path in sorted(paths):  # whatever their order, the same one of equal names counts
            self._add_path(path)
        search = search_path(self._config, sources)
        self.findings.extend(search.findings)
        for root in search.roots:
            folder = os.path.realpath(root.folder)
            if folder in self._whole:
                self._find_home(folder, root.source)
            else:
                self._add(root.locations(self._reader), root.source)

    def _find_home(self, folder: str, source: str) -> None:
        """Note what would lead to the skills that were given with a whole folder."""
        inside = os.path.join(folder, "")  # noqa: PTH118 - of texts
        for index, (_, real) in enumerate(self.locations):
            if real.startswith(inside):
                self._homes.setdefault(index, source)

    def _add_path(self, path: Path) -> None:
        locations = skills_below(path, self._reader)
        if not locations:
            self.findings.append(empty_finding(path))
        if not is_skill(path):
            self._whole.add(os.path.realpath(path))
        self._add(locations, GIVEN)

    def _add(self, locations: Sequence[Location], source: str) -> None:
        for location in locations:
            real = self._real(location)
            if real in self._seen:
                if source != GIVEN:
                    self._homes.setdefault(self._seen[real], source)
            else:
                self._seen[real] = len(self._entries)
                read = weighed(self._reader.read(location, source), self._phase)
                self._entries.append(self._entry(read, location))
                self.locations.append((location, real))
                self._winners.setdefault(read.skill.id, len(self._entries) - 1)

    def read_again(self, index: int) -> bool:
        """Read one skill again; answer whether that leaves all others as they were found.

        Args:
            index: Its place in `locations`.
        """
        location, before = self.locations[index][0], self._entries[index].skill
        if location.files is not None and skill_files(location.path) != location.files:
            return False
        read = weighed(self._reader.read(location, before.source), self._phase)
        if (read.skill.id, read.skill.file) != (before.id, before.file):
            return False
        wins = self._winners[before.id] == index
        if wins:
            del self._winners[before.id]
        self._entries[index] = self._entry(read, location)
        if wins:
            self._winners[before.id] = index
        return True

    def _real(self, location: Location) -> str:
        """Return the real path; that of the folder around it is looked up once."""
        around, _, name = location.path.rpartition(os.sep)
        if location.is_link or not name or not around:
            return os.path.realpath(location.path)
        real = self._real_folders.get(around)
        if real is None:
            real = os.path.join(os.path.realpath(around), "")  # noqa: PTH118 - of texts
            self._real_folders[around] = real
        return real + name

    def result(self, tools: KnownTools | None, cache: CheckCache | None = None) -> SkillSet:
        """Check the skills against each other, the lock and tools; return the set, findings sorted.

        Args:
            tools: See `load_skills`.
            cache: What was found in the same set before.
        """
        check, today = SetCheck(self._entries), datetime.now(UTC).date()
        project = ProjectLock.open(self._config.root)
        check.change(project.dated(check.skills().values(), today))
        if self._seen_by_git is not None:
            check.change(_dated(check.skills().values(), self._seen_by_git))
        check.contracts(today, self._phase, cache)
        findings = [*self.findings, *self._locked(project, check, today, tools)]
        if tools is not None:
            check.tools(tools, project.tools)
        every = not self._only_given
        entries = [each for each in check.entries if every or each.skill.source == GIVEN]
        findings += [finding for entry in entries for finding in entry.findings]
        return SkillSet(tuple(entries), tuple(sorted_findings(findings)))

    def _locked(
        self, project: ProjectLock, check: SetCheck, today: date, tools: KnownTools | None
    ) -> list[Finding]:
        """Check skills against the lock; return what it says of no skill that is there."""
        if project.lock is None:
            return [] if project.problem is None else [project.problem]
        skills = self._located(check.skills())
        found = project.differences(skills, check.unread, today, tools)
        check.tell(found.by_skill())
        return [] if self._only_given else [*found.gone(project.file)]

    def _located(self, skills: dict[str, Skill]) -> dict[str, Skill]:
        """Return skills with the part of the search path that each start finds them by."""
        homes = {name: self._homes.get(self._winners[name]) for name in skills}
        moved = {
            name: replace(skills[name], source=home)
            for name, home in homes.items()
            if home is not None
        }
        return {**skills, **moved}

    def _digests(self, trust: SkillTrust) -> dict[str, str]:
        try:
            return trust.digests()
        except StorageError as error:
            place = Place(shown_path(trust.file.path))
            message = f"no skill counts as trusted: {error.message}"
            self.findings.append(place.finding("CH0407", "warning", message, error.fix))
            return {}

    def _entry(self, read: ReadSkill, location: Location) -> Entry:
        trusted = is_trusted(read.skill, self._trusted)
        skill = replace(read.skill, trusted=True) if trusted else read.skill
        if skill.source == SHIPPED and not trusted:
            read = ReadSkill(skill, (*read.findings, _not_as_shipped(skill)))
        if skill.id in self._winners:
            return self._shadowed(read, skill, location)
        if skill.id in self._off:
            reason = f"switched off {self._off[skill.id]}"
            step = f"clawhive skills enable {skill.id}"
            return Entry(skill, "disabled", reason, read.findings, step)
        show = f"clawhive skills show {skill.id}"
        if not read.is_valid:
            return Entry(skill, "invalid", _first_error(read.findings), read.findings, show)
        lacking = [] if skill.manifest is None else missing(skill.requires, self._env)
        if lacking:
            where = skill.requires.place or Place(shown_path(skill.file))
            message = f"`{skill.id}` is not loaded here: {'; '.join(lacking)}"
            note = where.finding("CH0404", "note", message)
            return Entry(skill, "gated", "; ".join(lacking), (*read.findings, note), show)
        return Entry(skill, "loaded", findings=read.findings)

    def _shadowed(self, read: ReadSkill, skill: Skill, location: Location) -> Entry:
        winner = self._winner(skill.id).skill
        first = printable(shown_path(winner.file))
        reason = f"`{skill.id}` stands in {first} too, which comes first"
        here = Place(shown_path(skill.file), 1, 1)
        if Path(location.path).parent == winner.content.parent:
            finding = here.finding("CH0401", "error", reason, "rename one of them")
        else:
            finding = here.finding("CH0402", "note", reason)
        return Entry(skill, "shadowed", reason, (*read.findings, finding))

    def _winner(self, name: str) -> Entry:
        return self._entries[self._winners[name]]


def _dated(
    skills: Iterable[Skill], seen_by_git: Callable[[Skill, str], date | None]
) -> Iterator[Skill]:
    for skill in skills:
        if skill.exports.deprecated:
            yield dated(skill, partial(seen_by_git, skill), "git")


def _not_as_shipped(skill: Skill) -> Finding:
    file = shown_path(changed_file(skill) or skill.folder)
    message = f"`{skill.id}` is not as it was shipped, so nobody vouches for it: {printable(file)}"
    fix = f"install clawhive again, or read it and: clawhive skills trust {skill.id}"
    return Place(file, 1, 1).finding("CH0409", "warning", message, fix)


def _first_error(findings: Sequence[Finding]) -> str:
    return next(each.message for each in findings if each.severity == "error")
