"""The connection to one server: made by a task of its own, made again when it is lost, closed."""

from __future__ import annotations

import asyncio  # noqa: TID253 - imported where a server is reached
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    contextmanager,
    nullcontext,
    suppress,
)
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, Protocol, cast

from clawhive_mcp.errors import (
    MCPConnectionError,
    MCPProviderClosedError,
    MCPTimeoutError,
    Unlisted,
    log,
    reason_of,
)
from clawhive_mcp.findings import Definition
from clawhive_mcp.servers import Server

if TYPE_CHECKING:
    from mcp import Client
    from mcp_types import CallToolResult
    from pydantic import BaseModel

    from clawhive_core import InvokeContext
    from clawhive_mcp.screen import Screen

MAX_PAGES = 100
MAX_TOOLS = 2_000
_PAUSES = (0.2, 0.8)
"""Seconds before a lost server is tried again, in one reconnection."""
_REST_SECONDS = 5.0
"""Seconds in which calls fail at once, after a server could not be reached."""
_ASIDE_SECONDS = 3.0
"""Seconds for the lists of prompts and resources, without which tools can be called too."""
_CALM_SECONDS = 0.1
"""Seconds of quiet before changed tools are listed again; longer the more often they change."""
_CALM_MOST = 30.0
_LEAVE_SECONDS = 5.0
_STORY_SECONDS = 1.0
"""Seconds to wait for a lost server's end, so that the error can say how it ended."""

Progress = Callable[[float, float | None, str | None], Any]


@dataclass(frozen=True, slots=True)
class Listing:
    """The tools and facts that a server gave at one moment."""

    tools: tuple[Definition, ...] = ()
    dropped: Mapping[str, str] = field(default_factory=dict[str, str])
    """Tools that cannot be used, and why; pages that were not read are here, too."""
    instructions: str = ""
    prompts: tuple[Definition, ...] = ()
    resources: tuple[Definition, ...] = ()
    """Its resources' templates; single resources are data, and come and go."""
    server: str = ""
    """Name and version, as it gives them."""
    era: Literal["legacy", "2026-07-28"] = "legacy"
    discovery: Mapping[str, Any] | None = None
    """The answer to `server/discover`, with which it is connected to without asking again."""


class Dialed(Protocol):
    """One attempt to reach a server: the SDK's client, not entered, and what is known beside it."""

    client: AbstractAsyncContextManager[Client]
    screen: Screen | None

    def kill(self) -> None:
        """End the server's process, where there is one, from any thread."""
        ...

    @property
    def story(self) -> str:
        """The end of its process and what it wrote last."""
        ...

    @property
    def needs_login(self) -> bool:
        """Whether it answered over HTTP that nobody is logged in."""
        ...


Dial = Callable[["Dialing"], Dialed]


@dataclass(slots=True, eq=False)
class Call:
    """One call under way, for which the server may ask things of its client."""

    ctx: InvokeContext | None
    timer: asyncio.Timeout
    questions: int = 0
    samples: int = 0

    @contextmanager
    def waiting(self) -> Generator[None]:
        """Let the call's time stand still."""
        loop, ends = asyncio.get_running_loop(), self.timer.when()
        began = loop.time()
        self.timer.reschedule(None)
        try:
            yield
        finally:
            if ends is not None:
                self.timer.reschedule(ends + loop.time() - began)


_current: ContextVar[Call | None] = ContextVar("mcp_call", default=None)


@dataclass(frozen=True, slots=True)
class Dialing:
    """The start of one attempt to connect."""

    listing: Listing | None
    """The last listing, which says the era; None to find it out."""
    lost: Callable[[], None]
    """To be called when the connection ends."""
    changed: Callable[[], None]
    """To be called when the server says that its tools changed."""
    calling: Callable[[], Call | None] = lambda: None
    """Returns the call for which the server asks something, None where that cannot be told."""


