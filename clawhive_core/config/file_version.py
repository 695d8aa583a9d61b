"""A file's version: what differs once its bytes may be others."""

from __future__ import annotations

import os

FileVersion = tuple[int, int, int]
"""When it was written, in nanoseconds, its size and its inode."""


def version_of(path: str | os.PathLike[str]) -> FileVersion | None:
    """Return the version of a file, None where there is none that can be seen."""
    try:
        found = os.stat(path)  # noqa: PTH116 - before every decision, and pathlib costs as much again
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
