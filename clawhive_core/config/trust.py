"""The project files that the user trusts: by real path and digest, in the user's own directory."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path as FilePath
from typing import Any, cast

from clawhive_core.config.layers import file_entries, table_of
from clawhive_core.config.private_file import PrivateFile
from clawhive_core.config.setting import check, is_tighter
from clawhive_core.config.settings import Path, find
from clawhive_core.config.tomlfile import parse_toml, read_bytes
from clawhive_core.diagnostics.finding import Finding, Fix
from clawhive_core.errors import ConfigError, UsageError
from clawhive_core.model.late import dataclass

_SCHEMA = "trust/1"
_FILE = "trust.json"


@dataclass(frozen=True, slots=True)
class Trusted:
    """One project file that the user trusts, as long as its bytes stay the same."""

    path: str
    """The real path."""
    sha256: str
    trusted_at: str
    """RFC 3339, UTC."""
    tightens: tuple[tuple[Path, Any], ...] = ()
    """The keys and values that it tightened when it was trusted."""

    def to_dict(self) -> dict[str, Any]:
        """Return the entry as JSON."""
        found = {"path": self.path, "sha256": self.sha256, "trusted_at": self.trusted_at}
        return {**found, "tightens": [[list(path), value] for path, value in self.tightens]}


@dataclass(frozen=True, slots=True)
class TrustList:
    """The trusted files, and the findings about the file that lists them."""

    entries: tuple[Trusted, ...]
    findings: tuple[Finding, ...] = ()

    def trusts(self, file: FilePath, sha256: str) -> bool:
        """Return whether the file, with these bytes, is trusted."""
        real = os.path.realpath(file)
        return any(entry.path == real and entry.sha256 == sha256 for entry in self.entries)


def list_trust(user_dir: FilePath) -> TrustList:
    """Return what the user trusts; a file that cannot be used counts as empty, with a finding."""
    file = user_dir / _FILE
    try:
        data = _file(user_dir).read()
        return TrustList(() if data is None else _parse(data))
    except (ConfigError, ValueError, RecursionError) as error:
        return TrustList((), (_unusable(file, str(error)),))


def trust_project(
    file: FilePath, *, user_dir: FilePath, env: Mapping[str, str], sha256: str | None = None
) -> Trusted:
    """Trust a project's configuration file with the bytes that it has now.

    Args:
        file: The `clawhive.toml`, or the `pyproject.toml` with `[tool.clawhive]`.
        user_dir: The user's own directory.
        env: The environment; inside a run nothing is trusted.
        sha256: The digest of what the user was shown; where the file differs, nothing is trusted.

    Raises:
        UsageError: `inside_run`, where a run asks.
        ConfigError: The file cannot be read, or is not what the user was shown.
        StorageError: The list cannot be written.
    """
    refuse_inside_run(env)
    entry = _entry(file, sha256)
    with _file(user_dir).locked():
        others = [old for old in _kept(user_dir) if old.path != entry.path]
        _write(user_dir, (*others, entry))
    return entry


def revoke_trust(file: FilePath, *, user_dir: FilePath, env: Mapping[str, str]) -> bool:
    """Trust a project's file no longer; whether it was trusted. The file need not exist any more.

    Raises:
        UsageError: `inside_run`, where a run asks.
        StorageError: The list cannot be written.
    """
    refuse_inside_run(env)
    if not list_trust(user_dir).entries:
        return False
    real = os.path.realpath(file)
    with _file(user_dir).locked():
        before = _kept(user_dir)
        after = tuple(entry for entry in before if entry.path != real)
        if len(after) == len(before):
            return False
        _write(user_dir, after)
    return True


def is_kept(path: Path, kept: Any, now: Any) -> bool:
    """Whether a setting is as strict as it was, or stricter; a value of None is no value.

    Args:
        path: The setting's.
        kept: Its value in the file that was trusted, from JSON.
        now: Its value.
    """
    setting = find(path)
    if setting is None or setting.tighter is None:
        return True
    try:
        before = check(setting, kept, ".".join(path))
    except ConfigError:
        return True  # the setting takes other values by now
    now = setting.default if now is None else now
    if setting.union:
        return set(before) <= set(now)
    return now == before or is_tighter(setting, now, before)


def _tightens(file: FilePath, data: bytes, shown: str) -> tuple[tuple[Path, Any], ...]:
    try:
        read = parse_toml(data, file, shown)
        table = table_of(read) if file.name == "pyproject.toml" else read
        entries = file_entries(table, "")[0] if table is not None else ()
    except ConfigError:
        return ()  # it cannot be used as it is, so that nothing of it counts
    return tuple(
        (each.path, each.value)
        for each in entries
        if each.setting.tighter is not None
        and each.value != each.setting.default
        and is_tighter(each.setting, each.value, each.setting.default)
    )


def refuse_inside_run(env: Mapping[str, str], what: str = "trust") -> None:
    """Raise where the caller was started by a run: no agent decides about itself.

    Raises:
        UsageError: `inside_run`.
    """
    run = env.get("CLAWHIVE_RUN")
    if run:
        raise UsageError(
            f"this was started by the run {run[:64]!r}, and no run may change {what}",
            code="inside_run",
            place="CLAWHIVE_RUN",
            fix="run the command yourself, in a terminal that no run has opened",
        )


def _entry(file: FilePath, expected: str | None) -> Trusted:
    import hashlib
    from datetime import UTC, datetime

    shown = os.fspath(file)
    data = read_bytes(file, shown)
    if data is None:
        raise ConfigError("there is no such file", place=shown, fix="run it in the project's root")
    sha256 = hashlib.sha256(data).hexdigest()
    if expected is not None and sha256 != expected:
        raise ConfigError(
            "the file changed while you looked at it", place=shown, fix="read it again, then trust"
        )
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return Trusted(os.path.realpath(file), sha256, now, _tightens(file, data, shown))


def _parse(data: bytes) -> tuple[Trusted, ...]:
    import json

    document: Any = json.loads(data.decode("utf-8"))
    if not isinstance(document, dict):
        raise ValueError("it is no JSON object")  # noqa: TRY004 - a damaged file, not a caller's type
    known = cast("dict[str, Any]", document)
    if known.get("schema") != _SCHEMA:
        raise ValueError(f"it is not in the form {_SCHEMA}")
    projects = known.get("projects", [])
    if not isinstance(projects, list):
        raise ValueError("its projects are no list")  # noqa: TRY004 - as above
    return tuple(_read_entry(entry) for entry in cast("list[Any]", projects))


def _read_entry(entry: Any) -> Trusted:
    try:
        # Entries of before have no tightenings.
        kept = tuple((tuple(map(str, path)), value) for path, value in entry.get("tightens", ()))
        found = Trusted(entry["path"], entry["sha256"], entry["trusted_at"], kept)
    except (AttributeError, TypeError, KeyError) as error:
        raise ValueError("an entry lacks path, sha256 or trusted_at") from error
    if not all(isinstance(part, str) for part in (found.path, found.sha256, found.trusted_at)):
        raise ValueError("an entry holds what is no text")
    return found


def _unusable(file: FilePath, why: str) -> Finding:
    return Finding(
        "CH0903",
        "warning",
        f"the list of trusted projects cannot be used, so none is trusted: {why}",
        file=os.fspath(file),
        fix=Fix(f"chmod 600 '{file}', or trust your projects again with `clawhive trust`"),
    )


def _kept(user_dir: FilePath) -> tuple[Trusted, ...]:
    """Return the entries to keep; a file that cannot be used is renamed, not overwritten."""
    found = list_trust(user_dir)
    if found.findings:
        _file(user_dir).keep_damaged()
    return found.entries


def _write(user_dir: FilePath, entries: tuple[Trusted, ...]) -> None:
    projects = [entry.to_dict() for entry in entries]
    _file(user_dir).write({"schema": _SCHEMA, "projects": projects})


def _file(user_dir: FilePath) -> PrivateFile:
    return PrivateFile(user_dir, _FILE, "the list of trusted projects")
