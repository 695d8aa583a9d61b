"""The user's own `config.toml`, changed by commands: whole tables come and go, the rest stays."""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Iterator, Mapping
from copy import deepcopy
from pathlib import Path as FilePath
from typing import Any, cast

from clawhive_core.config.private_file import replace_file
from clawhive_core.config.settings import Path, dotted
from clawhive_core.config.trust import refuse_inside_run
from clawhive_core.errors import ConfigError, UnknownId


class UserFile:
    """The user's configuration file; every change keeps the rest of it to the letter.

    Args:
        user_dir: The user's own directory.
        env: Says whether a run asks: no run may change it.

    Raises:
        UsageError: `inside_run`.
        ConfigError: The file cannot be read, or is no TOML.
    """

    def __init__(self, user_dir: str | os.PathLike[str], env: Mapping[str, str]) -> None:
        refuse_inside_run(env, "your configuration")
        self.path = FilePath(user_dir, "config.toml")
        try:
            self._text = self.path.read_text("utf-8") if self.path.exists() else ""
            self._parsed = tomllib.loads(self._text)
        except (OSError, ValueError) as error:
            raise self._unusable(str(error)) from error

    def get(self, path: Path) -> Any:
        """Return what stands at a path, an empty table where nothing does."""
        found: Any = self._parsed
        for name in path:
            found = cast("Mapping[str, Any]", found).get(name, {}) if _is_table(found) else {}
        return found

    def put(self, tables: Mapping[Path, Mapping[str, Any]]) -> None:
        """Write tables at the end, in place of those that stand at their paths, all at once.

        Raises:
            ConfigError: The file cannot be changed by a program.
        """
        wanted, lines = deepcopy(self._parsed), self._text.splitlines(keepends=True)
        for path, table in tables.items():
            lines = [*_outside(path, lines)]
            _parent(wanted, path)[path[-1]] = dict(table)
        text = "".join(lines)
        for path, table in tables.items():
            lead = "" if not text or text.endswith("\n\n") else "\n" if text[-1] == "\n" else "\n\n"
            text = f"{text}{lead}{rendered(path, table)}"
        self._change(text, wanted)

    def remove(self, *paths: Path) -> None:
        """Remove tables, and what stands inside them.

        Raises:
            UnknownId: One of them is not there.
            ConfigError: The file cannot be changed by a program.
        """
        wanted, lines = deepcopy(self._parsed), self._text.splitlines(keepends=True)
        for path in paths:
            self._require(path)
            lines = [*_outside(path, lines)]
            del _parent(wanted, path)[path[-1]]
            for length in range(len(path) - 1, 0, -1):
                if not _parent(wanted, path[:length])[path[length - 1]]:
                    del _parent(wanted, path[:length])[path[length - 1]]
        self._change("".join(lines), wanted)

    def set(self, path: Path, key: str, value: Any) -> None:
        """Set one key of a table that is there; every other line of it stays.

        Raises:
            UnknownId: There is no such table.
            ConfigError: The file cannot be changed by a program.
        """
        self._require(path)
        wanted = deepcopy(self._parsed)
        _parent(wanted, path)[path[-1]][key] = value
        new, lines, inside = f"{_key(key)} = {_value(value)}\n", list[str](), False
        for line in self._text.splitlines(keepends=True):
            if (header := _path_of(line)) is not None:
                inside = header == path
                lines += [line if line.endswith("\n") else f"{line}\n", *([new] if inside else [])]
            elif not (inside and line.partition("=")[0].strip() == key):
                lines.append(line)
        self._change("".join(lines), wanted)

    def _require(self, path: Path) -> None:
        if path[-1] not in self.get(path[:-1]):
            raise UnknownId(
                f"your configuration has no table `{dotted(path)}`",
                place=str(self.path),
                fix="clawhive config show --origin",
            )

    def _change(self, text: str, wanted: Mapping[str, Any]) -> None:
        """Write a text that says exactly what is wanted.

        Raises:
            ConfigError: It does not, so that a person must write it.
        """
        try:
            is_good = tomllib.loads(text) == wanted
        except tomllib.TOMLDecodeError:
            is_good = False
        if not is_good:
            raise self._unusable("what is to change is not written as a table of its own, `[...]`")
        self._write(text)
        self._text, self._parsed = text, dict(wanted)

    def _write(self, text: str) -> None:
        """Replace the file in one step, for its owner only: what it holds may be secret."""
        try:
            replace_file(FilePath(os.path.realpath(self.path)), text)
        except OSError as error:
            raise self._unusable(str(error)) from error

    def _unusable(self, why: str) -> ConfigError:
        return ConfigError(
            f"your configuration cannot be changed: {why}",
            place=str(self.path),
            fix="edit the file by hand",
        )


def rendered(path: Path, table: Mapping[str, Any]) -> str:
    """Return the TOML of a table."""
    lines = [f"[{dotted(path)}]", *(f"{_key(key)} = {_value(each)}" for key, each in table.items())]
    return "\n".join(lines) + "\n"


def _outside(path: Path, lines: list[str]) -> Iterator[str]:
    """Yield the lines that stand in no table at or below a path."""
    inside = False
    for line in lines:
        if (header := _path_of(line)) is not None:
            inside = header[: len(path)] == path
        if not inside:
            yield line


def _path_of(line: str) -> Path | None:
    """Return the path that a table's header names, None for every other line."""
    if not line.lstrip().startswith("["):
        return None
    try:
        found: Any = tomllib.loads(line)
    except tomllib.TOMLDecodeError:
        return None
    path: list[str] = []
    while _is_table(found) and found:
        ((name, found),) = cast("dict[str, Any]", found).items()
        path.append(name)
    return tuple(path)


def _parent(document: dict[str, Any], path: Path) -> dict[str, Any]:
    """Return the table above a path, made where it is not there."""
    found = document
    for name in path[:-1]:
        found = found.setdefault(name, {})
        if not _is_table(found):
            return {path[-1]: {}}  # what is written cannot come to this, and is refused
    return found


def _is_table(value: Any) -> bool:
    return isinstance(value, dict)


def _key(name: str) -> str:
    return dotted((name,))


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        pairs = cast("Mapping[str, Any]", value).items()
        return f"{{ {', '.join(f'{_key(str(key))} = {_value(each)}' for key, each in pairs)} }}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(_value(each) for each in cast('list[Any]', value))}]"
    # JSON's texts, numbers and flags are TOML's, but for one control character.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
