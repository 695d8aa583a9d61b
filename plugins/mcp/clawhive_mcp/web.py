"""Servers over HTTP: the way to their addresses, and the login of those that want one.

The login is OAuth 2.1 as MCP has it: discovery (RFC 9728, RFC 8414), dynamic registration
(RFC 7591), PKCE (RFC 7636), a redirect to this machine's own loopback (RFC 8252); the SDK does it,
this module says who may be asked, keeps the tokens and listens for the redirect.
"""

from __future__ import annotations

import asyncio  # noqa: TID253 - this module is imported with the first server over HTTP
import logging
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2  # noqa: TID253 - as above
from mcp.client.auth import (  # noqa: TID253 - as above
    OAuthClientProvider,
    OAuthFlowError,
    TokenStorage,
)
from mcp.client.auth.oauth2 import OAuthContext  # noqa: TID253 - as above
from mcp.shared.auth import (  # noqa: TID253 - as above
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthMetadata,
    OAuthToken,
    ProtectedResourceMetadata,
)
from pydantic import AnyUrl, ValidationError  # noqa: TID253 - as above

from clawhive_core import HttpLimits, ToolError, origin_transport
from clawhive_mcp.child import MAX_LINE
from clawhive_mcp.errors import WrongUsage, printable, reason_of
from clawhive_mcp.logins import LoginFile
from clawhive_mcp.servers import Server

_READ_SECONDS = 300.0
"""Seconds in which a stream of a server's messages must say something."""
_MAX_BODY = MAX_LINE
"""Bytes of one answer over HTTP; a stream that is longer is opened again."""
_LOGIN_SECONDS = 300.0
"""Seconds that a person has in the browser."""
_SCHEMA = 1
_UNAUTHORIZED = 401
_MAX_LINE = 8_192
_DEFAULT_PORTS = {"http": 80, "https": 443}

# What the SDK has to say of a failure is in the error that it raises.
logging.getLogger("mcp").addHandler(logging.NullHandler())


@dataclass(slots=True)
class Web:
    """The streams to one server over HTTP, and whether it asked for a login.

    Args:
        server: The server.
        login: The file of its login.
    """

    server: Server
    login: LoginFile
    needs_login: bool = False
    """Whether it last answered that nobody is logged in, or that the login has ended."""

    @asynccontextmanager
    async def streams(self) -> AsyncGenerator[Any]:
        """Give the SDK's streams: to the server's own origin, and to no address inside.

        Only the user's or a trusted file names an address, and only an address that it names itself
        may be one of this machine's own networks. The SDK sends headers to this origin alone.
        """
        from mcp.client.streamable_http import streamable_http_client

        url = str(self.server.url)
        others = frozenset[str]()
        auth = None
        if not any(name.lower() == "authorization" for name in self.server.headers):
            auth = _stored(self.login, url)
        if auth is not None and auth.context.oauth_metadata is not None:
            others = frozenset({_origin(str(auth.context.oauth_metadata.token_endpoint))})
        transport = Origins(url, others.__contains__)
        async with (
            httpx2.AsyncClient(
                transport=transport,
                headers=self.server.headers,
                auth=auth,
                trust_env=False,
                timeout=None,
                event_hooks={"response": [self._answered]},
            ) as client,
            streamable_http_client(url, http_client=client, max_sse_event_size=MAX_LINE) as streams,
        ):
            yield streams

    async def _answered(self, response: httpx2.Response) -> None:
        if response.status_code == _UNAUTHORIZED:
            self.needs_login = True
        elif response.is_success and response.request.method == "POST":
            # Discovery succeeds too, by GET; a renewed token is sent to the server next.
            self.needs_login = False


