"""Clients over streamable HTTP: who they are by their tokens, and which addresses may ask."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import anyio
import uvicorn
from mcp.server.auth.middleware.bearer_auth import (  # noqa: TID253 - imported to serve
    AuthenticatedUser,
)
from mcp.server.auth.provider import AccessToken  # noqa: TID253 - imported to serve
from mcp.server.streamable_http_manager import (  # noqa: TID253 - imported to serve
    StreamableHTTPSessionManager,
)
from mcp.server.transport_security import (  # noqa: TID253 - imported to serve
    TransportSecuritySettings,
)

from clawhive_core import ClawHiveError
from clawhive_mcp.errors import WrongUsage, log
from clawhive_mcp.serving.tokens import Tokens

if TYPE_CHECKING:
    from mcp.server.lowlevel import Server
    from starlette.types import Receive, Scope, Send

PATH = "/mcp"
PORT = 8722
_LARGEST_BODY = 16 * 1024 * 1024
_CLOSE_SECONDS = 2
_LOCAL = ("127.0.0.1", "localhost", "[::1]")
_BEARER = b"bearer "


@dataclass(frozen=True, slots=True)
class Address:
    """The place where clients come, and by which names.

    Raises:
        ClawHiveError: `usage`: clients without a token would come from other machines.
    """

    host: str = "127.0.0.1"
    port: int = PORT
    names: tuple[str, ...] = ()
    """Names beside the loopback ones, `gateway.example` or `gateway.example:8443`: a proxy's."""
    needs_token: bool = True

    def __post_init__(self) -> None:
        """Refuse what would let strangers in."""
        if not (self.needs_token or is_loopback(self.host)):
            raise WrongUsage(
                f"without tokens anybody who reaches {self.host} could call the tools",
                place="--no-token",
                fix="leave --no-token out, and make tokens: clawhive serve token create NAME",
                code="usage",
            )

    def security(self) -> TransportSecuritySettings:
        """Return the hosts and origins that requests may name: no page in a browser is one."""
        bound = (f"{_bracketed(self.host)}:*",)
        hosts = [f"{each}:*" for each in _LOCAL] + [*bound, *self.names]
        hosts += [f"{each}:*" for each in self.names if ":" not in each]
        origins = [f"http://{each}:*" for each in _LOCAL]
        origins += [f"https://{each}" for each in self.names]
        return TransportSecuritySettings(allowed_hosts=hosts, allowed_origins=origins)


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def listen(address: Address) -> socket.socket:
    """Return a socket on which clients can connect from now on.

    Raises:
        ClawHiveError: `usage`: the address is not free, or not of this machine.
    """
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    try:
        return socket.create_server((address.host, address.port), family=family)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise WrongUsage(
            f"nobody can be served on {_bracketed(address.host)}:{address.port}: {reason}",
            place="--host, --port",
            fix="choose another port: --port 0 takes a free one",
            code="usage",
        ) from error


async def serve_http(
    server: Server[Any], address: Address, tokens: Tokens, listening: socket.socket
) -> None:
    """Serve clients until it is cancelled."""
    manager = StreamableHTTPSessionManager(
        server, security_settings=address.security(), max_request_body_size=_LARGEST_BODY
    )
    app = _Guarded(manager, tokens, needs_token=address.needs_token)
    config = uvicorn.Config(
        app,
        lifespan="off",
        access_log=False,
        log_config=None,
        server_header=False,
        timeout_graceful_shutdown=_CLOSE_SECONDS,
    )
    web = _Web(config)
    async with manager.run():
        try:
            await web.serve(sockets=[listening])
        finally:
            with anyio.CancelScope(shield=True), anyio.move_on_after(_CLOSE_SECONDS):
                web.should_exit = True
                await web.shutdown(sockets=[listening])


class _Web(uvicorn.Server):
    """A web server that leaves the signals to the command."""

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """Take none."""
        yield


class _Guarded:
    """Lets requests with a token through to the protocol, as the client of the token."""

    def __init__(
        self, manager: StreamableHTTPSessionManager, tokens: Tokens, *, needs_token: bool
    ) -> None:
        self._manager, self._tokens, self._needs_token = manager, tokens, needs_token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return
        if scope["path"].rstrip("/") != PATH:
            await _answer(send, 404, f"the tools are served at {PATH}")
            return
        try:
            client = self._client(scope["headers"])
        except ClawHiveError as error:
            log.error("mcp.tokens.unusable %s", error)
            await _answer(send, 503, "the tokens of this server cannot be read")
            return
        if client is not None:
            token = AccessToken(token="", client_id=client, scopes=[])
            scope = {**scope, "user": AuthenticatedUser(token)}
        elif self._needs_token or _has_token(scope["headers"]):
            await _answer(send, 401, "a token is needed: clawhive serve token create NAME")
            return
        await self._manager.handle_request(scope, receive, send)

    def _client(self, headers: Sequence[tuple[bytes, bytes]]) -> str | None:
        given = [value for name, value in headers if name == b"authorization"]
        if len(given) != 1 or not given[0].lower().startswith(_BEARER):
            return None
        return self._tokens.client(given[0][len(_BEARER) :].decode("latin-1").strip())


def _has_token(headers: Sequence[tuple[bytes, bytes]]) -> bool:
    return any(name == b"authorization" for name, _ in headers)


async def _answer(send: Send, status: int, text: str) -> None:
    headers = [(b"content-type", b"text/plain; charset=utf-8")]
    if status == 401:  # noqa: PLR2004 - as RFC 9110 numbers it
        headers.append((b"www-authenticate", b'Bearer realm="clawhive"'))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": text.encode()})


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
