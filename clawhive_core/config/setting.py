"""One setting of the closed table, and the check of a value against it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from typing import Any, Literal, cast

from clawhive_core.errors import ConfigError
from clawhive_core.model.late import dataclass

Kind = Literal["text", "integer", "number", "flag", "texts", "names", "table", "tables"]
"""The type of a value: `names` is a table of names to texts, `tables` an array of tables."""

ProjectClass = Literal["tighten", "name", "order", "never", "trusted"]
"""The use that a project's file may make of a setting.

`tighten`: make it stricter without trust, anything with it. `name` and `order`: set it without
trust (as far as `tighter` agrees, where it is given). `trusted`: set it once the file is trusted.
`never`: nothing, trusted or not.
"""

Tighter = Literal["lower", "true", "false", "adds", "subset", "later", "inside"]
"""The order of strictness: a lower number, one of the flags, more entries, fewer entries of a
list that selects, a choice that stands later, or only paths inside the project."""

_INTEGER_LIMIT = 2**53 - 1
_DEPTH_LIMIT = 32


@dataclass(frozen=True, slots=True)
class Setting:
    """One configuration key: its type, its default and who may set it."""

    key: str
    """Dotted; a segment in capitals stands for any name: `agents.NAME.model`."""
    kind: Kind
    default: Any
    text: str
    """One line of documentation."""
    env: tuple[str, ...] = ()
    """Variables that are read below `CLAWHIVE_...`, the first that is set wins."""
    project: ProjectClass = "trusted"
    tighter: Tighter | None = None
    choices: tuple[str, ...] = ()
    """The only values of a text, the strictest last where `tighter` is `later`."""
    words: Mapping[str, str] = field(default_factory=dict[str, str])
    """Other words for some of the choices."""
    bounds: tuple[float, float] = (-_INTEGER_LIMIT, _INTEGER_LIMIT)
    """The least and the greatest number."""
    union: bool = False
    """Whether the lists of all layers are joined; else the highest layer wins."""
    secret: bool = False
    """Whether the value is never shown."""
    flag: str = ""
    """The command-line flag, where it is not `--` and the key."""

    @property
    def path(self) -> tuple[str, ...]:
        """The key's segments."""
        return tuple(self.key.split("."))

    @property
    def is_family(self) -> bool:
        """Whether a segment stands for any name."""
        return any(segment.isupper() for segment in self.path)

    @property
    def is_open(self) -> bool:
        """Whether keys below it are the reader's own business."""
        return self.kind in {"table", "names"}

    @property
    def variable(self) -> str | None:
        """The environment variable, None for families, whose names a variable cannot hold."""
        if self.is_family or self.kind in {"tables", "names"}:
            return None
        return "CLAWHIVE_" + self.key.upper().replace(".", "_")


def check(setting: Setting, value: Any, place: str) -> Any:
    """Return a value as the setting's type; lists become tuples, dates ISO 8601 texts.

    Args:
        setting: What the value is for.
        value: What a file, variable or flag holds.
        place: `file:line:column`, or the name of the variable or flag.

    Raises:
        ConfigError: The value has another type or is out of range.
    """
    return _CHECKS[setting.kind](setting, value, place)


def wrong(setting: Setting, value: Any, place: str) -> ConfigError:
    """Return the error for a value of the wrong type."""
    shown = "a value that is not shown" if setting.secret else shorten(value)
    return ConfigError(
        f"`{setting.key}` must be {_NOUN[setting.kind]}, not {shown}",
        place=place,
        fix=f"write it like `{example(setting)}`",
    )


def shorten(value: Any, limit: int = 60) -> str:
    """Return a value on one line for a message, cut where it is long."""
    text = ascii(value) if isinstance(value, str) and not value.isprintable() else repr(value)
    return text if len(text) <= limit else text[: limit - 1] + "…"


def example(setting: Setting) -> str:
    """Return a line of TOML that sets the setting, as an example."""
    name = setting.path[-1]
    if setting.choices:
        return f'{name} = "{setting.choices[-1]}"'
    return _EXAMPLE[setting.kind].format(name=name, number=setting.default or 1)


def is_tighter(setting: Setting, value: Any, base: Any) -> bool:
    """Return whether an untrusted value is no looser than what counts without it."""
    rule = _TIGHTER[setting.tighter] if setting.tighter else _never
    return rule(setting, value, base)


def _text(setting: Setting, value: Any, place: str) -> str:
    if not isinstance(value, str) or "\0" in value:
        raise wrong(setting, value, place)
    if not setting.choices:
        return value
    word = setting.words.get(value, value)
    if word not in setting.choices:
        from clawhive_core.diagnostics.suggestions import nearest

        known = ", ".join(setting.choices)
        guess = nearest(value, (*setting.choices, *setting.words))
        raise ConfigError(
            f"`{setting.key}` must be one of {known}, not {shorten(value)}",
            place=place,
            fix=f"did you mean {guess!r}?" if guess else f"use one of: {known}",
        )
    return word


