"""Reading a frontmatter of plain lines, as nearly all are, without the parser in C.

A deliberate exception from leaving YAML to PyYAML: composing its nodes was a quarter of a check of
many skills, and they are only asked for where something is found. What is not as simple as can be
is left to PyYAML: comments, anchors, escapes, odd numbers, double keys, values that go on in the
next line. Tests hold every answer against PyYAML's own.
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

from clawhive_core.model.patterns import pattern
from clawhive_core.skills.documents.composing import is_text

MAX_LENGTH = 20_000
"""How many characters are tried."""
_MAX_BRACKETS = 30
_MAX_INDENT = 8

_KEY = pattern(r"[A-Za-z_][A-Za-z0-9_-]{0,99}")
_SPECIAL = frozenset("\"'-?:,[]{}#&*!|>%@`")
"""What no plain scalar begins with here; `-`, `?` and `:` may in YAML."""
_LIST = "- "
_WORDS = {"true": True, "false": False}
_BLOCKS = {"|": ("\n", "\n"), "|-": ("\n", ""), ">": (" ", "\n"), ">-": (" ", "")}
"""What lies between the lines of a block scalar, and what ends it."""
_FOLDS = frozenset("|>")
_GAPS = frozenset({"", " "})
_NUMBER = pattern(r"(?:0|[1-9][0-9]{0,14})(\.[0-9]{1,15})?")
_ENTRY = pattern(r"[A-Za-z_][A-Za-z0-9_-]*:(?: |$)")
_ITEM = r" *(?:[A-Za-z][A-Za-z0-9_./ -]*|'[^',]*' *|\"[^\",\\]*\" *)"
_ITEMS = pattern(rf"\[{_ITEM}(?:,{_ITEM})*\]")
_ESCAPED = pattern(r"(?:[^\\]|\\[\"n\\])*")
"""What is escaped as both JSON and YAML do it."""


class _NotPlain(Exception):
    """The parser in C must read it."""


def plain_mapping(text: str) -> dict[str, Any] | None:
    """Return the mapping that a text is, as `compose` does; None where it may be anything else."""
    lines = text.split("\n")
    if len(text) > MAX_LENGTH or lines.pop() or not lines or not "".join(lines).isprintable():
        return None
    try:
        return _Lines(lines).mapping(0)
    except (_NotPlain, ValueError, RecursionError):
        return None


class _Lines:
    """The lines of a text while they are read.

    Raises:
        _NotPlain: From all methods.
        ValueError: A value in brackets is no JSON.
    """

    def __init__(self, lines: list[str]) -> None:
        self._lines = lines
        self._at = 0

    def mapping(self, indent: int) -> dict[str, Any]:
        """Return the mapping whose keys stand in a column, and go behind it."""
        made: dict[str, Any] = {}
        lines, count = self._lines, len(self._lines)
        while self._at < count:
            entry = lines[self._at]
            if indent:
                column = len(entry)
                entry = entry.lstrip(" ")
                column -= len(entry)
                if column < indent:
                    break
                if column > indent:
                    raise _NotPlain
            self._at += 1
            key, colon, value = entry.partition(": ")
            if not colon:
                key = key[:-1] if key[-1:] == ":" else ""
            key = _key(key)
            if not key or key in made:
                raise _NotPlain
            value = value.strip(" ")
            if not value:
                made[key] = self._below(indent)
            elif value[0] in _FOLDS:
                made[key] = self._block(indent, value)
            else:
                made[key] = _scalar(value)
        return made

    def _below(self, indent: int) -> Any:
        """Return the list or the mapping below a key that stands in a column."""
        line = self._lines[self._at] if self._at < len(self._lines) else ""
        entry = line.lstrip(" ")
        inner = len(line) - len(entry)
        if inner > _MAX_INDENT:
            raise _NotPlain
        if entry.startswith(_LIST) and inner >= indent:
            return self._list(line[:inner] + _LIST)
        if inner <= indent:
            raise _NotPlain
        return self.mapping(inner)

    def _list(self, begin: str) -> list[Any]:
        made: list[Any] = []
        while self._at < len(self._lines) and self._lines[self._at].startswith(begin):
            value = self._lines[self._at][len(begin) :].strip(" ")
            if _ENTRY.match(value):
                made.append(self._item(begin))
                continue
            if not value:
                raise _NotPlain
            self._at += 1
            made.append(_scalar(value))
        return made

    def _item(self, begin: str) -> dict[str, Any]:
        """Return a mapping whose first key stands behind a dash."""
        line = self._lines[self._at]
        self._lines[self._at] = " " * len(begin) + line[len(begin) :]
        return self.mapping(len(begin))

    def _block(self, indent: int, sign: str) -> str:
        """Return a block scalar below a key; its lines begin in one column, where it is folded."""
        if sign not in _BLOCKS:
            raise _NotPlain
        between, end = _BLOCKS[sign]
        rest = self._lines[self._at :]
        inner = len(rest[0]) - len(rest[0].lstrip(" ")) if rest else 0
        begin, found = " " * inner, list[str]()
        for line in rest:
            if line and not line.startswith(begin):
                break
            if line[inner : inner + 1] in _GAPS and between == " ":
                raise _NotPlain
            found.append(line[inner:])
        self._at += len(found)
        if inner <= indent or not found[0] or not found[-1].strip(" "):
            raise _NotPlain
        return between.join(found) + end


@lru_cache(1024)
def _key(text: str) -> str:
    """Return a key, one object for all that are alike; empty where it is none."""
    return text if _KEY.fullmatch(text) is not None and is_text(text) else ""


def _scalar(value: str) -> Any:
    """Return what stands behind a key or a dash."""
    first = value[0]
    if first not in _SPECIAL:
        if ": " in value or " #" in value or value[-1] == ":":
            raise _NotPlain
        return value if is_text(value) else _word(value)
    if first == '"':
        inner = value[1:-1]
        if len(value) == 1 or value[-1] != '"' or '"' in inner or "\\" in inner:
            return _as_json(value)
        return inner
    if first == "'":
        inner = value[1:-1]
        if len(value) == 1 or value[-1] != "'" or "'" in inner.replace("''", ""):
            raise _NotPlain
        return inner.replace("''", "'")
    return _in_brackets(value)


def _word(value: str) -> Any:
    """Return what is no text: a truth value, or a number as JSON has them."""
    number = _NUMBER.fullmatch(value)
    if number is not None:
        return float(value) if number[1] else int(value)
    if value not in _WORDS:
        raise _NotPlain
    return _WORDS[value]


def _in_brackets(value: str) -> Any:
    """Return a list or mapping that is JSON, which YAML reads alike but for what is left out."""
    if value[0] not in "{[" or value.count("{") + value.count("[") > _MAX_BRACKETS:
        raise _NotPlain
    if value[0] == "[" and _ITEMS.fullmatch(value):
        return [_scalar(each.strip(" ")) for each in value[1:-1].split(",")]
    return _as_json(value)


def _as_json(value: str) -> Any:
    if "\\" in value and _ESCAPED.fullmatch(value) is None:
        raise _NotPlain
    return _json().decode(value)


def _json() -> json.JSONDecoder:
    if not _DECODERS:
        _DECODERS.append(
            json.JSONDecoder(
                object_pairs_hook=_entries, parse_float=_refused, parse_constant=_refused
            )
        )
    return _DECODERS[0]


_DECODERS: list[json.JSONDecoder] = []


def _entries(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs) or any(len(key) > _MAX_KEY for key in made):
        raise _NotPlain
    return made


_MAX_KEY = 250


def _refused(_: str) -> Any:
    """Refuse a number that is no integer, which YAML may read as a text."""
    raise _NotPlain