class Link:
    """One living connection, entered and left by its own task."""

    def __init__(
        self,
        dial: Dial,
        seconds: float,
        known: Listing | None,
        calling: Callable[[], Call | None],
    ) -> None:
        loop = asyncio.get_running_loop()
        self._stop, self._stale = asyncio.Event(), asyncio.Event()
        self._seconds, self._known = seconds, known
        self.is_lost = self._is_overdue = False
        self.listing = Listing()
        self.ready: asyncio.Future[None] = loop.create_future()
        self.relisted: Callable[[], None] = lambda: None
        self.dialed = dial(Dialing(known, self._lose, self._stale.set, calling))
        self.client: Client | None = None
        self.task = loop.create_task(self._own())
        self.ready.add_done_callback(_taken_notice)

    def stop(self) -> None:
        """Have its task leave the connection, or the attempt to make it."""
        self._stop.set()
        if not self.ready.done():
            self.dialed.kill()
            self.task.cancel()

    def _lose(self) -> None:
        self.is_lost = True
        self._stop.set()

    def _expire(self) -> None:
        self._is_overdue = True
        self.dialed.kill()

    def _told(self, error: BaseException) -> Exception:
        """Return what those who wait for the connection are told of the end of the attempt."""
        if self._is_overdue or isinstance(error, TimeoutError):
            return TimeoutError(f"it did not start and list its tools within {self._seconds:g} s")
        if (unlisted := _found(error)) is not None:
            return unlisted
        return error if isinstance(error, Exception) else ConnectionError("it was cancelled")

    async def _own(self) -> None:
        # At its deadline a process is not asked to end: whoever waits for it waited long enough.
        overdue = asyncio.get_running_loop().call_later(self._seconds, self._expire)
        try:
            async with AsyncExitStack() as stack:
                async with asyncio.timeout(self._seconds):
                    self.client = await stack.enter_async_context(self.dialed.client)
                    self.listing = await list_all(self.client, self.dialed.screen, self._known)
                overdue.cancel()
                if not self.ready.done():
                    self.ready.set_result(None)
                await self._live(self.client)
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - every end of it is told to `ready`
            if not self.ready.done():
                self.ready.set_exception(self._told(error))
        finally:
            overdue.cancel()
            self.is_lost = True
            self.dialed.kill()

    async def _live(self, client: Client) -> None:
        """Hear of changed tools until the connection is lost or to be left."""
        tasks = [asyncio.create_task(self._relist(client))]
        if self.listing.era != "legacy" and _tells_changes(client):
            tasks.append(asyncio.create_task(self._listen(client)))
        try:
            await self._stop.wait()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks, timeout=_LEAVE_SECONDS)

    async def _listen(self, client: Client) -> None:
        with suppress(Exception):  # without the subscription, tools are listed at the next start
            prompts = client.server_capabilities.prompts
            async with client.listen(
                tools_list_changed=True,
                prompts_list_changed=prompts is not None and prompts.list_changed is True,
            ) as changes:
                async for _ in changes:
                    self._stale.set()

    async def _relist(self, client: Client) -> None:
        """List the tools again when they changed; of many changes at once the last counts."""
        calm = _CALM_SECONDS
        while True:
            await self._stale.wait()
            await asyncio.sleep(calm)
            calm = min(_CALM_MOST, calm * 2)
            self._stale.clear()
            try:
                async with asyncio.timeout(self._seconds):
                    listing = await list_all(client, self.dialed.screen, self.listing)
            except Exception as error:  # noqa: BLE001 - the old listing stands, and the log says why
                log.warning("mcp.list_tools.failed: %s", reason_of(error))
                continue
            if listing != self.listing:
                self.listing = listing
                self.relisted()


