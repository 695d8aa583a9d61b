"""The files that a skill consists of."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from pathlib import Path

from clawhive_core.diagnostics.shown import shown_path
from clawhive_core.errors import SkillError


def content_files(content: Path, without: Collection[str] = ()) -> Iterator[tuple[bytes, Path]]:
    """Yield names and paths of a skill's files, sorted by name.

    Args:
        content: The folder, or the file of a manifest alone, whose name is empty.
        without: Names of folders that are passed over, at any depth.

    Raises:
        SkillError: There is a link or another special file among them.
    """
    if content.is_file():
        yield b"", content
        return
    waiting = [Path(os.path.realpath(content))]
    base, found = waiting[0], list[tuple[bytes, Path]]()
    while waiting:
        folder = waiting.pop()
        try:
            entries = list(os.scandir(folder))
        except OSError as error:
            raise unbound(folder, error.strerror or str(error)) from None
        for entry in entries:
            path = Path(entry.path)
            if entry.is_dir(follow_symlinks=False):
                if entry.name not in without:
                    waiting.append(path)
            elif not entry.is_file(follow_symlinks=False):
                raise unbound(path, "it is a link or a special file")
            else:
                found.append((os.fsencode(path.relative_to(base).as_posix()), path))
    yield from sorted(found)


def unbound(path: Path, why: str) -> SkillError:
    """Return the error for files that no digest can stand for."""
    return SkillError(
        f"the skill's files cannot be bound to a digest: {why}",
        place=shown_path(path),
        fix="a skill that is trusted holds regular files only",
    )
