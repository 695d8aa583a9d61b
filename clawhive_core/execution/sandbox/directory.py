"""The directory of one session's programs: its files, and how outputs become artifacts.

`ROOT/CONVERSATION` is all that programs see. What ClawHive remembers of it (the files as they were
after the last write, the output of the last program) lies beside it, out of their reach, so that
outputs can also be collected by another process, later.
"""

from __future__ import annotations

import errno
import hashlib
import json
import mimetypes
import os
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import field
from pathlib import Path
from typing import Any

from clawhive_core.errors import ToolError
from clawhive_core.execution.files import nofollow
from clawhive_core.execution.files.nofollow import Found
from clawhive_core.model.late import dataclass
from clawhive_core.model.patterns import pattern
from clawhive_core.model.texts import well_formed
from clawhive_core.model.tools import Artifact
from clawhive_core.policy.protected import protection_of
from clawhive_core.protocols.context import Stream
from clawhive_core.protocols.sandbox import SandboxLimits

STREAMS: tuple[Stream, Stream] = ("stdout", "stderr")
SESSION_FACTOR = 8
"""A session's directory may hold so many times the files and bytes of one execution."""

_NAME = pattern(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,127}")
_STATE = ".state"
_INPUTS = "inputs.json"
_PRIVATE = 0o700
_MAX_PATH = 1024

_Signature = tuple[int, int, int, int]


@dataclass(frozen=True, slots=True)
class Usage:
    """The size and number of files of a directory."""

    files: int
    bytes: int


class SandboxDirectory:
    """One session's directory, every access to which refuses links.

    Args:
        root: Where the directories of all sessions lie; created when first needed.
        conversation_id: The session.
    """

    def __init__(self, root: Path, conversation_id: str) -> None:
        self._above = nofollow.parts_of(os.path.realpath(root.parent))
        self._root = root.name
        plain = _NAME.fullmatch(conversation_id) is not None
        hashed = hashlib.sha256(conversation_id.encode("utf-8", "replace")).hexdigest()
        self._session = conversation_id if plain else f"c_{hashed[:32]}"

    @property
    def path(self) -> str:
        """The absolute path, links resolved."""
        return "/" + "/".join((*self._above, self._root, self._session))

    def create(self) -> None:
        """Create the directory, private to its owner, in a root that version control ignores.

        Raises:
            ToolError: `io_error`.
        """
        with self._opened(self._session):
            pass

    def write(self, files: Mapping[str, str], limits: SandboxLimits) -> Usage:
        """Write text files, all or none of them, and remember what the directory then holds.

        Args:
            files: Texts by path, relative to the directory.
            limits: How many files and bytes one call may write.

        Raises:
            ToolError: `invalid_input` for a path, `too_large`, `denied` for a link, `io_error`.
        """
        texts = {_parts(path): text.encode("utf-8", "replace") for path, text in files.items()}
        usage = Usage(len(texts), sum(map(len, texts.values())))
        _check_room(usage, limits)
        _check_folders(texts)
        self.forget_output()
        with self._opened(self._session) as top:
            self._write_all(top, texts)
            self._remember(_INPUTS, json.dumps(dict(_signatures(top))).encode())
        return usage

    def usage(self) -> Usage:
        """Return how many files and folders there are, and the bytes of all files."""
        with self._opened(self._session) as top:
            found = list(nofollow.walk(top))
        return Usage(len(found), sum(one.bytes for one in found))

    def keep_output(self, stdout: bytes, stderr: bytes) -> None:
        """Remember what the last program printed."""
        self._remember("stdout.txt", stdout)
        self._remember("stderr.txt", stderr)

    def forget_output(self) -> None:
        """Forget what the last program printed, so that it is not taken for the next one's."""
        with self._opened(_STATE, self._session) as handle:
            for stream in STREAMS:
                nofollow.discard(handle, f"{stream}.txt")

    def output(self, stream: Stream) -> bytes | None:
        """Return what the last program printed, None where none has run."""
        return self._recall(f"{stream}.txt")

    @contextmanager
    def changes(self) -> Generator[tuple[int, list[Found]]]:
        """Open the directory, with what is new or changed in it since the last `write`.

        Yields:
            A handle of the directory, and everything in it but folders and untouched files.
        """
        known: dict[str, list[int]] = json.loads(self._recall(_INPUTS) or b"{}")
        with self._opened(self._session) as top:
            found = [
                one
                for one in nofollow.walk(top)
                if one.kind != "directory"
                and known.get("/".join(one.path)) != list(_signature(one.stat))
            ]
            yield top, found

    def _write_all(self, top: int, texts: Mapping[tuple[str, ...], bytes]) -> None:
        """Write every file under a temporary name first, so that a failure changes nothing."""
        temporary: dict[tuple[str, ...], str] = {}
        try:
            for parts, data in texts.items():
                with nofollow.made_directory(parts[:-1], start=top, mode=_PRIVATE) as parent:
                    old = nofollow.lstat(parts[-1], start=parent)
                    if old is not None:
                        nofollow.replaceable(old, "/".join(parts))
                    temporary[parts] = nofollow.temporary(parent, data, parts[-1], 0o600)
            for parts in texts:
                with nofollow.directory(parts[:-1], start=top) as parent:
                    nofollow.replace_with(parent, temporary[parts], parts[-1])
        except OSError:
            self._discard(top, temporary)
            raise

    def _discard(self, top: int, temporary: Mapping[tuple[str, ...], str]) -> None:
        for parts, name in temporary.items():
            with suppress(OSError), nofollow.directory(parts[:-1], start=top) as parent:
                nofollow.discard(parent, name)

    def _remember(self, name: str, data: bytes) -> None:
        with self._opened(_STATE, self._session) as handle:
            nofollow.replace_with(handle, nofollow.temporary(handle, data, name, 0o600), name)

    def _recall(self, name: str) -> bytes | None:
        try:
            with (
                self._opened(_STATE, self._session) as handle,
                nofollow.regular_file(name, start=handle) as file,
            ):
                return nofollow.read(file, os.fstat(file).st_size)
        except ToolError as error:
            if isinstance(error.__cause__, FileNotFoundError):
                return None
            raise

    @contextmanager
    def _opened(self, *names: str) -> Generator[int]:
        try:
            with (
                nofollow.directory(self._above) as above,
                nofollow.made_directory((self._root,), start=above) as root,
            ):
                _ignored_by_git(root)
                with nofollow.made_directory(names, start=root, mode=_PRIVATE) as handle:
                    yield handle
        except OSError as error:
            raise _unusable(self.path, error) from error


