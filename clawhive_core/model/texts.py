"""Texts, made fit for an encoding, a line or a sentence."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from clawhive_core.model.patterns import pattern


def well_formed(text: str) -> str:
    r"""Return a text with each lone surrogate as its escape, `\udc80`; any other as it is.

    Half of a surrogate pair comes from a file's name or a program's output that is no UTF-8. UTF-8
    cannot write it, so that no provider can be sent it and no terminal can show it.
    """
    if text.isascii():
        return text
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-8", "backslashreplace").decode("utf-8")
    return text


def printable(text: str, kept: str = "") -> str:
    """Return text for one line of a terminal: what ends it, steers, turns or hides is escaped.

    Args:
        text: Anybody's text; joiners stay between what they join, and the forms of emojis.
        kept: Characters that stay although Python calls them not printable.
    """
    if text.isprintable() and (text.isascii() or _HIDDEN.isdisjoint(text)):
        return text
    return "".join(_escaped(text, kept, lambda char: ascii(char)[1:-1]))


def printable_lines(text: str, kept: str = "") -> list[str]:
    r"""Return text as lines: the first, for whatever stands before it, and others that are marked.

    A line ends at `\n` alone, so that nothing in the text begins a line as ClawHive itself does.
    """
    first, *rest = text.split("\n")
    return [printable(first, kept), *(f"{MARK}{printable(line, kept)}" for line in rest)]


def set_off(line: str) -> str:
    """Return a line that somebody else's text begins, marked where it begins as ours do."""
    return f"{MARK}{line}" if OURS.match(line) else line


def printable_json(text: str) -> str:
    r"""Return JSON of the same value, with `\uXXXX` for what `printable` escapes."""
    if text.isascii() and "\x7f" not in text:
        return text
    return "".join(_escaped(text, "\n\xa0\u3000", _json_escape))


MARK = "  | "
"""Stands before a line of somebody else's text."""

OURS = pattern(
    r"(?i)\s*(?:(?:error|warning|note)(?:\s?\[|\s?:|\sCH\d)|::|##\[|approve(?:, as \w+)?\?"
    r"|(?:at|fix|next|failed|invalid|refused|granted|revoked|trusted|ignored|policy|look|answer"
    r"|go on|waits for a person)\s?:)"
)
"""The begin of a line by which a person, or a CI system, knows what ClawHive itself says."""

_HIDDEN = frozenset(
    "\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0"
    + "".join(map(chr, (*range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0))))
)
"""Characters without a shape, or with one that only chooses another's, that Python would print."""

_EMOJI = pattern("[\u2190-\u27ff\u2900-\u2bff\U0001f000-\U0001faff]\ufe0f?")
_TWO_FORMS = pattern(
    "[\xa9\xae\u203c\u2049\u2122\u2139\u2190-\u27ff\u2900-\u2bff\u3030\u303d\u3297\u3299"
    "\U0001f000-\U0001faff0-9#*]"
)
_JOINS = pattern(r"[\u0620-\u1cff]")
"""Letters of the scripts that join, or that a joiner keeps from it."""


def _escaped(text: str, kept: str, escape: Callable[[str], str]) -> Iterator[str]:
    for at, char in enumerate(text):
        if char in kept or _is_seen(text, at, char):
            yield char
        else:
            yield escape(char)


def _is_seen(text: str, at: int, char: str) -> bool:
    """Whether a character shows, or belongs to its neighbours that do."""
    if char in "\u200c\u200d":
        before, after = text[max(0, at - 2) : at], text[at + 1 : at + 2]
        if char == "\u200d" and _EMOJI.match(after):
            return _EMOJI.fullmatch(before) is not None or _EMOJI.fullmatch(before[-1:]) is not None
        return bool(_JOINS.match(before[-1:]) and _JOINS.match(after))
    if char in "\ufe0e\ufe0f":
        return _TWO_FORMS.match(text[max(0, at - 1) : at]) is not None
    return char.isprintable() and char not in _HIDDEN


def _json_escape(char: str) -> str:
    code = ord(char)
    if code < 0x10000:  # noqa: PLR2004 - what one unit of UTF-16 holds
        return f"\\u{code:04x}"
    high, low = divmod(code - 0x10000, 0x400)
    return f"\\u{0xD800 + high:04x}\\u{0xDC00 + low:04x}"


def counted(number: int, word: str) -> str:
    """Return a number with its noun: `1 skill`, `2 skills`, `0 fixes`."""
    if number != 1 and word.endswith("x"):
        return f"{number} {word}es"
    return f"{number} {word}" if number == 1 else f"{number} {word}s"
