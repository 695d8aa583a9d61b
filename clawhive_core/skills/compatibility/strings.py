"""What is left of the strings by length, patterns and formats."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from itertools import islice

from clawhive_core.skills.compatibility.literal import Atom
from clawhive_core.skills.compatibility.pattern import UnsupportedPatternError, language_of
from clawhive_core.skills.compatibility.steps import Steps, Undecided
from clawhive_core.skills.compatibility.terms import ANY, Term, Terms

_SAMPLES = {
    "date-time": ("2024-01-31T12:00:00Z",),
    "date": ("2024-01-31",),
    "time": ("12:00:00Z",),
    "duration": ("P1D",),
    "email": ("a@example.com",),
    "idn-email": ("a@example.com",),
    "hostname": ("example.com", "a"),
    "idn-hostname": ("example.com", "a"),
    "ipv4": ("127.0.0.1",),
    "ipv6": ("::1", "2001:db8::1"),
    "uri": ("https://example.com/a", "urn:a"),
    "iri": ("https://example.com/a", "urn:a"),
    "uri-reference": ("/a", "https://example.com/a"),
    "iri-reference": ("/a", "https://example.com/a"),
    "uuid": ("123e4567-e89b-12d3-a456-426614174000",),
    "uri-template": ("/{a}", "a"),
    "json-pointer": ("/a", ""),
    "relative-json-pointer": ("1/a", "0"),
    "regex": ("^a$", "a"),
}
_OF_NO_FORMAT = ("not one", "{", "[", "a~2", "%", "::", "<", "-", "")
_MOST_WRITTEN = 10_000
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
        if any((value, not wanted) in self._patterns for value, wanted in self._patterns):
            return True
        if any((value, not wanted) in self._formats for value, wanted in self._formats):
            return True
        if not self._patterns and self._most != 0:
            return False  # more strings of every length than could be left out
        try:
            return next(self._terms.words(self._language), None) is None
        except Undecided:
            return False

    @cached_property
    def _language(self) -> Term:
        """A language that holds every string in question."""
        terms, found = self._terms, list[Term]()
        for pattern, wanted in sorted(self._patterns):
            try:
                language = language_of(pattern, terms)
            except UnsupportedPatternError:
                continue  # left out, so that the language is only larger
            found.append(language if wanted else terms.without(language))
        if self._least or self._most is not None:
            found.append(terms.times(terms.chars(ANY), self._least, self._most))
        found += [terms.without(terms.word(word)) for word in sorted(self._left_out)]
        return terms.both(found)

    def candidates(self) -> Iterator[str]:
        """Yield strings that are likely to be among them."""
        for name, wanted in sorted(self._formats, reverse=True):
            yield from _SAMPLES[name] if wanted else _OF_NO_FORMAT
        if not self._patterns:
            yield from self._plain()
        try:
            yield from islice(self._terms.words(self._language), _MOST_WORDS)
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
