"""The numbers and strings that some facts leave."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import cached_property
from itertools import islice
from typing import Any

from clawhive_core.model.late import dataclass
from clawhive_core.skills.compatibility.document import Steps, Undecided
from clawhive_core.skills.compatibility.literal import OF_NO_FORMAT, SAMPLES, Atom
from clawhive_core.skills.compatibility.pattern import (
    ANY,
    Term,
    Terms,
    UnsupportedPatternError,
    language_of,
)

_MAX_LISTED = 64
_FRACTIONS = (Fraction(1, 2), Fraction(1, 4), Fraction(1, 3), Fraction(1, 7), Fraction(1, 1000))


def exact(number: float) -> Fraction:
    """Return a JSON number as it is written: 0.1 is a tenth."""
    return Fraction(repr(number)) if isinstance(number, float) else Fraction(number)


@dataclass(frozen=True, slots=True)
class _Bound:
    at: Fraction
    is_open: bool


class Numbers:
    """The numbers that all the facts are true of."""

    def __init__(self, atoms: list[Atom]) -> None:
        self._low = self._bound(atoms, "low", lambda each: (each.at, each.is_open))
        self._high = self._bound(atoms, "high", lambda each: (-each.at, each.is_open))
        self._steps = [exact(each.value) for each in atoms if each.kind == "step" and each.wanted]
        self._steps += [Fraction(1) for each in atoms if each.kind == "integer" and each.wanted]
        self._not_steps = [
            exact(each.value) for each in atoms if each.kind == "step" and not each.wanted
        ]
        self._not_steps += [
            Fraction(1) for each in atoms if each.kind == "integer" and not each.wanted
        ]
        self._left_out = {
            exact(value)
            for each in atoms
            if each.kind == "enum" and not each.wanted
            for value in each.value
            if isinstance(value, int | float) and not isinstance(value, bool)
        }
        self._step = _common(self._steps)

    @staticmethod
    def _bound(atoms: list[Atom], kind: str, order: Callable[[_Bound], Any]) -> _Bound | None:
        found = [_Bound(exact(each.value[0]), each.value[1]) for each in atoms if each.kind == kind]
        return max(found, key=order) if found else None

    def refuted(self) -> bool:
        """Whether it is proven that there is none."""
        low, high = self._low, self._high
        if low and high:
            if low.at > high.at or (low.at == high.at and (low.is_open or high.is_open)):
                return True
            if low.at == high.at:
                return not self._belongs(low.at)
        if self._step is None:
            return False
        if any((self._step / each).denominator == 1 for each in self._not_steps):
            return True
        listed = list(self._multiples(self._step))
        return len(listed) < _MAX_LISTED and not any(map(self._belongs, listed))

    def candidates(self) -> Iterator[int | float]:
        """Yield numbers that are likely to be among them."""
        points = self._multiples(self._step) if self._step else self._points()
        for point in points:
            number = int(point) if point.denominator == 1 else float(point)
            if self._belongs(exact(number)):
                yield number

    def _belongs(self, number: Fraction) -> bool:
        low, high = self._low, self._high
        return not (
            number in self._left_out
            or (low and (number < low.at or (low.is_open and number == low.at)))
            or (high and (number > high.at or (high.is_open and number == high.at)))
            or any((number / each).denominator != 1 for each in self._steps)
            or any((number / each).denominator == 1 for each in self._not_steps)
        )

    def _multiples(self, step: Fraction) -> Iterator[Fraction]:
        """Yield the multiples within the bounds, from the low one, as many as are listed."""
        if self._low is None and self._high is not None:
            direction, start = -1, math.floor(self._high.at / step)
        else:
            direction, start = 1, math.ceil(self._low.at / step) if self._low else 0
        for count in range(_MAX_LISTED + len(self._left_out)):
            point = (start + direction * count) * step
            if self._high and point > self._high.at:
                return
            yield point

    def _points(self) -> Iterator[Fraction]:
        low, high = self._low and self._low.at, self._high and self._high.at
        if low is not None and high is not None:
            yield from (low, high, *(low + (high - low) * each for each in _FRACTIONS))
        ground = low if low is not None else high if high is not None else Fraction(0)
        for count in range(8 + len(self._left_out)):
            for part in (Fraction(0), *_FRACTIONS):
                yield ground + count + part
                yield ground - count - part


def _common(steps: list[Fraction]) -> Fraction | None:
    """Return the least number that is a multiple of every step."""
    found = None
    for step in steps:
        if found is None:
            found = step
        else:
            top = math.lcm(found.numerator * step.denominator, step.numerator * found.denominator)
            found = Fraction(top, found.denominator * step.denominator)
    return found


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
