"""Hosts: names by labels and addresses in one spelling each.

A name is kept as its labels in reverse order, so that `**.example.com` is a pattern like all
others; an address is one segment. Names follow RFC 3490 (IDNA) as the standard library has it;
those that later standards spell otherwise are refused, so that no client can look up another name
than the one that was judged. IPv4 addresses are read as `inet_aton` does, IPv6 as RFC 4291, and
written as RFC 5952 says; an IPv4 address mapped into IPv6 is that IPv4 address.
"""

from __future__ import annotations

from typing import Final

from clawhive_core.capabilities.reading import Reading, shown
from clawhive_core.capabilities.segments import ANY, REST, Segments
from clawhive_core.errors import CapabilityError
from clawhive_core.model.patterns import pattern

_MAX_HOST: Final = 253
_dots = pattern("[.\u3002\uff0e\uff61]")
_label = pattern(r"[a-z0-9_-]{1,63}")
_number = pattern(r"[0-9]+|0[xX][0-9A-Fa-f]*")
# RFC 5892 keeps these four; RFC 3490 folds them away.
_deviating: Final = frozenset("\u00df\u03c2\u200c\u200d")


def read_host(reading: Reading, host: str) -> Segments:
    """Return the segments of a host: an address, or the labels of a name in reverse order.

    Raises:
        CapabilityError: It is no host, or its wildcards cannot be used.
    """
    if host.startswith("["):
        return (_read_ipv6(reading, host),)
    if not host or len(host) > _MAX_HOST + 1:
        raise _refuse(reading, host, f"A host has 1 to {_MAX_HOST} characters")
    labels = _dots.split(host)
    if labels[-1] == "" and len(labels) > 1:
        labels.pop()
    read = [_read_label(reading, label, host) for label in labels]
    _check_wildcards(reading, read, host)
    if _number.fullmatch(read[-1]):
        return (_read_ipv4(reading, read, host),)
    if len(".".join(read)) > _MAX_HOST:
        raise _refuse(reading, host, f"A host has 1 to {_MAX_HOST} characters")
    return tuple(reversed(read))


def show_host(segments: Segments) -> str:
    """Return the canonical text of a host."""
    return ".".join(reversed(segments))


def _refuse(reading: Reading, host: str, why: str) -> CapabilityError:
    return reading.error(
        f"{shown(host)} is no host that can be matched: {why}.",
        at=host,
        fix="Write a name such as `api.example.com`, `*.example.com` for one more label,"
        " `**.example.com` for any number of them, an address such as `192.0.2.1` or"
        " `[2001:db8::1]`, or `**` for every host.",
    )


def _read_label(reading: Reading, label: str, host: str) -> str:
    if label in {ANY, REST} and not reading.literal:
        return label
    if "*" in label:
        raise _refuse(reading, host, "a `*` stands for one whole label, in patterns only")
    if not label:
        raise _refuse(reading, host, "a label is empty")
    ascii_label = label.lower() if label.isascii() else _to_ascii(reading, label, host)
    if not _label.fullmatch(ascii_label):
        raise _refuse(reading, host, "a label has 1 to 63 letters, digits, hyphens and underscores")
    if ascii_label.startswith("xn--"):
        _check_punycode(reading, ascii_label, host)
    return ascii_label


def _to_ascii(reading: Reading, label: str, host: str) -> str:
    from encodings.idna import ToASCII
    from unicodedata import ucd_3_2_0

    if any(char in _deviating or ucd_3_2_0.category(char) == "Cn" for char in label):
        raise _refuse(
            reading, host, "clients disagree how to look it up; write its `xn--` spelling"
        )
    try:
        return ToASCII(label).decode("ascii").lower()
    except UnicodeError as error:
        raise _refuse(reading, host, "it is no valid internationalised name") from error


def _check_punycode(reading: Reading, label: str, host: str) -> None:
    try:
        label[4:].encode("ascii").decode("punycode")
    except (UnicodeError, ValueError, OverflowError) as error:
        raise _refuse(reading, host, "what follows `xn--` is no Punycode") from error


def _check_wildcards(reading: Reading, labels: list[str], host: str) -> None:
    if REST in labels[1:]:
        raise _refuse(reading, host, "`**` stands only before all labels")
    literals = [label for label in labels if label not in {ANY, REST}]
    if len(literals) < len(labels) and literals and _number.fullmatch(labels[-1]):
        raise _refuse(reading, host, "an address is one segment; write one line for each")
    if ANY in labels and literals and all(_number.fullmatch(label) for label in literals):
        raise _refuse(reading, host, "an address is one segment; write one line for each")


def _read_ipv4(reading: Reading, parts: list[str], host: str) -> str:
    values = [_read_number(part) for part in parts]
    shape = [256] * (len(values) - 1) + [256 ** (5 - len(values))]
    fits = len(values) <= len("abcd") and all(
        value is not None and value < limit for value, limit in zip(values, shape, strict=True)
    )
    if not fits:
        raise _refuse(reading, host, "a host that ends in a number must be an IPv4 address")
    total = sum((value or 0) << (24 - 8 * index) for index, value in enumerate(values[:-1])) + (
        values[-1] or 0
    )
    return ".".join(str(total >> shift & 255) for shift in (24, 16, 8, 0))


def _read_number(part: str) -> int | None:
    """Return a number as `inet_aton` reads it, None where it is none."""
    if not _number.fullmatch(part) or part.lower() == "0x" or len(part) > len("0x") + 16:
        return None
    if part[:2].lower() == "0x":
        return int(part, 16)
    if part.startswith("0") and len(part) > 1:
        return int(part, 8) if set(part) <= set("01234567") else None
    return int(part)


def _read_ipv6(reading: Reading, host: str) -> str:
    from ipaddress import AddressValueError, IPv6Address

    try:
        if not host.endswith("]") or "%" in host:
            raise _refuse(reading, host, "an IPv6 address stands in brackets, without a zone")
        address = IPv6Address(host[1:-1])
    except AddressValueError as error:
        raise _refuse(reading, host, "it is no IPv6 address") from error
    mapped = address.ipv4_mapped
    return str(mapped) if mapped is not None else f"[{address.compressed}]"
