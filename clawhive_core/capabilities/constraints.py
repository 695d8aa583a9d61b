"""Constraints: what a capability says of the call's own arguments, how often it counts, how long.

They stand after a `?`, joined by `&`: `amount<=100`, `amount>=1`, `to in {ana,bo}`, `uses<=3` and
`until=2026-12-01T00:00:00Z`. Each narrows; together they are a conjunction.

The values that an argument may have are a domain: an interval of numbers, or a finite set. A value
is kept by its canonical spelling: numbers and `true` and `false` bare, text bare unless it looks
like one of these, else in single quotes. So two values are equal if and only if their spellings
are; 1 and 1.0 are one number.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final, NoReturn, cast

from clawhive_core.capabilities.reading import Reading, shown
from clawhive_core.model.late import dataclass
from clawhive_core.model.patterns import pattern

LARGEST: Final = 2**53
"""Beyond it two numbers of JSON may be read as one."""

Number = int | float
_number = pattern(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_special = frozenset("%&,{}?*'\"<>= ")

MAX_USES: Final = 1_000_000_000
MAX_CONSTRAINTS: Final = 64
MAX_VALUES: Final = 1024

_RESERVED: Final = ("uses", "until")
_item = pattern(r"\s*([^<>={}&\s]+)\s*(<=|>=|=|\bin\b)\s*(.*?)\s*")
_moment = pattern(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt][0-9:]{8}(?:\.[0-9]{1,6})?(?:[Zz]|[+-][0-9]{2}:[0-9]{2})"
)
_bad_escape = pattern(r"%(?![0-9A-Fa-f]{2})")
_EXAMPLES = "`amount<=100`, `amount>=1`, `to in {ana,bo}`, `uses<=3`, `until=2026-12-01T00:00:00Z`"


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
    """Return the canonical spelling of a value of JSON.

    It is None for null, lists, objects, and numbers that no pattern can name.
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return spelled_text(value)
    if isinstance(value, int):
        return str(value) if abs(value) <= LARGEST else None
    if isinstance(value, float) and math.isfinite(value):
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


@dataclass(frozen=True, slots=True)
class Constraints:
    """A conjunction in canonical form; equal ones are satisfied by the same calls."""

    arguments: tuple[tuple[str, Domain], ...] = ()
    """Names of arguments, sorted, a dot before each level below, and the values they may have."""
    uses: int | None = None
    """The number of calls that it covers, None for any."""
    until: str | None = None
    """The moment of its end: RFC 3339 with microseconds, UTC, so that texts compare as times do."""

    def admit(self, input: Mapping[str, Any] | None) -> bool:
        """Whether a call's input satisfies what is said of arguments; without one nothing does."""
        return not self.arguments or not any(self.unmet(input))

    def unmet(self, input: Mapping[str, Any] | None) -> Iterator[str]:
        """Yield what an input does not satisfy, as it is written."""
        for name, domain in self.arguments:
            if input is None or not has(domain, _value(input, name)):
                yield "&".join(_written(name, domain))

    def covers(self, other: Constraints) -> bool:
        """Whether whatever satisfies `other` satisfies this."""
        mine = (self.uses, self.until)
        counted = (_least(self.uses, other.uses), _least(self.until, other.until))
        if mine != (None, None) and counted != (other.uses, other.until):
            return False
        theirs = dict(other.arguments)
        return all(
            name in theirs and includes(domain, theirs[name]) for name, domain in self.arguments
        )

    def meet(self, other: Constraints) -> Constraints | None:
        """Return what says both; None where no input satisfies it."""
        if not other:
            return self
        found = dict(self.arguments)
        for name, domain in other.arguments:
            shared = common(found[name], domain) if name in found else domain
            if shared is None:
                return None
            found[name] = shared
        return Constraints(
            tuple(sorted(found.items(), key=lambda item: item[0])),
            _least(self.uses, other.uses),
            _least(self.until, other.until),
        )

    def of_arguments(self) -> Constraints:
        """Return what is said of arguments alone."""
        return Constraints(self.arguments)

    def __bool__(self) -> bool:
        return bool(self.arguments) or self.uses is not None or self.until is not None

    def __str__(self) -> str:
        parts = [text for name, domain in self.arguments for text in _written(name, domain)]
        if self.uses is not None:
            parts.append(f"uses<={self.uses}")
        if self.until is not None:
            parts.append(f"until={self.until.replace('.000000Z', 'Z')}")
        return "&".join(parts)


NONE: Final = Constraints()


def read_constraints(reading: Reading, text: str) -> Constraints:
    """Return the constraints of a text, which follows the `?` of a capability.

    Raises:
        CapabilityError: One cannot be read, or no call satisfies all.
    """
    found, items = NONE, text.split("&")
    if len(items) > MAX_CONSTRAINTS:
        raise reading.error(
            f"More than {MAX_CONSTRAINTS} constraints.", at=items[MAX_CONSTRAINTS], fix="Say less."
        )
    for item in items:
        shared = found.meet(_one(reading, item))
        if shared is None:
            raise reading.error(
                f"No value satisfies {shown(item)} and what stands before it.",
                at=item,
                fix="Write one line for each alternative: the constraints of a line hold together.",
            )
        found = shared
    return found


