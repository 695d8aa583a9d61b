"""Which name of another skill or plugin was meant by a misspelt one: what the skill's code says.

A name that is gone may be much like one that is there. So a suggestion is certain only where the
handlers or steps of the skill name the suggested one and never the other.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from clawhive_core.diagnostics.finding import Finding
from clawhive_core.diagnostics.nearest import did_you_mean, suggested
from clawhive_core.skills.contracts.skill import Skill


def meant(skill: Skill, word: str, words: Iterable[str], otherwise: str) -> str:
    """Return the title of a fix: `did you mean` alone where that is certain.

    Args:
        skill: Whose contract names the word.
        word: What is not there.
        words: What is.
        otherwise: What to do where it was no slip.
    """
    title = did_you_mean(word, words)
    close = None if title is None else suggested(title)
    if title is None:
        return otherwise
    certain = close is not None and _names(skill, close) and not _names(skill, word)
    return title if certain else f"{title} Else {otherwise}"


def _names(skill: Skill, word: str) -> bool:
    """Whether the handlers or a step name a tool, or a tool of a skill, by this word."""
    whole = re.compile(rf"(?<![\w-]){re.escape(word)}(?![\w-])")
    steps = (step["tool"] for task in skill.tasks.values() for step in task.steps)
    return any(whole.search(text) for text in (skill.handlers or "", *steps))


_CAUSES = frozenset({"CH0601", "CH0602", "CH0611"})
_RESULTS = frozenset({"CH0615", "CH0616"})


def without_consequences(findings: Sequence[Finding], causes: Iterable[Finding]) -> list[Finding]:
    """Return findings but for those that a misspelt name of another skill or tool brings about.

    Code that calls the tool by its right name is told then that the contract does not name it, and
    the misspelt import that nothing uses it.
    """
    words = {word for cause in causes for word in _names_of(cause)}
    return [each for each in findings if each.code not in _RESULTS or words.isdisjoint(each.about)]


def _names_of(cause: Finding) -> Iterator[str]:
    """Yield the misspelt name and the one that is meant: of a skill, or of a tool and its skill."""
    close = suggested("" if cause.fix is None else cause.fix.title)
    if cause.code not in _CAUSES or close is None:
        return
    for wrong in cause.about:
        owner, dot, _ = wrong.rpartition(".")
        yield wrong
        yield f"{owner}{dot}{close}" if cause.code == "CH0602" else close
