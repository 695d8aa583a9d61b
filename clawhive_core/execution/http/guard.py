"""The guard: what looks a host up, judges its addresses, and connects to nothing else."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterable, Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import field, replace
from time import monotonic
from typing import Any, Final, cast

import anyio
import httpcore2  # noqa: TID253 - this module is imported with the first request

from clawhive_core.capabilities import url_capability
from clawhive_core.errors import ConfigError, ToolError
from clawhive_core.execution.http.addresses import Address, check_address
from clawhive_core.execution.http.answer import (
    Answer,
    Deadline,
    too_large,
    translated_errors,
    unreachable,
    unusable,
)
from clawhive_core.execution.http.target import Rights, Target, invalid_request
from clawhive_core.execution.outcomes import RefusedMidway
from clawhive_core.model.late import dataclass
from clawhive_core.protocols.http import HttpLimits

Resolver = Callable[[str, int], Awaitable[Sequence[str]]]
"""Looks up the addresses of a host's name."""

_ANSWERS: Final = 8
"""Addresses of a host that are tried."""
_LEAST_CONNECT: Final = 1.0
_POOLS: Final = 64
_IDLE: Final = 15.0
"""Seconds after which the connections of an address that nobody asks are closed."""
_KEPT_ALIVE: Final = 5.0
_SOCKETS: Final = 16
_SWITCHING: Final = 101
_HEADERS: Final = 64 * 1024
"""Bytes that may come before a body."""
_PROXY_ANSWER: Final = 8 * 1024
METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "QUERY"})

Key = tuple[str, str, int, str]


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """One request, ready to be sent."""

    target: Target
    method: str
    headers: Sequence[tuple[str, str]]
    """Of the caller; the guard adds Host and what it can unpack."""
    content: bytes | AsyncIterable[bytes] = b""
    """The body; of one that comes in parts, the headers say how long it is."""


async def resolve_host(host: str, port: int) -> Sequence[str]:
    """Return the addresses that this machine finds for a name."""
    import socket

    found = await anyio.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [address[0] for *_, address in found]


@dataclass(frozen=True, slots=True)
class Proxy:
    """A proxy that the user's configuration names; its own address is not judged."""

    host: str
    port: int
    authorization: str = field(default="", repr=False)
    """The value of `Proxy-Authorization`, empty where it asks for none."""


def read_proxy(url: str) -> Proxy:
    """Return the proxy of a URL.

    Raises:
        ConfigError: It is not `http://[user:password@]host:port`.
    """
    from base64 import b64encode
    from urllib.parse import unquote, urlsplit

    split, host, port = urlsplit(""), None, None
    with suppress(ValueError):
        split = urlsplit(url)
        host, port = split.hostname, split.port
    if not host or not port or split.scheme != "http" or split.path.strip("/"):
        raise ConfigError(
            "a proxy is reached over http, at a host and port",
            place="http.proxy",
            fix='write it like `proxy = "http://proxy.example:3128"`',
        )
    if split.username is None:
        return Proxy(host, port)
    user = f"{unquote(split.username)}:{unquote(split.password or '')}"
    return Proxy(host, port, f"Basic {b64encode(user.encode()).decode()}")


