"""Opening files by way of directories, so that no link is ever followed.

A path is walked one name at a time with `openat` and `O_NOFOLLOW`. A link that is swapped in while
the walk is under way is therefore met as what it is, and refused; there is no moment between a
check and a use. Every function raises `OSError`, as the system calls below it do.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Literal
from zlib import crc32

from clawhive_core.model.late import dataclass

Kind = Literal["file", "directory", "link", "other"]

MAX_DEPTH = 64
"""The depth of folders to which `walk` goes."""

_DIRECTORY = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_SEARCH = _DIRECTORY | getattr(os, "O_PATH", os.O_RDONLY)
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class Found:
    """One name in a directory, links not followed."""

    path: tuple[str, ...]
    """Its names below the directory where the search began."""
    kind: Kind
    stat: os.stat_result

    @property
    def name(self) -> str:
        """Its own name."""
        return self.path[-1]

    @property
    def bytes(self) -> int:
        """The size of a file, 0 for anything else."""
        return self.stat.st_size if self.kind == "file" else 0


def open_real(path: str) -> tuple[int, str] | None:
    """Open what a path leads to, links followed, without access to its content; say where it is.

    Linux tells the name of what is open: three system calls, where `realpath` looks at each folder
    on the way. The caller closes the handle.

    Returns:
        The handle and the real path; None where nothing is there, or it cannot be said.
    """
    try:
        handle = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except (OSError, AttributeError):  # nothing is there, or this is no Linux
        return None
    try:
        real = os.readlink(f"/proc/self/fd/{handle}")  # noqa: PTH115 - every call passes here
    except OSError:
        real = ""
    # A pipe's name is no path, and Linux marks so what was unlinked meanwhile.
    if real.startswith("/") and not real.endswith(" (deleted)"):
        return handle, real
    os.close(handle)
    return None


def real_path(path: str) -> str:
    """Return where a path leads, its links followed as far as it exists."""
    found = open_real(path)
    if found is None:
        return os.path.realpath(path)
    os.close(found[0])
    return found[1]


def content(handle: int, real: str) -> int | None:
    """Open for reading the very file that `located` found.

    Raises:
        OSError: It cannot be read.

    Returns:
        A handle; None where it is no regular file, or not what stands at `real` now: a name of
        another mount namespace, or one that was changed meanwhile.
    """
    found, named = os.fstat(handle), os.lstat(real)
    if not stat.S_ISREG(found.st_mode) or not os.path.samestat(found, named):
        return None
    return os.open(f"/proc/self/fd/{handle}", _READ & ~os.O_NOFOLLOW)


def parts_of(path: str) -> tuple[str, ...]:
    """Return the names of an absolute path."""
    return tuple(name for name in path.split("/") if name)


@contextmanager
def directory(parts: Iterable[str], *, start: int | None = None) -> Generator[int]:
    """Open the directory at `parts` below `start`, the file system's root by default.

    The handle can look names up; to list it, use `entries`.

    Raises:
        OSError: `ELOOP` where a name is a link, else as `open` says.
    """
    handle = os.open("/", _SEARCH) if start is None else os.dup(start)
    try:
        for name in parts:
            below = _step(handle, name)
            os.close(handle)
            handle = below
        yield handle
    finally:
        os.close(handle)


@contextmanager
def made_directory(parts: Iterable[str], *, start: int, mode: int = 0o777) -> Generator[int]:
    """Open the directory at `parts` below `start`, creating what is missing of it."""
    handle = os.dup(start)
    try:
        for name in parts:
            below = _step_or_make(handle, name, mode)
            os.close(handle)
            handle = below
        yield handle
    finally:
        os.close(handle)


@contextmanager
def made_folder(root: str, folder: str) -> Generator[int]:
    """Open a folder by its absolute path, creating what is missing of it.

    Below `root` no link is followed; elsewhere only those on the way to what is there already.
    """
    base, below = root, parts_of(folder[len(root) :])
    if not folder.startswith(f"{root.rstrip('/')}/"):
        base = folder
        while not os.path.lexists(base):
            base = os.path.dirname(base)  # noqa: PTH120 - a text, as all paths here
        below = parts_of(folder[len(base) :])
    with (
        directory(parts_of(real_path(base))) as above,
        made_directory(below, start=above) as handle,
    ):
        yield handle


def _step_or_make(handle: int, name: str, mode: int) -> int:
    try:
        return _step(handle, name)
    except FileNotFoundError:
        with suppress(FileExistsError):
            os.mkdir(name, mode, dir_fd=handle)
        return _step(handle, name)


def _step(handle: int, name: str) -> int:
    try:
        return os.open(name, _SEARCH, dir_fd=handle)
    except NotADirectoryError:
        # Linux answers ENOTDIR for a link here, which would hide what happened.
        if kind_of(os.lstat(name, dir_fd=handle)) == "link":
            raise OSError(errno.ELOOP, "it is a link", name) from None
        raise


@contextmanager
def regular_file(name: str, *, start: int) -> Generator[int]:
    """Open a regular file in a directory for reading.

    A pipe, socket or device is never waited for.

    Raises:
        OSError: `ELOOP` for a link, `EISDIR` for a directory, `EINVAL` for what is no file.
    """
    handle = os.open(name, _READ, dir_fd=start)
    try:
        kind = kind_of(os.fstat(handle))
        if kind == "directory":
            raise IsADirectoryError(errno.EISDIR, "it is a directory", name)
        if kind != "file":
            raise OSError(errno.EINVAL, "it is no regular file", name)
        yield handle
    finally:
        os.close(handle)


def read(handle: int, limit: int) -> bytes:
    """Return at most `limit` bytes from an open file."""
    chunks: list[bytes] = []
    while limit > 0 and (chunk := os.read(handle, min(limit, 1 << 20))):
        chunks.append(chunk)
        limit -= len(chunk)
    return b"".join(chunks)


def kind_of(found: os.stat_result) -> Kind:
    """Return what a `stat` result, links not followed, describes."""
    if stat.S_ISREG(found.st_mode):
        return "file"
    if stat.S_ISDIR(found.st_mode):
        return "directory"
    return "link" if stat.S_ISLNK(found.st_mode) else "other"


def lstat(name: str, *, start: int) -> os.stat_result | None:
    """Return a name's own `stat` result, None where nothing has that name."""
    try:
        return os.lstat(name, dir_fd=start)
    except FileNotFoundError:
        return None


