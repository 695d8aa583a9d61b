"""A saved page: its address, its title and its text, out of HTML, Markdown or plain text."""

from __future__ import annotations

import re
from dataclasses import dataclass
from html.parser import HTMLParser
from urllib.parse import urlsplit

_HTML = (".html", ".htm", ".xhtml")
_PLAIN = (".md", ".markdown", ".txt", ".text")
SUFFIXES = _HTML + _PLAIN
"""The ends of the names of files that may be saved pages."""

_SILENT = frozenset({"script", "style", "template", "noscript"})
_FENCE = "---"
_FIELD = re.compile(r"\s*(url|title)\s*:\s*(.*\S)\s*", re.IGNORECASE)
_HEADING = re.compile(r"#{1,6}\s+(.*\S)")


@dataclass(frozen=True, slots=True)
class SavedPage:
    """The text of a saved page, and the address at which it was found."""

    url: str
    title: str
    text: str


def read_page(name: str, text: str) -> SavedPage | None:
    """Return the page that a file holds, None where it states no http(s) address."""
    page = _of_html(text) if name.lower().endswith(_HTML) else _of_text(text)
    if not _is_address(page.url):
        return None
    return SavedPage(page.url, page.title or name.rpartition("/")[2], page.text)


def _is_address(url: str) -> bool:
    """Whether a text is an address that the schema of `web.search` takes."""
    try:
        parts = urlsplit(url)
        host = parts.hostname
    except ValueError:
        return False
    written = url.startswith(("http://", "https://"))
    return written and bool(host) and url.isprintable() and not re.search(r"\s", url)


class _Reader(HTMLParser):
    """Collects title, stated address and visible text."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.canonical = self.shared = ""
        self.title: list[str] = []
        self.text: list[str] = []
        self._in_title = False
        self._silent = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag == "link" and "canonical" in given.get("rel", "").lower().split():
            self.canonical = self.canonical or given.get("href", "").strip()
        elif tag == "meta" and given.get("property", "").lower() == "og:url":
            self.shared = self.shared or given.get("content", "").strip()
        elif tag == "title" and not self.title:
            self._in_title = True
        elif tag in _SILENT:
            self._silent += 1

    def handle_endtag(self, tag: str) -> None:
        if tag == "title":
            self._in_title = False
        elif tag in _SILENT and self._silent:
            self._silent -= 1

    def handle_data(self, data: str) -> None:
        if self._in_title:
            self.title.append(data)
        elif not self._silent:
            self.text.append(data)


def _of_html(text: str) -> SavedPage:
    reader = _Reader()
    try:
        reader.feed(text)
        reader.close()
    except (AssertionError, ValueError):  # what the parser raises on broken declarations
        pass
    address = reader.canonical or reader.shared
    return SavedPage(address, _line(reader.title), _line(reader.text))


def _of_text(text: str) -> SavedPage:
    lines = text.removeprefix("\ufeff").lstrip().splitlines()
    fields, body = _front_matter(lines)
    heading = next((found[1] for line in body if (found := _HEADING.fullmatch(line))), "")
    title = fields.get("title", "").strip("\"'") or heading
    return SavedPage(fields.get("url", "").strip("\"'<>"), title, _line(body))


def _front_matter(lines: list[str]) -> tuple[dict[str, str], list[str]]:
    """Split a text into its leading fields and the rest: a fenced block, or one first line."""
    if lines and lines[0].strip() == _FENCE:
        end = next((at for at, line in enumerate(lines[1:], 1) if line.strip() == _FENCE), 0)
        return _fields(lines[1:end]), lines[end + 1 :]
    return _fields(lines[:1]), lines[1:]


def _fields(lines: list[str]) -> dict[str, str]:
    return {found[1].lower(): found[2] for line in lines if (found := _FIELD.fullmatch(line))}


def _line(parts: list[str]) -> str:
    return " ".join(" ".join(parts).split())
