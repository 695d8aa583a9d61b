"""A small file in the user's own directory that only the user may write, and its version."""

from __future__ import annotations

import os
import stat
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from clawhive_core.config.tomlfile import read_bytes
from clawhive_core.errors import StorageError
from clawhive_core.model.late import dataclass

FileVersion = tuple[int, int, int]
"""The time of its last writing in nanoseconds, its size and its inode."""


@dataclass(frozen=True, slots=True)
class PrivateFile:
    """A file by directory and name, and what errors call it."""

    user_dir: Path
    name: str
    noun: str

    @property
    def path(self) -> Path:
        """Its path."""
        return self.user_dir / self.name

    def read(self) -> bytes | None:
        """Return its bytes, None where there is no such file.

        Raises:
            ValueError: Others may write it, or it belongs to somebody else.
            ConfigError: It cannot be read.
        """
        path = os.path.join(self.user_dir, self.name)  # noqa: PTH118 - each run looks for one that is rarely there
        if not _is_there_for_us_alone(path):
            return None
        return read_bytes(self.path, path)

    def keep_damaged(self) -> None:
        """Rename a damaged file, so that the next one does not replace it.

        Raises:
            StorageError: It cannot be renamed.
        """
        with self._storing(self.path):
            self.path.replace(_free_name(self.path))

    @contextmanager
    def locked(self) -> Generator[None]:
        """Hold the directory while the file is read and replaced, so that no entry is lost.

        Raises:
            StorageError: The directory cannot be made or opened.
        """
        with self._storing(self.user_dir):
            self.user_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
            handle = os.open(self.user_dir, os.O_RDONLY) if os.name == "posix" else None
        try:
            if handle is not None:
                import fcntl

                fcntl.flock(handle, fcntl.LOCK_EX)
                for left in self.user_dir.glob(f".{self.path.stem}-*"):  # by a killed process
                    left.unlink(missing_ok=True)
            yield
        finally:
            if handle is not None:
                os.close(handle)

    def write(self, document: Mapping[str, Any]) -> None:
        """Replace it in one step, readable and writable by its owner only.

        Raises:
            StorageError: It cannot be written; the old one is still there.
        """
        import json

        with self._storing(self.path):
            replace_file(self.path, json.dumps(document, indent=2))

    @contextmanager
    def _storing(self, path: Path) -> Generator[None]:
        try:
            yield
        except OSError as error:
            raise StorageError(
                f"{self.noun} cannot be written: {error.strerror or error}",
                place=os.fspath(path),
                fix="give yourself the right to write there, or free space, and repeat the command",
            ) from error


def replace_file(path: Path, text: str, *, durable: bool = True) -> None:
    """Replace a file in one step, readable and writable by its owner only; make its folder.

    Args:
        path: The file.
        text: What it holds from now on.
        durable: Whether it outlives a power cut; a cache need not.

    Raises:
        OSError: The disk refuses; the old one is still there.
    """
    import tempfile

    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # mkstemp makes the file readable and writable by its owner only.
    handle, name = tempfile.mkstemp(prefix=f".{path.stem}-", dir=path.parent)
    temporary = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            if durable:
                os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _is_there_for_us_alone(path: str) -> bool:
    """Whether there is such a file, as far as can be seen.

    Raises:
        ValueError: Others, who could decide for the user, may write it, or it is theirs.
    """
    if os.name != "posix":
        return True
    try:
        found = os.stat(path)  # noqa: PTH116 - as above
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:  # reading it says why
        return True
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise ValueError("others may write it")
    if found.st_uid not in {0, os.geteuid()}:
        raise ValueError("it belongs to somebody else")
    return True


def _free_name(file: Path) -> Path:
    number = 1
    while os.path.lexists(kept := file.with_name(f"{file.name}.damaged-{number}")):
        number += 1
    return kept


def version_of(path: str | os.PathLike[str]) -> FileVersion | None:
    """Return the version of a file, None where there is none that can be seen."""
    try:
        found = os.stat(path)  # noqa: PTH116 - before every decision, and pathlib costs as much again
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
