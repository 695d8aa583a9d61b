"""Where a skill was found, and which of its files stand there."""

from __future__ import annotations

import os
from pathlib import Path

from clawhive_core.model.late import dataclass
from clawhive_core.skills.contracts.manifest import MANIFESTS
from clawhive_core.skills.documents.place import is_file, is_folder
from clawhive_core.skills.documents.text import OTHER_NAME, TEXT_FILE

_OTHERS = (*MANIFESTS, OTHER_NAME)
"""What hardly any has; to ask whether something is there is cheaper than to be told that not."""
FILES = (TEXT_FILE, *_OTHERS)


@dataclass(frozen=True, slots=True)
class Spot:
    """A skill's folder, or a manifest alone."""

    path: str
    files: tuple[str, ...] | None
    """Which of `FILES` the folder holds; None for a manifest alone."""
    is_link: bool = False
    """Whether the path itself is a link."""

    @classmethod
    def of(cls, place: Path) -> Spot:
        """Look at a place: whatever is no folder counts as a manifest alone."""
        path = os.fspath(place)
        return cls(path, skill_files(path) if is_folder(path) else None, place.is_symlink())


def skill_files(folder: str) -> tuple[str, ...]:
    """Return which of `FILES` a folder holds; with none of them it is no skill."""
    begin = folder + os.sep
    rest = [name for name in _OTHERS if os.access(begin + name, os.F_OK) and is_file(begin + name)]
    return (TEXT_FILE, *rest) if is_file(begin + TEXT_FILE) else tuple(rest)
