"""What the check of each skill against the others found, until it would find something else."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from datetime import date

from clawhive_core.diagnostics.finding import Finding
from clawhive_core.model.late import dataclass
from clawhive_core.skills.checks.cycles import shortest_cycles
from clawhive_core.skills.contracts.skill import Skill

Check = Callable[[Skill, Mapping[str, Skill], AbstractSet[str], date], list[Finding]]


@dataclass(frozen=True, slots=True)
class _Kept:
    """What one check found, and all that it looked at to find it."""

    findings: list[Finding]
    looked: frozenset[str]
    """The skill's own id and those that it asked for, of skills that there are and are not."""
    all_ids: bool
    """Whether it went through the ids of the whole set."""


class KeptChecks:
    """Checks skills, and those again of which something has changed that their check looked at.

    A check gets a mapping and a set that note what it asks of them, so no list of what depends on
    what has to be kept right beside the checks.
    """

    def __init__(self) -> None:
        self._kept: dict[str, _Kept] = {}
        self._known: Mapping[str, Skill] = {}
        self._broken: AbstractSet[str] = frozenset()
        self._today = date.min
        self._changed: AbstractSet[str] = frozenset()
        self._cycles: list[tuple[str, ...]] | None = None

    def begin(self, known: Mapping[str, Skill], broken: AbstractSet[str], today: date) -> None:
        """Begin with a set, and forget what only held for another one.

        Args:
            known: The set.
            broken: Skills of it whose files cannot be read whole.
            today: The day that the checks get.
        """
        before = self._known
        changed = {name for name, skill in known.items() if before.get(name) is not skill}
        others = known.keys() != before.keys()
        if today != self._today:
            self._kept.clear()
        elif others:
            self._kept = {name: each for name, each in self._kept.items() if not each.all_ids}
        if others or any(_edges(before[name]) != _edges(known[name]) for name in changed):
            self._cycles = None
        self._changed = changed | (before.keys() - known.keys()) | (broken ^ self._broken)
        self._known, self._broken, self._today = known, broken, today

    def cycles(self) -> list[tuple[str, ...]]:
        """Return the cycles of imports, as they were where no import is another."""
        if self._cycles is None:
            known = self._known
            graph = {
                skill.id: [each.skill for each in skill.imports if each.skill in known]
                for skill in known.values()
                if skill.imports
            }
            self._cycles = shortest_cycles(graph)
        return self._cycles

    def found(self, skill: Skill, check: Check) -> list[Finding]:
        """Return what a check finds, or found when nothing it looked at was different.

        Args:
            skill: A skill of the set.
            check: What finds, of one skill always the same.
        """
        kept = self._kept.get(skill.id)
        if kept is not None and self._changed.isdisjoint(kept.looked):
            return kept.findings
        looked, asked = _Looked(self._known), _Asked(self._broken)
        findings = check(skill, looked, asked, self._today)
        seen = frozenset({skill.id, *looked.seen, *asked.seen})
        self._kept[skill.id] = _Kept(findings, seen, looked.all_ids)
        return findings


def _edges(skill: Skill) -> list[str]:
    return [each.skill for each in skill.imports]


class _Looked(Mapping[str, Skill]):
    """A set of skills that notes which were looked for."""

    def __init__(self, skills: Mapping[str, Skill]) -> None:
        self._skills = skills
        self.seen: set[str] = set()
        self.all_ids = False

    def __getitem__(self, name: str) -> Skill:
        self.seen.add(name)
        return self._skills[name]

    def __iter__(self) -> Iterator[str]:
        self.all_ids = True
        return iter(self._skills)

    def __len__(self) -> int:
        self.all_ids = True
        return len(self._skills)


class _Asked(AbstractSet[str]):
    """A set of ids that notes which were asked for."""

    def __init__(self, ids: AbstractSet[str]) -> None:
        self._ids = ids
        self.seen: set[str] = set()

    def __contains__(self, name: object) -> bool:
        self.seen.add(str(name))
        return name in self._ids

    def __iter__(self) -> Iterator[str]:
        raise NotImplementedError

    def __len__(self) -> int:
        raise NotImplementedError
