r"""Regular expressions of JSON Schema, as languages: terms, and their words by derivatives.

The dialect is ECMA 262's as jsonschema-rs reads it: `\d` and `\w` are ASCII, `.` is all but a line
feed. What is not regular (look-around, back references), or read differently by validators
(`[a&&b]`, `\b`, inline flags), is not supported.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from string import hexdigits
from typing import Any

from clawhive_core.model.late import dataclass
from clawhive_core.skills.compatibility.document import Steps, Undecided

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
    """One language; equal languages that are built in one way are one object of their Terms."""

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
        self.nothing = self._once(Term("chars"))
        self.empty = self._once(Term("empty", nullable=True))
        self.all = self._once(Term("not", (self.nothing,), nullable=True))

    def _once(self, term: Term) -> Term:
        """Return the one object for a term."""
        parts = tuple(map(id, term.parts))
        key = (term.kind, parts, term.ranges, term.least, term.most, term.nullable)
        found = self._known.get(key)
        if found is None:
            self._steps.spend()
            found = self._known[key] = term
        return found

    def chars(self, ranges: Iterable[tuple[int, int]]) -> Term:
        """Return the words of one character among these."""
        return self._once(Term("chars", ranges=tuple(sorted(ranges))))

    def then(self, first: Term, second: Term) -> Term:
        """Return the words of one followed by the other's."""
        if self.nothing in {first, second}:
            return self.nothing
        if first is self.empty or second is self.empty:
            return second if first is self.empty else first
        if first.kind == "then":
            return self.then(first.parts[0], self.then(first.parts[1], second))
        return self._once(
            Term("then", (first, second), nullable=first.nullable and second.nullable)
        )

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
        return self._once(Term(kind, parts, nullable=nullable))

    def without(self, term: Term) -> Term:
        """Return every word that is not of this language."""
        if term.kind == "not":
            return term.parts[0]
        return self._once(Term("not", (term,), nullable=not term.nullable))

    def times(self, term: Term, least: int, most: int | None) -> Term:
        """Return `least` to `most` words of it, one after the other; None: any number."""
        if most == 0 or term is self.empty:
            return self.empty
        if term is self.nothing:
            return self.empty if least == 0 else self.nothing
        if least == 1 and most == 1:
            return term
        nullable = least == 0 or term.nullable
        return self._once(Term("times", (term,), least=least, most=most, nullable=nullable))

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


_DIGIT: Ranges = ((48, 57),)
_WORD: Ranges = ((48, 57), (65, 90), (95, 95), (97, 122))
_SPACE: Ranges = (
    *((9, 13), (32, 32), (0xA0, 0xA0), (0x1680, 0x1680), (0x2000, 0x200A)),
    *((0x2028, 0x2029), (0x202F, 0x202F), (0x205F, 0x205F), (0x3000, 0x3000), (0xFEFF, 0xFEFF)),
)
_SMALL = {"d": _DIGIT, "w": _WORD, "s": _SPACE}
_CLASSES = _SMALL | {name.upper(): complement(ranges) for name, ranges in _SMALL.items()}
_CONTROLS = {"n": 10, "r": 13, "t": 9, "v": 11, "f": 12}
_HEX = {"x": 2, "u": 4}
_MAX_TIMES = 256
_NO_LINE_FEED = complement([(10, 10)])


class UnsupportedPatternError(ValueError):
    """A pattern that is not compared."""


def language_of(pattern: str, terms: Terms) -> Term:
    """Return the strings in which a pattern is found.

    Raises:
        UnsupportedPatternError: It uses what is not supported.
    """
    reader = _Reader(pattern, terms)
    try:
        return reader.found_in()
    except (IndexError, ValueError, RecursionError) as error:
        raise UnsupportedPatternError(pattern) from error


