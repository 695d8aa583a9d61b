"""Two versions of one skill: what changed, what it needs, and what is wrong with it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from clawhive_core.diagnostics.finding import Finding
from clawhive_core.model.late import dataclass
from clawhive_core.skills.changes.access import changed_access
from clawhive_core.skills.changes.bump import (
    Bump,
    is_enough,
    is_more,
    made_bump,
    needed_bump,
    smallest_version,
)
from clawhive_core.skills.changes.change import Change, exports_of
from clawhive_core.skills.changes.declared import changed_declarations
from clawhive_core.skills.changes.notice import Notices, without_notice
from clawhive_core.skills.changes.tools import changed_tools
from clawhive_core.skills.contracts.skill import Skill

_WHY = {"none": "", "minor": " (additive)", "major": " (breaking)"}


def compare_contracts(old: Skill, new: Skill) -> tuple[Change, ...]:
    """Return what `new` says otherwise than `old`, each change with what it does to others."""
    parts = (changed_tools, changed_access, changed_declarations)
    return tuple(change for part in parts for change in part(old, new))


@dataclass(frozen=True, slots=True)
class SkillDiff:
    """Two versions of a skill, held against each other."""

    old: Skill
    new: Skill
    changes: tuple[Change, ...]
    remarks: tuple[tuple[Change | None, Finding], ...]
    """What is wrong, each with the change that it is about; None where it is about the whole."""

    @classmethod
    def of(cls, old: Skill, new: Skill, notices: Notices) -> SkillDiff:
        """Compare two versions.

        Args:
            old: The version that others rely on.
            new: The one that takes its place.
            notices: Says when removals were announced, and which day counts as today.
        """
        changes = compare_contracts(old, new)
        found = (*_too_small(old, new, changes), *_told(old, new, changes))
        notice = _without_notice(old, changes, notices)
        return cls(old, new, changes, (*found, *notice))

    @property
    def needed(self) -> Bump:
        """The smallest bump that is honest."""
        return needed_bump(self.changes)

    @property
    def findings(self) -> Iterator[Finding]:
        """What is wrong."""
        return (finding for _, finding in self.remarks)

    @property
    def quiet(self) -> list[Change]:
        """The changes that nothing is wrong with."""
        loud = [change for change, _ in self.remarks]
        return [each for each in self.changes if not any(each is other for other in loud)]

    @property
    def headline(self) -> str:
        """The line for people, such as `zodiac 1.0 -> 1.1: needs 2.0 (breaking)`."""
        old, new = self.old.exports.api_version, self.new.exports.api_version
        needed = self.needed
        moved = old or new if old == new else f"{old or 'unversioned'} -> {new or 'unversioned'}"
        head = f"{self.new.id} {moved}".rstrip()
        wanted = smallest_version(old, needed) or "an api_version"
        if not is_enough(old, new, needed):
            return f"{head}: needs {wanted}{_WHY[needed]}"
        return f"{head}: {'needs no bump' if needed == 'none' else 'fits'}{_WHY[needed]}"

    def to_dict(self) -> dict[str, Any]:
        """Return the comparison as JSON, without the places of its changes."""
        old, new = self.old.exports.api_version, self.new.exports.api_version
        return {
            "id": self.new.id,
            "state": "changed",
            "old_version": old or None,
            "new_version": new or None,
            "needed": self.needed,
            "made": made_bump(old, new),
            "needed_version": smallest_version(old, self.needed) or None,
            "enough": is_enough(old, new, self.needed),
        }


def _too_small(
    old: Skill, new: Skill, changes: tuple[Change, ...]
) -> Iterator[tuple[Change | None, Finding]]:
    """Yield an error for each change that the version does not tell."""
    before, after = old.exports.api_version, new.exports.api_version
    needed = needed_bump(changes)
    if made_bump(before, after) in {"lower", "unstated"}:
        now = f"is {after}" if after else "is not stated any more"
        message = f"the api_version of `{new.id}` was {before} and {now}"
        fix = f'write `api_version: "{smallest_version(before, needed)}"`'
        yield None, exports_of(new).finding("CH0832", "error", message, fix)
        return
    if is_enough(before, after, needed):
        return
    wanted = smallest_version(before, needed)
    fix = f'write `api_version: "{wanted or "1.0"}"`'
    if not wanted:
        says = f"`{new.id}` states no api_version"
    elif before == after:
        says = f"the api_version stays {before}"
    else:
        says = f"the api_version goes from {before} to {after} only"
    told = f"{says} ({exports_of(new)})"
    for change in changes:
        if change.impact == "breaking":
            message = f"{change.message}; this breaks what worked, and {told}"
            yield change, change.place.finding("CH0801", "error", message, fix)
        elif change.impact in {"additive", "unknown"} and needed == "minor":
            message = f"{change.message}, and {told}"
            yield change, change.place.finding("CH0802", "error", message, fix)


def _told(
    old: Skill, new: Skill, changes: tuple[Change, ...]
) -> Iterator[tuple[Change | None, Finding]]:
    """Yield what is no mistake and is worth a look."""
    before, after = old.exports.api_version, new.exports.api_version
    made = made_bump(before, after)
    for change in changes:
        rewritten = change.impact == "none" and change.kind in {"input_schema", "output_schema"}
        if rewritten and made == "none":
            message = f"{change.message}; the api_version stays {after}"
            yield change, change.place.finding("CH0803", "note", message)
        elif change.impact == "unknown" and made == "minor":
            fix = "compare both by hand; if calls that worked fail, it needs the next major"
            yield change, change.place.finding("CH0831", "warning", change.message, fix)
        elif change.kind == "permission_widened":
            message = f"`{new.id}` asks for more: {change.message}"
            yield change, change.place.finding("CH0834", "warning", message)
    needed = needed_bump(changes)
    if is_more(before, after, needed):
        message = (
            f"the api_version of `{new.id}` goes from {before} to {after}, and"
            f" {smallest_version(before, needed)} says all that changed"
        )
        yield None, exports_of(new).finding("CH0833", "note", message)


def _without_notice(
    old: Skill, changes: tuple[Change, ...], notices: Notices
) -> Iterator[tuple[Change | None, Finding]]:
    for change in changes:
        if change.kind in {"tool_removed", "tool_renamed"}:
            finding = without_notice(old, change.subject, change.place, notices)
            if finding is not None:
                yield change, finding
