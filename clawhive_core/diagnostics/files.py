"""Files that a person names: how messages show them, their errors, and their replacement."""

from __future__ import annotations

import errno
import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from stat import S_ISREG

from clawhive_core.errors import UsageError

_DIGESTED_BYTES = 64 * 1024 * 1024
_DIGESTED_FILES = 2_000


def shown_path(path: str | os.PathLike[str]) -> str:
    """Return a path relative to the current directory where it lies inside, else as it is."""
    text = os.fspath(path)
    try:
        return text.removeprefix(f"{os.getcwd()}{os.sep}")  # noqa: PTH109 - called for every file that is read, and a Path costs more than the call
    except OSError:  # the current directory was removed
        return text


@contextmanager
def file_errors(problem: str, path: Path, fix: str) -> Generator[None]:
    """Raise a coded error for a file that the system refuses.

    Args:
        problem: What cannot be done, as the begin of a sentence that the system's reason ends.
        path: The file or folder that the person named.
        fix: What to do.

    Raises:
        UsageError: `io_error`.
    """
    try:
        yield
    except OSError as error:
        raise UsageError(
            f"{problem}: {error.strerror or error}",
            place=shown_path(path),
            fix=fix,
            code="io_error",
        ) from error


def file_digests(folder: Path, suffix: str = "") -> dict[str, str]:
    """Return the SHA-256 of each file below a folder whose name ends so, by its path from there.

    Of a file alone it is its own. Compiled Python is left out. A link is named by where it leads,
    what cannot be read by why, and files beyond 64 MiB in all by their sizes.
    """
    left = _DIGESTED_BYTES
    found = {folder.name: _digest(folder, left)[0]} if folder.is_file() else dict[str, str]()
    for where, folders, names in os.walk(folder):
        folders[:] = sorted({*folders} - {"__pycache__"})
        for name in (*folders, *sorted(names)):
            path = Path(where, name)
            if name in folders and not path.is_symlink():
                continue
            if name.endswith(suffix) and not name.endswith(".pyc"):
                found[path.relative_to(folder).as_posix()], size = _digest(path, left)
                left -= size
            if len(found) >= _DIGESTED_FILES:
                return {**found, "": f"further files than these {_DIGESTED_FILES}"}
    return found


def _digest(path: Path, most: int) -> tuple[str, int]:
    import hashlib

    try:
        if path.is_symlink():
            return f"link to {path.readlink()}", 0
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            state = os.fstat(file.fileno())
            if not S_ISREG(state.st_mode) or state.st_size > most:
                return f"{state.st_size} bytes", 0
            return hashlib.file_digest(file, "sha256").hexdigest(), state.st_size
    except OSError as error:
        return f"unreadable: {error.strerror}", 0


def replace_file(path: Path, data: bytes) -> None:
    """Put bytes in the place of a file, or make it; its rights stay, and a reader sees old or new.

    Raises:
        OSError: It cannot be written, or is a device or a pipe; it is as it was.
    """
    import tempfile

    if not _is_replaceable(path):
        raise OSError(errno.EINVAL, "it is no regular file", str(path))
    mode = path.stat().st_mode & 0o7777 if path.exists() else 0o666 & ~_umask()
    handle, name = tempfile.mkstemp(prefix=f".{path.name[:100]}-", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        Path(name).chmod(mode)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _is_replaceable(path: Path) -> bool:
    """Whether a file, or nothing, is there; what /dev/stdout leads to is no file to replace."""
    is_system = os.path.abspath(path).startswith(("/dev/", "/proc/"))  # noqa: PTH100 - links must stay
    return not (path.exists() and not path.is_file()) and not (is_system and path.is_symlink())


def _umask() -> int:
    """Return the process's own mask, which can only be read by setting it."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
