"""URLs: the resources of `net.http` (scheme, port, host, path) and `net.connect` (host, port).

Follows RFC 3986, sections 3 and 6; where clients are known to read a spelling differently from it
(backslashes, control characters, a single slash after the scheme), the spelling is refused. Two
paths that differ only in percent-encoding, in empty segments or in a slash at the end are one
resource, because servers treat them as one.

A host's name is kept as its labels in reverse order, so that `**.example.com` is a pattern like all
others; an address is one segment. Names follow RFC 3490 (IDNA) as the standard library has it;
those that later standards spell otherwise are refused, so that no client can look up another name
than the one that was judged. IPv4 addresses are read as `inet_aton` does, IPv6 as RFC 4291, and
written as RFC 5952 says; an IPv4 address mapped into IPv6 is that IPv4 address.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from clawhive_core.capabilities.escapes import escape_url, unescape_url
from clawhive_core.capabilities.reading import Reading, shown
from clawhive_core.capabilities.segments import ANY, EVERYTHING, REST, Segments
from clawhive_core.errors import CapabilityError
from clawhive_core.model.patterns import pattern

Parts = tuple[Segments, ...]

SCHEMES: Final[Mapping[str, Mapping[str, str]]] = MappingProxyType(
    {
        "net.http": {"https": "443", "http": "80", "wss": "443", "ws": "80"},
        "net.connect": {"tcp": ANY, "udp": ANY},
    }
)
"""The schemes of each verb with their default ports; the first is the default scheme."""

_ANY_SERVICE: Final[Segments] = (ANY, ANY)
_MAX_PORT: Final = 65_535

_MAX_HOST: Final = 253
_dots = pattern("[.\u3002\uff0e\uff61]")
_label = pattern(r"[a-z0-9_-]{1,63}")
_ipv4_number = pattern(r"[0-9]+|0[xX][0-9A-Fa-f]*")
# RFC 5892 keeps these four; RFC 3490 folds them away.
_deviating: Final = frozenset("\u00df\u03c2\u200c\u200d")


def read_url(reading: Reading) -> Parts:
    """Return scheme with port, host, and for `net.http` the path.

    A scheme `*` is every scheme, and then a missing port is every port.

    Raises:
        CapabilityError: It is no URL, or one that clients read in different ways.
    """
    web = reading.verb.name == "net.http"
    if reading.resource == REST and not reading.literal:
        return (_ANY_SERVICE, EVERYTHING, EVERYTHING) if web else (_ANY_SERVICE, EVERYTHING)
    _check_characters(reading)
    scheme, explicit, rest = _split_scheme(reading)
    authority, slash, path = rest.partition("/")
    host, port = _split_port(reading, authority, explicit=explicit)
    port = _read_port(reading, port or _default_port(reading.verb.name, scheme))
    address = (scheme, port), read_host(reading, host)
    if web:
        return (*address, _read_path(reading, slash, path))
    if path:
        raise reading.error(
            "`net.connect` opens a connection to a host and port; it has no path.",
            at="/" + path,
            fix=f"Write {reading.line(authority)}, or use `net.http` for a path.",
        )
    return address


def show_url(verb: str, parts: Parts) -> str:
    """Return the canonical text of a URL."""
    if parts == (_ANY_SERVICE, EVERYTHING, EVERYTHING)[: len(parts)]:
        return REST
    (scheme, port), host = parts[0], show_host(parts[1])
    if verb == "net.connect":
        return f"{host}:{port}" if scheme == "tcp" else f"{scheme}://{host}:{port}"
    shown_port = "" if port == _default_port(verb, scheme) else f":{port}"
    return f"{scheme}://{host}{shown_port}/{'/'.join(parts[2])}"


def without_query(url: str) -> str:
    """Return a URL without its query and fragment."""
    return url.partition("#")[0].partition("?")[0]


def _check_characters(reading: Reading) -> None:
    if reading.resource != reading.resource.strip():
        raise reading.error(
            "The URL begins or ends with white space, which some clients drop.",
            fix=f"Write {reading.line(reading.resource.strip())}.",
        )
    for char in reading.resource:
        if char < " " or char in "\x7f\\":
            raise reading.error(
                f"A URL contains no {shown(char)}: clients read it in different ways.",
                at=char,
                fix="Write `/` between segments, and other characters as `%XX`.",
            )
    if "#" in reading.resource:
        raise reading.error(
            "A fragment is never sent, so no pattern has one.",
            at="#",
            fix=f"Write {reading.line(reading.resource.partition('#')[0])}.",
        )


def _split_scheme(reading: Reading) -> tuple[str, bool, str]:
    """Return the scheme, whether it was written, and what follows it."""
    schemes = SCHEMES[reading.verb.name]
    scheme, mark, rest = reading.resource.partition("://")
    if not mark or "/" in scheme:
        return next(iter(schemes)), False, reading.resource
    if scheme.lower() in schemes or (scheme == ANY and not reading.literal):
        return scheme.lower(), True, rest
    lines = ", ".join(shown(f"{reading.verb.name}:{known}://{rest}") for known in (*schemes, ANY))
    raise reading.error(
        f"`{reading.verb.name}` does not speak {shown(scheme)}.",
        fix=f"Write one of {lines} (every scheme and port), or {reading.line(REST)}.",
    )


def _default_port(verb: str, scheme: str) -> str:
    return ANY if scheme == ANY else SCHEMES[verb][scheme]


def _split_port(reading: Reading, authority: str, *, explicit: bool) -> tuple[str, str]:
    if "@" in authority:
        raise reading.error(
            "A capability holds no user name or password.",
            at=authority,
            fix=f"Write {reading.line(authority.rpartition('@')[2])}; a secret has its own"
            " right, `secret.use`.",
        )
    bracket = authority.rfind("]")
    host, colon, port = (
        authority.rpartition(":")
        if ":" in authority[bracket + 1 :]
        else (
            authority,
            "",
            "",
        )
    )
    if ":" in host and bracket < 0:
        raise reading.error(
            "An IPv6 address stands in brackets.",
            at=authority,
            fix=f"Write {reading.line(f'[{authority}]')}.",
        )
    if colon and not port and not explicit:
        raise _refuse_port(reading, authority)
    return host, port


def _read_port(reading: Reading, port: str) -> str:
    if port == ANY and not reading.literal:
        return port
    digits = port.lstrip("0")
    if not (port.isascii() and port.isdigit() and 0 < len(digits) <= len(str(_MAX_PORT))):
        raise _refuse_port(reading, port)
    if int(digits) > _MAX_PORT:
        raise _refuse_port(reading, port)
    return digits


def _refuse_port(reading: Reading, at: str) -> CapabilityError:
    fix = "Write `host:443`, `host` for the scheme's own port, or in a pattern `host:*`."
    if reading.verb.name == "net.connect":
        fix = "Write `host:5432`, or in a pattern `host:*` for every port."
    return reading.error(f"A port is a number from 1 to {_MAX_PORT} after `host:`.", at=at, fix=fix)


def _read_path(reading: Reading, slash: str, path: str) -> Segments:
    if not slash and not reading.literal:
        return EVERYTHING
    items = [item for item in path.split("/") if item]
    host = reading.resource[: len(reading.resource) - len(path)]
    reading.check_wildcards(items, "/", host)
    read: list[str] = []
    for item in items:
        segment = _read_segment(reading, item)
        if segment == "..":
            del read[-1:]
        elif segment != ".":
            read.append(segment)
    return reading.check_size(tuple(read))


def _read_segment(reading: Reading, item: str) -> str:
    if item in {ANY, REST} and not reading.literal:
        return item
    raw = unescape_url(reading, item)
    if b"\\" in raw or (b";" in raw and raw.partition(b";")[0] in {b".", b".."}):
        raise reading.error(
            f"Servers read the segment {shown(item)} in different ways.",
            at=item,
            fix="Write the path that is meant, with `/` between segments and no dot segments.",
        )
    return escape_url(raw)


def read_host(reading: Reading, host: str) -> Segments:
    """Return the segments of a host: an address, or the labels of a name in reverse order.

    Raises:
        CapabilityError: It is no host, or its wildcards cannot be used.
    """
    if host.startswith("["):
        return (_read_ipv6(reading, host),)
    if not host or len(host) > _MAX_HOST + 1:
        raise _refuse_host(reading, host, f"A host has 1 to {_MAX_HOST} characters")
    labels = _dots.split(host)
    if labels[-1] == "" and len(labels) > 1:
        labels.pop()
    read = [_read_label(reading, label, host) for label in labels]
    _check_wildcards(reading, read, host)
    if _ipv4_number.fullmatch(read[-1]):
        return (_read_ipv4(reading, read, host),)
    if len(".".join(read)) > _MAX_HOST:
        raise _refuse_host(reading, host, f"A host has 1 to {_MAX_HOST} characters")
    return tuple(reversed(read))


def show_host(segments: Segments) -> str:
    """Return the canonical text of a host."""
    return ".".join(reversed(segments))


def _refuse_host(reading: Reading, host: str, why: str) -> CapabilityError:
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
        raise _refuse_host(reading, host, "a `*` stands for one whole label, in patterns only")
    if not label:
        raise _refuse_host(reading, host, "a label is empty")
    ascii_label = label.lower() if label.isascii() else _to_ascii(reading, label, host)
    if not _label.fullmatch(ascii_label):
        raise _refuse_host(
            reading, host, "a label has 1 to 63 letters, digits, hyphens and underscores"
        )
    if ascii_label.startswith("xn--"):
        _check_punycode(reading, ascii_label, host)
    return ascii_label


def _to_ascii(reading: Reading, label: str, host: str) -> str:
    from encodings.idna import ToASCII
    from unicodedata import ucd_3_2_0

    if any(char in _deviating or ucd_3_2_0.category(char) == "Cn" for char in label):
        raise _refuse_host(
            reading, host, "clients disagree how to look it up; write its `xn--` spelling"
        )
    try:
        return ToASCII(label).decode("ascii").lower()
    except UnicodeError as error:
        raise _refuse_host(reading, host, "it is no valid internationalised name") from error


def _check_punycode(reading: Reading, label: str, host: str) -> None:
    try:
        label[4:].encode("ascii").decode("punycode")
    except (UnicodeError, ValueError, OverflowError) as error:
        raise _refuse_host(reading, host, "what follows `xn--` is no Punycode") from error


def _check_wildcards(reading: Reading, labels: list[str], host: str) -> None:
    if REST in labels[1:]:
        raise _refuse_host(reading, host, "`**` stands only before all labels")
    literals = [label for label in labels if label not in {ANY, REST}]
    if len(literals) < len(labels) and literals and _ipv4_number.fullmatch(labels[-1]):
        raise _refuse_host(reading, host, "an address is one segment; write one line for each")
    if ANY in labels and literals and all(_ipv4_number.fullmatch(label) for label in literals):
        raise _refuse_host(reading, host, "an address is one segment; write one line for each")


def _read_ipv4(reading: Reading, parts: list[str], host: str) -> str:
    values = [_read_ipv4_number(part) for part in parts]
    shape = [256] * (len(values) - 1) + [256 ** (5 - len(values))]
    fits = len(values) <= len("abcd") and all(
        value is not None and value < limit for value, limit in zip(values, shape, strict=True)
    )
    if not fits:
        raise _refuse_host(reading, host, "a host that ends in a number must be an IPv4 address")
    total = sum((value or 0) << (24 - 8 * index) for index, value in enumerate(values[:-1])) + (
        values[-1] or 0
    )
    return ".".join(str(total >> shift & 255) for shift in (24, 16, 8, 0))


def _read_ipv4_number(part: str) -> int | None:
    """Return a number as `inet_aton` reads it, None where it is none."""
    if not _ipv4_number.fullmatch(part) or part.lower() == "0x" or len(part) > len("0x") + 16:
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
            raise _refuse_host(reading, host, "an IPv6 address stands in brackets, without a zone")
        address = IPv6Address(host[1:-1])
    except AddressValueError as error:
        raise _refuse_host(reading, host, "it is no IPv6 address") from error
    mapped = address.ipv4_mapped
    return str(mapped) if mapped is not None else f"[{address.compressed}]"
