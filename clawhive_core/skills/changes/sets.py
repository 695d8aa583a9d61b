"""Two sets of skills compared with each other: changed, new, gone, and what is wrong with that."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Literal

from clawhive_core.diagnostics.finding import Finding, count, sorted_findings
from clawhive_core.model.late import dataclass
from clawhive_core.skills.changes.change import Change, Notices, file_of, without_notice
from clawhive_core.skills.changes.comparison import SkillDiff
from clawhive_core.skills.changes.revision import Side
from clawhive_core.skills.contracts.skill import Import, Skill
from clawhive_core.skills.discovery.reading import ReadSkill


@dataclass(frozen=True, slots=True)
class Lone:
    """A skill that is on one side only, or that cannot be compared."""

    skill: Skill
    state: Literal["added", "gone", "unreadable"]
    findings: tuple[Finding, ...] = ()

    @property
    def quiet(self) -> tuple[Change, ...]:
        """No changes: it is not compared."""
        return ()

    @property
    def headline(self) -> str:
        """The line for people."""
        version = self.skill.exports.api_version
        return f"{self.skill.id}{f' {version}' if version else ''}: {self.state}"

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON."""
        version = self.skill.exports.api_version or None
        return {
            "id": self.skill.id,
            "state": self.state,
            "old_version": version if self.state == "gone" else None,
            "new_version": version if self.state == "added" else None,
            "needed": "none",
            "made": "none",
            "needed_version": None,
            "enough": not any(each.severity == "error" for each in self.findings),
            "changes": [],
        }


@dataclass(frozen=True, slots=True)
class SetDiff:
    """The changes between two sets of skills."""

    old: Side
    new: Side
    diffs: tuple[SkillDiff | Lone, ...]
    """Of the skills that are not the same on both sides."""
    compared: int
    """The number of skills on both sides."""

    @property
    def findings(self) -> list[Finding]:
        """Everything that is wrong, sorted by place."""
        of_skills = [finding for each in self.diffs for finding in each.findings]
        found = (*self.old.findings, *self.new.findings, *map(self.told, of_skills))
        return sorted_findings(found)

    def told(self, finding: Finding) -> Finding:
        """Return a finding with names of files that its reader knows."""
        return self.new.told(self.old.told(finding))

    def passes(self, *, strict: bool = False) -> bool:
        """Whether there is no error, and if it is strict no warning."""
        numbers = count(self.findings)
        return not numbers["errors"] and not (strict and numbers["warnings"])

    def to_dict(self) -> dict[str, Any]:
        """Return the object of `skills diff --json` (schema `skills-diff/1`)."""
        states = Counter(
            "changed" if isinstance(each, SkillDiff) else each.state for each in self.diffs
        )
        names = ("changed", "added", "gone", "unreadable")
        return {
            "schema": "skills-diff/1",
            "old": self.old.label,
            "new": self.new.label,
            "summary": {
                "compared": self.compared,
                **{name: states[name] for name in names},
                **count(self.findings),
            },
            "skills": [self._row(each) for each in self.diffs],
            "findings": [finding.to_dict() for finding in self.findings],
        }

    def _row(self, each: SkillDiff | Lone) -> dict[str, Any]:
        if isinstance(each, Lone):
            return each.to_dict()
        changes: list[dict[str, Any]] = []
        for change in each.changes:
            place = change.place
            where = {"file": self.new.shown(place.file), "line": place.line, "column": place.column}
            told = {"message": self.new.shown(self.old.shown(change.message))}
            changes.append({**change.to_dict(), **told, **where})
        return {**each.to_dict(), "changes": changes}


def compare_sides(old: Side, new: Side) -> SetDiff:
    """Check two sets of skills against each other.

    Skills are paired by their ids; where both sides name one skill, these two. A skill that cannot
    be read on the old side was loaded nowhere, and is not compared; where both sides have the same
    errors, nothing changed.
    """
    before, after = _by_id(old), _by_id(new)
    if old.is_one and new.is_one and len(before) == len(after) == 1:
        before = dict(zip(after, before.values(), strict=True))
    notices = Notices(new.day, old.dated)
    found: dict[str, SkillDiff | Lone] = {}
    for name, read in after.items():
        each = _compared(before.get(name), read, notices)
        if each is not None:
            found[name] = each
    users = _imports(new)
    for name, read in before.items():
        if name not in after and read.is_valid:
            wrong = (*_missed(read.skill, users), *_unannounced(read.skill, new, notices))
            found[name] = Lone(read.skill, "gone", wrong)
    ordered = tuple(found[name] for name in sorted(found))
    return SetDiff(old, new, ordered, len(before.keys() & after.keys()))


def _by_id(side: Side) -> dict[str, ReadSkill]:
    return {read.skill.id: read for read in side.skills}


def _compared(old: ReadSkill | None, new: ReadSkill, notices: Notices) -> SkillDiff | Lone | None:
    errors, before = _errors(new), () if old is None else _errors(old)
    if errors:
        known = [each.code for each in errors] == [each.code for each in before]
        return None if known else Lone(new.skill, "unreadable", errors)
    if old is None:
        return Lone(new.skill, "added")
    if before:
        wrong = before[0]
        message = (
            f"`{new.skill.id}` is not compared: the old version cannot be used"
            f" ({wrong.code} {wrong.place}: {wrong.message})"
        )
        finding = file_of(new.skill).finding("CH0836", "warning", message)
        return Lone(new.skill, "unreadable", (finding,))
    diff = SkillDiff.of(old.skill, new.skill, notices)
    return diff if diff.changes or diff.remarks else None


def _errors(read: ReadSkill) -> tuple[Finding, ...]:
    return tuple(each for each in read.findings if each.severity == "error")


def _imports(side: Side) -> dict[str, list[tuple[str, Import]]]:
    """Return by each skill who imports from it, and where."""
    found: dict[str, list[tuple[str, Import]]] = {}
    for read in side.skills:
        for each in read.skill.imports:
            found.setdefault(each.skill, []).append((read.skill.id, each))
    return found


def _missed(gone: Skill, users: Mapping[str, list[tuple[str, Import]]]) -> Iterator[Finding]:
    for user, each in users.get(gone.id, ()):
        message = f"the skill `{gone.id}` is gone, and `{user}` imports from it"
        fix = f"keep `{gone.id}`, or remove the import"
        yield each.place.finding("CH0835", "error", message, fix)


def _unannounced(gone: Skill, side: Side, notices: Notices) -> Iterator[Finding]:
    for tool in gone.exports.names():
        finding = without_notice(gone, tool, side.place, notices)
        if finding is not None:
            yield finding