class Origins(httpx2.AsyncBaseTransport):
    """Sends requests to a server's own origin, and to others that a login needs.

    Another origin is one that the server names: it must be https and public, unless it is on the
    server's own host.

    Args:
        url: The server's address, as a person named it.
        allows: Whether another origin, such as `https://login.example.com:443`, may be asked.
    """

    def __init__(self, url: str, allows: Callable[[str], bool]) -> None:
        self._url, self._allows = url, allows
        self._limits = HttpLimits(total=None, read=_READ_SECONDS, body=_MAX_BODY)
        self._transports = {_origin(url): origin_transport(url, self._limits)}

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send one request.

        Raises:
            ToolError: `denied`: it goes to where it may not; others as of `origin_transport`.
        """
        url = str(request.url)
        origin = _origin(url)
        transport = self._transports.get(origin)
        if transport is None:
            is_own_host = urlsplit(url).hostname == urlsplit(self._url).hostname
            if not self._allows(origin) or not (is_own_host or origin.startswith("https:")):
                raise ToolError(
                    f"the server `{_origin(self._url)}` sends its login to `{origin}`",
                    place=printable(origin, 200),
                    fix="clawhive mcp login NAME, which allows a public https address",
                    code="denied",
                )
            transport = origin_transport(url, self._limits, named_by_user=is_own_host)
            self._transports[origin] = transport
        return await transport.handle_async_request(request)

    async def aclose(self) -> None:
        """Close every connection."""
        for transport in self._transports.values():
            await transport.aclose()


async def log_in(
    server: Server, login: LoginFile, person: Person, *, scope: str | None = None
) -> None:
    """Log in to a server and keep its tokens.

    Args:
        server: The server, over HTTP.
        login: Where the tokens are kept; what is kept there is replaced.
        person: Opens the address of the login, and gets the answer.
        scope: The scopes to ask for; those that the server names otherwise.

    Raises:
        ClawHiveError: `login_failed`, with the reason.
    """
    url = str(server.url)
    keeper = _Keeper(login, url)
    auth = OAuthClientProvider(
        url,
        OAuthClientMetadata(
            redirect_uris=[AnyUrl(person.redirect_uri)], client_name="ClawHive", scope=scope
        ),
        keeper,
        redirect_handler=person.sent_to,
        callback_handler=person.answer,
    )
    keeper.context = auth.context
    if person.client_id is not None:
        auth.context.client_info = keeper.client = person.client()
    greeting = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "clawhive", "version": "1"},
        },
    }
    accepts = {"Accept": "application/json, text/event-stream"}
    try:
        async with (
            asyncio.timeout(_LOGIN_SECONDS),
            httpx2.AsyncClient(
                transport=Origins(url, lambda _: True),
                headers=server.headers,
                auth=auth,
                trust_env=False,
                timeout=None,
            ) as client,
        ):
            answer = await client.post(url, json=greeting, headers=accepts)
    except TimeoutError:
        raise _failed(f"nobody logged in within {_LOGIN_SECONDS:g} s", server) from None
    except (OAuthFlowError, ToolError, httpx2.HTTPError, ValidationError, ValueError) as error:
        raise _failed(reason_of(error), server) from error
    if not keeper.was_kept:
        why = "the server asks for no login" if answer.is_success else "the server wants no OAuth"
        raise _failed(f"{why}: it answered {answer.status_code}", server)
    if answer.status_code == _UNAUTHORIZED:
        login.remove()
        raise _failed("the server refuses the token that its login gave", server)


class Person:
    """The person who logs in: told of an address, and heard by a listener on loopback.

    Args:
        server: The server's address.
        told: Called with the address to open; what it does with it is its own.
        client_id: The id of a client that is registered already; None registers one.
        client_secret: Its secret, if it has one.
    """

    def __init__(
        self,
        server: str,
        told: Callable[[str], None],
        *,
        client_id: str | None = None,
        client_secret: str | None = None,
    ) -> None:
        self._server, self._told = server, told
        self.client_id, self._client_secret = client_id, client_secret
        self._answer: asyncio.Future[AuthorizationCodeResult] | None = None
        self._state = ""
        self.redirect_uri = ""

    def client(self) -> OAuthClientInformationFull:
        """Return the client that is registered already."""
        method = "none" if self._client_secret is None else "client_secret_basic"
        return OAuthClientInformationFull(
            client_id=str(self.client_id),
            client_secret=self._client_secret,
            redirect_uris=[AnyUrl(self.redirect_uri)],
            token_endpoint_auth_method=method,
        )

    @asynccontextmanager
    async def listening(self, port: int = 0) -> AsyncGenerator[Person]:
        """Listen for the browser's redirect, on 127.0.0.1 alone.

        Raises:
            OSError: The port is taken.
        """
        self._answer = asyncio.get_running_loop().create_future()
        listener = await asyncio.start_server(self._visited, "127.0.0.1", port, limit=_MAX_LINE)
        taken = listener.sockets[0].getsockname()[1]
        self.redirect_uri = f"http://127.0.0.1:{taken}/callback"
        async with listener:
            yield self

    async def sent_to(self, url: str) -> None:
        """Tell the person the address of the login, which the server chose.

        Raises:
            OAuthFlowError: It is none that a browser should be given.
        """
        parts = urlsplit(url)
        is_own_host = parts.hostname == urlsplit(self._server).hostname
        if parts.scheme != "https" and not (parts.scheme == "http" and is_own_host):
            raise OAuthFlowError(f"its login is at `{printable(url, 100)}`, which is not https")
        if not url.isprintable() or " " in url:
            raise OAuthFlowError("the address of its login holds what no address holds")
        self._state = parse_qs(parts.query).get("state", [""])[0]
        self._told(url)

    async def answer(self) -> AuthorizationCodeResult:
        """Return what the browser brought back."""
        assert self._answer is not None  # noqa: S101 - it is called while somebody listens
        return await self._answer

    async def _visited(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request of a browser; only the redirect itself is taken notice of."""
        status, said = "404 Not Found", "There is nothing here."
        try:
            line = (await asyncio.wait_for(reader.readline(), 10)).decode("ascii", "replace")
            method, _, rest = line.partition(" ")
            target = urlsplit(rest.partition(" ")[0])
            if method == "GET" and target.path == "/callback":
                self._take(parse_qs(target.query))
                status, said = "200 OK", "ClawHive has the answer. You can close this page."
            writer.write(
                f"HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\n"
                f"Content-Length: {len(said)}\r\nConnection: close\r\n\r\n{said}".encode()
            )
            await writer.drain()
        except (OSError, ValueError, TimeoutError):
            pass  # whoever it was speaks no HTTP
        finally:
            writer.close()

    def _take(self, query: Mapping[str, list[str]]) -> None:
        if self._answer is None or self._answer.done():
            return
        given = {name: values[0] for name, values in query.items()}
        if not self._state or given.get("state") != self._state:
            return  # any page that the browser shows can send it here
        if "error" in given:
            why = given.get("error_description") or given["error"]
            self._answer.set_exception(OAuthFlowError(f"the login answered: {printable(why, 300)}"))
        elif "code" in given:
            self._answer.set_result(
                AuthorizationCodeResult(code=given["code"], state=self._state, iss=given.get("iss"))
            )