class _Reader:
    """A recursive descent over one pattern."""

    def __init__(self, pattern: str, terms: Terms) -> None:
        self._text = pattern
        self._at = 0
        self._terms = terms

    def found_in(self) -> Term:
        terms, found = self._terms, [self._anchored()]
        while self._take("|"):
            found.append(self._anchored())
        if self._at < len(self._text):
            raise ValueError("a bracket closes nothing")
        return terms.either(found)

    def _anchored(self) -> Term:
        terms = self._terms
        start = terms.empty if self._take("^") else terms.all
        body = self._sequence()
        end = terms.empty if self._take("$") else terms.all
        return terms.then(start, terms.then(body, end))

    def _peek(self) -> str:
        return self._text[self._at : self._at + 1]

    def _take(self, text: str) -> bool:
        if not self._text.startswith(text, self._at):
            return False
        self._at += len(text)
        return True

    def _next(self) -> str:
        self._at += 1
        return self._text[self._at - 1]

    def _sequence(self) -> Term:
        parts: list[Term] = []
        while self._peek() not in {"", "|", ")", "$"}:
            parts.append(self._repeated(self._atom()))
        found = self._terms.empty
        for part in reversed(parts):
            found = self._terms.then(part, found)
        return found

    def _atom(self) -> Term:
        char = self._next()
        if char == "(":
            return self._group()
        if char == "[":
            return self._terms.chars(self._set())
        if char == ".":
            return self._terms.chars(_NO_LINE_FEED)
        if char == "\\":
            return self._terms.chars(self._escape())
        if char in "*+?{}^]":
            raise ValueError(char)
        return self._terms.chars([(ord(char), ord(char))])

    def _group(self) -> Term:
        if self._take("?") and not self._take(":"):
            raise ValueError("look-around, flags and names are not compared")
        found = [self._sequence()]
        while self._take("|"):
            found.append(self._sequence())
        if self._next() != ")":
            raise ValueError("an anchor inside a group is not compared")
        return self._terms.either(found)

    def _repeated(self, term: Term) -> Term:
        least, most = self._times()
        if (least, most) == (1, 1):
            return term
        if self._peek() == "?":  # lazy: the same language
            self._at += 1
        if self._peek() in set("*+{"):
            raise ValueError("possessive repetition is not compared")
        return self._terms.times(term, least, most)

    def _times(self) -> tuple[int, int | None]:
        for sign, times in (("*", (0, None)), ("+", (1, None)), ("?", (0, 1))):
            if self._take(sign):
                return times
        if not self._take("{"):
            return 1, 1
        end = self._text.index("}", self._at)
        low, comma, high = self._text[self._at : end].partition(",")
        self._at = end + 1
        if not (low + high).isdecimal() or not (low + high).isascii() or not low:
            raise ValueError("no count")
        least = int(low)
        most = (int(high) if high else None) if comma else least
        if max(least, most or 0) > _MAX_TIMES or (most is not None and most < least):
            raise ValueError("too many repetitions")
        return least, most

    def _escape(self) -> Ranges:
        char = self._next()
        if char in _CLASSES:
            return _CLASSES[char]
        if char in _HEX:
            digits = self._text[self._at : self._at + _HEX[char]]
            if len(digits) != _HEX[char] or not set(digits) <= set(hexdigits):
                raise ValueError(digits)
            self._at += len(digits)
            code = int(digits, 16)
        elif char.isalnum() and char not in _CONTROLS:
            raise ValueError(char)
        else:
            code = _CONTROLS.get(char, ord(char))
        return ((code, code),)

    def _set(self) -> Ranges:
        negated = self._take("^")
        found: list[tuple[int, int]] = []
        if self._peek() == "]":
            raise ValueError("validators differ on []")
        while not self._take("]"):
            found += self._set_item()
        return complement(found) if negated else tuple(sorted(found))

    def _set_item(self) -> Ranges:
        low = self._set_char()
        if self._peek() != "-" or self._text[self._at + 1] == "]":
            return low
        self._at += 1
        high = self._set_char()
        (first, last), (second, end) = low[0], high[0]
        if len(low) > 1 or len(high) > 1 or first != last or second != end or end < first:
            raise ValueError("no range of characters")
        return ((first, end),)

    def _set_char(self) -> Ranges:
        char = self._next()
        if char == "\\":
            return self._escape()
        if char == "[" or (char in "&~-" and self._peek() == char):
            raise ValueError("validators differ on sets of sets")
        return ((ord(char), ord(char)),)
