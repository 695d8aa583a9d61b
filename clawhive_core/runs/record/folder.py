"""The folder of a run's files, and those that are no run's."""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path

from clawhive_core.capabilities import below, path_capability
from clawhive_core.config.config import Config
from clawhive_core.errors import UsageError
from clawhive_core.policy.protected import protection_of

_VERBS = ("fs.read", "fs.write", "fs.delete", "fs.exec")


def run_folder(config: Config, out: str | os.PathLike[str] | None, run_id: str) -> str:
    """Return a run's artifacts folder, absolute: the one that is named, else its own.

    Raises:
        UsageError: The folder lies inside .clawhive, is none, or the one that is named cannot be
            made or written to.
    """
    if out is None:
        folder = _folder_of_all(config.root, config.get("run.out")) + run_id
    else:
        folder = _usable(_outside(Path(out).absolute()))
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
    for spelled in (folder, Path(os.path.realpath(folder))):
        if (kind := protection_of(spelled.parts[1:])) in {"own", "closed"}:
            where = ".clawhive" if ".clawhive" in spelled.parts else f"{spelled}, which is {kind}"
            raise UsageError(
                f"a run's files cannot lie inside {where}",
                place="--out",
                fix="name another folder",
            )
    return str(folder)


def _usable(folder: str) -> str:
    """Return a folder that a run may leave files in: told before it begins, not at its end."""
    nearest = folder
    try:
        os.lstat(folder)
    except FileNotFoundError:
        nearest = next(str(each) for each in Path(folder).parents if each.exists())
    except OSError as error:
        raise _unusable(folder, error.strerror or str(error)) from None
    if os.path.isdir(nearest) and not os.access(nearest, os.W_OK | os.X_OK):  # noqa: PTH112 - never raises
        raise _unusable(folder, f"you may not write to {nearest}")
    return folder


def _unusable(folder: str, why: str) -> UsageError:
    fix = "name a folder, there or to be made, that you may write to"
    return UsageError(f"{folder} takes no files: {why}", place="--out", fix=fix)


def reserved(config: Config) -> list[str]:
    """Return the denies of the folders that are no tool's: the user's own, the sandboxes'."""
    folders = (config.user_dir, config.root / config.get("sandbox.workspace"))
    held = [_everything_below(os.path.realpath(each)) for each in folders]
    return [f"{verb}:{each}" for each in held for verb in _VERBS]


@lru_cache(maxsize=64)
def _everything_below(folder: str) -> str:
    """Return the resource of a folder with all that lies in it, as a pattern writes it."""
    return below(path_capability("fs.read", folder)).text.partition(":")[2]
