"""Odd values, texts and bytes: made up from nothing, and valid ones that were changed a little.

All take a `random.Random`, so that a seed and a number make the same input again.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

Case = Any
"""An input: JSON-like Python data with bytes, so that it can be printed, changed and made less."""

ODD_TEXTS = (
    "", " ", "\x00", "a\x00b", "\n", "\r\n", "\t", "\x1b[31mred", "\x7f", "\x85", "\u2028",
    "\ufeff",
    "\u202eabc", "\u200b", "\ud800", "a\udfff", "\U0010ffff", "\U0001f600", "é", "e\u0301", "İ",
    "ß",
    "١٢", "null", "true", "NaN", "-0", "1e999", "0x10", "1_000", "~", "=", "<<", "*", "**", "?",
    "%",
    "%00", "%2e%2e%2f", "../../etc/passwd", "/", "//", "\\", ".", "..", "${workspace}", "${",
    "$ref",
    "__proto__", "__class__", "{}", "[]", "{{x}}", "a" * 300, "a." * 600, "(" * 200, "(a+)+$",
    "2024-02-30", "9999-12-31T23:59:60Z", "0000-00-00", "$blob", "$int", "$value", "$float",
    "[redacted]", "https://[::1", "http://a:99999/", "xn--a", "\u0130.example", "1.2.3.4.5",
)  # fmt: skip
ODD_NUMBERS = (
    0, -1, 1, 2**31, 2**53, 2**53 + 1, -(2**63), 2**64, 10**30, -0.0, 0.1, 1e-320, 1e308,
    float("inf"), float("-inf"), float("nan"), 1.0, 10**400,
)  # fmt: skip
HUGE = 10**4_400
"""More digits than Python turns into text or reads from one."""
WORDS = ("name", "id", "type", "a", "path", "value", "text", "tools", "x-1", "input", "kind")


def text(rnd: random.Random) -> str:
    """Return a text: a word, something odd, or both together."""
    pick = rnd.random()
    if pick < 0.35:
        return rnd.choice(WORDS)
    if pick < 0.75:
        return rnd.choice(ODD_TEXTS)
    if pick < 0.99:
        return "".join(rnd.choice((*WORDS, *ODD_TEXTS)) for _ in range(rnd.randrange(4)))
    return rnd.choice(("x", "é", "\x00", "[", "a/", "\\")) * rnd.choice((5_000, 70_000))


def scalar(rnd: random.Random) -> Any:
    """Return a value without parts."""
    pick = rnd.random()
    if pick < 0.45:
        return text(rnd)
    if pick < 0.8:
        return rnd.choice(ODD_NUMBERS)
    return HUGE if pick < 0.82 else rnd.choice((True, False, None))


def value(rnd: random.Random, depth: int = 3) -> Any:
    """Return a JSON value, seldom a very deep or wide one."""
    pick = rnd.random()
    if depth <= 0 or pick < 0.45:
        return scalar(rnd)
    if pick < 0.47:
        return nested(rnd, rnd.choice((60, 99, 300, 1_500, 20_000)))
    if pick < 0.48:
        return [rnd.choice((0, "a", None, 0.5, "\ud800"))] * rnd.choice((100, 3_000))
    count = rnd.choice((0, 1, 1, 2, 3, 6))
    if pick < 0.7:
        return [value(rnd, depth - 1) for _ in range(count)]
    return {text(rnd): value(rnd, depth - 1) for _ in range(count)}


def nested(rnd: random.Random, levels: int) -> Any:
    """Return lists or objects so many levels deep."""
    found: Any = scalar(rnd)
    key = text(rnd)[:20] if rnd.random() < 0.5 else None
    for _ in range(levels):
        found = [found] if key is None else {key: found}
    return found


def places(found: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield where each part of a value stands; what is deeper than any valid one is left out."""
    yield path
    if len(path) > 40:
        return
    if isinstance(found, dict):
        for key, item in found.items():
            yield from places(item, (*path, key))
    elif isinstance(found, list | tuple):
        for index, item in enumerate(found[:200]):
            yield from places(item, (*path, index))


def at(found: Any, path: Sequence[Any]) -> Any:
    """Return a part."""
    for part in path:
        found = found[part]
    return found


def replaced(found: Any, path: Sequence[Any], new: Any) -> Any:
    """Return a copy with another part in a place."""
    if not path:
        return new
    copied = dict(found) if isinstance(found, dict) else list(found)
    copied[path[0]] = replaced(found[path[0]], path[1:], new)
    return tuple(copied) if isinstance(found, tuple) else copied


def changed(rnd: random.Random, found: Any, most: int = 3) -> Any:
    """Return a value with a few of its parts replaced, removed, doubled, renamed or wrapped."""
    for _ in range(rnd.randint(1, most)):
        path = rnd.choice(list(places(found)))
        part = at(found, path)
        found = replaced(found, path, _other(rnd, part, found))
    return found


