"""A file that has no name until it is whole."""

from __future__ import annotations

import errno
import os
import secrets
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import TextIO

_NO_NAMELESS = {errno.EOPNOTSUPP, errno.EISDIR, errno.ENOENT, errno.EINVAL}
"""How file systems say that they have no files without a name."""


class Nameless:
    """A text file for this user alone (0600) that takes its name at the end, if nothing failed.

    Where the file system has no files without a name it has a hidden one, which is removed after a
    failure.

    Raises:
        OSError: (on entering, writing or leaving) it cannot be written.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._hidden = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
        self._file: TextIO | None = None
        self._has_name = False

    def __enter__(self) -> TextIO:
        """Open the file."""
        self._file = os.fdopen(self._opened(), "w", encoding="utf-8")
        return self._file

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Name the file, or drop it."""
        file = self._file
        if file is None:
            return
        try:
            if kind is None:
                file.flush()
                os.fsync(file.fileno())
                self._name(file.fileno())
        finally:
            with suppress(OSError):
                file.close()
            with suppress(FileNotFoundError):
                self._hidden.unlink()

    def _opened(self) -> int:
        try:
            return os.open(self._path.parent, os.O_TMPFILE | os.O_WRONLY | os.O_CLOEXEC, 0o600)
        except (AttributeError, OSError) as problem:
            if isinstance(problem, OSError) and problem.errno not in _NO_NAMELESS:
                raise
        self._has_name = True
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        return os.open(self._hidden, flags, 0o600)

    def _name(self, descriptor: int) -> None:
        if not self._has_name:
            # Only `linkat` follows the link that /proc makes of a descriptor; a folder asks for it.
            folder = os.open(self._path.parent, os.O_RDONLY | os.O_CLOEXEC)
            try:
                proc = f"/proc/self/fd/{descriptor}"
                os.link(proc, self._hidden, src_dir_fd=folder, follow_symlinks=True)
            finally:
                os.close(folder)
        self._hidden.replace(self._path)
