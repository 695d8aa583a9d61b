"""The files of the project that a program sees: copies, made under the rights of its call.

A copy cannot show what appears later, what a link points at, or a name that is left out. What a
program changes in one is compared with what it was given, and goes into the project as `file.write`
would write it.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, field, replace
from typing import Any

import anyio

from clawhive_core.errors import ToolError
from clawhive_core.execution.files import nofollow
from clawhive_core.execution.files.nofollow import Found
from clawhive_core.model.late import dataclass
from clawhive_core.model.texts import well_formed
from clawhive_core.model.tools import ToolResult
from clawhive_core.policy.protected import protection_of
from clawhive_core.protocols.context import InvokeContext, Workspace
from clawhive_core.protocols.sandbox import SandboxLimits, SandboxMount

INSIDE, OUTSIDE = "/workspace", "/outside"
"""Where programs see the project's folder, and paths outside of it."""
FACTOR = 8
"""Views may hold so many times the files and bytes that one execution may write."""
_MAX_SHOWN = 200
_PLAIN = 0o755


@dataclass(frozen=True, slots=True)
class Kept:
    """A change that was left out of the project, and why."""

    path: str
    reason: str


@dataclass(slots=True)
class Seen:
    """One path of the project as a program sees it."""

    path: str
    target: str
    writable: bool
    files: int = 0
    bytes: int = 0


@dataclass(slots=True)
class _Writable:
    """A folder's copy that a program may change."""

    path: str
    """The folder's real path."""
    source: str
    """Where its copy lies."""
    digests: dict[str, str] = field(default_factory=dict[str, str])
    """Of each file that was copied, by its path below the folder."""


@dataclass(slots=True)
class Changes:
    """The changes that a program made in its views."""

    written: list[str] = field(default_factory=list[str])
    left_out: list[Kept] = field(default_factory=list[Kept])


