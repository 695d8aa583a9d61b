"""Did you mean: the known word nearest to an unknown one."""

from __future__ import annotations

import re
from collections.abc import Iterable

_LONGEST = 200  # comparing costs the square of the length, and nobody mistypes a longer name

_CUTOFF = 0.7
_SLIP, _SHORT_SLIP, _SHORT = 0.8, 0.75, 5
_SURE = 0.07
"""How much more alike the nearest word must be than the next one."""


def nearest(word: str, words: Iterable[str], *, cutoff: float = _CUTOFF) -> str | None:
    """Return the known word most like `word`, None where none is alike.

    Args:
        word: What somebody wrote.
        words: What they may have meant.
        cutoff: How alike, from 0 (anything) to 1 (equal).
    """
    return next((each for each, _ in _alike(word, words, 1, cutoff)), None)


def nearest_few(word: str, words: Iterable[str], *, cutoff: float = _CUTOFF) -> list[str]:
    """Return up to three known words that are alike, the most like first; see `nearest`."""
    return [each for each, _ in _alike(word, words, 3, cutoff)]


def did_you_mean(word: str, words: Iterable[str]) -> str | None:
    """Return the sentence that suggests what is most like `word`, None where nothing is.

    Where two are as likely it names both, so that nobody takes one of them for certain.
    """
    found = _alike(word, words, 2, _CUTOFF)
    if not found:
        return None
    (first, likeness), (other, less) = found[0], found[-1]
    if other != first and less + _SURE > likeness:
        return f"did you mean `{first}` or `{other}`?"
    return suggestion(first)


def _alike(word: str, words: Iterable[str], number: int, cutoff: float) -> list[tuple[str, float]]:
    """Return the words most like one, with how alike they are; the order of words is no matter."""
    if len(word) > _LONGEST:
        return []
    from rapidfuzz import fuzz, process

    # fuzz.ratio is 100 times the share of letters that stand in both, in their order.
    known = sorted(words, reverse=True)
    found = process.extract(word, known, scorer=fuzz.ratio, limit=number, score_cutoff=100 * cutoff)
    return [(each, score / 100) for each, score, _ in found]


def is_slip(word: str, meant: str) -> bool:
    """Whether a word is so much like another one that nobody would ask what was meant."""
    return nearest(word, [meant], cutoff=_SLIP if len(meant) > _SHORT else _SHORT_SLIP) is not None


def suggestion(word: str) -> str:
    """Return the sentence that suggests a word, as the title of a fix."""
    return f"did you mean `{word}`?"


def suggested(title: str) -> str | None:
    """Return the word that a title suggests, None where it says something else."""
    match = re.fullmatch(r"did you mean `([^`]+)`\?", title)
    return None if match is None else match[1]