class Guard:
    """Connections to checked addresses, shared by the requests of a project.

    A connection serves further requests to the same scheme, host, port and address only.

    Args:
        resolve: Looks up names.
        verify: How servers prove who they are; unset: by the certificates of this machine.
        proxy: `http://[user:password@]host:port`, through which checked addresses are reached.
        network: What opens connections; unset: sockets of this machine.
    """

    def __init__(
        self,
        *,
        resolve: Resolver = resolve_host,
        verify: ssl.SSLContext | None = None,
        proxy: str | None = None,
        network: httpcore2.AsyncNetworkBackend | None = None,
    ) -> None:
        self._resolve = resolve
        self._verify = verify
        self._proxy = None if proxy is None else read_proxy(proxy)
        own = cast("httpcore2.AsyncNetworkBackend", httpcore2.AnyIOBackend())
        self._network = own if network is None else network
        self._pools: dict[Key, tuple[httpcore2.AsyncConnectionPool, float]] = {}
        self._found: dict[tuple[str, int], tuple[list[Address], float]] = {}
        """The judged addresses of names, for as long as a connection to them would be kept."""

    async def send(
        self,
        outgoing: HttpRequest,
        rights: Rights,
        limits: HttpLimits,
        deadline: Deadline,
        *,
        cut: bool = False,
    ) -> Answer:
        """Ask for the right, look up, judge, connect and send.

        Returns:
            The answer with its body unread; whoever gets it closes it.

        Raises:
            ToolError: As `protocols.http.HttpClient`, and what `rights` raises.
        """
        target = outgoing.target
        if outgoing.method not in METHODS:
            methods = ", ".join(sorted(METHODS))
            raise invalid_request(
                f"{outgoing.method!r} is no method", target.shown, f"use one of {methods}"
            )
        await self._ask(rights, target.capability.text, deadline)
        addresses = await self._addresses(target, limits, deadline)
        for address in addresses:
            if address.problem is not None:
                await self._ask_for_address(rights, target, address, deadline)
        found = await self._exchange(outgoing, addresses, limits, deadline)
        answer = Answer(
            target, found.status, found.headers, found.stream, limits.body, deadline, cut
        )
        if found.status == _SWITCHING:
            await answer.aclose()
            raise unusable(target, "the server switched to another protocol, unasked")
        return answer

    async def aclose(self) -> None:
        """Close every connection."""
        pools, self._pools = self._pools, {}
        for pool, _ in pools.values():
            await pool.aclose()

    async def _ask(self, rights: Rights, capability: str, deadline: Deadline) -> None:
        since = monotonic()
        await rights.require(capability)
        deadline.extend(since)

    async def _ask_for_address(
        self, rights: Rights, target: Target, address: Address, deadline: Deadline
    ) -> None:
        """Ask for an address that is not public.

        A right to a name, or to any host, is none to what lies behind it in this machine's own
        networks: it must name the address, or be one to connect there.
        """
        if not address.is_nameable:
            raise ToolError(
                f"{_why(target, address)}, where nothing can be asked",
                place=target.shown,
                fix="ask a public address",
                code="denied",
            )
        by_number = target.at(address)
        if rights.names_host(by_number):
            return await self._ask(rights, by_number.text, deadline)
        connect = url_capability("net.connect", f"{address.segment}:{target.port}")
        try:
            await self._ask(rights, connect.text, deadline)
        except ToolError as error:
            raise _explain_refusal(error, target, address) from error

    async def _addresses(
        self, target: Target, limits: HttpLimits, deadline: Deadline
    ) -> list[Address]:
        if (literal := target.literal) is not None:
            return [check_address(literal)]
        known = self._found.get((target.host, target.port))
        if known is not None and monotonic() - known[1] < _KEPT_ALIVE:
            return known[0]
        with translated_errors(target, "name"), anyio.fail_after(deadline.left(limits.connect)):
            found = await self._resolve(target.host, target.port)
        if not found:
            raise unreachable(target, f"`{target.host}` has no address")
        addresses = list(dict.fromkeys(map(check_address, found)))
        if len(self._found) >= _POOLS:
            self._found.clear()
        self._found[target.host, target.port] = addresses, monotonic()
        return addresses

    async def _exchange(
        self,
        outgoing: HttpRequest,
        addresses: Sequence[Address],
        limits: HttpLimits,
        deadline: Deadline,
    ) -> httpcore2.Response:
        """Send the request to the first address that a connection can be made to."""
        target = outgoing.target
        keys = [(*target.origin, address.text) for address in addresses]
        keys.sort(key=lambda key: key not in self._pools)
        tried = keys[:_ANSWERS]
        await self._sweep()
        for number, key in enumerate(tried):
            share = max(_LEAST_CONNECT, limits.connect / len(tried))
            request = _request(outgoing, limits, deadline, connect=deadline.left(share))
            with translated_errors(target, "answer"):
                try:
                    with anyio.fail_after(deadline.left()):
                        response = await self._pool(key).handle_async_request(request)
                except _HeadersTooLong:
                    raise too_large(target, "headers", _HEADERS) from None
                except (httpcore2.ConnectError, httpcore2.ConnectTimeout):
                    self._found.pop((target.host, target.port), None)
                    if number == len(tried) - 1:
                        raise
                    continue
            stream = cast("_Metered", response.extensions["network_stream"])
            stream.begin_body(deadline)
            return response
        raise unreachable(target, f"`{target.host}` has no address")

    def _pool(self, key: Key) -> httpcore2.AsyncConnectionPool:
        scheme, _, _, address = key
        known = self._pools.pop(key, None)
        pool = (
            known[0]
            if known is not None
            else httpcore2.AsyncConnectionPool(
                ssl_context=self._tls() if scheme == "https" else None,
                max_connections=_SOCKETS,
                keepalive_expiry=_KEPT_ALIVE,
                network_backend=_Pinned(self._network, address, self._proxy),
            )
        )
        self._pools[key] = pool, monotonic()
        return pool

    def _tls(self) -> ssl.SSLContext:
        if self._verify is None:
            self._verify = httpcore2.default_ssl_context()
        return self._verify

    async def _sweep(self) -> None:
        """Close what nobody asks any more."""
        before = monotonic() - _IDLE
        most = len(self._pools) - _POOLS
        for index, (key, (pool, last)) in enumerate(list(self._pools.items())):
            old = last < before or index < most
            if old and all(each.is_idle() for each in pool.connections):
                self._pools.pop(key, None)
                await pool.aclose()


def _explain_refusal(error: ToolError, target: Target, address: Address) -> ToolError:
    """Return the refusal of an address that is not public, with why it was asked for at all."""
    message = f"{_why(target, address)}: {error.message}"
    if isinstance(error, RefusedMidway):
        return RefusedMidway(replace(error.refusal, message=message))
    by_number = target.at(address)
    host = by_number.text.removesuffix("/" + "/".join(by_number.parts[2]))
    fix = f"if it is meant, grant `{host}` or `net.connect:{address.segment}:{target.port}`"
    return ToolError(message, place=target.shown, fix=fix, code=error.code)


