"""The configuration as it counts: each value, and where it came from."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from functools import cached_property
from pathlib import Path as FilePath
from typing import Any

from clawhive_core.config.setting import Setting
from clawhive_core.config.settings import (
    SETTINGS,
    Path,
    canonical_path,
    dotted,
    families_below,
    find,
    fixed_below,
    is_table,
    owner,
    place,
    split,
    suggest,
)
from clawhive_core.diagnostics.finding import Finding
from clawhive_core.errors import ConfigError
from clawhive_core.model.late import Caching, dataclass
from clawhive_core.model.patterns import pattern

REDACTED = "[redacted]"

_SECRET = pattern(r"key|token|secret|password|passwd|credential|authorization", re.IGNORECASE)
_DEFAULT = "default"


Lost = Mapping[FilePath, tuple[str, ...]]
"""The keys that files no longer tighten, by file."""


@dataclass(frozen=True, slots=True)
class Value:
    """One value and where it came from."""

    value: Any
    origin: str
    """`default`, `env NAME`, `user config FILE:LINE`, `project config FILE:LINE` or `flag --x`;
    several, joined by commas, where several layers gave a part."""
    each: tuple[str, ...] = ()
    """The origin of each entry of a list that layers add to."""


@dataclass(frozen=True, slots=True)
class Config(Caching):
    """Every setting as it counts, after all layers and the trust of the project's file."""

    root: FilePath
    """The project root."""
    user_dir: FilePath
    """The user's own directory; it need not exist."""
    home: str
    """The value of `${home}`, empty where it is unknown."""
    values: Mapping[Path, Value]
    """The values that some layer gives; all else has its default."""
    findings: tuple[Finding, ...] = ()
    project_file: FilePath | None = None
    """The `clawhive.toml`, or the `pyproject.toml` with `[tool.clawhive]`."""
    project_sha256: str | None = None
    """The digest of the project file's bytes as they were read: what `trust_project` is given."""
    trusted: bool = True
    """Whether the project's file counts in full; true where there is none."""
    ignored: tuple[str, ...] = ()
    """Keys of the project's file that do not count because of what it may not do."""
    lost: Lost = field(default_factory=dict[FilePath, tuple[str, ...]])
    """The settings that the user trusted a file to tighten and that no longer count, by file."""

    def require_kept(self) -> None:
        """Raise where a trusted tightening has disappeared, before anything runs without it.

        Raises:
            ConfigError: `untrusted_project`.
        """
        for file, texts in self.lost.items():
            raise ConfigError(
                f"what you trusted this file to tighten no longer counts: {', '.join(texts)}",
                code="untrusted_project",
                place=os.fspath(file),
                fix="put it back; or read the file, then run `clawhive trust`"
                " (`clawhive trust revoke` where it has nothing to trust any more)",
            )

    def get(self, key: str) -> Any:
        """Return the value of a key, its default where no layer gives one.

        Lists are tuples; tables are dicts of the caller's own.

        Raises:
            KeyError: There is no such key.
        """
        return self.value(key).value

    def origin(self, key: str) -> str:
        """Return where the value of a key came from.

        Raises:
            KeyError: There is no such key.
        """
        return self.value(key).origin

    def value(self, key: str) -> Value:
        """Return the value of a key with its origin.

        Raises:
            KeyError: There is no such key.
        """
        path, found = place(key)
        given = self.values.get(path)
        if given is not None:
            return given
        if found is None:
            raise KeyError(_no_key(path))
        setting, at = found
        if setting.is_open:
            below = {there: item for there, item in self.values.items() if _is_below(there, path)}
            if below:
                origins = dict.fromkeys(item.origin for item in below.values())
                return Value(_nest(_relative(below, path)), ", ".join(origins))
        return Value(_fresh(setting.default) if at == path else None, _DEFAULT)

    def section(self, prefix: str) -> dict[str, Any]:
        """Return all values below a table, defaults included, as a dict of the caller's own.

        `section("agents")` holds the agents that some layer names, each complete.

        Raises:
            KeyError: There is no such table.
        """
        base = canonical_path(split(prefix))
        found = owner(base)
        if not is_table(base) and (found is None or not found[0].is_open):
            raise KeyError(_no_key(base))
        items = {path: Value(_fresh(value), _DEFAULT) for path, value in self._defaults(base)}
        items |= {path: item for path, item in self.values.items() if _is_below(path, base)}
        return _nest(_relative(items, base))

    def names(self, table: str) -> tuple[str, ...]:
        """Return the names that layers give below a table of named tables, such as `agents`."""
        if (known := self._names.get(table)) is None:
            head = split(table)
            at = len(head)
            below = (path for path in self.values if len(path) > at and path[:at] == head)
            known = self._names[table] = tuple(dict.fromkeys(path[at] for path in below))
        return known

    @cached_property
    def _names(self) -> dict[str, tuple[str, ...]]:
        """Cache of `names` by table: the values of a configuration do not change."""
        return {}

    def shown(self) -> Iterator[tuple[str, Any, str]]:
        """Yield key, value and origin of everything, sorted by key; secrets are `[redacted]`."""
        fixed = {
            setting.path: Value(_fresh(setting.default), _DEFAULT)
            for setting in SETTINGS.values()
            if not setting.is_family and not (setting.is_open and self._has_below(setting.path))
        }
        for path, item in sorted((fixed | dict(self.values)).items()):
            hidden = _is_secret(path) and item.value not in (None, "", {}, ())
            yield dotted(path), REDACTED if hidden else item.value, item.origin

    def to_dict(self) -> dict[str, Any]:
        """Return what `clawhive config show --json` prints (schema `config/1`)."""
        return {
            "schema": "config/1",
            "root": os.fspath(self.root),
            "user_dir": os.fspath(self.user_dir),
            "project_file": None if self.project_file is None else os.fspath(self.project_file),
            "trusted": self.trusted,
            "ignored": list(self.ignored),
            "values": [
                {"key": key, "value": value, "origin": origin}
                for key, value, origin in self.shown()
            ],
            "findings": [finding.to_dict() for finding in self.findings],
        }

    def _has_below(self, base: Path) -> bool:
        return any(_is_below(path, base) for path in self.values)

    def _defaults(self, base: Path) -> Iterator[tuple[Path, Any]]:
        for setting in fixed_below(base):
            yield setting.path, setting.default
        for family in families_below(base):
            for path in self._members(family, base):
                if _is_below(path, base):
                    yield path, family.default

    def _members(self, family: Setting, base: Path) -> Iterator[Path]:
        """Yield the paths of a family for each name that a layer, or `base` itself, gives."""
        at = next(index for index, name in enumerate(family.path) if name.isupper())
        if at + 1 == len(family.path):
            return
        head = family.path[:at]
        given = (*self.values, base)
        names = dict.fromkeys(path[at] for path in given if len(path) > at and path[:at] == head)
        for name in names:
            yield (*head, name, *family.path[at + 1 :])


