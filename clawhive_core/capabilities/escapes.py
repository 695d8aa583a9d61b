"""Escapes: the one canonical spelling of a literal segment, by percent-encoding (RFC 3986, 2.1).

In canonical text `%`, `*`, `?`, unprintable characters, bytes that are not UTF-8, spaces at the
edge of a segment and the `$` of `${` are written `%XX`, one for each byte; all else stands for
itself.
Any character of the input may be written `%XX`; it means the same.
"""

from __future__ import annotations

import re
from typing import Final

from clawhive_core.capabilities.reading import Reading, shown
from clawhive_core.errors import CapabilityError
from clawhive_core.model.patterns import pattern

_bad_escape = pattern(r"%(?![0-9A-Fa-f]{2})")
_unescaped = pattern(r"[A-Za-z0-9._@:+=,~-]*")
_raw_in_url: Final = frozenset(
    b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~!$&'()+,;=:@"
)


def unescape(reading: Reading, segment: str) -> bytes:
    """Return the bytes that a literal segment of a path, word or name stands for.

    Raises:
        CapabilityError: A `%` without two hexadecimal digits, an encoded slash, a NUL, or a lone
            surrogate that stands for no byte.
    """
    raw = _encode(reading, segment)
    return raw if reading.literal else _decode(reading, segment, raw)


def unescape_url(reading: Reading, segment: str) -> bytes:
    """Return the bytes that a literal segment of a URL's path stands for.

    Raises:
        CapabilityError: As `unescape`.
    """
    return _decode(reading, segment, _encode(reading, segment))


def _encode(reading: Reading, segment: str) -> bytes:
    try:
        raw = segment.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        raise reading.error(
            "The resource contains half of a surrogate pair, which no file or address can have.",
            at=segment,
            fix="Write the character itself, or its UTF-8 bytes as `%XX`.",
        ) from error
    if b"\0" in raw:
        raise _refuse_nul(reading, segment)
    return raw


def _decode(reading: Reading, segment: str, raw: bytes) -> bytes:
    """Return `raw`, the bytes of `segment`, with its percent-encoding undone once.

    Raises:
        CapabilityError: As `unescape`.
    """
    if b"%" not in raw:
        return raw
    if bad := _bad_escape.search(segment):
        raise reading.error(
            "A `%` is followed by two hexadecimal digits,"
            f" not as in {shown(segment[bad.start() :][:3])}.",
            at=segment[bad.start() :],
            fix="Write a percent sign that belongs to a name as `%25`.",
        )
    decoded = re.sub(rb"%(..)", lambda found: bytes([int(found[1], 16)]), raw)
    if decoded.count(b"/") != raw.count(b"/"):
        raise reading.error(
            "An encoded slash is neither a separator nor part of a name.",
            at=segment,
            fix="Write `/` where a new segment begins.",
        )
    if b"\0" in decoded:
        raise _refuse_nul(reading, segment)
    return decoded


def _refuse_nul(reading: Reading, segment: str) -> CapabilityError:
    return reading.error(
        "The resource contains a NUL byte.", at=segment, fix="Write the name without it."
    )


def escape(raw: bytes) -> str:
    """Return the canonical spelling of a literal segment of a path, word or name."""
    text = raw.decode("utf-8", "surrogateescape")
    if _unescaped.fullmatch(text):
        return text
    last = len(text) - 1
    return "".join(
        _percent(char.encode("utf-8", "surrogateescape"))
        if char in "%*?"
        or not char.isprintable()
        or (char == " " and index in (0, last))
        or (char == "$" and text[index + 1 : index + 2] == "{")
        else char
        for index, char in enumerate(text)
    )


def escape_url(raw: bytes) -> str:
    """Return the canonical spelling of a literal segment of a URL's path: RFC 3986 `pchar`.

    `*`, which RFC 3986 allows, is encoded, because here it is a wildcard.
    """
    return "".join(chr(byte) if byte in _raw_in_url else f"%{byte:02X}" for byte in raw)


def _percent(raw: bytes) -> str:
    return "".join(f"%{byte:02X}" for byte in raw)
