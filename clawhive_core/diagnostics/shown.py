"""Paths, as messages show them."""

from __future__ import annotations

import os
from pathlib import Path


def shown_path(path: str | os.PathLike[str]) -> str:
    """Return a path relative to the current directory where it lies inside, else as it is."""
    text = os.fspath(path)
    try:
        return text.removeprefix(f"{Path.cwd()}{os.sep}")
    except OSError:  # the current directory was removed
        return text
