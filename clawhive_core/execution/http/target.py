"""The target of a request: one URL, read once, by the code that makes its capability.

Host and port of the connection, the Host header and the name in TLS come from the capability that
was decided, so no second reading of the URL can differ from the first.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final
from urllib.parse import quote, unquote, urljoin

from clawhive_core.capabilities import Capability, url_capability
from clawhive_core.errors import CapabilityError, ToolError
from clawhive_core.execution.http.addresses import Address
from clawhive_core.model.late import dataclass
from clawhive_core.model.patterns import pattern

MAX_URL: Final = 16_384

_absolute = pattern(r"(?i:https?)://")
_has_scheme = pattern(r"[A-Za-z][A-Za-z0-9+.\-]*:")
_user = pattern(r"//[^/?#]*@")
_unsafe = pattern(r"[\x00-\x1f\x7f]")
_SAFE: Final = "%/:?@!$&'()*+,;=-._~[]|^`{}"
_DOTS: Final = frozenset({".", ".."})

_PORTS: Final = """
0 1 7 9 11 13 15 17 19 20 21 22 23 25 37 42 43 53 69 77 79 87 95 101 102 103 104 109 110 111 113
115 117 119 123 135 137 139 143 161 179 389 427 465 512 513 514 515 526 530 531 532 540 548 554
556 563 587 601 636 989 990 993 995 1719 1720 1723 2049 3659 4045 4190 5060 5061 6000 6566 6665
6666 6667 6668 6669 6679 6697 10080
"""
BLOCKED_PORTS: Final = frozenset(map(int, _PORTS.split()))
"""The ports that no browser asks (WHATWG Fetch, 2.9): their protocols can be talked to by HTTP."""


async def _no_right(_: str) -> None:
    raise ToolError("nobody can be asked for the right", code="denied")


@dataclass(frozen=True, slots=True)
class Rights:
    """The rights that requests and redirects are held against."""

    require: Callable[[str], Awaitable[object]] = _no_right
    """Returns where the call has the right to a capability, raises where it does not."""
    names_host: Callable[[Capability], bool] = lambda _: False
    """Whether a right names the host of this very capability, by no wildcard."""


@dataclass(frozen=True, slots=True)
class Target:
    """The target of one request."""

    capability: Capability
    """The right that it needs: `net.http` for exactly this URL, without its query."""
    path: str
    """Path and query, as they are sent."""

    @property
    def scheme(self) -> str:
        """`http` or `https`."""
        return self.capability.parts[0][0]

    @property
    def port(self) -> int:
        """The port, the scheme's own where the URL has none."""
        return int(self.capability.parts[0][1])

    @property
    def host(self) -> str:
        """The name, or the address in canonical text without brackets."""
        return ".".join(reversed(self.capability.parts[1])).strip("[]")

    @property
    def literal(self) -> str | None:
        """The address that stands in the URL itself, whatever its spelling; None for a name."""
        host = self.capability.parts[1]
        is_address = len(host) == 1 and ("." in host[0] or host[0].startswith("["))
        return self.host if is_address else None

    @property
    def authority(self) -> str:
        """The Host header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        own = {"http": 80, "https": 443}[self.scheme]
        return host if self.port == own else f"{host}:{self.port}"

    @property
    def origin(self) -> tuple[str, str, int]:
        """The part of a URL within which headers may be seen: scheme, host and port."""
        return self.scheme, self.host, self.port

    @property
    def url(self) -> str:
        """The whole URL."""
        return f"{self.scheme}://{self.authority}{self.path}"

    @property
    def shown(self) -> str:
        """The URL for messages: without its query, which may hold a secret."""
        return self.capability.text.removeprefix("net.http:")

    def at(self, address: Address) -> Capability:
        """Return the right to ask the same of an address by its number."""
        service, _, path = self.capability.parts
        return Capability("net.http", (service, (address.segment,), path))


def read_target(url: str) -> Target:
    """Return the target of a URL.

    Raises:
        ToolError: `invalid_input` where it is no absolute http or https URL, or one that clients
            read in different ways; `denied` for a port that no browser asks.
    """
    if not _absolute.match(url) or len(url) > MAX_URL:
        raise invalid_request(
            f"only absolute http and https URLs of at most {MAX_URL} characters can be requested",
            url,
            "write it as https://host/path",
        )
    url, _, _ = url.partition("#")
    if _unsafe.search(url):
        raise invalid_request(
            "the URL holds a control character", url, "write it as %XX, or not at all"
        )
    try:
        capability = url_capability("net.http", url)
    except CapabilityError as error:
        fix = "write one that every client, proxy and server reads in the same way"
        raise invalid_request(error.message, url, fix) from error
    target = Target(capability, _path(url, capability))
    if target.port in BLOCKED_PORTS:
        raise ToolError(
            f"port {target.port} belongs to another protocol, and no browser asks it either",
            place=target.shown,
            fix="let the service listen on another port",
            code="denied",
        )
    return target


def redirect_target(target: Target, location: str) -> Target:
    """Return the target that a redirect names.

    Raises:
        ToolError: As `read_target`.
    """
    if _unsafe.search(location) or "\\" in location.partition("?")[0]:
        raise bad_redirect("the redirect's address is ambiguous", target)
    if location.startswith("//"):
        return read_target(f"{target.scheme}:{location}")
    if _has_scheme.match(location):
        return read_target(location)
    return read_target(urljoin(target.url, location))


def bad_redirect(message: str, target: Target) -> ToolError:
    """Return the error for a redirect that leads nowhere."""
    return invalid_request(message, target.shown, "ask the address where it should end")


def invalid_request(message: str, place: str, fix: str) -> ToolError:
    """Return the error for what cannot be requested."""
    from clawhive_core.capabilities.reading import shown

    bare = shown(_user.sub("//", place.partition("?")[0])).strip("`")
    return ToolError(message, place=bare, fix=fix, code="invalid_input")


def _path(url: str, capability: Capability) -> str:
    """Return path and query as they are sent: as written, without dot segments.

    A server that undoes `%2e%2e` and one that does not see the same path, which is the one that
    was decided.
    """
    lead, mark, query = url.partition("?")
    written = "/" + lead.partition("://")[2].partition("/")[2]
    segments = written.split("/")
    if any(unquote(each) in _DOTS for each in segments):
        path = "/" + "/".join(capability.parts[2])
        last = segments[-1]
        ends = last == "" or unquote(last) in _DOTS
        written = path if path == "/" or not ends else path + "/"
    try:
        return quote(written, safe=_SAFE.replace("?", "")) + mark + quote(query, safe=_SAFE)
    except UnicodeEncodeError as error:
        raise invalid_request(
            "the URL holds half of a character", lead, "write it as %XX"
        ) from error
