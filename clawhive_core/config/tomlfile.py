"""One TOML file, read with its places; what cannot be read is an error with its place and fix."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from clawhive_core.errors import ConfigError
from clawhive_core.model.late import dataclass
from clawhive_core.model.patterns import pattern

if TYPE_CHECKING:
    from pathlib import Path

    from clawhive_core.config.places import Span, TomlPath


SIZE_LIMIT = 1024 * 1024
"""Bytes; what is larger is no configuration."""

_LARGEST = 2 * 1024 * 1024
"""The most characters of a text; the reader keeps about 130 bytes for each of a long one."""
_DOTS_LIMIT = 500
_QUOTED = pattern(r"\"(?:[^\"\\]|\\.)*(?:\"|$)|'[^']*(?:'|$)")
"""A quoted part of a line, in which dots divide no key."""

_AT = pattern(r"^(?P<what>.*) \(at (?:line (?P<line>\d+), column (?P<column>\d+)|.*)\)$", re.DOTALL)
_ARRAY = pattern(r"^\s*\[\[\s*tools\s*\]\]", re.MULTILINE)
_TOOLS = pattern(r"^\s*\[\s*tools\b|^\s*tools\s*[.=]", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class TomlFile:
    """A configuration file as it was read once: values, places and the digest of its bytes."""

    path: Path
    shown: str
    """The path as messages show it."""
    data: Mapping[str, Any]
    places: Mapping[TomlPath, Span]
    sha256: str
    above: TomlPath = ()
    """The table of the file that holds the configuration: `("tool", "clawhive")`, or the top."""

    def span(self, path: TomlPath) -> Span | None:
        """Return the place of a key, else of the nearest table above it."""
        from clawhive_core.config.places import nearest_place

        return nearest_place(self.places, (*self.above, *path))

    def place(self, path: TomlPath) -> str:
        """Return `file:line:column` of a key."""
        span = self.span(path)
        return f"{self.shown}:{span.line}:{span.column}" if span else self.shown

    def line(self, path: TomlPath) -> str:
        """Return `file:line` of a key."""
        span = self.span(path)
        return f"{self.shown}:{span.line}" if span else self.shown


def read_toml(path: Path, shown: str) -> TomlFile | None:
    """Read a TOML 1.0 file; None where there is none.

    Raises:
        ConfigError: The file cannot be read, is no regular file, too large, not UTF-8, has a byte
            order mark, or is not TOML.
    """
    data = read_bytes(path, shown)
    return None if data is None else parse_toml(data, path, shown)


def read_bytes(path: Path, shown: str) -> bytes | None:
    """Return the bytes of a regular file, at most `SIZE_LIMIT`; None where there is none.

    Raises:
        ConfigError: It cannot be read, is no regular file, or is too large.
    """
    try:
        # Without O_NONBLOCK, opening a named pipe would wait for its writer.
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise _unreadable(path, shown, error) from error
    try:
        with os.fdopen(handle, "rb") as file:
            return _limited(file.fileno(), file.read, shown)
    except OSError as error:
        raise _unreadable(path, shown, error) from error


def _limited(handle: int, read: Any, shown: str) -> bytes:
    mode = os.fstat(handle).st_mode
    if not stat.S_ISREG(mode):
        raise _not_a_file(shown, is_directory=stat.S_ISDIR(mode))
    data = read(SIZE_LIMIT + 1)
    if len(data) > SIZE_LIMIT:
        raise ConfigError(
            f"the file is larger than {SIZE_LIMIT // 1024} KiB",
            place=shown,
            fix="keep settings only in it, and move other data elsewhere",
        )
    return data


def _unreadable(path: Path, shown: str, error: OSError) -> ConfigError:
    if os.path.isdir(path):  # noqa: PTH112 - Path.is_dir raises where a folder above cannot be searched
        return _not_a_file(shown, is_directory=True)
    return ConfigError(
        f"the file cannot be read: {error.strerror or error}",
        place=shown,
        fix="give yourself the right to read it, or remove it",
    )


def _not_a_file(shown: str, *, is_directory: bool) -> ConfigError:
    what = "a directory" if is_directory else "no regular file"
    return ConfigError(
        f"this is {what}, and a TOML file is expected here",
        place=shown,
        fix="rename it, or put the settings into a file of this name",
    )


def parse_toml(data: bytes, path: Path, shown: str) -> TomlFile:
    """Return a TOML file's values and places.

    Raises:
        ConfigError: The bytes are not UTF-8, begin with a byte order mark, or are not TOML.
    """
    import hashlib

    from clawhive_core.config.places import find_places

    text = _decode(data, shown)
    try:
        values = load_toml(text)
    except NotToml as error:
        place = f"{shown}:{error.line}:{error.column}" if error.line else shown
        message = f"the file is not valid TOML: {error}"
        raise ConfigError(message, place=place, fix=error.fix) from error
    return TomlFile(path, shown, values, find_places(text), hashlib.sha256(data).hexdigest())


class NotToml(ValueError):
    """A text is no TOML 1.0, or one that cannot be read here.

    Args:
        message: What is wrong.
        line: Where, from 1; 0 where that is unknown.
        column: As `line`.
        fix: What to do about it.
    """

    def __init__(self, message: str, line: int, column: int, fix: str) -> None:
        super().__init__(message)
        self.line, self.column, self.fix = line, column, fix


def load_toml(text: str) -> dict[str, Any]:
    """Return what a TOML 1.0 text of anybody holds; tomllib alone may raise more, or take hours.

    Raises:
        NotToml: It is none, nested too deeply, too large, holds a number or date that Python has
            not, or a key of very many parts.
    """
    import tomllib

    if len(text) > _LARGEST:
        raise NotToml(f"it has more than {_LARGEST} characters", 0, 0, "divide or shorten it")
    _refuse_long_keys(text)
    try:
        return tomllib.loads(text)
    except RecursionError as error:
        message, fix = "it is nested too deeply", "remove the nested brackets"
        raise NotToml(message, 0, 0, fix) from error
    except ValueError as error:  # also digits by the thousand, and a date of year 0
        raise _not_toml(str(error), text) from error


def _refuse_long_keys(text: str) -> None:
    """The reader takes time in the square of a dotted key's parts: hours for a hostile file."""
    for number, line in enumerate(text.split("\n"), 1):
        if line.count(".") > _DOTS_LIMIT and _QUOTED.sub("", line).count(".") > _DOTS_LIMIT:
            message = f"this line has more than {_DOTS_LIMIT} dots"
            raise NotToml(message, number, 1, "divide the line")


