"""The project's files as one call may touch them."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, NoReturn

from clawhive_core.errors import ToolError
from clawhive_core.execution.files import nofollow
from clawhive_core.execution.files.aliases import Aliases
from clawhive_core.execution.files.nofollow import Found, Kind
from clawhive_core.model.late import dataclass
from clawhive_core.policy.protected import changes_settings
from clawhive_core.protocols.context import Entry

Verb = Literal["fs.read", "fs.write"]
Allows = Callable[[str, str], bool]
"""Whether this call may do a verb (`fs.read`, `fs.write`) to an absolute path."""

MAX_ENTRIES = 100_000
"""Entries that one walk yields at most."""


@dataclass(frozen=True, slots=True)
class FileEntry:
    """One entry of a directory (`clawhive_core.protocols.context.Entry`)."""

    path: str
    kind: Kind
    bytes: int


class FileWorkspace:
    """The files below a project root, and absolute paths, as far as `allows` says.

    Each access resolves the path first, asks for the resolved path (and, below the root, also for
    the name as written, so that a denied name stays denied when it is a link), and then opens the
    resolved path without following any link. A link that is swapped in between is refused. On Linux
    a read opens the very file that was resolved, if it still stands there.

    Args:
        root: The project root; it may itself be reached through links.
        allows: Asked with `fs.read` or `fs.write` and an absolute path, for each access and each
            entry of a listing.
    """

    def __init__(self, root: str | Path, allows: Allows) -> None:
        self._root = nofollow.real_path(str(root))
        self._allows = allows
        self._aliases = Aliases(self._root)

    @property
    def root(self) -> str:
        """The absolute path of the project root, links resolved."""
        return self._root

    def read_bytes(self, path: str, *, limit: int) -> bytes:
        """Return a file's bytes.

        Args:
            path: Relative to the root, or absolute.
            limit: The most bytes to return.

        Raises:
            ToolError: `denied`, `not_found`, `not_a_file`, `too_large` or `io_error`.
        """
        written = self._absolute(path)
        found = nofollow.open_real(written)
        if found is None:
            real = os.path.realpath(written)
            self._check("fs.read", path, written, real)
            return self._read_by_folders(path, real, limit)
        handle, real = found
        try:
            self._check("fs.read", path, written, real)
            content = nofollow.content(handle, real)
        except OSError as error:
            _explain(path, error)
        finally:
            os.close(handle)
        if content is None:
            return self._read_by_folders(path, real, limit)
        try:
            return _read_up_to(content, path, limit)
        except OSError as error:
            _explain(path, error)
        finally:
            os.close(content)

    def _read_by_folders(self, path: str, real: str, limit: int) -> bytes:
        above, name = self._split(real, path)
        with (
            _explained(path),
            nofollow.directory(above) as parent,
            nofollow.regular_file(name, start=parent) as handle,
        ):
            return _read_up_to(handle, path, limit)

    def read_text(self, path: str, *, limit: int) -> str:
        """Return a UTF-8 file's text.

        Args:
            path: Relative to the root, or absolute.
            limit: The most bytes that the file may hold.

        Raises:
            ToolError: As `read_bytes`, and `not_text` for a file that is not UTF-8.
        """
        data = self.read_bytes(path, limit=limit)
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError as error:
            raise ToolError(
                f"{path} is not UTF-8 text: byte {error.start} is 0x{data[error.start]:02x}",
                code="not_text",
                place=path,
                fix="name a text file",
            ) from None

    def list(self, path: str) -> list[Entry]:
        """Return the entries of a directory that this call may read, sorted by name.

        Raises:
            ToolError: `denied`, `not_found`, `not_a_directory` or `io_error`.
        """
        with self._opened_directory(path) as (real, handle, whole):
            shown = [found for found in nofollow.entries(handle) if self._shows(real, found)]
        if not whole and not shown:
            raise _denied(path, "fs.read")
        return [self._entry(real, found) for found in shown]

    def walk(self, path: str) -> Iterator[FileEntry]:
        """Yield what this call may read below a directory, depth first, sorted by name.

        Links are named and never followed; folders that may not be read are left out with all that
        they hold.

        Raises:
            ToolError: As `list`, and `too_large` after `MAX_ENTRIES` entries.
        """
        with self._opened_directory(path) as (real, handle, whole):
            yielded = 0
            for found in nofollow.walk(handle, lambda found: self._shows(real, found)):
                if yielded == MAX_ENTRIES:
                    raise _too_many(path)
                yielded += 1
                yield self._entry(real, found)
        if not whole and not yielded:
            raise _denied(path, "fs.read")

    def write_bytes(self, path: str, data: bytes) -> None:
        """Replace or create a file in one step, creating its folders.

        A reader sees the old content or the new, also after a crash. A name that is a link is
        refused, wherever it points.

        Raises:
            ToolError: `denied`, `not_a_file`, `not_a_directory` or `io_error`.
        """
        written = self._absolute(path)
        above, name = self._split(os.path.realpath(Path(written).parent), path, written)
        self._check("fs.write", path, written, "/" + "/".join((*above, name)))
        with (
            _explained(path),
            nofollow.directory(()) as top,
            nofollow.made_directory(above, start=top) as parent,
        ):
            old = nofollow.lstat(name, start=parent)
            if old is not None:
                nofollow.replaceable(old, name)
            if name.casefold() == "pyproject.toml":
                _keep_settings(path, parent, name, data, is_there=old is not None)
            temporary = nofollow.temporary(parent, data, name)
            try:
                nofollow.replace_with(parent, temporary, name)
            except OSError:
                nofollow.discard(parent, temporary)
                raise

    @contextmanager
    def _opened_directory(self, path: str) -> Generator[tuple[str, int, bool]]:
        """Open a directory that this call may read wholly, or some entries of which it may."""
        written = self._absolute(path)
        real = os.path.realpath(written)
        whole = self._may("fs.read", written, real)
        if not whole and _contains(real, self._root):
            raise _denied(path, "fs.read")
        try:
            with nofollow.directory(nofollow.parts_of(real)) as handle:
                yield real, handle, whole
        except OSError as error:
            if not whole:
                raise _denied(path, "fs.read") from None
            _explain(path, error)

    def _shows(self, real: str, found: Found) -> bool:
        path = str(Path(real, *found.path))
        if not self._allows("fs.read", path):
            return False
        if found.kind != "file" or found.stat.st_nlink == 1:
            return True
        return all(self._allows("fs.read", other) for other in self._aliases.of("fs.read", path))

    def _entry(self, real: str, found: Found) -> FileEntry:
        absolute = str(Path(real, *found.path))
        inside = self._is_inside(absolute)
        path = os.path.relpath(absolute, self._root) if inside else absolute
        return FileEntry(path, found.kind, found.bytes)

    def _check(self, verb: Verb, path: str, written: str, real: str) -> None:
        if not self._may(verb, written, real):
            raise _denied(path, verb)

    def _may(self, verb: Verb, written: str, real: str) -> bool:
        if not self._allows(verb, real):
            return False
        if not all(self._allows(verb, other) for other in self._aliases.of(verb, real)):
            return False
        named = os.path.normpath(written)
        return named == real or not self._is_inside(named) or self._allows(verb, named)

    def _is_inside(self, absolute: str) -> bool:
        return absolute == self._root or _contains(self._root, absolute)

    def _absolute(self, path: str) -> str:
        if not _is_path(path):
            raise ToolError(
                f"{path!r} is no path",
                code="not_found",
                place=path,
                fix="give a path without NUL, or `.` for the project's folder",
            )
        return os.path.join(self._root, path)  # noqa: PTH118 - each access passes here

    def _split(
        self, real: str, path: str, written: str | None = None
    ) -> tuple[tuple[str, ...], str]:
        """Return folders and name of a resolved path, or of `written` in the folder `real`."""
        parts = nofollow.parts_of(real)
        if written is None:
            above, name = parts[:-1], parts[-1] if parts else ""
        else:
            above, name = parts, Path(written).name
        if name in {"", ".", ".."}:
            raise ToolError(
                f"{path} is a directory", code="not_a_file", place=path, fix="name a file in it"
            )
        return above, name


def _keep_settings(path: str, parent: int, name: str, data: bytes, *, is_there: bool) -> None:
    """Refuse a `pyproject.toml` that says other things to ClawHive than the one in its place.

    Raises:
        ToolError: `denied`.
    """
    before = b""
    if is_there:
        with nofollow.regular_file(name, start=parent) as handle:
            before = nofollow.read(handle, max(os.fstat(handle).st_size, len(data)) + 1)
    if changes_settings(before, data):
        raise ToolError(
            f"{path} would change `[tool.clawhive]`, or cannot be read as TOML",
            code="denied",
            place=path,
            fix="leave `[tool.clawhive]` as it is; only the user changes ClawHive's settings",
        )


def _read_up_to(handle: int, path: str, limit: int) -> bytes:
    data = nofollow.read(handle, limit + 1)
    if len(data) > limit:
        raise _too_large(path, max(os.fstat(handle).st_size, len(data)), limit)
    return data


def _contains(folder: str, path: str) -> bool:
    return path.startswith(folder.rstrip("/") + "/")


def _is_path(path: str) -> bool:
    try:
        return bool(path) and b"\0" not in os.fsencode(path)
    except UnicodeEncodeError:
        return False


@contextmanager
def _explained(path: str) -> Generator[None]:
    try:
        yield
    except OSError as error:
        _explain(path, error)


def _explain(path: str, error: OSError) -> NoReturn:
    """Raise the ToolError that says what a system call's error means for `path`."""
    match error.errno:
        case errno.ENOENT:
            code, what, fix = "not_found", "does not exist", "list its folder to see what there is"
        case errno.EISDIR | errno.EINVAL | errno.ENXIO:
            code, what, fix = "not_a_file", f"is no file: {error.strerror}", "name a regular file"
        case errno.ENOTDIR:
            code, what, fix = (
                "not_a_directory",
                "is no directory, or leads through a file",
                "name a directory",
            )
        case errno.ELOOP:
            code, what = "denied", "is a link where none may be"
            fix = "name the file itself; links that change during an access are refused"
        case _:
            code, what = "io_error", f"cannot be used: {error.strerror}"
            fix = "check the file's permissions and the disk's free space"
    message = f"{path} {what}"
    raise ToolError(message, code=code, place=path, fix=fix) from error


def _denied(path: str, verb: str) -> ToolError:
    return ToolError(
        f"this call may not use {verb} on {path}",
        code="denied",
        place=path,
        fix=f"ask for a path inside the grants, or let the user grant `{verb}:{path}`",
    )


def _too_large(path: str, size: int, limit: int) -> ToolError:
    return ToolError(
        f"{path} holds {size} bytes, more than the {limit} that this call reads",
        code="too_large",
        place=path,
        fix="name a smaller file, or read it in parts",
        data={"bytes": size, "limit": limit},
    )


def _too_many(path: str) -> ToolError:
    return ToolError(
        f"{path} holds more than {MAX_ENTRIES} entries",
        code="too_large",
        place=path,
        fix="name a folder further down",
        data={"limit": MAX_ENTRIES},
    )
