"""The bump of `exports.api_version` that changes need, and the one that was made.

Semantic Versioning without the patch place: what breaks needs the next major, what adds the next
minor. A version 0.x promises nothing from one minor to the next, so there the minor is the place of
what breaks.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from clawhive_core.skills.changes.change import IMPACTS, Change
from clawhive_core.skills.contracts.contract import api_version

Bump = Literal["none", "minor", "major"]

BUMPS: tuple[Bump, ...] = ("none", "minor", "major")

Made = Literal["none", "minor", "major", "lower", "unstated", "first"]
"""What was done to a version: `lower` than it was, `unstated` now, stated for the `first` time."""

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
