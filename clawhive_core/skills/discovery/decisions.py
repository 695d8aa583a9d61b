"""Decisions about skills: which are off, and which are trusted with the files they have."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, cast

from clawhive_core.config.config import Config
from clawhive_core.config.private_file import PrivateFile
from clawhive_core.config.trust import refuse_inside_run
from clawhive_core.diagnostics.files import shown_path
from clawhive_core.errors import ConfigError, SkillError, StorageError, UsageError
from clawhive_core.model.late import dataclass
from clawhive_core.skills.contracts.skill import Skill
from clawhive_core.skills.discovery.shipped import SOURCE as SHIPPED
from clawhive_core.skills.discovery.shipped import changed_file
from clawhive_core.storage.folders import file_error, make_folder, require_unlinked


@dataclass(frozen=True, slots=True)
class StoredFile:
    """One private file with one list in it, under the name of its form."""

    path: Path
    schema: str
    key: str

    def entries(self) -> list[Any]:
        """Return the list, empty where there is no file.

        Raises:
            StorageError: The file is damaged, cannot be read, or others may write it;
                `linked_folder`: it, or `.clawhive` above it, is a link.
        """
        require_unlinked(self.path)
        try:
            data = self._file.read()
            if data is None:
                return []
            document: Any = json.loads(data)
        except ConfigError as error:
            raise self._unusable(error.message, error.fix or "mend its rights") from None
        except (ValueError, RecursionError) as error:
            raise self._unusable(str(error), f"chmod 600 '{self.path}', or move it away") from None
        return self._list(document)

    def change(self, edit: Callable[[list[Any]], list[Any]]) -> None:
        """Replace the list by what `edit` makes of it; equal lists leave the file untouched.

        Raises:
            StorageError: The file cannot be used or written; it is as it was.
        """
        file = self._file
        with file.locked():
            before = self.entries()
            after = edit(list(before))
            if after != before:
                file.write({"schema": self.schema, self.key: after})

    @property
    def _file(self) -> PrivateFile:
        return PrivateFile(self.path.parent, self.path.name, f"the file {self.path.name}")

    def _list(self, document: Any) -> list[Any]:
        known = cast("dict[str, Any]", document) if isinstance(document, dict) else {}
        entries: Any = known.get(self.key)
        if known.get("schema") != self.schema or not isinstance(entries, list):
            raise self._unusable(f"it is not in the form {self.schema}", "move the file away")
        return cast("list[Any]", entries)

    def _unusable(self, why: str, fix: str) -> StorageError:
        return StorageError(
            f"the file cannot be used: {why}", place=str(self.path), fix=f"{fix}, then repeat"
        )


@dataclass(frozen=True, slots=True)
class Switches:
    """The project's list of skills that are off, beside `skills.disabled`."""

    config: Config

    @property
    def file(self) -> StoredFile:
        """The list on disk; tools cannot write it."""
        path = self.config.root / ".clawhive" / "skills.json"
        return StoredFile(path, "skills-off/1", "disabled")

    def reasons(self) -> dict[str, str]:
        """Return why each skill that is off is off.

        Raises:
            StorageError: The list cannot be used.
        """
        off = dict.fromkeys(self._listed(), "by `clawhive skills disable`")
        configured = self.config.value("skills.disabled")
        return off | dict.fromkeys(configured.value, f"by skills.disabled, {configured.origin}")

    def disable(self, name: str, env: Mapping[str, str]) -> None:
        """Switch a skill off.

        Raises:
            UsageError: `inside_run`, where a run asks.
            StorageError: The list cannot be written.
        """
        refuse_inside_run(env)
        file = self.file
        try:
            make_folder(file.path.parent)
        except OSError as error:
            raise file_error(error, file.path) from error
        file.change(lambda names: sorted({*map(str, names), name}))

    def enable(self, name: str, env: Mapping[str, str]) -> None:
        """Switch a skill on.

        Raises:
            UsageError: `inside_run`, where a run asks; or the configuration switches it off.
            StorageError: The list cannot be written.
        """
        refuse_inside_run(env)
        configured = self.config.value("skills.disabled")
        if name in configured.value:
            raise UsageError(
                f"`{name}` is switched off by skills.disabled",
                place=configured.origin,
                fix=f"remove `{name}` there",
            )
        if name in self._listed():
            self.file.change(lambda names: [each for each in names if each != name])

    def _listed(self) -> list[str]:
        return [name for name in self.file.entries() if isinstance(name, str)]