class _Keeper(TokenStorage):
    """The SDK's storage over a file, with what else a renewal of the tokens needs."""

    def __init__(self, login: LoginFile, url: str) -> None:
        self._login, self._url = login, url
        self.client: OAuthClientInformationFull | None = None
        self.token: OAuthToken | None = None
        self.context: OAuthContext | None = None
        self.was_kept = False

    async def get_tokens(self) -> OAuthToken | None:
        return self.token

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info

    async def set_tokens(self, tokens: OAuthToken) -> None:
        context = self.context
        assert context is not None  # noqa: S101 - set with the provider
        facts = {
            "token": tokens,
            "client": context.client_info,
            "authorization_server": context.oauth_metadata,
            "resource": context.protected_resource_metadata,
        }
        self._login.write(
            {
                "schema": _SCHEMA,
                "url": self._url,
                "saved_at": time.time(),
                **{
                    name: None if each is None else each.model_dump(mode="json", exclude_none=True)
                    for name, each in facts.items()
                },
            }
        )
        self.was_kept = True


class _Context(OAuthContext):
    """The SDK's state of a login, which another process may have renewed meanwhile."""

    login: LoginFile

    def is_token_valid(self) -> bool:
        return super().is_token_valid() or (_load(self, self.login) and super().is_token_valid())


def _stored(login: LoginFile, url: str) -> OAuthClientProvider | None:
    """Return what sends and renews the tokens that are kept, None where none are."""
    keeper = _Keeper(login, url)
    auth = OAuthClientProvider(
        url,
        OAuthClientMetadata(redirect_uris=[AnyUrl("http://127.0.0.1/callback")]),
        keeper,
        redirect_handler=_nobody,
    )
    context = _Context(
        url, auth.context.client_metadata, keeper, auth.context.redirect_handler, _no_answer
    )
    context.login = login
    auth.context = keeper.context = context
    if not _load(context, login):
        return None
    keeper.token, keeper.client = context.current_tokens, context.client_info
    return auth


def _load(context: OAuthContext, login: LoginFile) -> bool:
    """Take over the tokens of a file; whether there are usable ones."""
    value = login.read()
    if value is None or value.get("schema") != _SCHEMA or value.get("url") != context.server_url:
        return False
    try:
        token = OAuthToken.model_validate(value["token"])
        client = OAuthClientInformationFull.model_validate(value["client"])
        server, resource = value.get("authorization_server"), value.get("resource")
        context.oauth_metadata = server and OAuthMetadata.model_validate(server)
        context.protected_resource_metadata = resource and (
            ProtectedResourceMetadata.model_validate(resource)
        )
        saved = float(value["saved_at"])
    except (KeyError, TypeError, ValueError):
        return False
    context.current_tokens, context.client_info = token, client
    # The SDK would count from now, and never renew what has ended before.
    context.token_expiry_time = None if token.expires_in is None else saved + token.expires_in
    return True


async def _nobody(_: str) -> None:
    raise OAuthFlowError("the login has ended")


async def _no_answer() -> AuthorizationCodeResult:
    raise OAuthFlowError("the login has ended")


def _origin(url: str) -> str:
    parts = urlsplit(url)
    port = parts.port or _DEFAULT_PORTS.get(parts.scheme)
    return f"{parts.scheme}://{(parts.hostname or '').lower()}:{port}"


def _failed(why: str, server: Server) -> WrongUsage:
    return WrongUsage(
        f"nobody is logged in to `{server.name}`: {printable(why, 500)}",
        place=f"mcp.servers.{server.name}",
        fix=f"clawhive mcp test {server.name}",
        code="login_failed",
    )
