"""Which skills the user trusts: each bound to a digest of all of its files."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, cast

from clawhive_core.config.trust import refuse_inside_run
from clawhive_core.diagnostics.shown import shown_path
from clawhive_core.errors import SkillError, UsageError
from clawhive_core.model.late import dataclass
from clawhive_core.skills.contracts.skill import Skill
from clawhive_core.skills.finding.shipped import SOURCE as SHIPPED
from clawhive_core.skills.finding.shipped import changed_file
from clawhive_core.skills.finding.stored import StoredFile

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