class Views:
    """The views of one instance, fixed when they are made; later rights are another one's.

    Args:
        limits: Of one execution.
        workspace: The files that the call may touch; None where no view is made.
    """

    def __init__(self, limits: SandboxLimits, workspace: Workspace | None = None) -> None:
        self._given = workspace
        self._files, self._bytes = limits.files * FACTOR, limits.file_bytes * FACTOR
        self._limits = limits
        self._top = ""
        self._seen: list[Seen] = []
        self._writable: list[_Writable] = []

    def fill(self, reads: Sequence[str], writes: Sequence[str]) -> None:
        """Copy what may be read of these paths.

        Raises:
            ToolError: As `Workspace.walk`, `too_large`, `io_error`; `invalid_input` for a writable
                path that is no folder.
        """
        import tempfile

        try:
            self._top = os.path.realpath(tempfile.mkdtemp(prefix="clawhive-views-"))
            for path in _outermost([self._real(each) for each in writes]):
                self._add(path, writable=True)
            changed = [each.path for each in self._writable]
            for path in _outermost([self._real(each) for each in reads]):
                if not any(_is_in(path, folder) for folder in changed):
                    self._add(path, writable=False)
            self._make_mount_points()
        except OSError as error:
            raise ToolError(
                f"the program's view of the files cannot be made: {error.strerror}",
                code="io_error",
                place=self._top,
                fix="check the free space of the folder for temporary files",
            ) from error

    @property
    def mounts(self) -> tuple[SandboxMount, ...]:
        """What the program sees, folders before what lies in them."""
        read = f"{self._top}/read"
        found = [
            SandboxMount(f"{read}{target}", target)
            for target in (INSIDE, OUTSIDE)
            if os.path.isdir(f"{read}{target}")  # noqa: PTH112 - paths are strings here
        ]
        found += [
            SandboxMount(each.source, self._target(each.path), writable=True)
            for each in self._writable
        ]
        return tuple(sorted(found, key=lambda each: each.target))

    def mounted(self) -> list[dict[str, Any]]:
        """Return what was mounted, as it is recorded."""
        return [asdict(each) for each in self._seen]

    def take_back(self) -> Changes:
        """Write what changed into the project, each file as `file.write` would; tell the rest."""
        changes = Changes()
        for each in self._writable:
            with nofollow.directory(nofollow.parts_of(each.source)) as top:
                there: set[str] = set()
                for found in nofollow.walk(top):
                    there.add("/".join(found.path))
                    self._take(each, top, found, changes)
            for gone in sorted(set(each.digests) - there):
                self._leave_out(changes, each, gone, "removing files is no part of `fs.write`")
        return changes

    def told(self) -> dict[str, Any]:
        """Take changes back, and return what was mounted and changed; nothing without views."""
        if not self._seen:
            return {}
        changes = self.take_back()
        return {
            "mounted": self.mounted(),
            "written": changes.written,
            "left_out": [asdict(each) for each in changes.left_out],
        }

    def close(self) -> None:
        """Remove the copies."""
        if self._top:
            import shutil

            shutil.rmtree(self._top, ignore_errors=True)

    @property
    def _workspace(self) -> Workspace:
        assert self._given is not None  # noqa: S101 - nothing is filled without it
        return self._given

    def _real(self, path: str) -> str:
        return os.path.realpath(os.path.join(self._workspace.root, path))  # noqa: PTH118 - strings

    def _target(self, real: str) -> str:
        root = self._workspace.root
        if real == root:
            return INSIDE
        return INSIDE + real[len(root) :] if _is_in(real, root) else OUTSIDE + real

    def _add(self, path: str, *, writable: bool) -> None:
        seen = Seen(path, self._target(path), writable)
        self._seen.append(seen)
        if writable:
            copied = f"{self._top}/write{len(self._writable)}"
            folder = _Writable(path, copied)
            self._writable.append(folder)
        else:
            copied, folder = f"{self._top}/read{seen.target}", None
        for name, real in self._files_of(path, copied, writable=writable):
            data = self._read(real, seen)
            if data is None:
                continue
            _write(f"{copied}{name}", data)
            if folder is not None:
                folder.digests[name[1:]] = hashlib.sha256(data).hexdigest()

    def _files_of(self, path: str, copied: str, *, writable: bool) -> Iterator[tuple[str, str]]:
        """Yield the files of a path that may be read: what follows its own, and the whole."""
        if os.path.isfile(path):  # noqa: PTH113 - paths are strings here
            if writable:
                raise _no_folder(path)
            yield "", path
            return
        os.makedirs(copied, _PLAIN)  # noqa: PTH103 - as above
        if writable and not os.path.lexists(path):
            return
        for entry in self._workspace.walk(path):
            real = os.path.join(self._workspace.root, entry.path)  # noqa: PTH118 - as above
            name = real[len(path.rstrip("/")) :]
            if _is_of_git(name):
                continue
            if entry.kind == "directory":
                os.makedirs(f"{copied}{name}", _PLAIN, exist_ok=True)  # noqa: PTH103 - as above
            elif entry.kind == "file":
                yield name, real

    def _read(self, real: str, seen: Seen) -> bytes | None:
        """Return a file's bytes, None where it may not be read or is gone.

        Raises:
            ToolError: `too_large`.
        """
        try:
            data = self._workspace.read_bytes(real, limit=self._bytes)
        except ToolError as error:
            if error.code == "too_large" or real == seen.path:
                raise
            return None
        self._files -= 1
        self._bytes -= len(data)
        if self._files < 0 or self._bytes < 0:
            raise self._too_large(seen.path)
        seen.files += 1
        seen.bytes += len(data)
        return data

    def _make_mount_points(self) -> None:
        """Let the read-only views hold the folders on which writable ones are mounted."""
        for each in self._writable:
            target = self._target(each.path)
            above = f"{self._top}/read{INSIDE if _is_in(target, INSIDE) else OUTSIDE}"
            if os.path.isdir(above):  # noqa: PTH112 - paths are strings here
                os.makedirs(f"{self._top}/read{target}", _PLAIN, exist_ok=True)  # noqa: PTH103 - as above

    def _take(self, folder: _Writable, top: int, found: Found, changes: Changes) -> None:
        name = "/".join(found.path)
        if found.kind == "directory":
            return
        if (reason := self._refusal(folder, found, name, changes)) is not None:
            self._leave_out(changes, folder, name, reason)
            return
        data = _content(top, found)
        if data is None or hashlib.sha256(data).hexdigest() == folder.digests.get(name):
            return
        path = f"{folder.path.rstrip('/')}/{name}"
        if (why := self._write(path, data, folder.digests.get(name))) is None:
            changes.written.append(path)
        else:
            self._leave_out(changes, folder, name, why)

    def _refusal(self, folder: _Writable, found: Found, name: str, changes: Changes) -> str | None:
        if found.kind != "file":
            return "a link" if found.kind == "link" else "no regular file"
        if not _is_text(name):
            return "its name is not UTF-8"
        if protection_of((*nofollow.parts_of(folder.path), *found.path)) is not None:
            return "a name that is protected"
        if found.bytes > self._limits.file_bytes or len(changes.written) >= self._limits.files:
            return "more than one execution may write"
        return None

    def _write(self, path: str, data: bytes, before: str | None) -> str | None:
        """Write a file where it is still the one that was copied; return why not."""
        try:
            if self._digest(path) != before:
                return "it is another one by now, or one that the program could not see"
            self._workspace.write_bytes(path, data)
        except ToolError as error:
            return error.message
        return None

    def _digest(self, path: str) -> str | None:
        if not os.path.lexists(path):
            return None
        try:
            data = self._workspace.read_bytes(path, limit=self._limits.file_bytes * FACTOR)
        except ToolError:
            return ""
        return hashlib.sha256(data).hexdigest()

    def _leave_out(self, changes: Changes, folder: _Writable, name: str, reason: str) -> None:
        if len(changes.left_out) < _MAX_SHOWN:
            shown = well_formed(f"{folder.path.rstrip('/')}/{name}")
            changes.left_out.append(Kept(shown, reason))

    def _too_large(self, path: str) -> ToolError:
        return ToolError(
            f"{path} holds more than the {self._limits.files * FACTOR} files or"
            f" {self._limits.file_bytes * FACTOR} bytes that a program is shown",
            code="too_large",
            place=path,
            fix="name a folder further down, or raise `[sandbox] files` or `file_bytes`",
        )


