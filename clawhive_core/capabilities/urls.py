"""URLs: the resources of `net.http` (scheme, port, host, path) and `net.connect` (host, port).

Follows RFC 3986, sections 3 and 6; where clients are known to read a spelling differently from it
(backslashes, control characters, a single slash after the scheme), the spelling is refused. Two
paths that differ only in percent-encoding, in empty segments or in a slash at the end are one
resource, because servers treat them as one.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from clawhive_core.capabilities.escapes import escape_url, unescape_url
from clawhive_core.capabilities.hosts import read_host, show_host
from clawhive_core.capabilities.reading import Reading, shown
from clawhive_core.capabilities.segments import ANY, EVERYTHING, REST, Segments
from clawhive_core.errors import CapabilityError

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
