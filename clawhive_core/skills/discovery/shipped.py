"""The skills that come with ClawHive."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

from clawhive_core.model.version import VERSION
from clawhive_core.skills.contracts.skill import Skill
from clawhive_core.skills.documents.place import is_file

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
    """Return a file of a shipped skill that is not as in the wheel, None where all are.

    Whoever installs a wheel keeps the digest of each of its files (RECORD). Without such a list, as
    in a checkout, whatever lies where the shipped skills do is as it was shipped.
    """
    home, name = skill.content.parent, skill.content.name
    known = _recorded(_PACKAGE) if home == _inside() else None
    if known is None:
        return None
    wanted = [path for path in known if path.startswith(f"{name}/")]
    there = [name] if is_file(skill.content) else [f"{name}/{each}" for each in _files(home / name)]
    paths = dict.fromkeys((*wanted, *there))
    return next((home / path for path in paths if _digest(home / path) != known.get(path)), None)


def shipped_content(place: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the name and content of each file of a shipped skill, or of a manifest alone.

    Raises:
        OSError: One cannot be read.
    """
    for name in [""] if is_file(place) else _files(place):
        file = place / name
        yield name, file.read_bytes() if is_file(file) else b""  # nothing is waited for at a pipe


def _files(folder: Path) -> Iterator[str]:
    """Yield what lies below a folder but what Python compiled; a link to a folder as a file."""
    for where, folders, files in os.walk(folder):
        links = [name for name in folders if Path(where, name).is_symlink()]
        folders[:] = {*folders} - {"__pycache__", *links}
        yield from (Path(where, name).relative_to(folder).as_posix() for name in (*files, *links))


def _digest(file: Path) -> str:
    """Return the digest of a file in the form of RECORD, empty where it cannot be read.

    Source: https://packaging.python.org/en/latest/specifications/recording-installed-packages/
    """
    from base64 import urlsafe_b64encode
    from hashlib import sha256

    if not is_file(file):  # nothing is waited for at a pipe
        return ""
    try:
        digest = sha256(file.read_bytes()).digest()
    except OSError:
        return ""
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


def _inside() -> Path:
    return _PACKAGE / "data" / "skills"
