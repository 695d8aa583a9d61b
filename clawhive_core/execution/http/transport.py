"""The guard as a transport of httpx2, for SDKs that take a client of theirs.

It is under the rights of a call, or reaches the one origin that a configuration names.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx2  # noqa: TID253 - this module is imported where somebody asks for a transport

from clawhive_core.capabilities import Capability
from clawhive_core.errors import ToolError
from clawhive_core.execution.http.addresses import check_address
from clawhive_core.execution.http.answer import Answer, Deadline
from clawhive_core.execution.http.guard import Guard, HttpRequest
from clawhive_core.execution.http.target import Rights, Target, read_target
from clawhive_core.protocols.http import HttpLimits

_UNPACKED = frozenset({b"content-encoding", b"content-length", b"transfer-encoding"})


class GuardedTransport(httpx2.AsyncBaseTransport):
    """Sends each request of a client, and each of its redirects, as a request of its own.

    What a client says of the connection (its address, name in TLS, Host header) does not count.
    Closing it closes nothing: the connections are the guard's.
    """

    def __init__(self, guard: Guard, rights: Rights, limits: HttpLimits) -> None:
        self._guard, self._rights, self._limits = guard, rights, limits

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send one request.

        Raises:
            ToolError: As `protocols.http.HttpClient`.
        """
        body = request.stream
        assert isinstance(body, httpx2.AsyncByteStream)  # noqa: S101 - a client that awaits has no other
        outgoing = HttpRequest(
            read_target(str(request.url)),
            request.method,
            request.headers.multi_items(),
            body,
        )
        answer = await self._guard.send(
            outgoing, self._rights, self._limits, Deadline(self._limits.total)
        )
        headers = list(answer.fields)
        if answer.all("content-encoding"):
            headers = [each for each in headers if each[0].lower() not in _UNPACKED]
        return httpx2.Response(answer.status, headers=headers, stream=_Body(answer))


class _OwnTransport(GuardedTransport):
    """A transport with connections of its own, which it closes."""

    async def aclose(self) -> None:
        """Close every connection."""
        await self._guard.aclose()


def origin_transport(
    url: str,
    limits: HttpLimits | None = None,
    proxy: str | None = None,
    *,
    named_by_user: bool = True,
) -> httpx2.AsyncBaseTransport:
    """Return a transport that reaches the scheme, host and port of one URL and nothing else.

    For a server that a person's configuration names, outside of any call. A host's addresses must
    be public, unless the URL itself names the address, or `localhost`; a redirect elsewhere is
    refused. A client of it must be made with `trust_env=False`; it closes the connections.

    Args:
        url: The server's address.
        limits: What each request may use; unset: the defaults.
        proxy: Through which checked addresses are reached.
        named_by_user: Whether the URL is a person's, and no server's: only then the address that
            it names may be one of this machine's own networks.

    Raises:
        ToolError: `invalid_input`, `denied`: the URL cannot be requested.
        ConfigError: The proxy is none.
    """
    rights = _OriginRights(read_target(url), named_by_user=named_by_user)
    guard = Guard(proxy=proxy)
    return _OwnTransport(guard, Rights(rights.require, rights.names), limits or HttpLimits())


class _OriginRights:
    """The right to one origin, by its name and by the number that its name is meant to have."""

    def __init__(self, target: Target, *, named_by_user: bool) -> None:
        self._target, self._named_by_user = target, named_by_user
        self._origins = {target.capability.parts[:2]}

    async def require(self, capability: str) -> None:
        """Return for what lies at the origin.

        Raises:
            ToolError: `denied` for all else.
        """
        url = capability.removeprefix("net.http:")
        if url != capability and read_target(url).capability.parts[:2] in self._origins:
            return
        raise ToolError(
            f"only {self._target.scheme}://{self._target.authority} is meant, not `{capability}`",
            place=self._target.shown,
            fix="name the address that is meant, if it is to be trusted",
            code="denied",
        )

    def names(self, capability: Capability) -> bool:
        """Whether an address that is not public is the very one that a person's URL names."""
        if not self._named_by_user:
            return False
        host = self._target.host
        address = ".".join(reversed(capability.parts[1])).strip("[]")
        is_own = self._target.literal is not None and check_address(host).text == address
        if not is_own and host == "localhost":
            is_own = check_address(address).problem == "a loopback address"
        if is_own:
            self._origins.add(capability.parts[:2])
        return is_own


class _Body(httpx2.AsyncByteStream):
    """A body that is unpacked and bounded as it is read."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for piece in self._answer.chunks():
            yield piece

    async def aclose(self) -> None:
        """Let go of the connection."""
        await self._answer.aclose()
