"""Checks of a set of skills against itself and the catalog: what does not fit is left out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import date

from clawhive_core.diagnostics.finding import Finding, sorted_findings
from clawhive_core.skills.checks.required import (
    NOTHING_LOCKED,
    KnownTools,
    Locked,
    first_segments,
    missing_tools,
    taken_name,
    tools_elsewhere,
    without_consequences,
)
from clawhive_core.skills.checks.resolve import (
    CheckCache,
    check_contracts,
    importers,
    with_external,
)
from clawhive_core.skills.contracts.skill import Phase, Skill, State
from clawhive_core.skills.discovery.reading import in_phase
from clawhive_core.skills.discovery.shipped import SOURCE
from clawhive_core.skills.discovery.skill_set import Entry, SkillSet
from clawhive_core.skills.documents.document import with_severity

_USABLE = frozenset({"loaded", "shadowed"})


def check_tools(found: SkillSet, known: KnownTools) -> SkillSet:
    """Return a set without the skills that require a tool which nothing offers."""
    check = SetCheck(found.entries)
    check.tools(known)
    return SkillSet(
        tuple(check.entries), tuple(sorted_findings((*found.findings, *check.findings)))
    )


class SetCheck:
    """Skills with their states, while they are held together.

    Args:
        entries: In the order of the search path; of one id, those after the first are shadowed.
    """

    def __init__(self, entries: Iterable[Entry]) -> None:
        self.entries = list(entries)
        self.findings: list[Finding] = []
        """The findings; each stands in its entry too."""
        self._winners: dict[str, int] = {}
        for index, entry in enumerate(self.entries):
            self._winners.setdefault(entry.skill.id, index)
        self._users: Mapping[str, Sequence[str]] = {}
        self.unread = frozenset(entry.skill.id for entry in self._by_state("invalid"))
        """The ids of those that could not be read whole."""

    def contracts(self, today: date, phase: Phase, cache: CheckCache | None = None) -> None:
        """Check imports against exports, on a day that removals are checked against.

        Args:
            today: The day.
            phase: How much the old forms weigh.
            cache: What was found in the same set before.
        """
        skills, old = with_external([self.entries[at].skill for at in self._winners.values()])
        self.change(skills)
        found = check_contracts(skills, self.unread, today, cache)
        both = {name: [*old.get(name, ()), *found.get(name, ())] for name in {**old, **found}}
        self.tell({name: in_phase(findings, phase) for name, findings in both.items()})

    def skills(self) -> dict[str, Skill]:
        """Return the skills that their ids mean, those left out that cannot be read."""
        entries, unread = self.entries, self.unread
        return {name: entries[at].skill for name, at in self._winners.items() if name not in unread}

    def change(self, skills: Iterable[Skill]) -> None:
        """Put skills in the place of those with their ids."""
        for skill in skills:
            index = self._winners[skill.id]
            entry = self.entries[index]
            if entry.skill is not skill:
                self.entries[index] = replace(entry, skill=skill)

    def tell(self, found: Mapping[str, Sequence[Finding]]) -> None:
        """Add findings to skills by their ids, and leave out what errors leave no place for."""
        for name, findings in found.items():
            add = self._gate if self._is_replaced(name) else self._add
            add(name, self._told(name, findings))
        self._spread(entry.skill.id for entry in self.entries if entry.state not in _USABLE)

    def tools(self, known: KnownTools, locked: Locked = NOTHING_LOCKED) -> None:
        """Check `requires.tools` against the catalog, until no skill that is left lacks one.

        A skill that exports under the name of a plugin is left out before.

        Args:
            known: The catalog.
            locked: Who offered what each skill requires when it was locked, by the skill's id.
        """
        taken = first_segments(known)
        for entry in self._by_state("loaded", "gated"):
            if entry.skill.id in taken and (clash := taken_name(entry.skill, taken)) is not None:
                self._add(entry.skill.id, [clash])
                self._spread([entry.skill.id])
        while self._asks_beyond(known):
            exported = frozenset(
                f"{entry.skill.id}.{name}"
                for entry in self._by_state("loaded")
                if entry.skill.exports.tools
                for name in entry.skill.exports.names()
            )
            lacking = {
                entry.skill.id: findings
                for entry in self._by_state("loaded", "gated")
                if entry.skill.requires.tools
                if (findings := list(missing_tools(entry.skill, known, exported, locked)))
            }
            for name, findings in lacking.items():
                self._add(name, findings)
            self._spread(lacking)
            if not known.complete or not lacking:
                break
        for entry in self._by_state("loaded", "gated"):
            if entry.skill.id in locked:
                self._add(entry.skill.id, list(tools_elsewhere(entry.skill, known, locked)))

    def _asks_beyond(self, known: KnownTools) -> bool:
        """Whether a skill requires a tool that no provider has."""
        return any(
            name not in known.names
            for entry in self._by_state("loaded", "gated")
            for name in entry.skill.requires.tools
        )

    def _winner(self, name: str) -> Entry:
        return self.entries[self._winners[name]]

    def _told(self, name: str, findings: Sequence[Finding]) -> Sequence[Finding]:
        """Return what is to be said: no note of a shipped skill, which its user did not write."""
        if self._winner(name).skill.source != SOURCE:
            return findings
        return [each for each in findings if each.severity != "note"]

    def _is_replaced(self, name: str) -> bool:
        """Whether it is a shipped skill and imports from one that is not."""
        skill = self._winner(name).skill
        providers = [each.skill for each in skill.imports if each.skill in self._winners]
        return skill.source == SOURCE and any(
            self._winner(each).skill.source != SOURCE for each in providers
        )

    def _by_state(self, *states: State) -> list[Entry]:
        return [entry for entry in self.entries if entry.state in states]

    def _gate(self, name: str, findings: Sequence[Finding]) -> None:
        """Leave out a shipped skill that a skill of the user's own does not fit: no mistake."""
        self._add(name, [with_severity(each, "note") for each in findings])
        wrong = next((each.message for each in findings if each.severity == "error"), None)
        self._leave_out(name, wrong, "gated")

    def _add(self, name: str, findings: Sequence[Finding]) -> None:
        entry = self._winner(name)
        self.findings += findings
        wrong = next((each.message for each in findings if each.severity == "error"), None)
        before = without_consequences(entry.findings, findings)
        self.entries[self._winners[name]] = replace(entry, findings=(*before, *findings))
        self._leave_out(name, wrong, "invalid")

    def _leave_out(self, name: str, reason: str | None, state: State) -> None:
        entry = self._winner(name)
        if reason is None or entry.state not in {"loaded", "gated"}:
            return
        show = f"clawhive skills show {name}"
        changed = replace(entry, state=state, reason=reason, next_step=show)
        self.entries[self._winners[name]] = changed

    def _spread(self, names: Iterable[str]) -> None:
        """Leave out what imports from a skill that is left out."""
        waiting = [name for name in names if self._winner(name).state not in _USABLE]
        if waiting and not self._users:
            self._users = importers([self._winner(name).skill for name in self._winners])
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
