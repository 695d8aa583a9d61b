"""The configuration of the project around here."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from clawhive_core.config.config import Config
from clawhive_core.config.load import load_config
from clawhive_core.config.root import find_root


def open_config(
    path: str | os.PathLike[str] | None, flags: Mapping[str, Any], env: Mapping[str, str]
) -> Config:
    """Return the configuration of the project at a path, else of the one around here.

    Args:
        path: A folder, or a clawhive.toml; None to look upwards from the current directory.
        flags: Values over everything else, by key.
        env: The environment.

    Raises:
        ConfigError: It cannot be used.
    """
    here = Path.cwd()
    root = find_root(here, None if path is None else Path(path))
    return load_config(root=root, env=env, flags=flags, cwd=here)
