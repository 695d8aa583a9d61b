"""The provider of one server's tools."""

from __future__ import annotations

import asyncio  # noqa: TID253 - imported where a catalog is assembled
import hashlib
import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from clawhive_core import InvokeContext, ToolError, ToolMeta, ToolResult
from clawhive_mcp.cache import ListingCache
from clawhive_mcp.connection import Connection, Dial, Listing
from clawhive_mcp.dialing import InjectedDial, ServerDial
from clawhive_mcp.errors import (
    MCPConnectionError,
    MCPProviderClosedError,
    MCPTimeoutError,
    MCPToolNotFoundError,
    Unlisted,
    log,
    printable,
)
from clawhive_mcp.findings import Definition, findings_of, words_of
from clawhive_mcp.servers import Server
from clawhive_mcp.tools import ServerTool, changes, is_same, tools_of

_FIRST_SECONDS = 8.0
"""Seconds for which the catalog waits for a server that was never reached; less than it waits."""
_LATER_SECONDS = 3.0
"""Seconds before a server with an old list is started to renew it: short commands start none."""
_SHOWN = 500
_MOST_SHOWN = 20
"""Changed words of a server that the log tells of at once, and their characters."""
_MARGIN_SECONDS = 0.5
"""Seconds of a call's own deadline that are left to say how it ended."""


