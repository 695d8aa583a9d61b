"""Suggestions: the known words most similar to an unknown one."""

from __future__ import annotations

import re
from collections.abc import Iterable

_LONGEST = 200  # comparing costs the square of the length, and nobody mistypes a longer name

_CUTOFF = 0.7
_SLIP, _SHORT_SLIP, _SHORT = 0.8, 0.75, 5
_SURE = 0.07
"""The least lead of the most similar word over the next one."""


def nearest(word: str, words: Iterable[str], *, cutoff: float = _CUTOFF) -> str | None:
    """Return the known word most similar to `word`, None where none is similar.

    Args:
        word: What somebody wrote.
        words: What they may have meant.
        cutoff: The least similarity, from 0 (anything) to 1 (equal).
    """
    return next((each for each, _ in _matches(word, words, 1, cutoff)), None)


def nearest_words(word: str, words: Iterable[str], *, cutoff: float = _CUTOFF) -> list[str]:
    """Return up to three known words that are similar, the most similar first; see `nearest`."""
    return [each for each, _ in _matches(word, words, 3, cutoff)]


def did_you_mean(word: str, words: Iterable[str]) -> str | None:
    """Return the sentence that suggests what is most similar to `word`, None where nothing is.

    Where two are as likely it names both, so that nobody takes one of them for certain.
    """
    found = _matches(word, words, 2, _CUTOFF)
    if not found:
        return None
    (first, similarity), (other, less) = found[0], found[-1]
    if other != first and less + _SURE > similarity:
        return f"did you mean `{first}` or `{other}`?"
    return suggestion(first)


def _matches(
    word: str, words: Iterable[str], number: int, cutoff: float
) -> list[tuple[str, float]]:
    """Return the words most similar to one, each with its similarity, whatever their order."""
    if len(word) > _LONGEST:
        return []
    from rapidfuzz import fuzz, process

    # fuzz.ratio is 100 times the share of letters that stand in both, in their order.
    known = sorted(words, reverse=True)
    found = process.extract(word, known, scorer=fuzz.ratio, limit=number, score_cutoff=100 * cutoff)
    return [(each, score / 100) for each, score, _ in found]


def is_typo(word: str, meant: str) -> bool:
    """Whether a word is so much like another one that nobody would ask what was meant."""
    return nearest(word, [meant], cutoff=_SLIP if len(meant) > _SHORT else _SHORT_SLIP) is not None


def suggestion(word: str) -> str:
    """Return the sentence that suggests a word, as the title of a fix."""
    return f"did you mean `{word}`?"


def suggested_word(title: str) -> str | None:
    """Return the word that a title suggests, None where it says something else."""
    match = re.fullmatch(r"did you mean `([^`]+)`\?", title)
    return None if match is None else match[1]