MAX_FILES = 5_000
MAX_TOTAL = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class SkillTrust:
    """The user's list of trusted skills, `skill-trust.json` in the user's own directory."""

    user_dir: Path

    @property
    def file(self) -> StoredFile:
        """The list on disk."""
        return StoredFile(self.user_dir / "skill-trust.json", "skill-trust/1", "skills")

    def digests(self) -> dict[str, str]:
        """Return the trusted digests by real path.

        Raises:
            StorageError: The list cannot be used; nothing is trusted then.
        """
        rows = [cast("dict[str, Any]", row) for row in self.file.entries() if isinstance(row, dict)]
        return {str(row.get("path")): str(row.get("sha256")) for row in rows}

    def add(self, skill: Skill, sha256: str, env: Mapping[str, str]) -> None:
        """Trust a skill with the files it has now.

        Args:
            skill: The skill.
            sha256: The digest of what the user was shown; where it differs, nothing is trusted.
            env: The environment; inside a run nothing is trusted.

        Raises:
            UsageError: `inside_run`, or the files changed while the user looked at them.
            SkillError: The files cannot be bound to a digest.
            StorageError: The list cannot be written.
        """
        refuse_inside_run(env)
        if content_digest(skill.content) != sha256:
            raise UsageError(
                f"the files of `{skill.id}` changed while you looked at them",
                place=shown_path(skill.content),
                fix=f"look again: clawhive skills show {skill.id}",
            )
        path = os.path.realpath(skill.content)
        entry = {"id": skill.id, "path": path, "sha256": sha256, "trusted_at": _now()}
        self.file.change(lambda entries: [*_without(entries, path), entry])

    def revoke(self, skill: Skill, env: Mapping[str, str]) -> None:
        """Trust a skill no longer.

        Raises:
            UsageError: `inside_run`.
            StorageError: The list cannot be written.
        """
        refuse_inside_run(env)
        path = os.path.realpath(skill.content)
        self.file.change(lambda entries: _without(entries, path))


def is_trusted(skill: Skill, digests: Mapping[str, str]) -> bool:
    """Whether the wheel vouches for a skill, or the user does, for just the files it has now.

    Args:
        skill: The skill.
        digests: What the user trusts, as `SkillTrust.digests` gives it.
    """
    if skill.source == SHIPPED and changed_file(skill) is None:
        return True
    expected = digests.get(os.path.realpath(skill.content)) if digests else None
    if expected is None:
        return False
    try:
        return content_digest(skill.content) == expected
    except SkillError:
        return False


def content_digest(content: Path, without: Collection[str] = ()) -> str:
    """Return the SHA-256 of a skill's files: names, lengths and bytes, sorted by name.

    Args:
        content: The folder, or the file of a manifest alone.
        without: Names of folders that are passed over, at any depth.

    Raises:
        SkillError: There is a link or another special file among them, one cannot be read, or
            there are too many.
    """
    total, digest = 0, hashlib.sha256()
    for number, (name, file) in enumerate(_files(content, without), 1):
        try:
            data = file.read_bytes()
        except OSError as error:
            raise _unbound(file, error.strerror or str(error)) from None
        total += len(data)
        if number > MAX_FILES or total > MAX_TOTAL:
            raise _unbound(content, f"more than {MAX_FILES} files or {MAX_TOTAL} bytes")
        digest.update(f"{len(name)}:{len(data)}:".encode() + name + data)
    return digest.hexdigest()


def _files(content: Path, without: Collection[str]) -> Iterator[tuple[bytes, Path]]:
    if content.is_file():
        yield b"", content
        return
    waiting = [Path(os.path.realpath(content))]
    base, found = waiting[0], list[tuple[bytes, Path]]()
    while waiting:
        folder = waiting.pop()
        try:
            entries = list(os.scandir(folder))
        except OSError as error:
            raise _unbound(folder, error.strerror or str(error)) from None
        for entry in entries:
            path = Path(entry.path)
            if entry.is_dir(follow_symlinks=False):
                if entry.name not in without:
                    waiting.append(path)
            elif not entry.is_file(follow_symlinks=False):
                raise _unbound(path, "it is a link or a special file")
            else:
                found.append((os.fsencode(path.relative_to(base).as_posix()), path))
    yield from sorted(found)


def _unbound(path: Path, why: str) -> SkillError:
    return SkillError(
        f"the skill's files cannot be bound to a digest: {why}",
        place=shown_path(path),
        fix="a skill that is trusted holds regular files only",
    )


def _without(entries: list[Any], path: str) -> list[Any]:
    return [
        entry
        for entry in entries
        if not (isinstance(entry, dict) and cast("dict[str, Any]", entry).get("path") == path)
    ]


def _now() -> str:
    from datetime import UTC, datetime

    return datetime.now(UTC).isoformat(timespec="seconds")