class MCPProvider:
    """The tools of one MCP server (`clawhive_core.ToolProvider`, `ChangingProvider`).

    Its tools are those of the server's last list, at once; the server is started for the first
    call, or where there is no list or an old one. A call is sent only where its tool is still what
    was offered.

    Args:
        server: The server, or with `client` its name alone.
        client: The SDK's client, not entered, or anything with its methods, instead of a command.
        env: The variables of which a server's process gets a few; where the cache is.
        root: The project root.
        user_dir: The user's own directory, which holds logins.
        caches: Whether lists are kept for other processes.

    Example:
        ::

            provider = MCPProvider("demo", client=mcp.Client(server))
    """

    def __init__(
        self,
        server: Server | str,
        *,
        client: Any = None,
        env: Mapping[str, str] | None = None,
        root: str = ".",
        user_dir: str = "",
        caches: bool = True,
    ) -> None:
        self._server = Server(server) if isinstance(server, str) else server
        given = env or {}
        known = caches and client is None
        self._cache = ListingCache(self._server, given) if known else None
        self._kept = None if self._cache is None else self._cache.read()
        dial: Dial = ServerDial(self._server, given, root, user_dir)
        if client is not None:
            dial = InjectedDial(client)
        before = None if self._kept is None else self._kept.listing
        self._connection = Connection(self._server, dial, self._heard, before)
        self._changed: list[Callable[[], None]] = []
        self._words: list[Definition] | None = None
        self._now: dict[str, ServerTool] | None = None
        self._offered: dict[str, ServerTool] = {}
        self._asking: asyncio.Task[None] | None = None
        self._closed = False

    @property
    def provider_id(self) -> str:
        """`mcp_<server>`."""
        return self._server.provider_id

    @property
    def server(self) -> Server:
        """The server."""
        return self._server

    def subscribe(self, changed: Callable[[], None]) -> None:
        """Call `changed` when the server lists other tools than those that were returned."""
        self._changed.append(changed)

    async def list_tools(self) -> list[ToolMeta]:
        """Return the tools of the last list; a server that cannot be reached has none.

        It never raises: the log says `mcp.spawn.failed` or `mcp.list_tools.failed`.
        """
        if self._closed or self._server.problem:
            if self._server.problem:
                log.warning(
                    "mcp.spawn.failed server=%s: %s", self._server.name, self._server.problem
                )
            return []
        if self._now is None:
            await self._first()
        self._offered = {} if self._now is None else self._now
        return [tool.meta for tool in self._offered.values()]

    async def invoke(
        self, tool_name: str, input: Mapping[str, Any], ctx: InvokeContext
    ) -> ToolResult:
        """Call a tool of the server.

        Raises:
            ToolError: `Timeout`, `ConnectionError`, `ToolNotFound`, `ProviderClosed`;
                `tool_changed` where the tool is not what it was offered as; `tool_failed` for an
                error of the server's.
        """
        if self._closed:
            raise self._is_closed()
        from mcp import MCPError
        from pydantic import ValidationError

        from clawhive_mcp.results import error_of, result_of

        seconds = min(self._server.timeout_ms / 1000, max(0.1, ctx.remaining() - _MARGIN_SECONDS))
        tool = await self._verified(tool_name, seconds)
        try:
            answer = await self._connection.call(
                tool.original,
                dict(input),
                seconds=min(seconds, max(0.1, ctx.remaining() - _MARGIN_SECONDS)),
                progress=lambda done, total, text: ctx.progress(done, total, text or ""),
                meta={"traceparent": traceparent(ctx.trace_id, ctx.invocation_id)},
                ctx=ctx,
            )
        except MCPError as error:
            raise error_of(error, tool.original) from error
        except (ValidationError, RuntimeError) as error:
            raise ToolError(
                f"the server answered what is no result: {str(error)[:300]}",
                fix="report it to the server's author",
                code="invalid_output",
            ) from error
        return result_of(answer, tool.original, ctx)

    async def close(self) -> None:
        """End the server; idempotent, also at the same time. Later calls are `ProviderClosed`."""
        self._closed = True
        if self._asking is not None:
            with suppress(RuntimeError):  # its loop has ended
                self._asking.cancel()
        await self._connection.close()

    async def _first(self) -> None:
        """Find out what the server offers: from before, else from itself, for a while."""
        kept = self._kept
        if kept is not None and kept.listing is not None:
            self._now = self._tools(kept.listing)
        if kept is not None and kept.is_fresh:
            return
        if self._asking is None:
            pause = 0.0 if self._now is None else _LATER_SECONDS
            self._asking = asyncio.create_task(self._ask(pause))
        if self._now is None and (kept is None or not kept.is_known_dead):
            await asyncio.wait([self._asking], timeout=_FIRST_SECONDS)

    async def _ask(self, pause: float) -> None:
        """Reach the server; what it lists comes to `_heard`, what is wrong to the log."""
        await asyncio.sleep(pause)
        event, problem = "mcp.list_tools.failed", ""
        try:
            await self._connection.listing()
        except MCPConnectionError as error:
            problem = error.message
            if not isinstance(error.__cause__, TimeoutError):
                event = "mcp.spawn.failed"
        except Unlisted as error:
            problem = str(error)
        except (MCPProviderClosedError, asyncio.CancelledError):
            return
        if problem:
            log.warning("%s server=%s: %s", event, self._server.name, problem)
            if self._cache is not None:
                self._cache.write(None, problem)

    def _heard(self, listing: Listing) -> None:
        """Take notice of what the server lists now."""
        now, words = self._tools(listing), _words(listing)
        for name, why in listing.dropped.items():
            log.warning("mcp.tool.dropped server=%s tool=%s: %s", self._server.name, name, why)
        if self._cache is not None:
            self._cache.write(listing)
        told_before, self._words = self._words, words
        if told_before is not None and told_before != words:
            for line in _difference(told_before, words):
                log.warning("mcp.words.changed server=%s %s", self._server.name, line)
        before, self._now = self._now, now
        what = changes(before or {}, now)
        if before is not None and not what:
            return
        if before is not None:
            log.warning("mcp.tools.changed server=%s %s", self._server.name, what)
        name = self._server.name
        for told in findings_of({name: listing.tools}, {name: words}):
            log.warning(
                "mcp.tool.suspicious server=%s tool=%s: %s: %s",
                told.server,
                told.tool,
                told.code,
                told.message,
            )
        self._tell()

    def _tools(self, listing: Listing) -> dict[str, ServerTool]:
        """Return the tools of a listing, pinned with what else the server says."""
        words = _words(listing)
        if self._words is None:
            self._words = words
        digest = hashlib.sha256(json.dumps(words, sort_keys=True).encode()).hexdigest()[:16]
        return tools_of(self._server, listing.tools, digest if words else "")

    def _tell(self) -> None:
        for changed in self._changed:
            changed()

    async def _verified(self, name: str, seconds: float) -> ServerTool:
        """Return a tool as the server lists it now, where that is how it was offered.

        Raises:
            ToolError: `ToolNotFound`, `tool_changed`, or why the server cannot be reached.
        """
        try:
            async with asyncio.timeout(seconds):
                await self._connection.listing()
        except TimeoutError:
            raise MCPTimeoutError(
                f"the MCP server `{self._server.name}` did not start within {seconds:g} s",
                place=f"mcp.servers.{self._server.name}",
                fix=f"clawhive mcp test {self._server.name}",
            ) from None
        except Unlisted as error:
            raise MCPConnectionError(
                f"the MCP server `{self._server.name}` cannot list its tools: {error}",
                place=f"mcp.servers.{self._server.name}",
                fix=f"clawhive mcp test {self._server.name}",
            ) from error
        offered, now = self._offered.get(name), (self._now or {}).get(name)
        if now is None:
            raise MCPToolNotFoundError(
                f"the MCP server `{self._server.name}` lists no tool `{name}`",
                place=name,
                fix="clawhive tools list shows what it lists",
            )
        if offered is None or not is_same(offered, now):
            raise ToolError(
                f"`{name}` is not what it was when it was offered; look at it again",
                place=name,
                fix=f"clawhive tools show {name}",
                code="tool_changed",
            )
        return now

    def _is_closed(self) -> MCPProviderClosedError:
        return MCPProviderClosedError(
            f"the MCP server `{self._server.name}` was closed", fix="start the task again"
        )


def _words(listing: Listing) -> list[Definition]:
    return words_of(listing.instructions, listing.prompts, listing.resources)


def _difference(before: list[Definition], after: list[Definition]) -> list[str]:
    """Return what a server no longer says and says now, a line each, cut."""
    old = {str(each["name"]): json.dumps(each, ensure_ascii=False) for each in before}
    new = {str(each["name"]): json.dumps(each, ensure_ascii=False) for each in after}
    changed = [name for name in sorted({*old, *new}) if old.get(name) != new.get(name)]
    return [
        f"{printable(name, 100)}: {printable(old.get(name, 'nothing'), _SHOWN)}"
        f" -> {printable(new.get(name, 'nothing'), _SHOWN)}"
        for name in changed[:_MOST_SHOWN]
    ]


def traceparent(trace_id: str, invocation_id: str) -> str:
    """Return a call's place in its trace (W3C Trace Context), with the ids of exported spans."""
    trace = hashlib.sha256(f"trace:{trace_id}".encode()).hexdigest()[:32]
    span = hashlib.sha256(f"invocation:{invocation_id}".encode()).hexdigest()[:16]
    return f"00-{trace}-{span}-01"
