"""The skills that come with ClawHive."""

from __future__ import annotations

from pathlib import Path

from clawhive_core.skills.manifest import MANIFEST, read_skill
from clawhive_core.skills.skill import Skill

_PACKAGE = Path(__file__).resolve().parent.parent


def shipped_folder() -> Path:
    """Return where the shipped skills lie: in the wheel's data, or beside a checkout's core."""
    inside = _PACKAGE / "data" / "skills"
    return inside if inside.is_dir() else _PACKAGE.parent / "skills"


def shipped_skills() -> list[Skill]:
    """Return the shipped skills that have a manifest, by name."""
    folder = shipped_folder()
    if not folder.is_dir():
        return []
    return [
        read_skill(each, "shipped")
        for each in sorted(folder.iterdir())
        if (each / MANIFEST).is_file()
    ]