def _one(reading: Reading, item: str) -> Constraints:
    match = _item.fullmatch(item)
    if match is None:
        _refuse(reading, item)
    name, operator, value = match.groups()
    if name == "uses":
        return Constraints(uses=_uses(reading, item, operator, value))
    if name == "until":
        return Constraints(until=_until(reading, item, operator, value))
    name = _unescape(reading, name)
    if operator in {"<=", ">="}:
        number = read_number(value)
        if number is None:
            _refuse_number(reading, item, value)
        return Constraints(((name, at_most(number) if operator == "<=" else at_least(number)),))
    if operator == "=" and reading.verb.kind == "url" and not value.startswith("{"):
        raise reading.error(
            "The query of a URL is never part of a pattern.",
            at=item,
            fix=f"Write {reading.line(reading.resource)} without it; if an argument of the call is"
            f" meant, {reading.line(f'{reading.resource}?{name} in {{{value}}}')}.",
        )
    return Constraints(((name, frozenset(_values(reading, item, operator, value))),))


def _values(reading: Reading, item: str, operator: str, value: str) -> Iterator[str]:
    texts = [value]
    if value.startswith("{") and value.endswith("}"):
        texts = value[1:-1].split(",")
    elif operator == "in" or not value:
        _refuse(reading, item)
    if len(texts) > MAX_VALUES:
        raise reading.error(f"More than {MAX_VALUES} values.", at=item, fix="Write two lines.")
    for text in texts:
        yield _atom(reading, item, text.strip())


def _atom(reading: Reading, item: str, text: str) -> str:
    """Return the canonical spelling of one value."""
    if text in {"true", "false"}:
        return text
    if looks_like_number(text):
        number = read_number(text)
        if number is None:
            _refuse_number(reading, item, text)
        return _number_text(number)
    quote = text[:1] if text[:1] in {"'", '"'} else ""
    inner = text[len(quote) : len(text) - len(quote)] if quote else text
    closed = not quote or (len(text) > 1 and text.endswith(quote))
    if not text or not closed or set(inner) & set("{}?*'\""):
        _refuse(reading, item)
    return spelled_text(_unescape(reading, inner))


def _uses(reading: Reading, item: str, operator: str, value: str) -> int:
    number = read_number(value)
    if operator != "<=" or not isinstance(number, int) or not 0 < number <= MAX_USES:
        raise reading.error(
            "`uses` counts calls: `uses<=` and a whole number above nothing.",
            at=item,
            fix="Write `uses<=3`; an argument that is called so is written `%75ses`.",
        )
    return number


def _until(reading: Reading, item: str, operator: str, value: str) -> str:
    moment = None
    if operator == "=" and _moment.fullmatch(value):
        try:
            moment = datetime.fromisoformat(value.upper()).astimezone(UTC)
        except (ValueError, OverflowError):  # no such day
            moment = None
    if moment is None:
        raise reading.error(
            "`until` is a moment with its time zone (RFC 3339).",
            at=item,
            fix="Write `until=2026-12-01T00:00:00Z`; an argument that is called so is written"
            " `%75ntil`.",
        )
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")


def _refuse_number(reading: Reading, item: str, value: str) -> NoReturn:
    raise reading.error(
        f"{shown(value)} is no number from -{LARGEST} to {LARGEST}.",
        at=item,
        fix="Write a number such as `amount<=100`; a text of digits is quoted: `to in {'0123'}`.",
    )


def _refuse(reading: Reading, item: str) -> NoReturn:
    resource = reading.resource
    raise reading.error(
        f"{shown(item)} is no constraint: `?` begins constraints.",
        at=item,
        fix=f"Write {reading.line(resource)} without it, or constraints such as {_EXAMPLES}, joined"
        f" by `&`; a question mark that belongs to a name is spelled `%3F`, as in"
        f" {reading.line(f'{resource}%3F')}, and the query of a URL is never part of a pattern.",
    )


def _unescape(reading: Reading, text: str) -> str:
    if _bad_escape.search(text):
        raise reading.error(
            "A `%` is followed by two hexadecimal digits.",
            at=text,
            fix="Write a percent sign that belongs to a value as `%25`.",
        )
    raw = re.sub(
        rb"%(..)",
        lambda found: bytes([int(found[1], 16)]),
        text.encode("utf-8", "surrogatepass"),
    )
    try:
        return raw.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError as error:
        raise reading.error(
            "Its bytes are no UTF-8, which every argument is.", at=text, fix="Write its characters."
        ) from error


def _written(name: str, domain: Domain) -> list[str]:
    safe = escape_value(name)
    if name in _RESERVED:
        safe = f"%{ord(name[0]):02X}{name[1:]}"
    if isinstance(domain, Interval):
        high = [] if domain.high == math.inf else [f"{safe}<={_number_text(domain.high)}"]
        return high + ([] if domain.low == -math.inf else [f"{safe}>={_number_text(domain.low)}"])
    return [f"{safe} in {{{','.join(sorted(domain))}}}"]


def _value(input: Mapping[str, Any], name: str) -> Any:
    """Return an argument by its name, else by its path through objects; None where it lacks."""
    if name in input or "." not in name:
        return input.get(name)
    value: Any = input
    for part in name.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType] - JSON
    return value  # pyright: ignore[reportUnknownVariableType] - JSON


def _least(mine: Any, theirs: Any) -> Any:
    if mine is None or theirs is None:
        return theirs if mine is None else mine
    return min(mine, theirs)