class Connection:
    """Reaches a server when it is first needed, for all who wait at once, and again when lost.

    Args:
        server: The server.
        dial: Begins an attempt.
        listed: Called with each new listing.
        known: A listing of a process before, which says the era.
    """

    def __init__(
        self,
        server: Server,
        dial: Dial,
        listed: Callable[[Listing], None] = lambda _: None,
        known: Listing | None = None,
    ) -> None:
        self._server, self._dial, self._listed = server, dial, listed
        self._link: Link | None = None
        self._joining: asyncio.Task[Link] | None = None
        self._links: set[Link] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._was_reached = self._closed = False
        self._failure: tuple[float, MCPConnectionError | Unlisted] | None = None
        self._era = known
        self._calls: list[Call] = []

    async def listing(self) -> Listing:
        """Reach the server and return what it offers now.

        Raises:
            MCPConnectionError, MCPTimeoutError: It cannot be reached.
            Unlisted: It can, and its tools cannot be listed.
            MCPProviderClosedError: The connection was closed.
        """
        return (await self._living()).listing

    async def call(
        self,
        tool: str,
        arguments: dict[str, Any],
        *,
        seconds: float,
        progress: Progress | None = None,
        meta: Mapping[str, Any] | None = None,
        ctx: InvokeContext | None = None,
    ) -> CallToolResult:
        """Call a tool; what was sent is never sent again.

        What the server asks of its client meanwhile is answered under the context.

        Raises:
            MCPTimeoutError: No answer came in time; the server was told that the call is cancelled.
            MCPConnectionError: The connection ended.
            MCPProviderClosedError: It was closed.
            mcp.MCPError: The server answered an error.
        """
        try:
            async with asyncio.timeout(seconds) as timer:
                link = await self._living()
                call = Call(ctx, timer)
                self._calls.append(call)
                token = _current.set(call)
                try:
                    return await self._called(link, tool, arguments, progress, meta)
                finally:
                    _current.reset(token)
                    self._calls.remove(call)
        except TimeoutError:
            raise self._timeout(seconds) from None

    def _calling(self) -> Call | None:
        """Return the call that a request of the server belongs to.

        The older era does not say which: then it is the one of the only run that waits.
        """
        if (current := _current.get()) is not None:
            return current
        runs = {None if each.ctx is None else each.ctx.run_id for each in self._calls}
        return self._calls[-1] if len(runs) == 1 else None

    async def _called(
        self,
        link: Link,
        tool: str,
        arguments: dict[str, Any],
        tell: Progress | None,
        meta: Mapping[str, Any] | None,
    ) -> CallToolResult:
        from mcp import MCPError
        from mcp_types import CONNECTION_CLOSED, REQUEST_TIMEOUT

        async def told(progress: float, total: float | None, message: str | None) -> None:
            if tell is not None:
                tell(progress, total, message)

        if link.client is None or link.is_lost:
            raise await self._gone(link)
        try:
            return await link.client.call_tool(
                tool, arguments, progress_callback=told, meta=_meta(meta)
            )
        except MCPError as error:
            if error.code == CONNECTION_CLOSED or link.is_lost:
                raise await self._gone(link) from error
            if error.code == REQUEST_TIMEOUT:
                raise self._timeout(None) from error
            if link.dialed.needs_login:
                link.stop()  # the next call begins with the login of then
                raise self._unreachable(link, error) from error
            raise
        except RuntimeError as error:
            if link.is_lost:
                raise await self._gone(link) from error
            raise

    async def close(self) -> None:
        """Leave the connection and end the server's process; idempotent, also at the same time."""
        self._closed = True
        loop = asyncio.get_running_loop()
        if self._loop is not None and self._loop is not loop:
            for link in self._links:  # their own loop has ended: nobody else can end them
                link.dialed.kill()
            self._links.clear()
            return
        if self._joining is not None:
            self._joining.cancel()
        for link in self._links:
            link.stop()
        if tasks := [link.task for link in self._links]:
            await asyncio.wait(tasks)

    async def _living(self) -> Link:
        """Return a living connection; all who wait for one wait for the same attempt."""
        if self._closed:
            raise self._is_closed()
        self._loop = asyncio.get_running_loop()
        if self._link is not None and not self._link.is_lost:
            return self._link
        if self._joining is None:
            self._joining = asyncio.create_task(self._join())
            self._joining.add_done_callback(self._joined)
        try:
            return await asyncio.shield(self._joining)
        except asyncio.CancelledError:
            if self._closed:
                raise self._is_closed() from None
            raise

    def _joined(self, task: asyncio.Task[Link]) -> None:
        self._joining = None
        _taken_notice(task)

    async def _join(self) -> Link:
        if self._failure is not None and self._failure[0] > asyncio.get_running_loop().time():
            raise self._failure[1]
        pauses = _PAUSES if self._was_reached else ()
        for pause in (*pauses, None):
            try:
                return await self._attempt()
            except (MCPConnectionError, Unlisted) as error:
                if pause is None:
                    rests = asyncio.get_running_loop().time() + _REST_SECONDS
                    self._failure = (rests, error)
                    raise
            await asyncio.sleep(pause)
        raise AssertionError("unreachable")

    async def _attempt(self) -> Link:
        """Reach the server in the era in which it was reached before, else find out which."""
        known, self._era = self._era, None
        try:
            return await self._linked(known)
        except Unlisted:
            if known is None or self._closed:
                raise
        return await self._linked(None)

    async def _linked(self, known: Listing | None) -> Link:
        link = Link(self._dial, self._server.connect_timeout_ms / 1000, known, self._calling)
        self._links.add(link)
        link.task.add_done_callback(lambda _: self._links.discard(link))
        try:
            await asyncio.shield(link.ready)
        except asyncio.CancelledError:
            link.stop()
            raise
        except Unlisted:
            raise
        except Exception as error:  # what a transport raises has many classes
            await asyncio.wait([link.task])
            raise self._unreachable(link, error) from error
        self._link, self._was_reached, self._failure = link, True, None
        link.relisted = lambda: self._keep(link)
        self._keep(link)
        return link

    def _keep(self, link: Link) -> None:
        self._era = link.listing
        self._listed(link.listing)

    def _unreachable(self, link: Link, error: Exception) -> MCPConnectionError:
        why = "; ".join(filter(None, (reason_of(error), link.dialed.story)))
        command = "login" if link.dialed.needs_login else "test"
        return MCPConnectionError(
            f"the MCP server `{self._server.name}` cannot be reached: {why}",
            place=f"mcp.servers.{self._server.name}",
            fix=f"clawhive mcp {command} {self._server.name}",
        )

    async def _gone(self, link: Link) -> MCPConnectionError:
        await asyncio.wait([link.task], timeout=_STORY_SECONDS)
        if link.dialed.needs_login:
            return self._unreachable(link, ConnectionError("the call was refused"))
        why = f": {link.dialed.story}" if link.dialed.story else ""
        return MCPConnectionError(
            f"the connection to the MCP server `{self._server.name}` ended during the call{why}",
            place=f"mcp.servers.{self._server.name}",
            fix="the server may have done part of the work; look before you repeat the call",
        )

    def _timeout(self, seconds: float | None) -> MCPTimeoutError:
        within = "in time" if seconds is None else f"within {seconds:g} s"
        return MCPTimeoutError(
            f"the MCP server `{self._server.name}` did not answer {within}",
            place=f"mcp.servers.{self._server.name}",
            fix=f"raise `mcp.servers.{self._server.name}.timeout_ms`, or ask for less at once",
        )

    def _is_closed(self) -> MCPProviderClosedError:
        return MCPProviderClosedError(
            f"the MCP server `{self._server.name}` was closed", fix="start the task again"
        )


