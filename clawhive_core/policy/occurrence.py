"""Whether a text names a destination: as a whole token, never as a part of a longer one.

Nothing is guessed: letters that only look alike, invisible characters and other normal forms make
another token. Only the case of ASCII letters in addresses and names, the blanks inside an account's
number, and the spellings of a URL that are one resource are the same. What a stranger may have
named is another question, `may_name`: there a part and a look-alike count too.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from string import ascii_lowercase, ascii_uppercase

from clawhive_core.capabilities import url_capability
from clawhive_core.errors import CapabilityError
from clawhive_core.model.patterns import pattern
from clawhive_core.model.sinks import SinkKind

LONGEST = 4096
"""Characters of a value; a longer one is never found."""
_TELLING = 6
"""Characters of a value that is hardly a part of another by chance."""
_BETWEEN = " \t\r\n\v\f\"'`"
_LOWER = str.maketrans(ascii_uppercase, ascii_lowercase)
_FOLDED: frozenset[SinkKind] = frozenset(("recipient", "account"))
_QUOTES = '"`\u201c\u201d\u2018\u2019\u00ab\u00bb'
_ENDS = frozenset(f" \t\r\n\v\f{_QUOTES}<>()[]{{}}|*,;!?\u3001\u3002\u2013\u2014\u00a0")
"""The characters between tokens; `.`, `:` and `'` do too where no letter follows."""
_SOFT = frozenset(".:'")
_URL = pattern(r"[^\s<>\"`|{}\u201c\u201d\u2018\u2019\u00ab\u00bb]+")
_AROUND_URL = "'()[],;.:!?*"
_SHORT_NUMBER = pattern(r"[0-9]{1,4}")
_ID_BEFORE = pattern(r"(?:#|\b(?:ids?|no|nr|number)\b[\s.:'\"=]*)$", re.IGNORECASE)


def occurs(kind: SinkKind, value: str, text: str) -> bool:
    """Whether a text names a value."""
    if not value or len(value) > LONGEST:
        return False
    if kind == "url":
        return _names_url(value, text)
    return any(_counts(kind, value, text, start) for start, _ in _found(kind, value, text))


def bare(text: str) -> str:
    """Return a text without what a look-alike may differ in: case, forms, blanks, quotes, marks."""
    return unicodedata.normalize("NFKC", text).casefold().translate(_SHOWN)


def may_name(kind: SinkKind, value: str, text: str, bare_text: str) -> bool:
    """Whether a text names a value, or holds it in a longer token or in another spelling.

    Args:
        kind: What the value names.
        value: The value.
        text: The text.
        bare_text: The text, as `bare` makes it.
    """
    wanted = bare(value)
    return (len(wanted) >= _TELLING and wanted in bare_text) or occurs(kind, value, text)


def canonical_value(kind: SinkKind, value: str) -> str:
    """Return the one spelling of what names one thing."""
    if kind == "url":
        return _url_key(value) or value
    if kind == "account":
        value = "".join(value.split())
    return value.translate(_LOWER) if kind in _FOLDED else value


class _Shown(dict[int, str]):
    """The form of a character that counts: empty where it shows nothing or stands between words."""

    def __missing__(self, code: int) -> str:
        character = chr(code)
        hidden = unicodedata.category(character) in {"Cf", "Mn", "Zs"}
        self[code] = "" if hidden or character in _BETWEEN else character
        return self[code]


_SHOWN = _Shown()


def _found(kind: SinkKind, value: str, text: str) -> Iterator[tuple[int, int]]:
    """Yield where a text has the value as a whole token."""
    if kind == "account":
        spaced = "[ \u00a0]?".join(map(re.escape, "".join(value.split()).translate(_LOWER)))
        spans = (match.span() for match in re.finditer(spaced, text.translate(_LOWER)))
    else:
        folded = kind in _FOLDED
        wanted = value.translate(_LOWER) if folded else value
        spans = _spans(wanted, text.translate(_LOWER) if folded else text)
    for start, end in spans:
        if _is_free(text, start - 1, -1) and _is_free(text, end, 1):
            yield start, end


def _spans(wanted: str, text: str) -> Iterator[tuple[int, int]]:
    start = text.find(wanted)
    while start >= 0:
        yield start, start + len(wanted)
        start = text.find(wanted, start + 1)


def _is_free(text: str, index: int, step: int) -> bool:
    """Whether no token goes on at a place, looking away from the value."""
    if not 0 <= index < len(text):
        return True
    here, beyond = text[index], text[index + step : index + step + 1] if index + step >= 0 else ""
    if here == ",":
        return not beyond.isdigit()
    if here in _ENDS:
        return True
    if here not in _SOFT:
        return False
    if here == "'" and step > 0 and beyond == "s":
        return _is_free(text, index + 2, 1)
    return not beyond or beyond in _ENDS or beyond in _SOFT


def _counts(kind: SinkKind, value: str, text: str, start: int) -> bool:
    """Whether a token is meant: a small number is the id of nothing unless the text says so."""
    if kind != "selector" or _SHORT_NUMBER.fullmatch(value) is None or text.strip() == value:
        return True
    return _ID_BEFORE.search(text[max(0, start - 16) : start]) is not None


def _names_url(value: str, text: str) -> bool:
    wanted = _url_key(value)
    if wanted is None:
        return False
    return any(_url_key(each) == wanted for each in _candidates(text))


def _candidates(text: str) -> Iterator[str]:
    for match in _URL.finditer(text):
        each = match.group()
        if "." in each or ":" in each:
            yield each
            if (bare := each.strip(_AROUND_URL)) != each:
                yield bare


def _url_key(value: str) -> str | None:
    """Return what tells a request's address from another: its resource, and its query as given."""
    try:
        resource = url_capability("net.http", value).text
    except (CapabilityError, ValueError):
        return None
    query = value.partition("#")[0].partition("?")[2]
    return f"{resource}?{query}" if query else resource