@asynccontextmanager
async def seen(
    input: Mapping[str, Any], ctx: InvokeContext, limits: SandboxLimits, *, keep: bool = False
) -> AsyncGenerator[Views]:
    """Make the views that a call names, and remove them at the block's end.

    Args:
        input: As the tools `sandbox.*` take it.
        ctx: The call, under whose rights they are made.
        limits: As configured.
        keep: Whether they stay where the block ends well.

    Raises:
        ToolError: As `Views.fill`.
    """
    reads, writes = input.get("reads", ()), input.get("writes", ())
    views = Views(limits, ctx.workspace if reads or writes else None)
    try:
        if reads or writes:
            await anyio.to_thread.run_sync(views.fill, reads, writes)
        yield views
    except BaseException:
        keep = False
        raise
    finally:
        if not keep:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(views.close)


def with_views(result: ToolResult, told: Mapping[str, Any]) -> ToolResult:
    """Return a program's result with what it changed, and what of that was left out."""
    if not told:
        return result
    lines = [f"[written: {path}]" for path in told["written"]]
    lines += [f"[left out: {each['path']}: {each['reason']}]" for each in told["left_out"]]
    structured: dict[str, Any] = {**result.structured, **told}
    text = "\n".join(part for part in (result.output, *lines) if part)
    return replace(result, output=text, structured=structured)


def _outermost(paths: Sequence[str]) -> list[str]:
    """Return paths without those that lie in another one."""
    found: list[str] = []
    for path in sorted(set(paths)):
        if not any(_is_in(path, above) for above in found):
            found.append(path)
    return found


def _is_in(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder.rstrip('/')}/")


def _is_of_git(name: str) -> bool:
    """Whether a path is a repository's own: many files, which are no program's data."""
    return "/.git/" in f"{name}/"


def _is_text(name: str) -> bool:
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _write(path: str, data: bytes) -> None:
    os.makedirs(os.path.dirname(path), _PLAIN, exist_ok=True)  # noqa: PTH103, PTH120 - a string
    with open(path, "xb") as file:  # noqa: PTH123 - as above
        file.write(data)


def _content(top: int, found: Found) -> bytes | None:
    """Return the bytes of a file that was found, None where it is another one by now."""
    try:
        with (
            nofollow.directory(found.path[:-1], start=top) as parent,
            nofollow.regular_file(found.name, start=parent) as handle,
        ):
            return nofollow.read(handle, found.bytes + 1)
    except OSError:
        return None


def _no_folder(path: str) -> ToolError:
    return ToolError(
        f"{path} is a file, and programs change files by way of their folder",
        code="invalid_input",
        place="/writes",
        fix="name the folder that holds it",
    )
