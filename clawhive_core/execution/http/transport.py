"""The guard as a transport of httpx2, for SDKs that take a client of theirs."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx2  # noqa: TID253 - this module is imported where somebody asks for a transport

from clawhive_core.execution.http.answer import Answer, Deadline
from clawhive_core.execution.http.guard import Guard, HttpRequest
from clawhive_core.execution.http.target import Rights, read_target
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