def _decode(data: bytes, shown: str) -> str:
    if data.startswith(b"\xef\xbb\xbf"):
        raise ConfigError(
            "the file begins with a byte order mark, which TOML does not allow",
            place=f"{shown}:1:1",
            fix="save it as UTF-8 without BOM",
        )
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        column = len(data[: error.start].rpartition(b"\n")[2].decode("utf-8")) + 1
        raise ConfigError(
            f"the file is not UTF-8: byte {data[error.start]:#04x} at offset {error.start}",
            place=f"{shown}:{line}:{column}",
            fix="save it as UTF-8",
        ) from error


def _not_toml(message: str, text: str) -> NotToml:
    match = _AT.match(message)
    what, line, column = match["what"] if match else message, 0, 0
    if match and match["line"]:
        line, column = int(match["line"]), int(match["column"])
    elif match:
        lines = text.removesuffix("\n").split("\n")
        line, column = len(lines), len(lines[-1]) + 1
    return NotToml(what, line, column, _toml_fix(text))


def _toml_fix(text: str) -> str:
    if _ARRAY.search(text) and _TOOLS.search(text):
        return (
            "beside `[[tools]]` write `[catalog.alias]`, `[catalog.pin]` and `[catalog]` instead "
            "of `[tools.alias]`, `[tools.pin]` and `[tools]`"
        )
    return "mend that line; texts stand in quotes, lists in [ ], and each key only once"
