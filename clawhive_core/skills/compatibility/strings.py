"""What is left of the strings by length, patterns and formats."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from itertools import islice

from clawhive_core.skills.compatibility.formats import OF_NO_FORMAT, SAMPLES
from clawhive_core.skills.compatibility.literal import Atom
from clawhive_core.skills.compatibility.pattern import UnsupportedPatternError, language_of
from clawhive_core.skills.compatibility.steps import Steps, Undecided
from clawhive_core.skills.compatibility.terms import ANY, Term, Terms

_MOST_WRITTEN = 200_000
_MOST_WORDS = 12


class Strings:
    """The strings that all the facts are true of."""

    def __init__(self, atoms: list[Atom], steps: Steps) -> None:
        self._terms = Terms(steps)
        self._least = max([each.value for each in atoms if each.kind == "least"], default=0)
        self._most = min([each.value for each in atoms if each.kind == "most"], default=None)
        self._patterns = {(each.value, each.wanted) for each in atoms if each.kind == "pattern"}
        self._formats = {(each.value, each.wanted) for each in atoms if each.kind == "format"}
        self._left_out = {
            value
            for each in atoms
            if each.kind == "enum" and not each.wanted
            for value in each.value
            if isinstance(value, str)
        }

    def refuted(self) -> bool:
        """Whether it is proven that there is none."""
        if self._most is not None and self._least > self._most:
            return True
        if _opposed(self._patterns) or _opposed(self._formats):
            return True
        if not self._patterns and self._most != 0:
            return False  # more strings of every length than could be left out
        try:
            if next(self._words(self._all), None) is not None:
                return False
            return next(self._words(self._language), None) is None
        except Undecided:
            return False

    def _words(self, language: Term) -> Iterator[str]:
        return (word for word in self._terms.words(language) if word not in self._left_out)

    @cached_property
    def _language(self) -> Term:
        """The language without the strings left out, word by word."""
        out = [self._terms.without(self._terms.word(word)) for word in sorted(self._left_out)]
        return self._terms.both([self._all, *out])

    @cached_property
    def _all(self) -> Term:
        """A language that holds every string in question, and those left out."""
        terms, found = self._terms, list[Term]()
        for pattern, wanted in sorted(self._patterns):
            try:
                language = language_of(pattern, terms)
            except UnsupportedPatternError:
                continue  # left out, so that the language is only larger
            found.append(language if wanted else terms.without(language))
        if self._least or self._most is not None:
            found.append(terms.times(terms.chars(ANY), self._least, self._most))
        return terms.both(found)

    def candidates(self) -> Iterator[str]:
        """Yield strings that are likely to be among them."""
        for name, wanted in sorted(self._formats, reverse=True):
            yield from SAMPLES[name] if wanted else OF_NO_FORMAT
        if not self._patterns:
            yield from self._plain()
        try:
            yield from islice(self._words(self._all), _MOST_WORDS)
            yield from islice(self._words(self._language), _MOST_WORDS)
        except Undecided:
            yield from self._plain()

    def _plain(self) -> Iterator[str]:
        length = max(self._least, 1 if self._most != 0 else 0)
        if length > _MOST_WRITTEN:
            return
        for number, char in enumerate("axyzABC"):
            if char * length not in self._left_out:
                yield char * length
            if length > 1:
                yield (char + "bcd"[number % 3]) * (length // 2) + char * (length % 2)


def _opposed(facts: set[tuple[str, bool]]) -> bool:
    """Whether one thing is both wanted and unwanted."""
    return any((value, not wanted) in facts for value, wanted in facts)
