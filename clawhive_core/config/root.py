"""Where things are: the project root and the user's own directory."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from clawhive_core.errors import ConfigError

PROJECT_FILE = "clawhive.toml"
_MARKS = (PROJECT_FILE, ".clawhive", ".git")


def find_root(start: Path, explicit: Path | None = None) -> Path:
    """Return the project root, absolute and with links resolved.

    It is the nearest folder at or above `start` that holds `clawhive.toml`, `.clawhive` or `.git`,
    else `start` itself. `explicit` (`--root`, or a path to a `clawhive.toml`) goes before all.

    Raises:
        ConfigError: `explicit` is no existing folder.
    """
    if explicit is not None:
        return _explicit(start / explicit)
    here = Path(os.path.realpath(start))
    for folder in (here, *here.parents):
        if any(os.path.lexists(folder / mark) for mark in _MARKS):
            return folder
    return here


def _explicit(path: Path) -> Path:
    folder = path.parent if path.name == PROJECT_FILE and path.is_file() else path
    if not folder.is_dir():
        raise ConfigError(
            f"the project root {os.fspath(path)!r} is no existing folder",
            place="--root",
            fix="name a folder that exists, or create it first",
        )
    return Path(os.path.realpath(folder))


def user_dir(env: Mapping[str, str]) -> Path:
    """Return the user's own directory, `$XDG_CONFIG_HOME/clawhive` or `~/.config/clawhive`.

    As the XDG Base Directory Specification 0.8 says, a relative `XDG_CONFIG_HOME` is ignored.
    """
    base = Path(env.get("XDG_CONFIG_HOME", ""))
    if base.is_absolute():
        return base / "clawhive"
    return _home(env) / ".config" / "clawhive"


def _home(env: Mapping[str, str]) -> Path:
    home = Path(env.get("HOME", ""))
    if home.is_absolute():
        return home
    try:
        return Path.home()
    except RuntimeError as error:
        raise ConfigError(
            "the home directory is unknown",
            place="HOME",
            fix="set HOME or XDG_CONFIG_HOME to an absolute path",
        ) from error


def shown_path(path: Path, cwd: Path | None) -> str:
    """Return a path for messages: relative where it lies below the current directory."""
    if cwd is not None and path.is_relative_to(cwd):
        return os.fspath(path.relative_to(cwd))
    return os.fspath(path)