async def list_all(client: Client, screen: Screen | None, known: Listing | None) -> Listing:
    """List a server's tools, and what else of it is pinned.

    Where prompts and templates cannot be listed now, those of before stand.

    Raises:
        Unlisted: The server answers an error for its tools, or what is no list.
    """
    listing = await list_tools(client, screen)
    before = known or Listing()
    prompts, resources = before.prompts, before.resources
    try:
        async with asyncio.timeout(_ASIDE_SECONDS):
            has = client.server_capabilities
            prompts = resources = ()
            if has.prompts is not None:
                prompts = _named([*(await client.list_prompts()).prompts])
            if has.resources is not None:
                found = await client.list_resource_templates()
                resources = _named([*found.resource_templates])
    except Exception as error:  # noqa: BLE001 - whatever is wrong with them, tools can be called
        log.info("mcp.list_prompts.failed: %s", reason_of(error))
        prompts, resources = before.prompts, before.resources
    return replace(listing, prompts=prompts, resources=resources)


def _named(listed: Sequence[BaseModel]) -> tuple[Definition, ...]:
    """Return the first page of definitions, in one order, whatever order the server has today."""
    dumped = [each.model_dump(by_alias=True, mode="json", exclude_none=True) for each in listed]
    return tuple(sorted(dumped[:MAX_TOOLS], key=lambda each: str(each.get("name"))))


