"""The project root and the user's own directory, and how they are found."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from clawhive_core.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path

PROJECT_FILE = "clawhive.toml"
_MARKS = (PROJECT_FILE, ".clawhive", ".git")


def find_root(start: Path, explicit: Path | None = None) -> Path:
    """Return the project root, absolute and with links resolved.

    It is the nearest folder at or above `start` that holds `clawhive.toml`, `.clawhive` or `.git`,
    else `start` itself. `explicit` (`--root`, or a path to a `clawhive.toml`) goes before all.

    Raises:
        ConfigError: `explicit` is no existing folder.
    """
    from pathlib import Path

    if explicit is not None:
        return _explicit(start / explicit)
    return Path(nearest_root(os.fspath(start)))


def nearest_root(start: str) -> str:
    """Return the nearest folder at or above `start` that marks a project, else `start` itself.

    Help passes here, so it does without pathlib.
    """
    here = folder = os.path.realpath(start)
    while not any(os.path.lexists(os.path.join(folder, mark)) for mark in _MARKS):  # noqa: PTH118 - see above
        above = os.path.dirname(folder)  # noqa: PTH120 - see above
        if above == folder:
            return here
        folder = above
    return folder


def _explicit(path: Path) -> Path:
    folder = path.parent if path.name == PROJECT_FILE and path.is_file() else path
    if not folder.is_dir():
        raise ConfigError(
            f"the project root {os.fspath(path)!r} is no existing folder",
            place="--root",
            fix="name a folder that exists, or create it first",
        )
    return type(path)(os.path.realpath(folder))


def user_dir(env: Mapping[str, str]) -> Path:
    """Return the user's own directory, `$XDG_CONFIG_HOME/clawhive` or `~/.config/clawhive`.

    As the XDG Base Directory Specification 0.8 says, a relative `XDG_CONFIG_HOME` is ignored.

    Raises:
        ConfigError: The home directory is unknown.
    """
    from pathlib import Path

    return Path(user_folder(env))


def user_folder(env: Mapping[str, str]) -> str:
    """Return `user_dir` as text.

    Raises:
        ConfigError: The home directory is unknown.
    """
    base = env.get("XDG_CONFIG_HOME", "")
    if not os.path.isabs(base):  # noqa: PTH117 - help does without pathlib
        if not (home := home_of(env)):
            raise ConfigError(
                "the home directory is unknown",
                place="HOME",
                fix="set HOME or XDG_CONFIG_HOME to an absolute path",
            )
        base = f"{home}/.config"
    return f"{base}/clawhive"


def cache_dir(env: Mapping[str, str]) -> Path:
    """Return the user's directory for caches, `$XDG_CACHE_HOME/clawhive` or `~/.cache/clawhive`.

    As the XDG Base Directory Specification 0.8 says, a relative `XDG_CACHE_HOME` is ignored. Where
    the home directory is unknown it is one that cannot be made.
    """
    from pathlib import Path

    base = env.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(base):  # noqa: PTH117 - as above
        base = f"{home_of(env) or os.devnull}/.cache"
    return Path(base, "clawhive")


def home_of(env: Mapping[str, str]) -> str:
    """Return the home directory that an environment names, empty where it is unknown.

    A process without `HOME`, such as a service, has the one of its account. An environment that a
    program made has what the program put into it: nothing of this machine is taken instead.
    """
    home = env.get("HOME", "")
    if not home and "HOME" not in os.environ:
        home = os.path.expanduser("~")  # noqa: PTH111 - help does without pathlib
    return home if os.path.isabs(home) else ""  # noqa: PTH117 - help does without pathlib


def shown_path(path: Path, cwd: Path | None) -> str:
    """Return a path for messages: relative where it lies below the current directory."""
    if cwd is not None and path.is_relative_to(cwd):
        return os.fspath(path.relative_to(cwd))
    return os.fspath(path)
