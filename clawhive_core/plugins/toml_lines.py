"""Where a key stands in a TOML text, for messages: `tomllib` does not tell."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from clawhive_core.model.patterns import pattern

_HEADER = pattern(r"\s*\[{1,2}\s*\"?([^\]\"]+?)\"?\s*\]{1,2}\s*(?:#.*)?")
_KEY = pattern(r"\s*(?:\"([^\"]*)\"|'([^']*)'|([A-Za-z0-9_-]+))\s*[=.]")


def line_of(text: str, path: Sequence[str | int]) -> int | None:
    """Return the line, from 1, of a key, else of the table it belongs to, else None.

    Args:
        text: A TOML document.
        path: A table's name, for an array of tables followed by an index, then perhaps a key:
            `("plugin", "id")`, `("tools", 2, "risk")`. A single name is a table or a top-level key.
    """
    names = [part for part in path if isinstance(part, str)]
    wanted = next((part for part in path if isinstance(part, int)), 0)
    table, key = (names[0], names[-1]) if names else ("", "")
    found, seen, current = None, -1, None
    for number, line in _lines(text):
        header = _HEADER.fullmatch(line)
        if header is not None:
            current = header[1]
            seen += current == table
            if current == table and seen == wanted:
                found = number
        elif _key(line) == key and (
            (len(names) > 1 and current == table and seen == wanted)
            or (len(names) == 1 and current is None)
        ):
            return number
    return found


def _key(line: str) -> str | None:
    match = _KEY.match(line)
    return None if match is None else match[1] or match[2] or match[3]


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield the numbered lines that do not lie inside a multi-line string."""
    closing = ""
    for number, line in enumerate(text.splitlines(), 1):
        if closing:
            closing = "" if closing in line else closing
            continue
        yield number, line
        closing = next((mark for mark in ("'''", '"""') if line.count(mark) == 1), "")
