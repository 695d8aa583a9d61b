"""Search for tools by words: a plain filter over names, aliases, keywords and descriptions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import field
from typing import Any

from clawhive_core.model.late import dataclass
from clawhive_core.model.patterns import pattern
from clawhive_core.model.tools import ToolMeta

RISKS = {"safe": "low", "guarded": "medium", "unsafe": "high"}
"""Each risk as a search prints it; any other is `unknown`."""
_WORD = pattern(r"[^\W_]+")
_STOP = "a an and by can do for from get how i in is it me my of on or the to tool what with"
"""Words that say nothing of a tool."""
_LONGEST_QUERY = 2_000
_WEIGHTS = {"name": 4.0, "alias": 4.0, "keyword": 3.0, "category": 2.0, "description": 1.0}


@dataclass(frozen=True, slots=True)
class Match:
    """A tool that fits a query."""

    name: str
    category: str
    risk: str
    """`low`, `medium`, `high` or `unknown`."""
    description: str
    enabled: bool
    why_matched: tuple[str, ...]
    """`KIND: TERM`, such as `keyword: git`."""
    score: float
    """From 0 to 1: the share of the best that a query could score."""

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON."""
        return {
            "name": self.name,
            "category": self.category,
            "risk": self.risk,
            "description": self.description,
            "enabled": self.enabled,
            "why_matched": list(self.why_matched),
            "score": self.score,
        }


@dataclass(frozen=True, slots=True)
class Found:
    """The tools that fit a query, the best first."""

    query: str
    matches: tuple[Match, ...] = field(default=())
    suggestion: str | None = None
    """What to do where nothing fits; None where something does."""

    def __getitem__(self, index: int) -> Match:
        return self.matches[index]

    def __iter__(self) -> Iterator[Match]:
        return iter(self.matches)

    def __len__(self) -> int:
        return len(self.matches)

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON."""
        return {
            "query": self.query,
            "matches": [each.to_dict() for each in self.matches],
            "fallback": {"suggestion": self.suggestion},
        }


def search_tools(
    tools: Iterable[ToolMeta], query: str, top_k: int, is_enabled: Callable[[str], bool]
) -> Found:
    """Return the tools that fit a query best; equal ones by name.

    Args:
        tools: Those that may be found.
        query: A need in words.
        top_k: The most matches.
        is_enabled: Tells of a tool's name whether it may be called now.
    """
    query = query[:_LONGEST_QUERY]
    text = query.casefold()
    stop = frozenset(_STOP.split())
    words = [each for each in dict.fromkeys(_WORD.findall(text)) if each not in stop]
    best = _WEIGHTS["name"] * max(1, len(words))
    found: list[tuple[float, ToolMeta, tuple[str, ...]]] = []
    for meta in tools:
        why = dict(_reasons(meta, text, words))
        if why:
            score = sum(_WEIGHTS[kind] for kind in why.values())
            found.append(
                (min(1.0, score / best), meta, tuple(f"{why[term]}: {term}" for term in why))
            )
    found.sort(key=lambda each: (-each[0], each[1].name))
    matches = tuple(
        Match(
            meta.name,
            meta.category,
            RISKS.get(meta.risk, "unknown"),
            meta.description,
            is_enabled(meta.name),
            why,
            round(score, 3),
        )
        for score, meta, why in found[:top_k]
    )
    hint = (
        None if matches else "nothing fits these words: try others, such as a verb and its object"
    )
    return Found(query, matches, hint)


def _reasons(meta: ToolMeta, text: str, words: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield each term of a query that a tool has, with the weightiest place that has it."""
    fields = {
        "description": meta.description.casefold(),
        "category": meta.category.casefold(),
        "name": meta.name.casefold(),
    }
    for kind, value in fields.items():
        for word in words:
            if _has(value, word):
                yield word, kind
    for kind, terms in (("keyword", meta.keywords), ("alias", meta.aliases)):
        for term in terms:
            if term and term.casefold() in text:
                yield term, kind


def _has(value: str, word: str) -> bool:
    """Whether a text has a word, or for a longer one, a word that begins with it."""
    if len(word) < _SHORT:
        return word in _WORD.findall(value)
    return word in value


_SHORT = 3
