"""Regular languages as terms, and their words by derivatives (Brzozowski 1964)."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any

from clawhive_core.model.late import dataclass
from clawhive_core.skills.compatibility.steps import Steps, Undecided

Ranges = tuple[tuple[int, int], ...]
"""Sorted ranges of code points, both ends included."""
LAST = 0x10FFFF
ANY: Ranges = ((0, 0xD7FF), (0xE000, LAST))
"""Every character of a JSON string: surrogates are none."""
_FIRST_CHOICES = "abcxyz019AZ -_."
_MAX_STATES = 400
_MAX_CLASSES = 64


@dataclass(frozen=True, slots=True, eq=False)
class Term:
    """One language; equal languages built alike are one object of their Terms."""

    kind: str
    parts: tuple[Term, ...] = ()
    ranges: Ranges = ()
    least: int = 0
    most: int | None = None
    nullable: bool = False
    """Whether the empty word belongs to it."""


def complement(ranges: Iterable[tuple[int, int]]) -> Ranges:
    """Return every other character."""
    found: list[tuple[int, int]] = []
    for low, high in ANY:
        start = low
        for first, last in sorted(ranges):
            if last < start or first > high:
                continue
            if first > start:
                found.append((start, first - 1))
            start = max(start, last + 1)
        if start <= high:
            found.append((start, high))
    return tuple(found)


class Terms:
    """Makes terms; what is the same is made once, so that searching them ends."""

    def __init__(self, steps: Steps) -> None:
        self._known: dict[tuple[Any, ...], Term] = {}
        self._steps = steps
        self.nothing = self._make("chars")
        self.empty = self._make("empty", nullable=True)
        self.all = self._make("not", (self.nothing,), nullable=True)

    def _make(self, kind: str, parts: tuple[Term, ...] = (), **more: Any) -> Term:
        key = (kind, *map(id, parts), *more.items())
        found = self._known.get(key)
        if found is None:
            self._steps.spend()
            found = self._known[key] = Term(kind, parts, **more)
        return found

    def chars(self, ranges: Iterable[tuple[int, int]]) -> Term:
        """Return the words of one character among these."""
        return self._make("chars", ranges=tuple(sorted(ranges)))

    def then(self, first: Term, second: Term) -> Term:
        """Return the words of one followed by the other's."""
        if self.nothing in {first, second}:
            return self.nothing
        if first is self.empty or second is self.empty:
            return second if first is self.empty else first
        if first.kind == "then":
            return self.then(first.parts[0], self.then(first.parts[1], second))
        return self._make("then", (first, second), nullable=first.nullable and second.nullable)

    def either(self, parts: Iterable[Term]) -> Term:
        """Return the union."""
        flat = self._flat("or", parts)
        if self.all in flat:
            return self.all
        flat.pop(self.nothing, None)
        return self._joined("or", flat, self.nothing, any(each.nullable for each in flat))

    def both(self, parts: Iterable[Term]) -> Term:
        """Return the intersection."""
        flat = self._flat("and", parts)
        if self.nothing in flat:
            return self.nothing
        flat.pop(self.all, None)
        return self._joined("and", flat, self.all, all(each.nullable for each in flat))

    @staticmethod
    def _flat(kind: str, parts: Iterable[Term]) -> dict[Term, None]:
        flat: dict[Term, None] = {}
        for part in parts:
            flat |= dict.fromkeys(part.parts if part.kind == kind else (part,))
        return flat

    def _joined(self, kind: str, flat: Iterable[Term], neutral: Term, nullable: bool) -> Term:
        parts = tuple(sorted(flat, key=id))
        if len(parts) < 2:  # noqa: PLR2004 - one language is itself
            return parts[0] if parts else neutral
        return self._make(kind, parts, nullable=nullable)

    def without(self, term: Term) -> Term:
        """Return every word that is not of this language."""
        if term.kind == "not":
            return term.parts[0]
        return self._make("not", (term,), nullable=not term.nullable)

    def times(self, term: Term, least: int, most: int | None) -> Term:
        """Return `least` to `most` words of it, one after the other; None: any number."""
        if most == 0 or term is self.empty:
            return self.empty
        if term is self.nothing:
            return self.empty if least == 0 else self.nothing
        if least == 1 and most == 1:
            return term
        more = {"least": least, "most": most, "nullable": least == 0 or term.nullable}
        return self._make("times", (term,), **more)

    def word(self, text: str) -> Term:
        """Return the language of one word."""
        found = self.empty
        for char in reversed(text):
            found = self.then(self.chars([(ord(char), ord(char))]), found)
        return found

    def derivative(self, term: Term, char: int) -> Term:
        """Return the words that follow this character in words of the language."""
        match term.kind:
            case "chars":
                inside = any(low <= char <= high for low, high in term.ranges)
                found = self.empty if inside else self.nothing
            case "then":
                first, second = term.parts
                rest = self.then(self.derivative(first, char), second)
                after = [self.derivative(second, char)] if first.nullable else []
                found = self.either([rest, *after])
            case "or":
                found = self.either(self.derivative(each, char) for each in term.parts)
            case "and":
                found = self.both(self.derivative(each, char) for each in term.parts)
            case "not":
                found = self.without(self.derivative(term.parts[0], char))
            case "times":
                most = None if term.most is None else term.most - 1
                rest = self.times(term.parts[0], max(term.least - 1, 0), most)
                found = self.then(self.derivative(term.parts[0], char), rest)
            case _:
                found = self.nothing
        return found

    def words(self, term: Term) -> Iterator[str]:
        """Yield words of the language, the shortest first, one a state of its automaton.

        Where it yields none and ends, the language is empty.

        Raises:
            Undecided: The automaton is too large.
        """
        choices = _choices(term)
        queue: deque[tuple[Term, str]] = deque([(term, "")])
        seen = {term}
        while queue:
            state, text = queue.popleft()
            if state.nullable:
                yield text
            for char in choices:
                self._steps.spend()
                following = self.derivative(state, char)
                if following is not self.nothing and following not in seen:
                    seen.add(following)
                    queue.append((following, text + chr(char)))
            if len(seen) > _MAX_STATES:
                raise Undecided("a pattern is too large to compare")


def _choices(term: Term) -> list[int]:
    """Return one character of each class that the language's parts tell apart."""
    sets = list(dict.fromkeys(_sets(term, set())))
    starts = {low for each in sets for low, _ in each}
    starts |= {high + 1 for each in sets for _, high in each if high < LAST}
    preferred = [ord(char) for char in _FIRST_CHOICES]
    found: dict[tuple[bool, ...], int] = {}
    for char in [*preferred, *sorted(starts), 0]:
        if not 0xD800 <= char <= 0xDFFF:  # noqa: PLR2004 - surrogates
            belongs = tuple(any(low <= char <= high for low, high in each) for each in sets)
            found.setdefault(belongs, char)
    if len(found) > _MAX_CLASSES:
        raise Undecided("a pattern tells too many characters apart")
    return list(found.values())


def _sets(term: Term, seen: set[Term]) -> Iterator[Ranges]:
    if term in seen:
        return
    seen.add(term)
    if term.kind == "chars":
        yield term.ranges
    for part in term.parts:
        yield from _sets(part, seen)