def _ignored_by_git(root: int) -> None:
    if nofollow.lstat(".gitignore", start=root) is None:
        nofollow.replace_with(root, nofollow.temporary(root, b"*\n", ".gitignore"), ".gitignore")


def _signatures(top: int) -> Iterator[tuple[str, _Signature]]:
    for found in nofollow.walk(top):
        if found.kind == "file":
            yield "/".join(found.path), _signature(found.stat)


def _signature(found: os.stat_result) -> _Signature:
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _parts(path: str) -> tuple[str, ...]:
    """Return the names of a relative path that stays in its directory."""
    parts = tuple(path.split("/"))
    odd = "\0" in path or any(name in {"", ".", ".."} for name in parts)
    if odd or len(path) > _MAX_PATH or len(parts) > nofollow.MAX_DEPTH:
        raise ToolError(
            f"{path[:200]!r} is no path inside the sandbox directory",
            code="invalid_input",
            place=f"/files/{path[:200]}",
            fix="give a relative path without `..`, such as `data/input.csv`",
        )
    return parts


def _check_folders(texts: Mapping[tuple[str, ...], bytes]) -> None:
    for parts in texts:
        for depth in range(1, len(parts)):
            if parts[:depth] in texts:
                raise ToolError(
                    f"{'/'.join(parts[:depth])} cannot be both a file and a folder",
                    code="invalid_input",
                    place=f"/files/{'/'.join(parts)}",
                    fix="give one of the two another name",
                )


def _check_room(usage: Usage, limits: SandboxLimits) -> None:
    over: dict[str, Any] = {}
    if usage.files > limits.files:
        over = {"files": usage.files, "limit": limits.files}
    elif usage.bytes > limits.file_bytes:
        over = {"bytes": usage.bytes, "limit": limits.file_bytes}
    if over:
        what, count = next(iter(over.items()))
        raise ToolError(
            f"{count} {what} are more than the {over['limit']} that one call may write",
            code="too_large",
            place="/files",
            fix="write fewer or smaller files, or raise `[sandbox] files` or `file_bytes`",
            data=over,
        )


def _unusable(path: str, error: OSError) -> ToolError:
    name = error.filename if isinstance(error.filename, str) else path
    code, fix = "io_error", "check permissions and free space"
    if error.errno == errno.ELOOP:
        code = "denied"
        fix = "remove the link, or name another folder in `[sandbox] workspace`"
    elif error.errno in {errno.EISDIR, errno.ENOTDIR, errno.EINVAL}:
        code, fix = "invalid_input", "use another name: something else has this one"
    return ToolError(
        f"the sandbox directory cannot be used: {name}: {error.strerror}",
        code=code,
        place=path,
        fix=fix,
    )


