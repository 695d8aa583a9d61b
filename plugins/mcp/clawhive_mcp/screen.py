"""The streams between the SDK and a server, looked through: tool definitions, the first answer.

One tool with a bad schema makes the SDK refuse a whole page of them, its discovery has a deadline
of its own, and it checks results by a server's schemas, of which one pattern can take for ever.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, cast

import anyio
from anyio.abc import AsyncResource, ObjectReceiveStream, ObjectSendStream
from mcp.client import Transport  # noqa: TID253 - this module is imported with the first server
from mcp.shared.dispatcher import coerce_request_id  # noqa: TID253 - as above
from mcp.shared.message import SessionMessage  # noqa: TID253 - as above
from mcp_types import METHOD_NOT_FOUND, ErrorData, JSONRPCError, JSONRPCRequest, JSONRPCResponse
from mcp_types.methods import validate_server_result
from pydantic import ValidationError  # noqa: TID253 - as above

from clawhive_mcp.errors import printable
from clawhive_mcp.findings import Definition

_VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
_LEGACY = "2025-11-25"
MAX_DEFINITION = 256 * 1024
"""Bytes of JSON that one tool's definition may have."""


class Screen:
    """The messages that pass between the SDK and one server.

    Args:
        probe_seconds: How long `server/discover` may go unanswered before the SDK is told that the
            server does not know it, and does the older handshake.
        lost: Called when the server's stream ends.
    """

    def __init__(self, probe_seconds: float, lost: Callable[[], None]) -> None:
        self._probe_seconds, self._lost = probe_seconds, lost
        self._cursors: dict[int | str, tuple[str | None, str]] = {}
        self._probe: int | str | None = None
        self._reading = anyio.CancelScope()
        self._version = _LEGACY
        self._is_listed = False
        self.pages: dict[str | None, list[Definition]] = {}
        """The usable tools of each page, by the cursor that asked for it."""
        self.dropped: dict[str, str] = {}
        """The reason for each tool that was left out, by its name."""

    @asynccontextmanager
    async def around(self, transport: Transport) -> AsyncGenerator[tuple[_Inbox, _Outbox]]:
        """Open a transport and give its streams, looked through."""
        async with transport as (inbox, outbox):
            yield _Inbox(inbox, self), _Outbox(outbox, self)

    def sent(self, message: SessionMessage) -> None:
        """Take notice of a request."""
        request = message.message
        if not isinstance(request, JSONRPCRequest):
            return
        params = request.params or {}
        if request.method == "server/discover":
            self._probe = request.id
            self._reading.deadline = anyio.current_time() + self._probe_seconds
        elif request.method == "tools/list":
            meta = cast("dict[str, Any]", params.get("_meta") or {})
            version = str(meta.get(_VERSION_KEY) or self._version)
            self._cursors[request.id] = (params.get("cursor"), version)
            self._is_listed = True

    async def next(self, inbox: Any) -> SessionMessage | Exception:
        """Return the next message; what answers an unanswered discovery is made here."""
        if self._is_listed:  # nothing is discovered any more, and nothing has a deadline here
            return self._received(await inbox.receive())
        with anyio.CancelScope(deadline=self._reading.deadline) as self._reading:
            return self._received(await inbox.receive())
        request_id, self._probe = self._probe, None
        self._reading = anyio.CancelScope()
        error = ErrorData(code=METHOD_NOT_FOUND, message="no answer to server/discover")
        return SessionMessage(JSONRPCError(jsonrpc="2.0", id=request_id, error=error))

    def ended(self) -> None:
        """Take notice of the stream's end."""
        self._lost()

    def _received(self, message: SessionMessage | Exception) -> SessionMessage | Exception:
        if isinstance(message, Exception):
            return message
        answer = message.message
        if not isinstance(answer, JSONRPCResponse | JSONRPCError):
            return message
        # An id that comes back as text answers for the SDK too.
        request_id = None if answer.id is None else coerce_request_id(answer.id)
        if self._probe is not None and request_id == self._probe:
            self._probe, self._reading = None, anyio.CancelScope()
        asked = None if request_id is None else self._cursors.pop(request_id, None)
        if isinstance(answer, JSONRPCResponse):
            version = answer.result.get("protocolVersion")
            if isinstance(version, str):
                self._version = version
            if asked is not None:
                result = self._page(answer.result, *asked)
                answer = JSONRPCResponse(jsonrpc="2.0", id=answer.id, result=result)
                return SessionMessage(answer, message.metadata)
        return message

    def _page(self, result: dict[str, Any], cursor: str | None, version: str) -> dict[str, Any]:
        """Return a page with its usable tools, as little of them as the SDK needs."""
        listed: Any = result.get("tools")
        if not isinstance(listed, list):
            return result  # the SDK says what is wrong with it
        good: list[dict[str, Any]] = []
        for tool in cast("list[Any]", listed):
            problem = _problem(tool, result, version)
            if problem is None:
                good.append(tool)
            else:
                self.dropped[_name_of(tool)] = problem
        self.pages[cursor] = [*good]
        brief = [{"name": each["name"], "inputSchema": each["inputSchema"]} for each in good]
        return {**result, "tools": brief}


def _problem(tool: Any, result: Mapping[str, Any], version: str) -> str | None:
    """Return why a tool cannot be used, None where it can."""
    try:
        if len(json.dumps(tool)) > MAX_DEFINITION:
            return f"its definition is longer than {MAX_DEFINITION} bytes"
        # A copy: the validation may fill in what was not there.
        validate_server_result("tools/list", version, {**result, "tools": [tool]})
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = "/".join(str(each) for each in first["loc"] if each not in {"tools", 0})
        return printable(f"{place}: {first['msg']}")
    except (KeyError, ValueError, RecursionError) as error:
        return printable(str(error)) or type(error).__name__
    return None


def _name_of(tool: Any) -> str:
    name = cast("dict[str, Any]", tool).get("name") if isinstance(tool, dict) else None
    return printable(name, 100) if isinstance(name, str) and name else "a tool without a name"


class _Stream(AsyncResource):
    """The end of a stream as a context manager and an iterator, as the SDK uses both."""

    def __init__(self, inner: Any, screen: Screen) -> None:
        self._inner, self._screen = inner, screen

    async def aclose(self) -> None:
        await self._inner.aclose()


class _Inbox(_Stream, ObjectReceiveStream[SessionMessage | Exception]):
    """The messages from the server."""

    @property
    def last_context(self) -> Any:
        """The context of the last message's sender, where the transport keeps it."""
        return getattr(self._inner, "last_context", None)

    async def receive(self) -> SessionMessage | Exception:
        try:
            return await self._screen.next(self._inner)
        except (anyio.EndOfStream, anyio.ClosedResourceError):
            self._screen.ended()
            raise


class _Outbox(_Stream, ObjectSendStream[SessionMessage]):
    """The messages to the server."""

    async def send(self, item: SessionMessage) -> None:
        self._screen.sent(item)
        await self._inner.send(item)