def _why(target: Target, address: Address) -> str:
    is_at = "" if target.literal else f"`{target.host}` is at "
    return f"{is_at}{address.text}, {address.problem}"


class _HeadersTooLong(Exception):
    """More came before the body than may."""


class _Pinned(httpcore2.AsyncNetworkBackend):
    """Connects to one checked address, whatever host it is asked for."""

    def __init__(
        self,
        network: httpcore2.AsyncNetworkBackend,
        address: str,
        proxy: Proxy | None,
    ) -> None:
        self._network, self._address, self._proxy = network, address, proxy

    async def connect_tcp(
        self,
        host: str,  # noqa: ARG002 - the name was looked up and judged: it is never looked up again
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - the interface of httpcore2
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        """Open a connection to the checked address."""
        proxy = self._proxy
        to = (self._address, port) if proxy is None else (proxy.host, proxy.port)
        stream = await self._network.connect_tcp(
            *to, timeout=timeout, local_address=local_address, socket_options=socket_options
        )
        if proxy is not None:
            await _tunnel(stream, proxy, self._address, port, timeout)
        return _Metered(stream)


async def _tunnel(
    stream: httpcore2.AsyncNetworkStream,
    proxy: Proxy,
    address: str,
    port: int,
    seconds: float | None,
) -> None:
    """Let a proxy connect to the checked address, so that its own look-up decides nothing."""
    at = f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
    lines = [f"CONNECT {at} HTTP/1.1", f"Host: {at}"]
    if proxy.authorization:
        lines.append(f"Proxy-Authorization: {proxy.authorization}")
    await stream.write("".join(f"{line}\r\n" for line in [*lines, ""]).encode(), seconds)
    answer = b""
    while b"\r\n\r\n" not in answer:
        part = await stream.read(1, seconds)
        answer += part
        if not part or len(answer) > _PROXY_ANSWER:
            await stream.aclose()
            raise httpcore2.ProxyError("the proxy gave no answer")
    status = answer.split(b"\r\n", 1)[0].split(b" ", 2)[1:2]
    if not status or not status[0].startswith(b"2"):
        await stream.aclose()
        raise httpcore2.ProxyError(f"the proxy refused: {answer.splitlines()[0].decode('latin-1')}")


class _Metered(httpcore2.AsyncNetworkStream):
    """A connection that ends where more comes before a body than may."""

    def __init__(self, stream: httpcore2.AsyncNetworkStream) -> None:
        self._stream = stream
        self._left: int | None = _HEADERS
        self._deadline = Deadline(None)

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109 - the interface of httpcore2
        """Read what is there."""
        if self._left is None:
            return await self._stream.read(max_bytes, self._deadline.left(timeout))
        if self._left <= 0:
            raise _HeadersTooLong
        data = await self._stream.read(min(max_bytes, self._left), timeout)
        self._left -= len(data)
        return data

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ASYNC109 - the interface of httpcore2
        """Write a part of a request: what comes next are the headers of its answer."""
        self._left = _HEADERS
        await self._stream.write(buffer, timeout)

    def begin_body(self, deadline: Deadline) -> None:
        """Let the body come, which is counted elsewhere, until the request must be over."""
        self._left, self._deadline = None, deadline

    async def aclose(self) -> None:
        """Close the connection."""
        await self._stream.aclose()

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - the interface of httpcore2
    ) -> httpcore2.AsyncNetworkStream:
        """Speak TLS over it."""
        return _Metered(await self._stream.start_tls(ssl_context, server_hostname, timeout))

    def get_extra_info(self, info: str) -> Any:
        """Tell of the connection below."""
        return self._stream.get_extra_info(info)


_OURS: Final = frozenset(
    {"host", "accept-encoding", "connection", "keep-alive", "te", "upgrade", "proxy-connection"}
    | {"proxy-authorization"}
)
"""Headers of the connection, which is the guard's."""
_LENGTH: Final = frozenset({"content-length", "transfer-encoding"})


def _request(
    outgoing: HttpRequest, limits: HttpLimits, deadline: Deadline, *, connect: float | None
) -> httpcore2.Request:
    target, drop = outgoing.target, _OURS
    own = [("Host", target.authority), ("Accept-Encoding", "gzip, deflate")]
    if isinstance(outgoing.content, bytes):
        drop |= _LENGTH
        if outgoing.content or outgoing.method not in {"GET", "HEAD"}:
            own.append(("Content-Length", str(len(outgoing.content))))
    given = [(name, value) for name, value in outgoing.headers if name.lower() not in drop]
    each = deadline.left(limits.read)
    return httpcore2.Request(
        outgoing.method.encode("ascii"),
        httpcore2.URL(
            scheme=target.scheme.encode(),
            host=target.host.encode(),
            port=target.port,
            target=target.path.encode("ascii"),
        ),
        headers=[(name.encode(), value.encode("utf-8")) for name, value in (*own, *given)],
        content=outgoing.content,
        extensions={
            "timeout": {"connect": connect, "read": each, "write": each, "pool": deadline.left()}
        },
    )