_RESERVED = frozenset(f"{stream}.txt" for stream in STREAMS)


@dataclass(frozen=True, slots=True)
class Skipped:
    """A file that was not collected, and why."""

    path: str
    reason: str


@dataclass(slots=True)
class Outputs:
    """The output that was collected."""

    artifacts: list[Artifact] = field(default_factory=list[Artifact])
    skipped: list[Skipped] = field(default_factory=list[Skipped])


def collect(directory: SandboxDirectory, artifacts: str, limits: SandboxLimits) -> Outputs:
    """Copy the last program's output, and each file made or changed, into the artifacts folder.

    Only regular files are copied, never by way of a link; what is left out is named with a reason.
    A file called `stdout.txt` or `stderr.txt` becomes `stdout-2.txt`, so that it does not hide the
    output itself.

    Raises:
        ToolError: `io_error`.
    """
    outputs = Outputs()
    try:
        folder = os.path.realpath(artifacts)
        with nofollow.directory(nofollow.parts_of(folder)) as target:
            for stream in STREAMS:
                data = directory.output(stream)
                if data is not None:
                    outputs.artifacts.append(_save(target, (f"{stream}.txt",), data))
            with directory.changes() as (top, found):
                _copy_all(top, target, folder, found, _Room(limits), outputs)
    except OSError as error:
        raise ToolError(
            f"outputs cannot be kept in {artifacts}: {error.strerror}",
            code="io_error",
            place=artifacts,
            fix="check the folder's permissions and the disk's free space, or choose another --out",
        ) from error
    return outputs


@dataclass(slots=True)
class _Room:
    limits: SandboxLimits
    files: int = 0
    bytes: int = 0

    def refusal(self, found: Found) -> str | None:
        """Return why a file is left out, None where there is room for it."""
        if found.kind != "file":
            return "a link" if found.kind == "link" else "no regular file"
        if not _is_text("/".join(found.path)):
            return "its name is not UTF-8"
        if self.files >= self.limits.files:
            return f"more than {self.limits.files} files"
        if self.bytes + found.bytes > self.limits.file_bytes:
            return f"more than {self.limits.file_bytes} bytes in all"
        return None


def _copy_all(
    top: int, target: int, folder: str, found: list[Found], room: _Room, outputs: Outputs
) -> None:
    taken = {"/".join(one.path) for one in found} | _RESERVED
    for one in found:
        reason = _protected(folder, one) or room.refusal(one)
        data = _read(top, one) if reason is None else None
        if data is None:
            shown = well_formed("/".join(one.path))
            outputs.skipped.append(Skipped(shown, reason or "it changed while it was read"))
            continue
        room.files += 1
        room.bytes += len(data)
        outputs.artifacts.append(_save(target, _free_name(one.path, taken), data))


def _protected(folder: str, found: Found) -> str | None:
    """Return why a file's name keeps it out, None where it does not."""
    kind = protection_of((*nofollow.parts_of(folder), *found.path))
    return None if kind in {None, "sensitive"} else "a name that git, ClawHive or others act upon"


def _read(top: int, found: Found) -> bytes | None:
    """Return a file's bytes, None where it is no longer the file that was found."""
    try:
        with (
            nofollow.directory(found.path[:-1], start=top) as parent,
            nofollow.regular_file(found.name, start=parent) as handle,
        ):
            data = nofollow.read(handle, found.bytes + 1)
    except OSError:
        return None
    return data if len(data) == found.bytes else None


def _save(target: int, path: tuple[str, ...], data: bytes) -> Artifact:
    with nofollow.made_directory(path[:-1], start=target) as parent:
        temporary = nofollow.temporary(parent, data, path[-1])
        try:
            nofollow.replace_with(parent, temporary, path[-1])
        except OSError:
            nofollow.discard(parent, temporary)
            raise
    media_type = mimetypes.guess_type(path[-1])[0] or "application/octet-stream"
    return Artifact("/".join(path), media_type, len(data), hashlib.sha256(data).hexdigest())


def _free_name(path: tuple[str, ...], taken: set[str]) -> tuple[str, ...]:
    name, number = "/".join(path), 2
    if name not in _RESERVED:
        return path
    stem = name.removesuffix(".txt")
    while f"{stem}-{number}.txt" in taken:
        number += 1
    taken.add(f"{stem}-{number}.txt")
    return (f"{stem}-{number}.txt",)


def _is_text(name: str) -> bool:
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
