"""The file of a table of calls: YAML or JSON, or TOML where its name ends so."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from clawhive_core.config.tomlfile import TomlFile, read_toml
from clawhive_core.diagnostics.files import shown_path
from clawhive_core.diagnostics.finding import Finding
from clawhive_core.errors import ConfigError
from clawhive_core.model.patterns import pattern
from clawhive_core.skills.documents.document import Document
from clawhive_core.skills.documents.place import InvalidSkill, KeyPath, Place

_PLACE = pattern(r"(.*?)(?::(\d+))?(?::(\d+))?", re.DOTALL)


def open_table(path: Path) -> Document:
    """Read a file and keep the place of each of its values.

    Raises:
        InvalidSkill: It cannot be read, or is not of the form that its name promises.
    """
    if path.suffix != ".toml":
        return Document.load(path, "table")
    shown = shown_path(path)
    try:
        read = read_toml(path, shown)
    except ConfigError as error:
        raise InvalidSkill(_finding(error.place or shown, error.message, error.fix)) from None
    if read is None:
        raise InvalidSkill(_finding(shown, "there is no such file", "name another one"))
    return _TomlTable(read)


class _TomlTable(Document):
    """A TOML file as the readers of YAML see it; its dates are no values of JSON."""

    def __init__(self, read: TomlFile) -> None:
        self.file = read.shown
        self.value: Any = read.data
        self.problems: list[Finding] = []
        self._what = "table"
        self._read = read

    def place(self, path: KeyPath, *, key: bool = False) -> Place:
        """Return where a key stands; the nearest one above it where it is missing."""
        del key  # only keys have places
        span = self._read.span(path)
        return Place(self.file) if span is None else Place(self.file, span.line, span.column)


def _finding(place: str, message: str, fix: str | None) -> Finding:
    found = _PLACE.fullmatch(place)
    file, line, column = found.groups() if found else (place, None, None)
    numbers = [None if each is None else int(each) for each in (line, column)]
    at = Place(file, *numbers)
    return at.finding("CH0911", "error", message, fix)
