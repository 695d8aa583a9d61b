"""The skills that come with ClawHive."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path

from clawhive_core.errors import SkillError
from clawhive_core.model.version import VERSION
from clawhive_core.skills.contracts.skill import Skill
from clawhive_core.skills.documents.place import is_folder
from clawhive_core.skills.finding.content import content_files

SOURCE = "shipped"

_PACKAGE = Path(__file__).resolve().parents[2]


def shipped_folder() -> Path:
    """Return where the shipped skills lie: in the wheel's data, or beside a checkout's core."""
    inside = _inside()
    return inside if inside.is_dir() else _PACKAGE.parent / "skills"


def is_checked(skill: Skill) -> bool:
    """Whether a skill's code was checked before it was shipped: that of an installed wheel.

    In a checkout, where a file of it was changed, and where its path is given to `skills check`, it
    is checked as any other.
    """
    if skill.source != SOURCE or skill.folder.parent != _inside():
        return False
    return _recorded(_PACKAGE) is not None and changed_file(skill) is None


def changed_file(skill: Skill) -> Path | None:
    """Return a file of a shipped skill that is not as the wheel brought it, None where all are.

    Whoever installs a wheel keeps the digest of each of its files (RECORD). Without such a list, as
    in a checkout, whatever lies where the shipped skills do is as it was shipped.
    """
    known = _recorded(_PACKAGE) if skill.folder.parent == _inside() else None
    if known is None:
        return None
    name = skill.folder.name
    wanted = {path: digest for path, digest in known.items() if path.startswith(f"{name}/")}
    try:
        found = {f"{name}/{os.fsdecode(each)}": file for each, file in _files(skill)}
        for path in {**wanted, **found}:
            if path not in found or _digest(found[path]) != wanted.get(path):
                return found.get(path, skill.folder.parent / path)
    except (OSError, SkillError):
        return skill.folder
    return None


def _files(skill: Skill) -> Iterator[tuple[bytes, Path]]:
    return content_files(skill.folder, {"__pycache__"})


def _digest(file: Path) -> str:
    """Return the digest of a file as RECORD has it (the packaging guide's core metadata)."""
    from base64 import urlsafe_b64encode
    from hashlib import sha256

    digest = sha256(file.read_bytes()).digest()
    return f"sha256={urlsafe_b64encode(digest).rstrip(b'=').decode()}"


@cache
def _recorded(package: Path) -> Mapping[str, str] | None:
    """Return the digest of each file below the wheel's skills, None where nobody kept them."""
    file = package.parent / f"clawhive-{VERSION}.dist-info" / "RECORD"
    begin = f"{package.name}/data/skills/"
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return None
    rows = [line.removeprefix(begin).split(",") for line in lines if line.startswith(begin)]
    return {row[0]: row[1] for row in rows if row[1:2] != [""]} or None


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
