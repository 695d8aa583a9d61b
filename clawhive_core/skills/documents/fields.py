"""Typed reading of a document's values: each mistake with its place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar, cast

from clawhive_core.diagnostics.suggestions import did_you_mean, suggestion
from clawhive_core.model.late import dataclass
from clawhive_core.skills.documents.document import Document
from clawhive_core.skills.documents.place import InvalidSkill, KeyPath, Place

T = TypeVar("T")

LISTED = "put it in brackets"
"""The title of fixes for a text that stands where a list of texts must."""


@dataclass(frozen=True, slots=True)
class Fields:
    """A mapping inside a document, and the way to it."""

    document: Document
    path: KeyPath
    values: Mapping[str, Any]

    @classmethod
    def of(cls, document: Document, path: KeyPath, value: Any) -> Fields:
        """Return the mapping that stands at a path.

        Raises:
            InvalidSkill: It is none, or a key is no text.
        """
        if not isinstance(value, dict) or not all(
            isinstance(key, str) for key in cast("dict[Any, Any]", value)
        ):
            raise document.fail(path, "must be a mapping")
        return cls(document, path, cast("Mapping[str, Any]", value))

    def __contains__(self, key: str) -> bool:
        return key in self.values

    def at(self, *keys: str | int) -> KeyPath:
        """Return the path of something below."""
        return (*self.path, *keys)

    def place(self, *keys: str | int) -> Place:
        """Return where something below stands."""
        return self.document.place(self.at(*keys))

    def fail(self, key: str | int | None, message: str, fix: str | None = None) -> InvalidSkill:
        """Return the exception for a value below, or for the whole."""
        path = self.path if key is None else self.at(key)
        return self.document.fail(path, message, fix)

    def below(self, key: str) -> Fields:
        """Return the mapping of a key; empty where it is missing."""
        return Fields.of(self.document, self.at(key), self.values.get(key, {}))

    def items(self, key: str) -> list[tuple[KeyPath, Any]]:
        """Return the entries of a list with their paths; none where it is missing."""
        value = self.values.get(key, [])
        if not isinstance(value, list):
            raise self.fail(key, "must be a list", LISTED if isinstance(value, str) else None)
        return [(self.at(key, index), item) for index, item in enumerate(cast("list[Any]", value))]

    def text(self, key: str, default: str = "") -> str:
        """Return a text; a number such as a version must be quoted, since `1.10` would lose."""
        if key not in self.values:
            return default
        return text(self.document, self.at(key), self.values[key])

    def texts(self, key: str) -> tuple[str, ...]:
        """Return a list of texts."""
        return tuple(text(self.document, path, item) for path, item in self.items(key))

    def flag(self, key: str) -> bool:
        """Return true or false; false where it is missing."""
        value = self.values.get(key, False)
        if not isinstance(value, bool):
            raise self.fail(key, "must be true or false", "write it without quotes")
        return value

    def one_of(self, key: str, values: Sequence[T]) -> T | None:
        """Return the one of some values that stands here; None where it is missing."""
        if key not in self.values:
            return None
        for value in values:
            if self.values[key] == value:
                return value
        there = str(self.values[key])
        meant = [each for each in values if str(each).lower() == there.lower()]
        listed = f"use one of {', '.join(map(str, values))}"
        fix = (
            suggestion(str(meant[0])) if meant else did_you_mean(there, map(str, values)) or listed
        )
        raise self.fail(key, f"`{there}` is unknown", fix)

    def closed(self, keys: Sequence[str], what: str) -> None:
        """Refuse a key that is not known, at its place."""
        for key in self.values:
            if key in keys:
                continue
            free = [each for each in keys if each not in self.values]
            fix = did_you_mean(key, free) or f"use one of {', '.join(sorted(keys))}"
            message = f"`{key}` is no key of {what}"
            path = self.at(key)
            raise InvalidSkill(self.document.finding("CH0306", path, message, fix, key=True))


def text(document: Document, path: KeyPath, value: Any) -> str:
    """Return a value that must be a text and not empty."""
    if isinstance(value, str) and value:
        return value
    raise document.fail(path, "must be a text", "put it in quotes" if value else "write a text")
