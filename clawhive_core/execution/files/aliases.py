"""Aliases of files: the further names under which one must be allowed, too."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import field

from clawhive_core.model.late import dataclass
from clawhive_core.model.patterns import pattern
from clawhive_core.policy.protected import FENCED, changes_settings, is_protected

_MOST = 1_000_000
"""Names that are looked at in search of a protected file's other names."""
_HOME = ("", ".ssh", ".aws", ".gnupg", ".config/git", ".config/clawhive")
"""The folders of the user's home whose protected files are known by their other names, too."""
_BRANCH = pattern(rb"ref:\s*refs/|[0-9a-f]{40}", re.IGNORECASE)
"""The beginning of a file `HEAD` that git accepts."""


@dataclass(slots=True)
class Aliases:
    """The further names of the files of one project, looked up as far as they are needed.

    Args:
        root: The project's folder.
    """

    root: str
    _linked: dict[tuple[int, int], list[str]] | None = field(default=None, init=False)

    def of(self, verb: str, path: str, *, deep: bool = False) -> Iterator[str]:
        """Yield the other names of what stands at a real path; most files have none.

        Args:
            verb: What is to be done with it, such as `fs.write`.
            path: Absolute, its links resolved.
            deep: Whether everything below it is meant.
        """
        if verb != "fs.read":
            yield from _in_repository(path)
        try:
            found = os.lstat(path)
        except (OSError, ValueError):
            return
        if stat.S_ISREG(found.st_mode):
            if found.st_nlink > 1:
                yield from self._links(found, path)
            if verb == "fs.delete" and _holds_settings(path):
                yield f"{os.path.dirname(path)}/clawhive.toml"  # noqa: PTH120 - each call passes here
        elif verb == "fs.delete" and not deep and stat.S_ISDIR(found.st_mode):
            # Other protected names lie in every folder of installed packages.
            below = _protected_below(path, bounded=_MOST)
            yield from (each for each, entry in below if entry.name.casefold() in FENCED)

    def _links(self, found: os.stat_result, path: str) -> Iterator[str]:
        if self._linked is None:
            self._linked = {}
            for name, entry in self._candidates():
                with suppress(OSError):
                    at = entry.stat(follow_symlinks=False)
                    if stat.S_ISREG(at.st_mode) and at.st_nlink > 1:
                        self._linked.setdefault((at.st_dev, at.st_ino), []).append(name)
        for name in self._linked.get((found.st_dev, found.st_ino), ()):
            if name != path:
                yield name

    def _candidates(self) -> Iterable[tuple[str, os.DirEntry[str]]]:
        yield from _protected_below(self.root, bounded=_MOST)
        home = os.path.expanduser("~")  # noqa: PTH111 - as above
        for folder in _HOME:
            yield from _protected_in(os.path.join(home, folder))  # noqa: PTH118 - as above


def is_linked(path: str) -> bool:
    """Whether a file may have other names: more than one, which folders have as well."""
    try:
        return os.lstat(path).st_nlink > 1
    except (OSError, ValueError):
        return False


def _in_repository(path: str) -> Iterator[str]:
    """Yield the path as one of a `.git`, where git takes a folder above it for a repository."""
    folder = path
    if "/.git/" in path:
        return
    while (above := folder.rpartition("/")[0]) and above != folder:
        folder = above
        head = f"{folder}/HEAD"
        if _is_there(head) and _is_head(head):
            yield f"{folder}/.git{path[len(folder) :]}"


_FOLLOWS = os.access not in os.supports_follow_symlinks


def _is_there(path: str) -> bool:
    """Whether a name is there, be it a link to nowhere; most are not, and no error is raised."""
    return os.access(path, os.F_OK, follow_symlinks=_FOLLOWS)


def _is_head(path: str) -> bool:
    with suppress(OSError):
        found = os.lstat(path)
        if stat.S_ISLNK(found.st_mode):
            return True
        if stat.S_ISREG(found.st_mode):
            with open(path, "rb") as file:  # noqa: PTH123 - as above
                return _BRANCH.match(file.read(64)) is not None
    return False


def _holds_settings(path: str) -> bool:
    if not path.lower().endswith("/pyproject.toml"):
        return False
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - as above
            return changes_settings(file.read(), b"")
    except OSError:
        return True


def _protected_below(folder: str, *, bounded: int) -> Iterator[tuple[str, os.DirEntry[str]]]:
    """Yield what is protected below a folder, by its name or that of a folder on the way."""
    folders = [folder]
    while folders:
        at = folders.pop()
        inside = is_protected(at[len(folder) :])
        with suppress(OSError), os.scandir(at) as entries:
            for entry in entries:
                bounded -= 1
                if bounded < 0:
                    return
                # Git's objects are its own many hard links, and say nothing by their names.
                is_store = inside and entry.name == "objects"
                if entry.is_dir(follow_symlinks=False) and not is_store:
                    folders.append(entry.path)
                if inside or is_protected(f"/{entry.name}"):
                    yield entry.path, entry


def _protected_in(folder: str) -> Iterator[tuple[str, os.DirEntry[str]]]:
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if is_protected(f"{folder}/{entry.name}"):
                yield entry.path, entry
