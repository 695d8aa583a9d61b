"""From a session's sandbox directory to the run's artifacts."""

from __future__ import annotations

import hashlib
import mimetypes
import os
from dataclasses import field

from clawhive_core.errors import ToolError
from clawhive_core.execution.files import nofollow
from clawhive_core.execution.files.nofollow import Found
from clawhive_core.execution.sandbox.directory import STREAMS, SandboxDirectory
from clawhive_core.model.late import dataclass
from clawhive_core.model.texts import well_formed
from clawhive_core.model.tools import Artifact
from clawhive_core.policy.protected import protection_of
from clawhive_core.protocols.sandbox import SandboxLimits

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
        temporary = nofollow.temporary(parent, data)
        try:
            nofollow.settle(parent, temporary, path[-1])
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
