"""One change between versions of a contract, and the bump that changes need.

Semantic Versioning without the patch place: what breaks needs the next major, what adds the next
minor. A version 0.x promises nothing from one minor to the next, so there the minor is the place of
what breaks.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from datetime import date
from typing import Any, Literal

from clawhive_core.diagnostics.files import shown_path
from clawhive_core.diagnostics.finding import Finding
from clawhive_core.model.late import dataclass
from clawhive_core.skills.contracts.contract import api_version
from clawhive_core.skills.contracts.deprecation import WINDOW
from clawhive_core.skills.contracts.skill import Skill
from clawhive_core.skills.documents.place import Place

Impact = Literal["none", "additive", "unknown", "breaking"]
"""From the least to the greatest: `additive` gives more, `unknown` is not decided."""

IMPACTS: tuple[Impact, ...] = ("none", "additive", "unknown", "breaking")

Accepts = Literal["old", "new"]

_LONGEST = 300


@dataclass(frozen=True, slots=True)
class Witness:
    """A value that shows a change: one version of a schema accepts it and the other refuses it."""

    value: Any
    accepted_by: Accepts
    pointer: str
    """The JSON pointer of the keyword that refuses it."""
    reason: str

    def __str__(self) -> str:
        text = json.dumps(self.value, ensure_ascii=False)
        return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."

    def to_dict(self) -> dict[str, Any]:
        """Return the witness as JSON."""
        return {
            "value": self.value,
            "accepted_by": self.accepted_by,
            "pointer": self.pointer,
            "reason": self.reason,
        }


@dataclass(frozen=True, slots=True)
class Change:
    """Something that a contract says otherwise than before."""

    kind: str
    """The kind: `tool_removed`, `input_schema`, `rate_limit`, ..."""
    subject: str
    """The name of the tool, import, permission, ... that it is about."""
    impact: Impact
    message: str
    """A sentence for people, without a final stop."""
    place: Place
    """The place in the new version, or where it would stand."""
    witness: Witness | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the change as JSON, without its place."""
        return {
            "kind": self.kind,
            "subject": self.subject,
            "impact": self.impact,
            "message": self.message,
            "witness": None if self.witness is None else self.witness.to_dict(),
        }


def file_of(skill: Skill) -> Place:
    """Return the place of what stands nowhere else in a skill's file."""
    return Place(shown_path(skill.file), 1, 1)


def exports_of(skill: Skill) -> Place:
    """Return where a skill's exports are versioned."""
    return skill.exports.place or file_of(skill)


Bump = Literal["none", "minor", "major"]

BUMPS: tuple[Bump, ...] = ("none", "minor", "major")

Made = Literal["none", "minor", "major", "lower", "unstated", "first"]
"""The change of a version: `lower` than it was, `unstated` now, stated for the `first` time."""

Numbers = tuple[int, int]


def needed_bump(changes: Iterable[Change]) -> Bump:
    """Return the smallest bump that is honest; what is not decided is taken for an addition."""
    worst = max((IMPACTS.index(each.impact) for each in changes), default=0)
    return ("none", "minor", "minor", "major")[worst]


def smallest_version(old: str, bump: Bump) -> str:
    """Return the first version that makes a bump, empty where the old one is none."""
    numbers = api_version(old)
    if numbers is None:
        return ""
    major, minor = next_version(numbers, bump)
    return f"{major}.{minor}"


def next_version(old: Numbers, bump: Bump) -> Numbers:
    """Return the first version after a bump."""
    major, minor = old
    if bump == "none":
        return old
    return (major + 1, 0) if bump == "major" and major > 0 else (major, minor + 1)


def made_bump(old: str, new: str) -> Made:
    """Return what was done to a version."""
    before, after = api_version(old), api_version(new)
    if after is None:
        return "none" if before is None else "unstated"
    if before is None:
        return "first"
    if after < before:
        return "lower"
    if after == before:
        return "none"
    return "major" if after[0] > before[0] else "minor"


def is_enough(old: str, new: str, needed: Bump) -> bool:
    """Whether a version is at least the smallest that is needed; no version makes no bump."""
    before, after = api_version(old), api_version(new)
    if before is None:
        return after is not None or needed == "none"
    return after is not None and after >= next_version(before, needed)


def is_more(old: str, new: str, needed: Bump) -> bool:
    """Whether a bump says more than has changed; leaving 0.x says something else."""
    before, made = api_version(old), made_bump(old, new)
    if made not in BUMPS or before is None or (before[0] == 0 and made == "major"):
        return False
    asked: Bump = "minor" if before[0] == 0 and needed == "major" else needed
    return BUMPS.index(made) > BUMPS.index(asked)


Dated = Callable[[Skill, str], "date | None"]
"""Says when the deprecation of a tool first stood in the contract, None where nothing does."""


def undated(_skill: Skill, _tool: str) -> date | None:
    """Know nothing of the day of a deprecation."""
    return None


@dataclass(frozen=True, slots=True)
class Notices:
    """Announcements that are known from elsewhere than the contract."""

    today: date
    """The day of the new version."""
    dated: Dated = undated


def without_notice(old: Skill, tool: str, place: Place, notices: Notices) -> Finding | None:
    """Return what is wrong with the removal of a tool, None where its users were told in time.

    Args:
        old: The last version that has the tool.
        tool: The name.
        place: Where the finding belongs in the new version.
        notices: What is known of announcements beside the contract.
    """
    name = f"`{old.id}.{tool}`"
    entry = next((each for each in old.exports.deprecated if each.tool == tool), None)
    if entry is None:
        message = f"{name} is gone, and nothing announced that"
        fix = (
            f"export it still, with `deprecated: [{{tool: {tool}, announced: {notices.today},"
            f" removal_date: {notices.today + WINDOW}}}]`"
        )
        return place.finding("CH0705", "error", message, fix)
    fix = "export it until then"
    if notices.today < entry.removal_date:
        message = f"{name} is gone on {notices.today}, and {entry.removal_date} was announced"
        return place.finding("CH0705", "error", message, fix)
    announced = entry.announced or notices.dated(old, tool)
    if announced is None:
        message = (
            f"nothing says when the removal of {name} was announced, so nobody can tell whether"
            f" its users had {WINDOW.days} days"
        )
        return place.finding("CH0707", "note", message, "compare with git:REF, which dates it")
    if announced + WINDOW <= notices.today:
        return None
    message = (
        f"{name} is gone {(notices.today - announced).days} days after {announced}, when that was"
        f" announced: users have {WINDOW.days} at least"
    )
    return place.finding("CH0705", "error", message, f"export it until {announced + WINDOW}")
