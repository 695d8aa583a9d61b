"""Places of the keys of a TOML text: tomllib reads the values, this finds their places."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Mapping

from clawhive_core.model.late import dataclass
from clawhive_core.model.patterns import pattern

TomlPath = tuple[str | int, ...]
"""A key's segments; a number counts the tables of an array of tables."""

_SPACE = pattern(r"(?:[ \t\r\n]+|#[^\n]*)*")
_SEGMENT = pattern(r"[ \t]*([A-Za-z0-9_-]+|\"(?:[^\"\\\n]|\\.)*\"|'[^'\n]*')[ \t]*")
_TOKEN = pattern(
    r'"""(?:[^\\]|\\.)*?"{3,5}'  # up to two quotes may stand before the closing three
    r"|'''.*?'{3,5}"
    r'|"(?:[^"\\\n]|\\.)*"'
    r"|'[^'\n]*'"
    r"|#[^\n]*"
    r"|[\[{]|[\]}]|\n"
    r"|[^\"'#\[\]{}\n]+",
    re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Span:
    """The place of a key's last segment: line and columns from 1, offsets from 0."""

    line: int
    column: int
    end_column: int
    start: int
    end: int


def find_places(text: str) -> Mapping[TomlPath, Span]:
    """Return where each key and table header of a valid TOML text stands.

    Keys inside an inline table are not among them; their nearest place is the inline table's key.
    """
    return _Scan(text).run()


def nearest_place(places: Mapping[TomlPath, Span], path: TomlPath) -> Span | None:
    """Return the place of a key, else of the nearest table above it."""
    for length in range(len(path), 0, -1):
        span = places.get(path[:length])
        if span is not None:
            return span
    return None


class _Scan:
    """One pass over a text that tomllib has accepted."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._lines = [0, *(match.end() for match in re.finditer("\n", text))]
        self._places: dict[TomlPath, Span] = {}
        self._counts: dict[TomlPath, int] = {}
        self._table: TomlPath = ()

    def run(self) -> Mapping[TomlPath, Span]:
        at = self._skip(0)
        while at < len(self._text):
            after = self._header(at) if self._text[at] == "[" else self._pair(at)
            if after <= at:
                break
            at = self._skip(after)
        return self._places

    def _skip(self, at: int) -> int:
        match = _SPACE.match(self._text, at)
        return match.end() if match else at

    def _header(self, at: int) -> int:
        is_array = self._text.startswith("[[", at)
        keys, after = self._keys(at + (2 if is_array else 1))
        if not keys:
            return at
        names = tuple(name for name, _span in keys)
        base = (*self._counted(names[:-1]), names[-1])
        if is_array:
            count = self._counts.get(base, 0)
            self._counts[base] = count + 1
            self._places.setdefault(base, keys[-1][1])
            self._places[(*base, count)] = keys[-1][1]
        self._table = self._counted(names)
        self._note((), keys)
        return after + (2 if is_array else 1)

    def _pair(self, at: int) -> int:
        keys, after = self._keys(at)
        if not keys:
            return at
        self._note(self._table, keys)
        return self._value(after + 1)

    def _note(self, base: TomlPath, keys: list[tuple[str, Span]]) -> None:
        """Keep the places of a dotted key and of the tables that it makes."""
        path: TomlPath = base
        for name, span in keys:
            path = self._entered((*path, name)) if base == () else (*path, name)
            self._places.setdefault(path, span)

    def _counted(self, names: tuple[str, ...]) -> TomlPath:
        path: TomlPath = ()
        for name in names:
            path = self._entered((*path, name))
        return path

    def _entered(self, path: TomlPath) -> TomlPath:
        count = self._counts.get(path)
        return path if count is None else (*path, count - 1)

    def _keys(self, at: int) -> tuple[list[tuple[str, Span]], int]:
        keys: list[tuple[str, Span]] = []
        while match := _SEGMENT.match(self._text, at):
            keys.append((_name(match[1]), self._span(*match.span(1))))
            at = match.end()
            if not self._text.startswith(".", at):
                break
            at += 1
        return keys, at

    def _span(self, start: int, end: int) -> Span:
        line = bisect_right(self._lines, start)
        first = self._lines[line - 1]
        return Span(line, start - first + 1, end - first + 1, start, end)

    def _value(self, at: int) -> int:
        depth = 0
        while match := _TOKEN.match(self._text, at):
            piece = match[0]
            if piece == "\n" and depth == 0:
                return at
            depth += (piece in {"[", "{"}) - (piece in {"]", "}"})
            at = match.end()
        return at


def _name(key: str) -> str:
    if key[0] not in "\"'":
        return key
    if "\\" not in key or key[0] == "'":
        return key[1:-1]
    import tomllib

    return tomllib.loads(f"k={key}")["k"]