def _is_secret(path: Path) -> bool:
    found = owner(path)
    if found is None or found[0].secret:
        return True
    return found[0].kind == "table" and _SECRET.search(path[-1]) is not None


def _is_below(path: Path, base: Path) -> bool:
    return len(path) > len(base) and path[: len(base)] == base


def _relative(items: Mapping[Path, Value], base: Path) -> Iterator[tuple[Path, Any]]:
    for path in sorted(items, key=len):
        yield path[len(base) :], items[path].value


def _nest(items: Iterable[tuple[Path, Any]]) -> dict[str, Any]:
    """Return leaves as nested dicts; shorter paths come first."""
    nested: dict[str, Any] = {}
    for path, value in items:
        table = nested
        for name in path[:-1]:
            table = table.setdefault(name, {})
        table[path[-1]] = dict(value) if isinstance(value, Mapping) else value  # pyright: ignore[reportUnknownArgumentType] - JSON
    return nested


def _fresh(default: Any) -> Any:
    return dict(default) if isinstance(default, Mapping) else default  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType] - JSON


def _no_key(path: Path) -> str:
    guess = suggest(path)
    hint = f"; did you mean `{dotted(guess)}`?" if guess and find(guess) else ""
    return f"there is no setting `{dotted(path)}`{hint}"
