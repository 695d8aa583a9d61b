"""Skills that describe themselves alike, so that no model can tell which one to choose."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from clawhive_core.diagnostics.finding import Finding
from clawhive_core.diagnostics.shown import shown_path
from clawhive_core.model.patterns import pattern
from clawhive_core.skills.contracts.skill import Skill
from clawhive_core.skills.documents.place import Place

_WORD = pattern(r"\w+")
_FEWEST = 4
"""How many different words a description has at least that another one can be like."""


def check_alike(skills: Sequence[Skill]) -> Iterator[Finding]:
    """Yield a note for each skill whose description has just the words of one that stands before.

    Order, punctuation and capital letters do not count.
    """
    first: dict[frozenset[str], Skill] = {}
    for skill in sorted(skills, key=lambda each: (str(each.file), each.id)):
        words = frozenset(_WORD.findall(skill.description.lower()))
        if len(words) < _FEWEST:
            continue
        other = first.setdefault(words, skill)
        if other.id != skill.id:
            where = shown_path(other.file)
            message = f"`{skill.id}` describes itself as `{other.id}` does ({where})"
            fix = "say in which cases each of them is the right one"
            yield Place(shown_path(skill.text_file or skill.file)).finding(
                "CH0403", "note", message, fix
            )
