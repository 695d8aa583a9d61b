"""What `clawhive.lock` holds: each skill as it was, and every schema that it named."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, field
from datetime import date
from typing import Any, cast

from clawhive_core.model.late import dataclass
from clawhive_core.model.tools import JsonSchema
from clawhive_core.skills.checks.required import Offer

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class LockedTool:
    """An exported tool: SHA-256 of its schemas and of its text; empty where it has none."""

    input: str
    output: str
    text: str


@dataclass(frozen=True, slots=True)
class LockedImport:
    """An imported tool: the provider's api_version then, and the schemas by their SHA-256."""

    api_version: str
    input: str
    output: str


@dataclass(frozen=True, slots=True)
class LockedRemoval:
    """A deprecation: when the tool goes, and when that was announced, else first seen."""

    removal_date: date
    announced: date | None


@dataclass(frozen=True, slots=True)
class LockedSkill:
    """One skill as it was."""

    id: str
    source: str
    """`./` and its path from the project's root, else `plugin NAME`, `user` or `shipped`."""
    version: str
    api_version: str
    content: str
    """SHA-256 of its files, empty where they cannot be bound to one."""
    text: str
    """SHA-256 of its description."""
    permissions: tuple[str, ...] = ()
    exports: Mapping[str, LockedTool] = field(default_factory=dict[str, LockedTool])
    deprecated: Mapping[str, LockedRemoval] = field(default_factory=dict[str, LockedRemoval])
    imports: Mapping[str, LockedImport] = field(default_factory=dict[str, LockedImport])
    """By `SKILL.TOOL`."""
    tools: Mapping[str, Offer | None] = field(default_factory=dict[str, "Offer | None"])
    """What it requires of the catalog; None for what nothing offered."""

    def to_dict(self) -> dict[str, Any]:
        """Return its row, each mapping sorted."""
        return {
            "id": self.id,
            "source": self.source,
            "version": self.version,
            "api_version": self.api_version,
            "content": self.content,
            "text": self.text,
            "permissions": list(self.permissions),
            "exports": _sorted(self.exports),
            "deprecated": {
                name: {
                    "removal_date": str(each.removal_date),
                    "announced": None if each.announced is None else str(each.announced),
                }
                for name, each in sorted(self.deprecated.items())
            },
            "imports": _sorted(self.imports),
            "tools": _sorted(self.tools),
        }

    @classmethod
    def of(cls, row: Row) -> LockedSkill:
        """Return the skill of a row.

        Raises:
            KeyError, TypeError, ValueError: It is none.
        """
        return cls(
            _text(row["id"]),
            _text(row["source"]),
            _text(row["version"]),
            _text(row["api_version"]),
            _text(row["content"]),
            _text(row["text"]),
            tuple(_text(each) for each in _list(row["permissions"])),
            {name: _tool(each) for name, each in _rows(row["exports"])},
            {name: _removal(each) for name, each in _rows(row["deprecated"])},
            {name: _import(each) for name, each in _rows(row["imports"])},
            {name: None if each is None else _offer(each) for name, each in _rows(row["tools"])},
        )

    def schemas(self) -> set[str]:
        """Return the SHA-256 of each schema that it names."""
        named = (*self.exports.values(), *self.imports.values())
        return {each for one in named for each in (one.input, one.output) if each}


@dataclass(frozen=True, slots=True)
class Lock:
    """Skills by their ids, and schemas by their SHA-256."""

    skills: Mapping[str, LockedSkill] = field(default_factory=dict[str, LockedSkill])
    schemas: Mapping[str, JsonSchema] = field(default_factory=dict[str, JsonSchema])


def _sorted(values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: None if each is None else asdict(each) for key, each in sorted(values.items())}


def _tool(row: Row) -> LockedTool:
    return LockedTool(_text(row["input"]), _text(row["output"]), _text(row["text"]))


def _import(row: Row) -> LockedImport:
    return LockedImport(_text(row["api_version"]), _text(row["input"]), _text(row["output"]))


def _removal(row: Row) -> LockedRemoval:
    announced = row["announced"]
    return LockedRemoval(
        date.fromisoformat(_text(row["removal_date"])),
        None if announced is None else date.fromisoformat(_text(announced)),
    )


def _offer(row: Row) -> Offer:
    verbs = tuple(_text(each) for each in _list(row["verbs"]))
    return Offer(
        _text(row["provider_id"]), _text(row["capability_level"]), _text(row["risk"]), verbs
    )


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"`{value!r:.40}` is no text")
    return value


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError(f"`{value!r:.40}` is no list")
    return cast("list[Any]", value)


def _rows(value: Any) -> list[tuple[str, Any]]:
    if not isinstance(value, dict):
        raise TypeError(f"`{value!r:.40}` is no object")
    return list(cast("dict[str, Any]", value).items())
