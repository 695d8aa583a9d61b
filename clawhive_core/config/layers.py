"""One file as a layer: its settings with their places, and the findings about its keys."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, cast

from clawhive_core.config.setting import Setting, check, shorten
from clawhive_core.config.settings import (
    Path,
    canonical_path,
    dotted,
    find,
    is_table,
    suggest,
)
from clawhive_core.config.tomlfile import TomlFile
from clawhive_core.diagnostics.finding import Edit, Finding, Fix
from clawhive_core.errors import ConfigError
from clawhive_core.model.late import dataclass

_GUESSES = 50  # guessing costs about a millisecond a key; a file of unknown keys is none of ours


@dataclass(frozen=True, slots=True)
class Entry:
    """One value that one layer gives: below an open table, one leaf of it."""

    path: Path
    setting: Setting
    value: Any
    origin: str
    place: str
    written: Path = ()
    """The key as the file spells it."""


_TABLE = ("tool", "clawhive")


def table_of(file: TomlFile) -> TomlFile | None:
    """Return the table of a `pyproject.toml` that is ClawHive's, None where it has none.

    Raises:
        ConfigError: It is no table.
    """
    table: Any = file.data
    for name in _TABLE:
        table = cast("Mapping[str, Any]", table).get(name) if isinstance(table, Mapping) else None
    if table is None:
        return None
    if not isinstance(table, Mapping):
        raise ConfigError(
            "`tool.clawhive` must be a table",
            place=file.place(_TABLE),
            fix="write its keys below a line `[tool.clawhive]`",
        )
    return replace(file, data=cast("Mapping[str, Any]", table), above=_TABLE)


def file_entries(file: TomlFile, kind: str) -> tuple[tuple[Entry, ...], tuple[Finding, ...]]:
    """Return what a file sets, and a finding for each key that is unknown.

    Raises:
        ConfigError: A value has the wrong type.
    """
    found = list(_walk(file, kind, file.data, ()))
    unknown = [item for item in found if not isinstance(item, Entry)]
    findings = (
        _unknown(file, path, suggest(path) if index < _GUESSES else None)
        for index, path in enumerate(unknown)
    )
    return tuple(item for item in found if isinstance(item, Entry)), tuple(findings)


def _walk(
    file: TomlFile, kind: str, table: Mapping[str, Any], above: Path
) -> Iterator[Entry | Path]:
    """Yield what a table sets, and the paths of unknown keys."""
    for name, value in table.items():
        written = (*above, name)
        path = canonical_path(written)
        setting = find(path)
        if setting is not None and _is_meant(setting, path, value):
            yield from _set(file, kind, setting, (path, written, value))
        elif is_table(path):
            yield from _walk(file, kind, _as_table(file, written, value), written)
        else:
            yield written


def _is_meant(setting: Setting, path: Path, value: Any) -> bool:
    """Tell `[tools.pin]` from `[[tools]]`, and a plugin's table from a misspelt key."""
    if setting.kind == "tables" and is_table(path):
        return not isinstance(value, Mapping)
    return not (setting.is_family and setting.is_open) or isinstance(value, Mapping)


def _as_table(file: TomlFile, path: Path, value: Any) -> Mapping[str, Any]:
    if isinstance(value, Mapping):
        return cast("Mapping[str, Any]", value)
    raise ConfigError(
        f"`{dotted(path)}` must be a table, not {shorten(value)}",
        place=file.place(path),
        fix=f"write its keys below a line `[{dotted(path)}]`",
    )


def _set(
    file: TomlFile, kind: str, setting: Setting, found: tuple[Path, Path, Any]
) -> Iterator[Entry]:
    path, written, value = found
    checked = check(setting, value, file.place(written))
    if setting.kind == "tables":
        _refuse_swallowed(file, written, checked)
    for leaf, item in leaves(setting, checked):
        there = (*written, *leaf)
        origin = f"{kind} {file.line(there)}"
        yield Entry((*path, *leaf), setting, item, origin, file.place(there), there)


def _refuse_swallowed(file: TomlFile, written: Path, tables: tuple[dict[str, Any], ...]) -> None:
    """In TOML, `[tools.pin]` after `[[tools]]` belongs to the last of the tools: nobody means that.

    Raises:
        ConfigError: A tool holds a table that is a setting's.
    """
    for index, table in enumerate(tables):
        for name in table:
            if find((*written, name)) is not None:
                key = dotted((*written, name))
                raise ConfigError(
                    f"`[{key}]` after `[[{dotted(written)}]]` belongs to the tool above it",
                    place=file.place((*written, index, name)),
                    fix=f"write `[catalog.{name}]` instead of `[{key}]`",
                )


def leaves(setting: Setting, value: Any) -> Iterator[tuple[Path, Any]]:
    """Yield a value, or each leaf of an open table, with its path below the setting."""
    if not setting.is_open:
        yield (), value
    else:
        yield from _leaves(cast("Mapping[str, Any]", value), ())


def _leaves(table: Mapping[str, Any], above: Path) -> Iterator[tuple[Path, Any]]:
    if not table:
        yield above, {}
    for name, item in table.items():
        if isinstance(item, Mapping):
            yield from _leaves(cast("Mapping[str, Any]", item), (*above, name))
        else:
            yield (*above, name), item


def _unknown(file: TomlFile, path: Path, guess: Path | None) -> Finding:
    span = file.span(path)
    message = f"the key `{dotted(path)}` is unknown and has no effect"
    if guess is not None:
        message += f"; did you mean `{dotted(guess)}`?"
    return Finding(
        "CH0901",
        "warning",
        message,
        file=file.shown,
        line=span.line if span else None,
        column=span.column if span else None,
        end_line=span.line if span else None,
        end_column=span.end_column if span else None,
        fix=_rename(file, path, guess),
    )


def _rename(file: TomlFile, path: Path, guess: Path | None) -> Fix | None:
    if guess is None:
        return None
    span = file.places.get((*file.above, *path))
    title = f"rename it to `{dotted(guess)}`"
    if span is None or guess[:-1] != path[:-1] or guess[-1] in _siblings(file, path):
        return Fix(title)
    return Fix(title, (Edit(span.start, span.end, dotted(guess[-1:])),))


def _siblings(file: TomlFile, path: Path) -> Mapping[str, Any]:
    """Return the table that holds a key: renaming must not make a key twice."""
    table: Any = file.data
    for name in path[:-1]:
        table = table[name]
    return table
