"""`web.search` over a folder of saved pages: `[plugins.builtin] pages = "DIR"`."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clawhive_builtin.files import is_searchable
from clawhive_builtin.stub import SEARCH
from clawhive_core import InvokeContext, ToolError, ToolMeta, ToolResult, Workspace

if TYPE_CHECKING:
    from clawhive_builtin._saved_page import SavedPage

PROVIDER_ID = "pages"
RESULTS = 10
MAX_PAGE = 4 * 1024 * 1024
"""Bytes of a saved page beyond which it is passed over."""
MAX_PAGES = 10_000
"""Files that one search reads at most."""

_MAX_TERMS = 32
_SNIPPET = 240
_TITLE_WEIGHT = 5
_SPECIAL = re.compile(r"[*?%${}\[\]\\]")


class PagesProvider:
    """Offers `web.search` over saved pages (`clawhive_core.ToolProvider`).

    Args:
        folder: What `[plugins.builtin] pages` holds: a folder, relative to the project root.
        root: The project root.
    """

    provider_id = PROVIDER_ID

    def __init__(self, folder: Any, root: str) -> None:
        self._folder = folder
        self._root = os.path.realpath(root)

    async def list_tools(self) -> list[ToolMeta]:
        """Return the one tool, with the right to read the folder as its effect.

        Raises:
            ToolError: `not_a_directory` or `invalid_config`: the setting names no usable folder.
        """
        return [
            replace(
                SEARCH,
                description="Search the saved web pages of this project; nothing leaves this "
                "machine. Answers title, address and a snippet of each page that holds the words.",
                provider_id=PROVIDER_ID,
                effects={"": f"fs.read:{self._pattern()}/**"},
                examples=({"query": "structured logging", "limit": 5},),
            )
        ]

    async def invoke(
        self, tool_name: str, input: Mapping[str, Any], ctx: InvokeContext
    ) -> ToolResult:
        """Answer the pages that hold the query's words, the best first.

        Raises:
            ToolError: `tool_not_found` for any other tool; else as the workspace says.
        """
        from anyio import to_thread

        if tool_name != SEARCH.name:
            raise ToolError(f"the saved pages have no tool `{tool_name}`", code="tool_not_found")
        path = self._path()
        query, limit = input["query"], input.get("limit", RESULTS)
        found = await to_thread.run_sync(lambda: _search(query, path, ctx)[:limit])
        items = [hit.item() for hit in found]
        lines = [f"{item['title']}\n{item['url']}\n{item['snippet']}" for item in items]
        text = "\n\n".join(lines) or "no saved page holds these words"
        return ToolResult(ctx.tool_call_id, text, structured={"items": items})

    async def close(self) -> None:
        """Do nothing: there is nothing to release."""

    def _path(self) -> str:
        folder = self._folder
        if not isinstance(folder, str) or not folder or "\0" in folder:
            raise ToolError(
                "the setting names no folder",
                code="invalid_config",
                place="plugins.builtin.pages",
                fix='write pages = "DIR", a folder relative to the project root',
            )
        return os.path.realpath(Path(self._root, folder))

    def _pattern(self) -> str:
        """Return the folder as a capability names it, which wildcards would make another one."""
        path = self._path()
        if not Path(path).is_dir():
            raise ToolError(
                f"there is no folder {path}",
                code="not_a_directory",
                place="plugins.builtin.pages",
                fix="make it, or name another one",
            )
        inside = path.startswith(f"{self._root}{os.sep}")
        named = path[len(self._root) + 1 :] if inside else path
        if _SPECIAL.search(named):
            raise ToolError(
                f"the folder's name {named!r} holds a character that patterns use",
                code="invalid_config",
                place="plugins.builtin.pages",
                fix="rename it: letters, digits, `-`, `_`, `.` and spaces will do",
            )
        return f"${{workspace}}/{named}" if inside else named.rstrip("/")


@dataclass(frozen=True, slots=True)
class _Hit:
    page: SavedPage
    terms: tuple[str, ...]
    matched: int
    score: int

    def item(self) -> dict[str, str]:
        return {
            "title": _clean(self.page.title),
            "url": self.page.url,
            "snippet": _clean(_snippet(self.page.text, self.terms)),
            "provider": PROVIDER_ID,
        }


def _search(query: str, folder: str, ctx: InvokeContext) -> list[_Hit]:
    """Return every page that holds a word of the query: most different words, then most often."""
    terms = tuple(dict.fromkeys(re.findall(r"\w+", query.casefold())))[:_MAX_TERMS]
    best: dict[str, _Hit] = {}
    for page in _pages(ctx.workspace, folder, ctx):
        hit = _hit(page, terms)
        if hit is not None and (page.url not in best or _rank(hit) < _rank(best[page.url])):
            best[page.url] = hit
    return sorted(best.values(), key=_rank)


def _pages(workspace: Workspace, folder: str, ctx: InvokeContext) -> Iterator[SavedPage]:
    from clawhive_builtin._saved_page import SUFFIXES, read_page

    read = 0
    for entry in workspace.walk(folder):
        if not entry.path.lower().endswith(SUFFIXES) or not is_searchable(entry):
            continue
        read += 1
        if read > MAX_PAGES or ctx.remaining() < 1.0:
            ctx.progress(read, text="the search was cut: too many pages")
            return
        text = _text(workspace, entry.path)
        page = None if text is None else read_page(entry.path, text)
        if page is not None:
            yield page


def _text(workspace: Workspace, path: str) -> str | None:
    try:
        return workspace.read_bytes(path, limit=MAX_PAGE).decode("utf-8", "replace")
    except ToolError:
        return None  # too large, gone or not to be read: it holds nothing to find


def _hit(page: SavedPage, terms: tuple[str, ...]) -> _Hit | None:
    title, text = _Words(page.title), _Words(page.text)
    counts = [_TITLE_WEIGHT * title.count(term) + text.count(term) for term in terms]
    matched = sum(1 for count in counts if count)
    return _Hit(page, terms, matched, sum(counts)) if matched else None


def _rank(hit: _Hit) -> tuple[int, int, str, str]:
    return (-hit.matched, -hit.score, hit.page.url, hit.page.title)


class _Words:
    """A text whose words are counted: whole words, or substrings where a script has no spaces."""

    def __init__(self, text: str) -> None:
        self._text = text.casefold()
        self._counts: dict[str, int] = {}
        for word in re.findall(r"\w+", self._text):
            self._counts[word] = self._counts.get(word, 0) + 1

    def count(self, term: str) -> int:
        return self._counts.get(term, 0) if term.isascii() else self._text.count(term)


def _snippet(text: str, terms: tuple[str, ...]) -> str:
    lowered = text.casefold()
    places = [at for term in terms if (at := lowered.find(term)) >= 0]
    start = max(0, min(places, default=0) - _SNIPPET // 4)
    cut = text[start : start + _SNIPPET]
    return f"{'…' if start else ''}{cut}{'…' if start + _SNIPPET < len(text) else ''}"


def _clean(text: str) -> str:
    return text.encode("utf-8", "replace").decode()
