"""Domains: the values that a constraint lets an argument have, and their exact algebra.

A domain is an interval of numbers, or a finite set of values. A value is kept by its canonical
spelling: numbers and `true` and `false` bare, text bare unless it looks like one of these, else in
single quotes. So two values are equal if and only if their spellings are; 1 and 1.0 are one number.
"""

from __future__ import annotations

import math
from typing import Any, Final, cast

from clawhive_core.model.late import dataclass
from clawhive_core.model.patterns import pattern

LARGEST: Final = 2**53
"""Beyond it two numbers of JSON may be read as one."""

Number = int | float
_number = pattern(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_special = frozenset("%&,{}?*'\"<>= ")


@dataclass(frozen=True, slots=True)
class Interval:
    """The numbers from `low` to `high`, both included; one of them may be infinite."""

    low: Number
    high: Number


Domain = Interval | frozenset[str]
"""An interval, or the spellings of the values that are allowed."""


def at_most(number: Number) -> Domain:
    """Return the numbers up to one."""
    return Interval(-math.inf, number)


def at_least(number: Number) -> Domain:
    """Return the numbers from one on."""
    return Interval(number, math.inf)


def has(domain: Domain, value: Any) -> bool:
    """Whether a value of JSON is in a domain; a list is where it has items and all of them are."""
    if isinstance(value, list | tuple):
        items = cast("list[Any]", value)
        return bool(items) and all(
            not isinstance(item, list | tuple) and has(domain, item) for item in items
        )
    if isinstance(domain, Interval):
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return is_number and domain.low <= value <= domain.high
    return spelled(value) in domain


def includes(p: Domain, q: Domain) -> bool:
    """Whether every value of `q` is one of `p`."""
    return common(p, q) == q


def common(p: Domain, q: Domain) -> Domain | None:
    """Return the values that two domains share, None where there are none."""
    if isinstance(p, Interval) and isinstance(q, Interval):
        return _between(max(p.low, q.low), min(p.high, q.high))
    if isinstance(p, Interval):
        p, q = q, p
    if isinstance(p, Interval):  # both are not: said above
        return None
    if isinstance(q, Interval):
        shared = frozenset(each for each in p if _lies_in(each, q))
    else:
        shared = p & q
    return shared or None


def _between(low: Number, high: Number) -> Domain | None:
    if low > high:
        return None
    return frozenset((_number_text(low),)) if low == high else Interval(low, high)


def _lies_in(text: str, interval: Interval) -> bool:
    number = read_number(text)
    return number is not None and interval.low <= number <= interval.high


def read_number(text: str) -> Number | None:
    """Return the number that a text spells, None where it spells none that is exact in JSON."""
    if len(text) > 40 or not _number.fullmatch(text):  # noqa: PLR2004 - more digits are never exact
        return None
    number = float(text) if set(text) & set(".eE") else int(text)
    if not abs(number) <= LARGEST:
        return None
    return int(number) if number == int(number) else number


def looks_like_number(text: str) -> bool:
    """Whether a text is a number of JSON, exact or not."""
    return _number.fullmatch(text) is not None


def spelled(value: Any) -> str | None:
    """Return the canonical spelling of a value of JSON; None for null, lists and objects."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return spelled_text(value)
    if isinstance(value, int | float) and math.isfinite(value):
        return _number_text(value)
    return None


def spelled_text(text: str) -> str:
    """Return the canonical spelling of a text."""
    escaped = escape_value(text)
    is_bare = escaped and escaped not in {"true", "false"} and not looks_like_number(escaped)
    return escaped if is_bare else f"'{escaped}'"


def escape_value(text: str) -> str:
    """Return a text with what has a meaning in constraints percent-encoded (RFC 3986, 2.1)."""
    return "".join(
        "".join(f"%{byte:02X}" for byte in char.encode("utf-8", "surrogatepass"))
        if char in _special or not char.isprintable()
        else char
        for char in text
    )


def _number_text(number: Number) -> str:
    if isinstance(number, float) and number.is_integer() and abs(number) <= LARGEST:
        number = int(number)
    return str(number) if isinstance(number, int) else repr(number)


def shown_number(number: Number) -> str:
    """Return the spelling of a number."""
    return _number_text(number)
