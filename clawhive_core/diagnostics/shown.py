"""Paths, as messages show them."""

from __future__ import annotations

import os


def shown_path(path: str | os.PathLike[str]) -> str:
    """Return a path relative to the current directory where it lies inside, else as it is."""
    text = os.fspath(path)
    try:
        return text.removeprefix(f"{os.getcwd()}{os.sep}")  # noqa: PTH109 - called for every file that is read, and a Path costs more than the call
    except OSError:  # the current directory was removed
        return text
