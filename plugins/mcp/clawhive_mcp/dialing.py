"""Attempts to reach a server: the SDK's client over a process, over HTTP, or an injected one."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from clawhive_core import __version__
from clawhive_mcp.child import Child
from clawhive_mcp.connection import Dialed, Dialing, Listing, as_context
from clawhive_mcp.logins import LoginFile
from clawhive_mcp.servers import Server

if TYPE_CHECKING:
    from mcp import Client

    from clawhive_mcp.screen import Screen
    from clawhive_mcp.web import Web

_PROBE_SHARE = 0.4
"""The part of the time to connect in which a server must answer `server/discover`."""


@dataclass(slots=True)
class ServerDial:
    """Reaches a configured server.

    Args:
        server: The server.
        env: The variables of which its process gets a few.
        root: The project root: the one root that the server is told of.
        user_dir: The user's own directory, which holds logins.
    """

    server: Server
    env: Mapping[str, str]
    root: str
    user_dir: str = ""

    def __call__(self, dialing: Dialing) -> Dialed:
        """Begin an attempt."""
        reached = self._child_or_web()
        attempt = _Attempt(reached)
        attempt.client = self._connected(reached.streams(), attempt, dialing)
        return attempt

    @asynccontextmanager
    async def _connected(
        self, opening: AbstractAsyncContextManager[Any], attempt: _Attempt, dialing: Dialing
    ) -> AsyncGenerator[Client]:
        """Start the server, and load the SDK while it and all others start."""
        async with opening as streams:
            from clawhive_mcp.screen import Screen

            seconds = self.server.connect_timeout_ms / 1000 * _PROBE_SHARE
            attempt.screen = screen = Screen(seconds, dialing.lost)
            transport = screen.around(nullcontext(streams))
            async with _client(self.server, transport, dialing, self.root) as client:
                yield client

    def _child_or_web(self) -> Child | Web:
        if not self.server.url:
            return Child(self.server, self.env)
        from clawhive_mcp.web import Web

        login = LoginFile(self.server.name, self.server.url, self.user_dir)
        return Web(self.server, login)


@dataclass(slots=True)
class InjectedDial:
    """Uses a client that the program made; it is entered once, and not made again."""

    client: Any

    def __call__(self, dialing: Dialing) -> Dialed:
        """Use it."""
        return _Attempt(None, _injected(self.client, dialing))


@dataclass(slots=True)
class _Attempt:
    reached: Child | Web | None
    client: AbstractAsyncContextManager[Any] = field(default_factory=nullcontext[Any])
    screen: Screen | None = None
    """Known once the server has started."""

    def kill(self) -> None:
        """End the process."""
        if isinstance(self.reached, Child):
            self.reached.kill()

    @property
    def story(self) -> str:
        """The end of the process, or what an HTTP server wants."""
        if isinstance(self.reached, Child):
            return self.reached.story
        return "it wants a login" if self.needs_login else ""

    @property
    def needs_login(self) -> bool:
        """Whether a server over HTTP answered that nobody is logged in."""
        return not isinstance(self.reached, Child | None) and self.reached.needs_login


@asynccontextmanager
async def _injected(client: Any, dialing: Dialing) -> AsyncGenerator[Any]:
    async with as_context(client) as entered:
        try:
            yield entered
        finally:
            dialing.lost()


def _client(server: Server, transport: Any, dialing: Dialing, root: str) -> Any:
    """Return the SDK's client: it knows the era, and answers what the server asks."""
    from mcp import Client
    from mcp_types import (
        DiscoverResult,
        Implementation,
        PromptListChangedNotification,
        ToolListChangedNotification,
    )

    from clawhive_mcp.requests import ServerRequests

    async def heard(message: Any) -> None:
        if isinstance(message, ToolListChangedNotification | PromptListChangedNotification):
            dialing.changed()

    asked = ServerRequests(server, root, dialing.calling)
    known = dialing.listing
    mode, discovery = _mode(server, known)
    return Client(
        transport,
        mode=mode,
        prior_discover=None if discovery is None else DiscoverResult.model_validate(discovery),
        client_info=Implementation(name="clawhive", version=__version__),
        message_handler=heard,
        elicitation_callback=asked.elicited,
        sampling_callback=asked.sampled if server.sampling else None,
        list_roots_callback=asked.roots,
        cache=None,
    )


def _mode(server: Server, known: Listing | None) -> tuple[str, Mapping[str, Any] | None]:
    """Return the SDK's mode: the configured one, else the era of before, else to find out."""
    if server.protocol != "auto":
        return server.protocol, None
    if known is None:
        return "auto", None
    return known.era, known.discovery