def entries(start: int, above: tuple[str, ...] = ()) -> list[Found]:
    """Return what an open directory holds, sorted by name."""
    handle = os.open(".", _DIRECTORY | os.O_RDONLY, dir_fd=start)
    try:
        names = sorted(os.listdir(handle))  # noqa: PTH208 - an open directory has no path
        found = ((name, lstat(name, start=handle)) for name in names)
        return [Found((*above, name), kind_of(st), st) for name, st in found if st is not None]
    finally:
        os.close(handle)


def walk(
    start: int, shows: Callable[[Found], bool] = bool, above: tuple[str, ...] = ()
) -> Iterator[Found]:
    """Yield everything below an open directory that `shows` accepts, depth first, sorted by name.

    Links are reported and not followed. A folder that vanishes, cannot be read, or is replaced by a
    link during the walk is reported once and not entered; nor is one beyond `MAX_DEPTH`, or one
    that `shows` leaves out.
    """
    for found in entries(start, above):
        if not shows(found):
            continue
        yield found
        if found.kind == "directory" and len(found.path) < MAX_DEPTH:
            with suppress(OSError), directory((found.name,), start=start) as below:
                yield from walk(below, shows, found.path)


def temporary(start: int, data: bytes, target: str, mode: int = 0o666) -> str:
    """Write what is to be the file `target` into its directory, flushed to disk.

    Returns:
        The hidden name that it has until it is settled, one that `sweep` knows.
    """
    name = f".{_mark(target)}{os.urandom(4).hex()}.tmp"
    handle = os.open(name, _CREATE, mode, dir_fd=start)
    try:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(handle, rest) :]
        os.fsync(handle)
    except OSError:
        discard(start, name)
        raise
    finally:
        os.close(handle)
    return name


def sweep(path: str) -> None:
    """Discard the temporary files that a killed process left of a file that it was writing.

    Args:
        path: The file, absolute. Whoever else is writing it at this moment fails, and says so.
    """
    *above, target = parts_of(path)
    beginning = f".{_mark(target)}"
    with suppress(OSError), directory(above) as start:
        for found in entries(start):
            if found.kind == "file" and found.name[:9] == beginning and found.name[17:] == ".tmp":
                discard(start, found.name)


def _mark(target: str) -> str:
    """Return 8 characters by which the temporary names of a file are known."""
    return f"{crc32(os.fsencode(target)):08x}"


def replace_with(start: int, temporary_name: str, name: str) -> None:
    """Give a temporary file its name, in place of a regular file that had it.

    Raises:
        OSError: `ELOOP` where the name is a link, `EISDIR` or `EINVAL` where it is no file.
    """
    old = lstat(name, start=start)
    if old is not None:
        replaceable(old, name)
        os.chmod(temporary_name, stat.S_IMODE(old.st_mode), dir_fd=start)
    os.rename(temporary_name, name, src_dir_fd=start, dst_dir_fd=start)
    _flush_directory(start)


def replaceable(old: os.stat_result, name: str) -> None:
    """Raise the `OSError` of what must not be replaced by a file: anything that is none."""
    match kind_of(old):
        case "file":
            return
        case "link":
            raise OSError(errno.ELOOP, "it is a link", name)
        case "directory":
            raise IsADirectoryError(errno.EISDIR, "it is a directory", name)
        case "other":
            raise OSError(errno.EINVAL, "it is no regular file", name)


def discard(start: int, name: str) -> None:
    """Remove a file of a directory, if it is there."""
    with suppress(FileNotFoundError):
        os.unlink(name, dir_fd=start)


def _flush_directory(start: int) -> None:
    handle = os.open(".", _DIRECTORY | os.O_RDONLY, dir_fd=start)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
