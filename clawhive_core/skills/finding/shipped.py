"""The skills that come with ClawHive."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from clawhive_core.skills.contracts.skill import Skill
from clawhive_core.skills.documents.place import is_folder

SOURCE = "shipped"

_PACKAGE = Path(__file__).resolve().parents[2]


def shipped_folder() -> Path:
    """Return where the shipped skills lie: in the wheel's data, or beside a checkout's core."""
    inside = _inside()
    return inside if inside.is_dir() else _PACKAGE.parent / "skills"


def is_checked(skill: Skill) -> bool:
    """Whether a skill's code was checked before it was shipped: that of an installed wheel.

    In a checkout, and where its path is given to `skills check`, it is checked as any other.
    """
    return skill.source == SOURCE and skill.folder.parent == _inside()


def shipped_skills() -> list[Skill]:
    """Return the shipped skills, by name; the wheel that brings them vouches for them."""
    from clawhive_core.skills.finding.reading import is_skill, read_skill

    folder = shipped_folder()
    if not is_folder(folder):
        return []
    return [
        replace(read_skill(each, SOURCE).skill, trusted=True)
        for each in sorted(folder.iterdir())
        if is_skill(each)
    ]


def _inside() -> Path:
    return _PACKAGE / "data" / "skills"
