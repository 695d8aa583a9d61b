"""Attempts to reach a server: the SDK's client over a process, over HTTP, or an injected one."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clawhive_core import __version__
from clawhive_mcp.child import Child
from clawhive_mcp.connection import Dialed, Dialing, Listing, as_context
from clawhive_mcp.errors import log
from clawhive_mcp.servers import Server

_READ_SECONDS = 300.0
"""Seconds in which a stream of a server's messages must say something."""
_MAX_BODY = 64 * 1024 * 1024
"""Bytes of one answer over HTTP; a stream that is longer is opened again."""
_PROBE_SHARE = 0.4
"""The part of the time to connect in which a server must answer `server/discover`."""


@dataclass(slots=True)
class ServerDial:
    """Reaches a configured server.

    Args:
        server: The server.
        env: The variables of which its process gets a few.
        root: The project root: the one root that the server is told of.
    """

    server: Server
    env: Mapping[str, str]
    root: str

    def __call__(self, dialing: Dialing) -> Dialed:
        """Begin an attempt."""
        from clawhive_mcp.screen import Screen

        screen = Screen(self.server.connect_timeout_ms / 1000 * _PROBE_SHARE, dialing.lost)
        child = None if self.server.url else Child(self.server, self.env)
        streams = _over_http(self.server) if child is None else child.streams()
        client = _client(self.server, screen.around(streams), dialing, self.root)
        return _Attempt(client, screen, child)


@dataclass(slots=True)
class InjectedDial:
    """Uses a client that the program made; it is entered once, and not made again."""

    client: Any

    def __call__(self, dialing: Dialing) -> Dialed:
        """Use it."""
        return _Attempt(_injected(self.client, dialing), None, None)


@dataclass(slots=True)
class _Attempt:
    client: AbstractAsyncContextManager[Any]
    screen: Any
    child: Child | None

    def kill(self) -> None:
        """End the process."""
        if self.child is not None:
            self.child.kill()

    @property
    def story(self) -> str:
        """The end of the process."""
        return "" if self.child is None else self.child.story


@asynccontextmanager
async def _over_http(server: Server) -> AsyncGenerator[Any]:
    """Give the SDK's streams over HTTP: to the server's own origin, and to no address inside.

    Only the user's or a trusted file names an address, and only an address that it names itself
    may be one of this machine's own networks. The SDK sends headers to this origin alone.
    """
    import httpx2
    from mcp.client.streamable_http import streamable_http_client

    from clawhive_core import HttpLimits, origin_transport

    url = str(server.url)
    limits = HttpLimits(total=None, read=_READ_SECONDS, body=_MAX_BODY)
    transport = origin_transport(url, limits)
    async with (
        httpx2.AsyncClient(
            transport=transport, headers=server.headers, trust_env=False, timeout=None
        ) as client,
        streamable_http_client(url, http_client=client) as streams,
    ):
        yield streams


@asynccontextmanager
async def _injected(client: Any, dialing: Dialing) -> AsyncGenerator[Any]:
    async with as_context(client) as entered:
        try:
            yield entered
        finally:
            dialing.lost()


def _client(server: Server, transport: Any, dialing: Dialing, root: str) -> Any:
    """Return the SDK's client: it knows the era, declines to ask people, names the workspace."""
    from mcp import Client
    from mcp_types import (
        DiscoverResult,
        ElicitRequestParams,
        ElicitResult,
        Implementation,
        ListRootsResult,
        Root,
        ToolListChangedNotification,
    )

    async def heard(message: Any) -> None:
        if isinstance(message, ToolListChangedNotification):
            dialing.changed()

    async def declined(context: Any, params: ElicitRequestParams) -> ElicitResult:  # noqa: ARG001 - the SDK's signature
        log.info("mcp.elicitation.declined server=%s", server.name)
        return ElicitResult(action="decline")

    async def roots(context: Any) -> ListRootsResult:  # noqa: ARG001 - the SDK's signature
        return ListRootsResult(roots=[Root(uri=Path(root).as_uri(), name="workspace")])  # pyright: ignore[reportArgumentType] - a text is what it is made of

    known = dialing.listing
    mode, discovery = _mode(server, known)
    return Client(
        transport,
        mode=mode,
        prior_discover=None if discovery is None else DiscoverResult.model_validate(discovery),
        client_info=Implementation(name="clawhive", version=__version__),
        message_handler=heard,
        elicitation_callback=declined,
        list_roots_callback=roots,
        cache=None,
    )


def _mode(server: Server, known: Listing | None) -> tuple[str, Mapping[str, Any] | None]:
    """Return the SDK's mode: the configured one, else the era of before, else to find out."""
    if server.protocol != "auto":
        return server.protocol, None
    if known is None:
        return "auto", None
    return known.era, known.discovery