def _other(rnd: random.Random, part: Any, whole: Any) -> Any:
    pick = rnd.random()
    if isinstance(part, dict) and part and pick < 0.6:
        return _other_object(rnd, part, pick)
    if isinstance(part, list | tuple) and part and pick < 0.5:
        items = list(part)
        index = rnd.randrange(len(items))
        if pick < 0.25:
            del items[index]
        else:
            items.insert(index, items[rnd.randrange(len(items))])
        return tuple(items) if isinstance(part, tuple) else items
    if isinstance(part, str | bytes) and pick < 0.4:
        return changed_text(rnd, part) if isinstance(part, str) else changed_bytes(rnd, part)
    if pick > 0.9:
        return at(whole, rnd.choice(list(places(whole))))
    if pick > 0.85:
        return [part]
    return value(rnd, 2)


def _other_object(rnd: random.Random, part: dict[Any, Any], pick: float) -> dict[Any, Any]:
    key = rnd.choice(list(part))
    rest = {each: part[each] for each in part if each != key}
    if pick < 0.2:
        return rest
    if pick < 0.35:
        return {**rest, text(rnd): part[key]}
    return {**part, (rnd.choice(list(part)) if pick < 0.45 else text(rnd)): value(rnd, 2)}


def changed_text(rnd: random.Random, found: str) -> str:
    """Return a text with a piece put in, taken out or repeated."""
    at = rnd.randrange(len(found) + 1)
    match rnd.randrange(3):
        case 0:
            return found[:at] + rnd.choice(ODD_TEXTS) + found[at:]
        case 1:
            return found[:at] + found[at + rnd.choice((1, 1, 3, 20)) :]
        case _:
            return found[:at] + found[max(0, at - 5) : at] * rnd.choice((1, 2, 50)) + found[at:]


BYTES = (
    b"\x00",
    b"\xff",
    b"\xc0\x80",
    b"\xed\xa0\x80",
    b"\xf4\x90\x80\x80",
    b"\xef\xbb\xbf",
    b"\r",
)


def changed_bytes(
    rnd: random.Random, data: bytes, pieces: Sequence[str] = ODD_TEXTS, most: int = 6
) -> bytes:
    """Return bytes with a few of them changed, cut, doubled, moved, or pieces put in."""
    found = bytearray(data)
    for _ in range(rnd.randint(1, most)):
        at = rnd.randrange(len(found) + 1)
        match rnd.randrange(7):
            case 0 if at < len(found):
                found[at] = rnd.randrange(256)
            case 1:
                del found[at : at + rnd.choice((1, 1, 2, 40, 2_000))]
            case 2:
                found[at:at] = found[at : at + rnd.choice((1, 20, 300))]
            case 3:
                found[at:at] = rnd.choice(BYTES)
            case 4 if rnd.random() < 0.1:
                found[at:at] = rnd.choice(pieces).encode("utf-8", "surrogatepass") * 3_000
            case _:
                found[at:at] = rnd.choice(pieces).encode("utf-8", "surrogatepass")
    return bytes(found)


def json_text(rnd: random.Random, found: Any) -> str:
    """Return a value as JSON, seldom in a spelling that only some readers take."""
    try:
        said = json.dumps(found, ensure_ascii=rnd.random() < 0.5)
    except (ValueError, RecursionError):
        return deep_text(rnd) if rnd.random() < 0.5 else "1" * 4_400
    if rnd.random() < 0.1:
        said = said.replace(":", ": " + rnd.choice(("1e999", "-", "01", "0x1", "1" * 5_000)), 1)
    if rnd.random() < 0.1 and said.startswith("{") and len(said) > 2:
        said = "{" + said[1:-1] + "," + said[1:-1] + "}"  # each key twice
    return said


def deep_text(rnd: random.Random) -> str:
    """Return JSON that is nested very deeply, closed or not."""
    levels = rnd.choice((50, 101, 900, 5_000, 100_000))
    opening, closing = rnd.choice((("[", "]"), ('{"a":', "}"), ('[{"a":', "}]")))
    return opening * levels + "1" + (closing * levels if rnd.random() < 0.6 else "")


def less(found: Case) -> Iterator[Case]:
    """Yield smaller forms of an input, the much smaller first."""
    if isinstance(found, str | bytes):
        yield from _less_text(found)
    elif isinstance(found, dict):
        for key in found:
            yield {each: found[each] for each in found if each != key}
        for key, item in found.items():
            for smaller in less(item):
                yield {**found, key: smaller}
    elif isinstance(found, list | tuple):
        yield from _less_list(found)
    elif isinstance(found, int | float) and not isinstance(found, bool) and found:
        yield 0


def _less_text(found: Any) -> Iterator[Any]:
    size = len(found)
    width = size // 2
    while width:
        for start in range(0, size, width):
            yield found[:start] + found[start + width :]
        width //= 2
    if size == 1:
        yield found[:0]


def _less_list(found: Any) -> Iterator[Any]:
    make: Callable[[list[Any]], Any] = tuple if isinstance(found, tuple) else list
    items = list(found)
    width = len(items)
    while width and not isinstance(found, tuple):  # a tuple is a case's own frame: it stays whole
        for start in range(0, len(items), width):
            yield make(items[:start] + items[start + width :])
        width //= 2
    for index, item in enumerate(items):
        for smaller in less(item):
            yield make([*items[:index], smaller, *items[index + 1 :]])