async def list_tools(client: Client, screen: Screen | None) -> Listing:
    """List every page of a server's tools.

    Raises:
        Unlisted: The server answers an error, or what is no list.
    """
    from mcp import MCPError
    from mcp_types import CONNECTION_CLOSED
    from pydantic import ValidationError

    tools: list[Definition] = []
    dropped: dict[str, str] = {}
    cursor, seen = None, set[str]()
    if screen is not None:
        screen.dropped = dropped
    try:
        for _ in range(MAX_PAGES):
            page = await client.list_tools(cursor=cursor)
            kept = {tool.name for tool in page.tools}
            if screen is None:
                tools += [
                    tool.model_dump(by_alias=True, mode="json", exclude_none=True)
                    for tool in page.tools
                ]
            else:
                tools += [tool for tool in screen.pages.pop(cursor, ()) if tool["name"] in kept]
            cursor = page.next_cursor
            if cursor is None or len(tools) > MAX_TOOLS:
                break
            if cursor in seen:
                dropped["the pages after"] = f"the cursor {cursor[:100]!r} came a second time"
                break
            seen.add(cursor)
        else:
            dropped["the pages after"] = f"there are more than {MAX_PAGES}"
    except (MCPError, ValidationError, RuntimeError) as error:
        if isinstance(error, MCPError) and error.code == CONNECTION_CLOSED:
            raise
        raise Unlisted(reason_of(error)) from error
    if len(tools) > MAX_TOOLS:
        dropped["the tools after"] = f"there are more than {MAX_TOOLS}"
    return _listing(client, tools[:MAX_TOOLS], dropped)


def _listing(client: Client, tools: list[Definition], dropped: dict[str, str]) -> Listing:
    discovery = client.session.discover_result
    info = client.server_info
    return Listing(
        tuple(tools),
        dropped,
        client.instructions or "",
        (),
        (),
        "" if info is None else f"{info.name} {info.version}".strip(),
        "legacy" if discovery is None else "2026-07-28",
        None
        if discovery is None
        else discovery.model_dump(by_alias=True, mode="json", exclude_none=True),
    )


def _tells_changes(client: Client) -> bool:
    tools = client.server_capabilities.tools
    return tools is not None and tools.list_changed is True


def _found(error: BaseException) -> Unlisted | None:
    """Return the error inside groups that says that tools cannot be listed."""
    if isinstance(error, BaseExceptionGroup):
        inner = cast("tuple[BaseException, ...]", error.exceptions)  # pyright: ignore[reportUnknownMemberType] - of anything
        return next(filter(None, map(_found, inner)), None)
    return error if isinstance(error, Unlisted) else None


def _meta(meta: Mapping[str, Any] | None) -> Any:
    return None if meta is None else dict(meta)


def _taken_notice(task: asyncio.Future[Any]) -> None:
    if not task.cancelled():
        task.exception()


def as_context(client: Any) -> AbstractAsyncContextManager[Any]:
    """Return a client to be entered: one that cannot be is used as it is."""
    return client if hasattr(client, "__aenter__") else nullcontext(client)
