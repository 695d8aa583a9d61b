"""The folder of a run's files, and those that are no run's."""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path

from clawhive_core.capabilities import below, path_capability
from clawhive_core.config.config import Config
from clawhive_core.errors import UsageError

_VERBS = ("fs.read", "fs.write", "fs.delete", "fs.exec")


def run_folder(config: Config, out: str | os.PathLike[str] | None, run_id: str) -> str:
    """Return a run's artifacts folder, absolute: the one that is named, else its own.

    Raises:
        UsageError: The folder lies inside .clawhive, or is none.
    """
    if out is None:
        folder = _folder_of_all(config.root, config.get("run.out")) + run_id
    else:
        folder = _outside(Path(out).absolute())
    if os.path.lexists(folder) and not os.path.isdir(folder):  # noqa: PTH112 - never raises
        raise UsageError(
            f"{folder} is no folder", place="--out", fix="name a folder, there or to be made"
        )
    return folder


@lru_cache(maxsize=64)
def _folder_of_all(root: Path, out: str) -> str:
    """Return the folder of the runs of a project, whose root is absolute, up to their names."""
    return os.path.join(_outside(root / out), "")  # noqa: PTH118 - it ends with a separator


def _outside(folder: Path) -> str:
    if ".clawhive" in folder.parts:
        raise UsageError(
            "a run's files cannot lie inside .clawhive",
            place="--out",
            fix="name another folder",
        )
    return str(folder)


def reserved(config: Config) -> list[str]:
    """Return the denies of the folders that are no tool's: the user's own, the sandboxes'."""
    folders = (config.user_dir, config.root / config.get("sandbox.workspace"))
    held = [_everything_below(os.path.realpath(each)) for each in folders]
    return [f"{verb}:{each}" for each in held for verb in _VERBS]


@lru_cache(maxsize=64)
def _everything_below(folder: str) -> str:
    """Return the resource of a folder with all that lies in it, as a pattern writes it."""
    return below(path_capability("fs.read", folder)).text.partition(":")[2]