def _integer(setting: Setting, value: Any, place: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise wrong(setting, value, place)
    _in_range(setting, value, place)
    return value


def _number(setting: Setting, value: Any, place: str) -> int | float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise wrong(setting, value, place)
    _in_range(setting, value, place)
    return value


def _in_range(setting: Setting, value: float, place: str) -> None:
    low, high = setting.bounds
    if not low <= value <= high:
        raise ConfigError(
            f"`{setting.key}` must lie between {low} and {high}, not {shorten(value)}",
            place=place,
            fix=f"write a number between {low} and {high}",
        )


def _flag(setting: Setting, value: Any, place: str) -> bool:
    if not isinstance(value, bool):
        raise wrong(setting, value, place)
    return value


def _texts(setting: Setting, value: Any, place: str) -> tuple[str, ...]:
    if not isinstance(value, list | tuple):
        raise wrong(setting, value, place)
    items = cast("list[Any]", value)
    if not all(isinstance(item, str) and "\0" not in item for item in items):
        raise wrong(setting, value, place)
    return tuple(items)


def _table(setting: Setting, value: Any, place: str) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise wrong(setting, value, place)
    return as_json(setting, cast("Mapping[str, Any]", value), place)


def _names(setting: Setting, value: Any, place: str) -> dict[str, str]:
    """Return a table of names to texts; a dotted name may be written without quotes."""
    names = dict(_flat(_table(setting, value, place), ""))
    if not all(isinstance(item, str) for item in names.values()):
        raise wrong(setting, value, place)
    return names


def _flat(table: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    for name, item in table.items():
        if isinstance(item, Mapping):
            yield from _flat(cast("Mapping[str, Any]", item), f"{prefix}{name}.")
        else:
            yield prefix + name, item


def _tables(setting: Setting, value: Any, place: str) -> tuple[dict[str, Any], ...]:
    if not isinstance(value, list | tuple):
        raise wrong(setting, value, place)
    return tuple(_table(setting, item, place) for item in cast("list[Any]", value))


def as_json(setting: Setting, value: Any, place: str, depth: int = 0) -> Any:
    """Return a TOML value as JSON: dates and times become ISO 8601 texts."""
    if depth > _DEPTH_LIMIT:
        raise ConfigError(
            f"`{setting.key}` is nested more than {_DEPTH_LIMIT} levels deep",
            place=place,
            fix="write it flatter",
        )
    if isinstance(value, Mapping):
        items = cast("Mapping[str, Any]", value).items()
        return {str(key): as_json(setting, item, place, depth + 1) for key, item in items}
    if isinstance(value, list | tuple):
        return [as_json(setting, item, place, depth + 1) for item in cast("list[Any]", value)]
    if isinstance(value, float) and not -_INTEGER_LIMIT <= value <= _INTEGER_LIMIT:
        raise wrong(setting, value, place)
    if value is None or isinstance(value, str | int | float):
        return value
    if hasattr(value, "isoformat"):
        return value.isoformat()
    raise wrong(setting, value, place)


_CHECKS: Mapping[Kind, Callable[[Setting, Any, str], Any]] = {
    "text": _text,
    "integer": _integer,
    "number": _number,
    "flag": _flag,
    "texts": _texts,
    "names": _names,
    "table": _table,
    "tables": _tables,
}
_NOUN: Mapping[Kind, str] = {
    "text": "a text",
    "integer": "an integer",
    "number": "a number",
    "flag": "true or false",
    "texts": "a list of texts",
    "names": "a table of names to texts",
    "table": "a table",
    "tables": "an array of tables",
}
_EXAMPLE: Mapping[Kind, str] = {
    "text": '{name} = "..."',
    "integer": "{name} = {number}",
    "number": "{name} = {number}",
    "flag": "{name} = true",
    "texts": '{name} = ["..."]',
    "names": '[{name}] "NAME" = "..."',
    "table": "[{name}]",
    "tables": "[[{name}]]",
}


def _never(_setting: Setting, _value: Any, _base: Any) -> bool:
    return False


def _lower(_setting: Setting, value: Any, base: Any) -> bool:
    return base is not None and value <= base


def _inside(_setting: Setting, value: Any, _base: Any) -> bool:
    """Whether every path, as it is spelt, stays below the project."""
    return all(
        not path.startswith(("/", "~", "\\"))
        and ":" not in path
        and ".." not in path.replace("\\", "/").split("/")
        for path in value
    )


_TIGHTER: Mapping[Tighter, Callable[[Setting, Any, Any], bool]] = {
    "lower": _lower,
    "true": lambda _setting, value, _base: value is True,
    "false": lambda _setting, value, _base: value is False,
    "adds": lambda _setting, _value, _base: True,
    "subset": lambda _setting, value, base: base is None or set(value) <= set(base),
    "later": lambda setting, value, base: (
        base is None or setting.choices.index(value) >= setting.choices.index(base)
    ),
    "inside": _inside,
}
