"""The folder of a run's files, and those that are no run's."""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path

from clawhive_core.capabilities import below, path_capability
from clawhive_core.config.config import Config
from clawhive_core.errors import UsageError

_VERBS = ("fs.read", "fs.write", "fs.delete", "fs.exec")


def run_folder(config: Config, out: Path | None, run_id: str) -> str:
    """Return a run's artifacts folder, absolute: the one that is named, else its own.

    Raises:
        UsageError: The folder lies inside .clawhive, or is none.
    """
    folder = config.root / config.get("run.out") / run_id if out is None else out
    absolute = folder.absolute()
    if ".clawhive" in absolute.parts:
        raise UsageError(
            "a run's files cannot lie inside .clawhive",
            place="--out",
            fix="name another folder",
        )
    if os.path.lexists(absolute) and not os.path.isdir(absolute):  # noqa: PTH112 - never raises
        raise UsageError(
            f"{absolute} is no folder", place="--out", fix="name a folder, there or to be made"
        )
    return str(absolute)


def reserved(config: Config) -> list[str]:
    """Return the denies of the folders that are no tool's: the user's own, the sandboxes'."""
    folders = (config.user_dir, config.root / config.get("sandbox.workspace"))
    held = [_everything_below(os.path.realpath(each)) for each in folders]
    return [f"{verb}:{each}" for each in held for verb in _VERBS]


@lru_cache(maxsize=64)
def _everything_below(folder: str) -> str:
    """Return the resource of a folder with all that lies in it, as a pattern writes it."""
    return below(path_capability("fs.read", folder)).text.partition(":")[2]
