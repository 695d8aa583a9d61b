r"""Regular expressions of JSON Schema, as languages of the strings that they are found in.

The dialect is ECMA 262's as jsonschema-rs reads it: `\d` and `\w` are ASCII, `.` is all but a line
feed. What is not regular (look-around, back references), or read differently by validators
(`[a&&b]`, `\b`, inline flags), is not supported.
"""

from __future__ import annotations

from string import hexdigits

from clawhive_core.skills.compatibility.terms import Ranges, Term, Terms, complement

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
