"""A set of skills: each with its state."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from clawhive_core.diagnostics.finding import Finding
from clawhive_core.diagnostics.suggestions import nearest
from clawhive_core.errors import UnknownId
from clawhive_core.model.late import dataclass
from clawhive_core.skills.contracts.skill import Skill, State

UNUSABLE = frozenset({"CH0811", "CH0812", "CH0813", "CH0814"})
"""The codes of a lock that cannot be used."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One skill that was found, and what became of it."""

    skill: Skill
    state: State
    reason: str = ""
    """The reason why it is not loaded."""
    findings: tuple[Finding, ...] = ()
    next_step: str = ""
    """The command that shows or changes why."""

    def to_dict(self) -> dict[str, object]:
        """Return the row of `skills list --json`."""
        skill = self.skill
        return {
            "id": skill.id,
            "version": skill.version,
            "state": self.state,
            "reason": self.reason or None,
            "source": skill.source,
            "trusted": skill.trusted,
            "path": str(skill.file),
            "description": skill.description,
            "tasks": [f"{skill.id}.{name}" for name in skill.tasks],
            "required_tools": list(skill.requires.tools),
        }


@dataclass(frozen=True, slots=True)
class SkillSet:
    """Every skill that was found, in the order of the search path."""

    entries: tuple[Entry, ...]
    findings: tuple[Finding, ...] = ()
    """All findings, sorted by place."""

    @property
    def loaded(self) -> list[Skill]:
        """The skills that may be used."""
        return [entry.skill for entry in self.entries if entry.state == "loaded"]

    @property
    def left_out(self) -> list[Entry]:
        """The skills that may not be used, without the shadowed ones."""
        return [entry for entry in self.entries if entry.state not in {"loaded", "shadowed"}]

    @property
    def notes(self) -> list[str]:
        """A sentence for each skill that is left out by mistake, and for a lock that is no use."""
        unlocked = [
            f"skills are not checked against their lock: {each.message} ({each.code} {each.place})"
            for each in self.findings
            if each.code in UNUSABLE
        ]
        return unlocked + [
            f"the skill `{entry.skill.id}` is not loaded: {entry.reason}"
            f"{_where(entry)}; clawhive skills check"
            for entry in self.by_state("invalid")
        ]

    def by_state(self, state: State) -> list[Entry]:
        """Return the skills that are in a state."""
        return [entry for entry in self.entries if entry.state == state]

    def only(self, ids: Collection[str]) -> SkillSet:
        """Return the set of those with these ids."""
        found = tuple(entry for entry in self.entries if entry.skill.id in ids)
        return replace(self, entries=found)

    def find(self, name: str) -> Entry:
        """Return the skill of an id that is not shadowed.

        Raises:
            UnknownId: There is none.
        """
        known = {entry.skill.id: entry for entry in self.entries if entry.state != "shadowed"}
        if name in known:
            return known[name]
        close = nearest(name, known)
        raise UnknownId(
            f"no skill is called `{name}`",
            place=name,
            fix=f"did you mean `{close}`?" if close else "list them: clawhive skills list",
        )


def _where(entry: Entry) -> str:
    """Return the code and place of the mistake that keeps a skill from being loaded."""
    finding = next((each for each in entry.findings if each.severity == "error"), None)
    return "" if finding is None else f" ({finding.code} {finding.place})"
