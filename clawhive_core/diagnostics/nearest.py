"""Did you mean: the known word nearest to an unknown one."""

from __future__ import annotations

import re
from collections.abc import Iterable

_LONGEST = 200  # comparing costs the square of the length, and nobody mistypes a longer name

_SLIP, _SHORT_SLIP, _SHORT = 0.8, 0.75, 5
_SURE = 0.07
"""How much more alike the nearest word must be than the next one."""


def nearest(word: str, words: Iterable[str], *, cutoff: float = 0.7) -> str | None:
    """Return the known word most like `word`, None where none is alike.

    Args:
        word: What somebody wrote.
        words: What they may have meant.
        cutoff: How alike, from 0 (anything) to 1 (equal).
    """
    if len(word) > _LONGEST:
        return None
    from difflib import get_close_matches

    found = get_close_matches(word, list(words), n=1, cutoff=cutoff)
    return found[0] if found else None


def did_you_mean(word: str, words: Iterable[str]) -> str | None:
    """Return the sentence that suggests what is most like `word`, None where nothing is.

    Where two are as likely it names both, so that nobody takes one of them for certain.
    """
    if len(word) > _LONGEST:
        return None
    from difflib import SequenceMatcher, get_close_matches

    found = get_close_matches(word, list(words), n=2, cutoff=0.7)
    if not found:
        return None
    likeness = [SequenceMatcher(None, each, word).ratio() for each in found]
    if likeness[-1] + _SURE > likeness[0] and len(found) > 1:
        return f"did you mean `{found[0]}` or `{found[1]}`?"
    return suggestion(found[0])


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
