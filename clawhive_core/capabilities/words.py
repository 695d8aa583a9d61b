"""Words and names: resources that are compared as they stand, not looked up in a tree of files."""

from __future__ import annotations

from typing import Final

from clawhive_core.capabilities.escapes import escape, unescape
from clawhive_core.capabilities.reading import Reading, shown
from clawhive_core.capabilities.segments import ANY, EVERYTHING, REST, Segments
from clawhive_core.model.patterns import pattern

Parts = tuple[Segments, ...]

_name = pattern(r"[A-Za-z0-9_-]+")
# API scopes are often URLs; `https://host` is then the first word.
_scope = pattern(r"[A-Za-z][A-Za-z0-9+.-]*://[^/]+")

_BY_NAME: Final = "name"


def read_name(reading: Reading) -> Segments:
    """Return the segments of a tool's canonical name.

    Raises:
        CapabilityError: A segment is not made of letters, digits, `_` and `-`.
    """
    items = reading.resource.split(".")
    reading.check_wildcards(items, ".")
    for item in items:
        if _name.fullmatch(item) or (item in {ANY, REST} and not reading.literal):
            continue
        raise reading.error(
            f"{shown(item)} is no segment of a tool's name: one or more of the letters A to Z and"
            " a to z, digits, `_` and `-`.",
            at=item,
            fix="Write a name such as `mcp.git.push`, `mcp.git.*` for every tool of one server,"
            " or `mcp.**` for everything below.",
        )
    return reading.check_size(tuple(items))


def read_words(reading: Reading) -> Segments:
    """Return the words of a resource; `scheme://host` at its beginning is one word.

    Raises:
        CapabilityError: A word is empty, `.` or `..`, or cannot be read.
    """
    scope = _scope.match(reading.resource)
    head = [scope[0]] if scope else []
    rest = reading.resource[len(head[0]) + 1 :] if head else reading.resource
    items = [*head, *(rest.split("/") if rest or not head else [])]
    reading.check_wildcards(items, "/")
    return reading.check_size(tuple(_read_word(reading, item) for item in items))


def read_program(reading: Reading) -> Parts:
    """Return how a program is found and its words: by name, or by an absolute or relative path.

    `python` is looked up by name, `/usr/bin/python` and `./python` are files; `bin/python` is the
    same as `./bin/python`.

    Raises:
        CapabilityError: As `read_words`.
    """
    resource = reading.resource
    if resource == REST and not reading.literal:
        return (ANY,), EVERYTHING
    lead = "/" if resource.startswith("/") else "./" if "/" in resource else ""
    words = [item for item in resource.split("/") if item not in {"", "."}]
    if not words:
        raise reading.error(
            f"{shown(resource)} names no program.",
            fix=f"Write {reading.line('python')}, or {reading.line(REST)} for every program.",
        )
    reading.check_wildcards(words, "/", lead)
    segments = tuple(_read_word(reading, item) for item in words)
    return (lead or _BY_NAME,), reading.check_size(segments)


def show_program(parts: Parts) -> str:
    """Return the canonical text of a program."""
    lead = parts[0][0]
    text = "/".join(parts[1])
    return text if lead in {ANY, _BY_NAME} else lead + text


def _read_word(reading: Reading, item: str) -> str:
    if item in {ANY, REST} and not reading.literal:
        return item
    raw = unescape(reading, item)
    if raw in {b"", b".", b".."}:
        raise reading.error(
            "A word between slashes is not empty, `.` or `..`.",
            at=item,
            fix=f"Write {reading.line(reading.verb.example)},"
            f" or {reading.line(REST)} for everything.",
        )
    return escape(raw)
