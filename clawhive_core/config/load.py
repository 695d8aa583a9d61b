"""Reading all layers into one Config: flags, environment, project, user, defaults."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path as FilePath
from typing import Any

from clawhive_core.config.config import Config, Value
from clawhive_core.config.environment import environment_values, misspelt_variables
from clawhive_core.config.layers import Entry, file_entries, leaves, table_of
from clawhive_core.config.root import PROJECT_FILE, find_root, home_of, shown_path, user_dir
from clawhive_core.config.setting import check, is_tighter, shorten
from clawhive_core.config.settings import Path, canonical_path, dotted, find, split
from clawhive_core.config.tomlfile import TomlFile, parse_toml, read_bytes, read_toml
from clawhive_core.config.trust import TrustList, is_kept, list_trust
from clawhive_core.diagnostics.finding import Finding, Fix, sorted_findings
from clawhive_core.errors import ConfigError
from clawhive_core.model.late import dataclass


def open_config(
    path: str | os.PathLike[str] | None, flags: Mapping[str, Any], env: Mapping[str, str]
) -> Config:
    """Return the configuration of the project at a path, else of the one around here.

    Args:
        path: A folder, or a clawhive.toml; None to look upwards from the current directory.
        flags: Values over everything else, by key.
        env: The environment.

    Raises:
        ConfigError: It cannot be used.
    """
    here = FilePath.cwd()
    root = find_root(here, None if path is None else FilePath(path))
    return load_config(root=root, env=env, flags=flags, cwd=here)


def load_config(
    *,
    root: FilePath,
    env: Mapping[str, str],
    flags: Mapping[str, Any] | None = None,
    cwd: FilePath | None = None,
) -> Config:
    """Return the configuration of a project.

    Args:
        root: The project root, as `find_root` gives it.
        env: The environment.
        flags: Values of command-line flags by key; None counts as not given.
        cwd: Paths in messages are relative to it where they lie below.

    Raises:
        ConfigError: A file cannot be read or is not TOML, or a value has the wrong type; `place`
            is `file:line:column`, or the name of the variable or flag.
    """
    own = user_dir(env)
    user_file = own / "config.toml"
    user = read_toml(user_file, shown_path(user_file, cwd))
    project, findings = _project_file(root, cwd)
    trust = list_trust(own)
    trusted = project is None or trust.trusts(project.path, project.sha256)
    merge = _Merge()
    found = [*findings, *trust.findings, *misspelt_variables(env)]
    if user is not None:
        found += merge.add_file(user, "user config")
    ignored: tuple[str, ...] = ()
    if project is not None:
        more, ignored = merge.add_project(project, trusted=trusted)
        found += more
    lost = _lost(trust, root, merge.values)
    found += [_gone(file, texts) for file, texts in lost.items()]
    merge.add(_environment(env))
    merge.add(_flags(flags or {}))
    return Config(
        root=root,
        user_dir=own,
        home=home_of(env),
        values=merge.values,
        findings=tuple(sorted_findings(found)),
        project_file=project.path if project else None,
        project_sha256=project.sha256 if project else None,
        trusted=trusted,
        ignored=ignored,
        lost=lost,
    )


def _lost(
    trust: TrustList, root: FilePath, values: Mapping[Path, Value]
) -> Mapping[FilePath, tuple[str, ...]]:
    """Return what the user trusted these files to tighten, and which no longer counts."""
    found: dict[FilePath, tuple[str, ...]] = {}
    for name in (PROJECT_FILE, "pyproject.toml"):
        real = os.path.realpath(root / name)
        for entry in trust.entries:
            if entry.path != real:
                continue
            gone = tuple(
                f"{dotted(path)} = {shorten(kept)}"
                for path, kept in entry.tightens
                if not is_kept(path, kept, values[path].value if path in values else None)
            )
            if gone:
                found[root / name] = gone
    return found


def _gone(file: FilePath, texts: tuple[str, ...]) -> Finding:
    return Finding(
        "CH0906",
        "error",
        f"what you trusted this file to tighten no longer counts: {', '.join(texts)}",
        file=os.fspath(file),
        fix=Fix("put it back; or read the file, then run `clawhive trust`"),
    )


def _project_file(root: FilePath, cwd: FilePath | None) -> tuple[TomlFile | None, list[Finding]]:
    """Return `clawhive.toml`, else the table of `pyproject.toml`."""
    path = root / PROJECT_FILE
    own = read_toml(path, shown_path(path, cwd))
    other = _pyproject(root, cwd, quiet=own is not None)
    if own is None or other is None:
        return own or other, []
    span = other.span(())
    finding = Finding(
        "CH0904",
        "warning",
        f"`[tool.clawhive]` has no effect, because the project also has a {PROJECT_FILE}",
        file=other.shown,
        line=span.line if span else None,
        column=span.column if span else None,
        fix=Fix(f"move the table into {PROJECT_FILE}"),
    )
    return own, [finding]


def _pyproject(root: FilePath, cwd: FilePath | None, *, quiet: bool) -> TomlFile | None:
    """Return the `pyproject.toml` if it has `[tool.clawhive]`.

    A broken file is another tool's business unless it may hold our table and is the only one.
    """
    path = root / "pyproject.toml"
    shown = shown_path(path, cwd)
    try:
        data = read_bytes(path, shown)
        if data is None or b"clawhive" not in data:
            return None
        file = parse_toml(data, path, shown)
    except ConfigError:
        if quiet:
            return None
        raise
    return table_of(file)


def _environment(env: Mapping[str, str]) -> Iterable[Entry]:
    for setting, value, variable in environment_values(env):
        for leaf, item in leaves(setting, value):
            yield Entry((*setting.path, *leaf), setting, item, f"env {variable}", variable)


def _flags(flags: Mapping[str, Any]) -> Iterable[Entry]:
    for key, value in flags.items():
        if value is None:
            continue
        path = canonical_path(split(key))
        setting = find(path)
        if setting is None:
            raise ConfigError(f"there is no setting `{key}`", place=f"--{key}", fix="remove it")
        flag = setting.flag or f"--{key}"
        for leaf, item in leaves(setting, check(setting, value, flag)):
            yield Entry((*path, *leaf), setting, item, f"flag {flag}", flag)


@dataclass(slots=True)
class _Layer:
    """The layers read so far: their values, and every table on the way to them."""

    values: dict[Path, Value]
    tables: set[Path]


class _Merge:
    """Layers put on one another, the lowest first."""

    def __init__(self) -> None:
        self._layer = _Layer({}, set())

    @property
    def values(self) -> Mapping[Path, Value]:
        return self._layer.values

    def add(self, entries: Iterable[Entry]) -> None:
        for entry in entries:
            self._put(entry)

    def add_file(self, file: TomlFile, kind: str) -> tuple[Finding, ...]:
        entries, findings = file_entries(file, kind)
        self.add(entries)
        return findings

    def add_project(
        self, file: TomlFile, *, trusted: bool
    ) -> tuple[list[Finding], tuple[str, ...]]:
        """Add what a project's file may say; return the findings and the keys left out."""
        entries, unknown = file_entries(file, "project config")
        judged = [(entry, self._refusal(entry, trusted=trusted)) for entry in entries]
        self.add(entry for entry, code in judged if code is None)
        left_out = [(entry, code) for entry, code in judged if code is not None]
        findings = [_ignored(file, entry, code) for entry, code in left_out]
        return [*unknown, *findings], tuple(dotted(entry.path) for entry, _code in left_out)

    def _refusal(self, entry: Entry, *, trusted: bool) -> str | None:
        """Return the code of the finding where the entry does not count, else None."""
        setting = entry.setting
        if setting.project == "never":
            return "CH0905"
        if trusted or self._is_harmless(entry):
            return None
        return "CH0902"

    def _is_harmless(self, entry: Entry) -> bool:
        setting = entry.setting
        if setting.project in {"name", "order"} and setting.tighter is None:
            return True
        if setting.project in {"trusted", "never"}:
            return False
        base = self._layer.values.get(entry.path)
        return is_tighter(setting, entry.value, base.value if base else setting.default)

    def _put(self, entry: Entry) -> None:
        old = self._layer.values.get(entry.path)
        if entry.setting.union:
            self._layer.values[entry.path] = _joined(old, entry)
            return
        if entry.setting.is_open and not self._make_room(entry):
            return
        self._layer.values[entry.path] = Value(entry.value, entry.origin)

    def _make_room(self, entry: Entry) -> bool:
        """Drop what a leaf of an open table replaces: a value above it, or a table below it."""
        path, layer = entry.path, self._layer
        if path in layer.tables:
            if entry.value == {}:
                return False
            for other in [there for there in layer.values if there[: len(path)] == path]:
                del layer.values[other]
        for length in range(len(entry.setting.path), len(path)):
            layer.values.pop(path[:length], None)
            layer.tables.add(path[:length])
        return True


def _joined(old: Value | None, entry: Entry) -> Value:
    """Return a list with what another layer adds, each entry once and with its first origin."""
    each = dict(zip(old.value, old.each, strict=True)) if old else {}
    for item in entry.value:
        each.setdefault(item, entry.origin)
    origins = dict.fromkeys((*((old.origin,) if old else ()), entry.origin))
    return Value(tuple(each), ", ".join(origins), tuple(each.values()))


def _ignored(file: TomlFile, entry: Entry, code: str) -> Finding:
    span = file.span(entry.written)
    key = dotted(entry.written)
    if code == "CH0905":
        message = f"`{key}` has no effect in a project's file"
        fix = f"set it in your own config.toml, or as {entry.setting.variable}"
    else:
        message = f"`{key}` is ignored, because this file is not trusted"
        fix = f"read {os.fspath(file.shown)}, then run `clawhive trust`"
    return Finding(
        code,
        "warning",
        message,
        file=file.shown,
        line=span.line if span else None,
        column=span.column if span else None,
        end_line=span.line if span else None,
        end_column=span.end_column if span else None,
        fix=Fix(fix),
    )
