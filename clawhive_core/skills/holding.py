"""Holding a set of skills against itself and the catalog: what does not fit is left out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import date

from clawhive_core.diagnostics.finding import Finding, sorted_findings
from clawhive_core.skills.old_ways import with_external
from clawhive_core.skills.phase import Phase, in_phase
from clawhive_core.skills.required import KnownTools, first_segments, missing_tools, taken_name
from clawhive_core.skills.resolve import check_contracts, importers
from clawhive_core.skills.skill import State
from clawhive_core.skills.skill_set import Entry, SkillSet

_USABLE = frozenset({"loaded", "shadowed"})


def hold_tools(found: SkillSet, known: KnownTools) -> SkillSet:
    """Return a set without the skills that require a tool which nothing offers."""
    held = Held(found.entries)
    held.tools(known)
    return SkillSet(tuple(held.entries), tuple(sorted_findings((*found.findings, *held.findings))))


class Held:
    """Skills with their states, while they are held together.

    Args:
        entries: In the order of the search path; of one id, those after the first are shadowed.
    """

    def __init__(self, entries: Iterable[Entry]) -> None:
        self.entries = list(entries)
        self.findings: list[Finding] = []
        """What was found here; each stands in its entry too."""
        self._winners: dict[str, int] = {}
        for index, entry in enumerate(self.entries):
            self._winners.setdefault(entry.skill.id, index)
        self._users = importers([self._winner(name).skill for name in self._winners])

    def contracts(self, today: date, phase: Phase) -> None:
        """Hold imports against exports, on a day that removals are held against."""
        skills, old = with_external([self._winner(name).skill for name in self._winners])
        for skill in skills:
            index = self._winners[skill.id]
            self.entries[index] = replace(self.entries[index], skill=skill)
        self._users = importers(skills)
        broken = frozenset(entry.skill.id for entry in self._by_state("invalid"))
        for found in (old, check_contracts(skills, broken, today)):
            for name, findings in found.items():
                self._add(name, in_phase(findings, phase))
        self._spread(entry.skill.id for entry in self.entries if entry.state not in _USABLE)

    def tools(self, known: KnownTools) -> None:
        """Hold `requires.tools` against the catalog, until no skill that is left lacks one.

        A skill that exports under the name of a plugin is left out before.
        """
        taken = first_segments(known)
        for entry in self._by_state("loaded", "gated"):
            if entry.skill.id in taken and (clash := taken_name(entry.skill, taken)) is not None:
                self._add(entry.skill.id, [clash])
                self._spread([entry.skill.id])
        while True:
            exported = frozenset(
                f"{entry.skill.id}.{name}"
                for entry in self._by_state("loaded")
                for name in entry.skill.exports.names()
            )
            lacking = {
                entry.skill.id: findings
                for entry in self._by_state("loaded", "gated")
                if (findings := list(missing_tools(entry.skill, known, exported)))
            }
            for name, findings in lacking.items():
                self._add(name, findings)
            self._spread(lacking)
            if not known.complete or not lacking:
                return

    def _winner(self, name: str) -> Entry:
        return self.entries[self._winners[name]]

    def _by_state(self, *states: State) -> list[Entry]:
        return [entry for entry in self.entries if entry.state in states]

    def _add(self, name: str, findings: Sequence[Finding]) -> None:
        entry = self._winner(name)
        self.findings += findings
        wrong = next((each.message for each in findings if each.severity == "error"), None)
        changed = replace(entry, findings=(*entry.findings, *findings))
        if wrong is not None and entry.state in {"loaded", "gated"}:
            show = f"clawhive skills show {name}"
            changed = replace(changed, state="invalid", reason=wrong, next_step=show)
        self.entries[self._winners[name]] = changed

    def _spread(self, names: Iterable[str]) -> None:
        """Leave out what imports from a skill that is left out."""
        waiting = [name for name in names if self._winner(name).state not in _USABLE]
        while waiting:
            name = waiting.pop()
            for user in self._users.get(name, ()):
                if self._winner(user).state == "loaded":
                    self._follow(user, self._winner(name))
                    waiting.append(user)

    def _follow(self, user: str, provider: Entry) -> None:
        entry, name = self._winner(user), provider.skill.id
        each = next(each for each in entry.skill.imports if each.skill == name)
        reason = f"it imports from `{name}`, which is {provider.state}"
        invalid = provider.state == "invalid"
        message = f"`{user}` cannot be loaded: {reason}"
        finding = each.place.finding(
            "CH0612", "error" if invalid else "note", message, provider.next_step or None
        )
        self.findings.append(finding)
        self.entries[self._winners[user]] = replace(
            entry,
            state="invalid" if invalid else "gated",
            reason=reason,
            findings=(*entry.findings, finding),
            next_step=provider.next_step,
        )
