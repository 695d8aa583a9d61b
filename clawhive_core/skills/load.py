"""The set of skills: found, read, held against each other, each with its state.

One function for `clawhive skills check` and for every start: what is invalid is left out with its
findings, before the catalog is assembled.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from clawhive_core.config.config import Config
from clawhive_core.diagnostics.finding import Finding, sorted_findings
from clawhive_core.diagnostics.outputs import printable
from clawhive_core.diagnostics.shown import shown_path
from clawhive_core.errors import StorageError
from clawhive_core.protocols.stores import SkillSource
from clawhive_core.skills.gate import missing
from clawhive_core.skills.holding import Held
from clawhive_core.skills.phase import Phase
from clawhive_core.skills.place import Place
from clawhive_core.skills.reading import ReadSkill, read_skill, weighed
from clawhive_core.skills.required import KnownTools
from clawhive_core.skills.search import empty_finding, search_path, skills_below
from clawhive_core.skills.skill import Skill
from clawhive_core.skills.skill_set import Entry, SkillSet
from clawhive_core.skills.switch import Switches
from clawhive_core.skills.trust import SkillTrust, is_trusted

_GIVEN = "given"


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
        tools: What `requires.tools` is held against; without it, `hold_tools` does so later.

    Raises:
        UsageError: One of `paths` does not exist.
        StorageError: The list of skills that are off cannot be used.
    """
    found = _Found(config, os.environ if env is None else env)
    for path in sorted(paths):  # whatever their order, the same one of equal names counts
        found.add_path(path)
    search = search_path(config, sources)
    found.findings.extend(search.findings)
    for root in search.roots:
        found.add(root.places(), root.source)
    held = found.held()
    if tools is not None:
        held.tools(tools)
    return found.result(held, only_given=bool(paths))


class _Found:
    """The skills while they are collected."""

    def __init__(self, config: Config, env: Mapping[str, str]) -> None:
        self.findings: list[Finding] = []
        self._env = env
        self._phase: Phase = config.get("contracts.phase")
        self._off = Switches(config).reasons()
        self._trusted = self._digests(SkillTrust(config.user_dir))
        self._entries: list[Entry] = []
        self._winners: dict[str, int] = {}
        """The index of the entry that an id means."""
        self._seen: set[str] = set()

    def add_path(self, path: Path) -> None:
        places = skills_below(path)
        if not places:
            self.findings.append(empty_finding(path))
        self.add(places, _GIVEN)

    def add(self, places: Sequence[Path], source: str) -> None:
        for place in places:
            real = os.path.realpath(place)
            if real not in self._seen:
                self._seen.add(real)
                read = weighed(read_skill(place, source), self._phase)
                self._entries.append(self._entry(read, place))
                self._winners.setdefault(read.skill.id, len(self._entries) - 1)

    def held(self) -> Held:
        """Check imports against exports, and leave out what imports from what is left out."""
        held = Held(self._entries)
        held.contracts(datetime.now(UTC).date(), self._phase)
        return held

    def result(self, held: Held, *, only_given: bool) -> SkillSet:
        """Return the set, its findings sorted."""
        entries = [each for each in held.entries if not only_given or each.skill.source == _GIVEN]
        findings = [finding for entry in entries for finding in entry.findings]
        return SkillSet(tuple(entries), tuple(sorted_findings([*self.findings, *findings])))

    def _digests(self, trust: SkillTrust) -> dict[str, str]:
        try:
            return trust.digests()
        except StorageError as error:
            place = Place(shown_path(trust.file.path))
            message = f"no skill counts as trusted: {error.message}"
            self.findings.append(place.finding("CH0407", "warning", message, error.fix))
            return {}

    def _entry(self, read: ReadSkill, place: Path) -> Entry:
        skill = replace(read.skill, trusted=is_trusted(read.skill, self._trusted))
        if skill.id in self._winners:
            return self._shadowed(read, skill, place)
        show = f"clawhive skills show {skill.id}"
        if skill.id in self._off:
            reason = f"switched off {self._off[skill.id]}"
            step = f"clawhive skills enable {skill.id}"
            return Entry(skill, "disabled", reason, read.findings, step)
        if not read.is_valid:
            return Entry(skill, "invalid", _first_error(read.findings), read.findings, show)
        lacking = missing(skill.requires, self._env)
        if lacking:
            where = skill.requires.place or Place(shown_path(skill.file))
            message = f"`{skill.id}` is not loaded here: {'; '.join(lacking)}"
            note = where.finding("CH0404", "note", message)
            return Entry(skill, "gated", "; ".join(lacking), (*read.findings, note), show)
        return Entry(skill, "loaded", findings=read.findings)

    def _shadowed(self, read: ReadSkill, skill: Skill, place: Path) -> Entry:
        winner = self._winner(skill.id).skill
        first = printable(shown_path(winner.file))
        reason = f"`{skill.id}` stands in {first} too, which comes first"
        here = Place(shown_path(skill.file), 1, 1)
        if place.parent == winner.content.parent:
            finding = here.finding("CH0401", "error", reason, "rename one of them")
        else:
            finding = here.finding("CH0402", "note", reason)
        return Entry(skill, "shadowed", reason, (*read.findings, finding))

    def _winner(self, name: str) -> Entry:
        return self._entries[self._winners[name]]


def _first_error(findings: Sequence[Finding]) -> str:
    return next(each.message for each in findings if each.severity == "error")
