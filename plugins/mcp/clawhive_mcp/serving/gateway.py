"""The gateway: a project served to MCP clients, each with a session of its own."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio
import anyio.abc
from mcp.server.auth.middleware.bearer_auth import (  # noqa: TID253 - imported to serve
    AuthenticatedUser,
)
from mcp.server.lowlevel import NotificationOptions, Server  # noqa: TID253 - imported to serve
from mcp.server.subscriptions import (  # noqa: TID253 - imported to serve
    InMemorySubscriptionBus,
    ListenHandler,
    ServerEvent,
    ToolsListChanged,
)
from mcp_types import (
    GetPromptRequestParams,
    GetPromptResult,
    ListPromptsResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ListToolsResult,
    PaginatedRequestParams,
    ReadResourceRequestParams,
    ReadResourceResult,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from clawhive_core import Answer as Reply
from clawhive_core import ClawHiveError, RunOptions, __version__
from clawhive_mcp.serving.answers import Request
from clawhive_mcp.serving.approving import Asking, Attendance
from clawhive_mcp.serving.caller import Answer, Caller
from clawhive_mcp.serving.names import WireNames, table_path
from clawhive_mcp.serving.pages import EXTENSION, Pages
from clawhive_mcp.serving.stable import INSTRUCTIONS, stable_tools

if TYPE_CHECKING:
    from mcp.server.context import CallNext, HandlerResult
    from mcp.server.models import InitializationOptions
    from mcp.server.session import ServerSession
    from mcp_types import CallToolRequestParams

    from clawhive_core import Approval, Hive, Question

ANYBODY = "anybody"
"""The name of clients over HTTP without a token: one for all, as each could take another's."""
_OPEN_SECONDS = 2.0
"""The time for which a list of tools waits for the project to be opened."""
_FIRST_SECONDS = 0.5
"""The longest time for which opening the project waits for a first request."""
_WRITE_SECONDS = 0.01
"""The time in which the answer to it is written."""
_TELL_SECONDS = 2.0
"""The time in which a client must take what it is told unasked."""
_CALM_SECONDS = 0.1
"""The time in which changes of the catalog are told as one."""
_OTHER = re.compile(r"[^a-z0-9._-]+")
_LONGEST_NAME = 40
_CONNECTIONS = 64
"""The most connections of one client that are told of changes."""

Context = Any
"""The SDK's context of a request."""


@dataclass(frozen=True, slots=True)
class Options:
    """The way in which a project is served."""

    client: str | None = None
    """The client's name, as the user's configuration of it says; None: as it calls itself."""
    clients: Mapping[str, Attendance] = field(default_factory=dict[str, Attendance])
    """The persons at clients. They count for a client whose name the user gave, in its entry or
    with its token: what a client calls itself anybody can say."""
    exposes_log: bool = False
    """Whether clients may read the log's last events."""
    serves_skills: bool = False
    """Whether the methods of the Skills extension are served."""


class Gateway:
    """A project that is served.

    The project is opened beside the first answers, so that a client which gives up early has
    them; calls wait for it.

    Args:
        opening: Opens the project.
        options: How to serve.
    """

    def __init__(
        self,
        opening: Callable[[], AbstractAsyncContextManager[Hive]],
        options: Options | None = None,
    ) -> None:
        self._opening = opening
        self.options = options or Options()
        self._asked = anyio.Event()
        self._opened, self._over = anyio.Event(), anyio.Event()
        self._news = anyio.Event()
        self._clients: dict[str, Client] = {}
        self._bus = _Bus()
        self._open: tuple[Hive, WireNames, anyio.abc.TaskGroup] | None = None

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[Server[Any]]:
        """Open the project and give the server; both are closed at the end, with all sessions.

        Raises:
            ClawHiveError: The project cannot be opened.
        """
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(self._hold_project)
                yield self._server()
                self._over.set()
        except BaseExceptionGroup as several:
            if len(several.exceptions) == 1 and isinstance(several.exceptions[0], ClawHiveError):
                raise several.exceptions[0] from None
            raise

    async def _hold_project(self) -> None:
        from asyncio import get_running_loop

        self._loop = loop = get_running_loop()

        def tell() -> None:
            loop.call_soon_threadsafe(self._news.set)

        # Opening keeps the loop busy for a while: the client has its first answer before.
        with anyio.move_on_after(_FIRST_SECONDS):
            await self._asked.wait()
            await anyio.sleep(_WRITE_SECONDS)
        async with self._opening() as hive, anyio.create_task_group() as group:
            names = WireNames(table_path(str(hive.config.user_dir), str(hive.root)))
            unsubscribe = hive.catalog.subscribe(tell)
            self._open = hive, names, group
            self._opened.set()
            group.start_soon(self._pass_changes_on)
            await self._over.wait()
            unsubscribe()
            self._news.set()  # each session ends by itself, as one that was left and not cancelled

    def _server(self) -> Server[Any]:
        server = _Server(
            "clawhive",
            version=__version__,
            instructions=INSTRUCTIONS,
            get_tool_input_schema=lambda _: None,
            on_list_tools=self._list,
            on_call_tool=self._call,
            on_subscriptions_listen=ListenHandler(self._bus),
            on_list_prompts=self._list_prompts,
            on_get_prompt=self._get_prompt,
            on_list_resources=self._list_resources,
            on_list_resource_templates=self._list_templates,
            on_read_resource=self._read_resource,
        )
        if self.options.serves_skills:
            server.extensions = {EXTENSION: {}}
            server.add_request_handler("skills/list", PaginatedRequestParams, self._list_skills)
            server.add_request_handler("skills/get", ReadResourceRequestParams, self._get_skill)
        # Instead of spans of its own, ours come from the log.
        server.middleware[:] = [self._first_answer]
        self._server_middleware = server.middleware
        return server

    async def _first_answer(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        """Take notice of the first request, and of no other."""
        self._server_middleware.clear()
        self._asked.set()
        return await call_next(ctx)

    async def _list(self, ctx: Context, params: Any) -> ListToolsResult:
        del params
        client = self._client(ctx)
        if self._open is None:
            with anyio.move_on_after(_OPEN_SECONDS):
                await self._opened.wait()
        if self._open is None:
            client.waits_for_more = True
            return ListToolsResult(tools=stable_tools())
        return ListToolsResult(tools=(await self._caller(client)).tools())

    async def _call(self, ctx: Context, params: CallToolRequestParams) -> Answer:
        caller = await self._caller(self._client(ctx))
        return await caller.call(Request(ctx, params))

    async def _list_prompts(self, ctx: Context, params: Any) -> ListPromptsResult:
        del params
        return ListPromptsResult(prompts=(await self._pages(ctx)).prompts())

    async def _get_prompt(self, ctx: Context, params: GetPromptRequestParams) -> GetPromptResult:
        return await (await self._pages(ctx)).prompt(params.name)

    async def _list_resources(self, ctx: Context, params: Any) -> ListResourcesResult:
        del params
        return ListResourcesResult(resources=(await self._pages(ctx)).resources())

    async def _list_templates(self, ctx: Context, params: Any) -> ListResourceTemplatesResult:
        del params
        templates = (await self._pages(ctx)).templates()
        return ListResourceTemplatesResult(resource_templates=templates)

    async def _read_resource(
        self, ctx: Context, params: ReadResourceRequestParams
    ) -> ReadResourceResult:
        return await (await self._pages(ctx)).resource(params.uri)

    async def _list_skills(self, ctx: Context, params: Any) -> dict[str, Any]:
        del params
        # Each list of the newer protocol says for how long it may be kept.
        is_newer = ctx.protocol_version in MODERN_PROTOCOL_VERSIONS
        kept = {"ttlMs": 0, "cacheScope": "private"} if is_newer else {}
        return {"skills": await (await self._pages(ctx)).entries(), **kept}

    async def _get_skill(self, ctx: Context, params: ReadResourceRequestParams) -> dict[str, Any]:
        return {"skill": await (await self._pages(ctx)).entry(params.uri)}

    async def _pages(self, ctx: Context) -> Pages:
        client = self._client(ctx)
        caller = await self._caller(client)
        return Pages(caller.hive, caller.session, client.name, self.options.exposes_log)

    def _client(self, ctx: Context) -> Client:
        """Return the client of a request, its connection kept to tell it of changes."""
        name, is_named = self._name(ctx)
        client = self._clients.get(name)
        if client is None:
            client = self._clients[name] = Client(name, is_named=is_named)
            client.is_nobody = ctx.request is not None and not is_named
        if ctx.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            key = "" if ctx.request is None else ctx.request.headers.get("mcp-session-id", "")
            client.remember(key, ctx.session)
        return client

    def _name(self, ctx: Context) -> tuple[str, bool]:
        """Return a client's name, and whether the user gave it: by a token, or by its entry."""
        if ctx.request is not None:
            token = client_of(ctx.request.scope)
            return token or self.options.client or ANYBODY, token is not None
        if self.options.client is not None:
            return self.options.client, True
        params = ctx.session.client_params
        return client_name("" if params is None else params.client_info.name), False

    async def _caller(self, client: Client) -> Caller:
        """Return the session of a client, opened for its first request."""
        if client.caller is not None:
            return client.caller  # a lock would cost each call two turns of the loop
        await self._opened.wait()
        async with client.lock:
            if client.caller is None:
                client.caller = await self._started(client)
            return client.caller

    async def _started(self, client: Client) -> Caller:
        if self._open is None:
            raise RuntimeError("the project is closed")
        hive, names, group = self._open
        person = self.options.clients.get(client.name) if client.is_named else None
        person = person or Attendance()
        options = RunOptions(
            title=f"MCP client {client.name}",
            on_signal=partial(self._heard, client),
            approve="ask" if person.attended else "park",
            ask=client if person.attended else None,
        )
        session = await group.start(self._hold, hive.session(f"client:mcp/{client.name}", options))
        asking = Asking(hive, client.name, person)
        tell = partial(self._tell, client)
        return Caller(hive, session, names, asking, tell, stable_only=client.is_nobody)

    async def _hold(
        self,
        manager: AbstractAsyncContextManager[Any],
        *,
        task_status: anyio.abc.TaskStatus[Any],
    ) -> None:
        async with manager as value:
            task_status.started(value)
            await self._over.wait()

    async def _tell(self, client: Client) -> bool:
        """Tell a client that its list of tools is another; return whether it listens."""
        await self._bus.publish(ToolsListChanged())
        for key, connection in [*client.connections.items()]:
            with anyio.move_on_after(_TELL_SECONDS) as telling:
                try:
                    await connection.send_tool_list_changed()
                except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                    client.connections.pop(key, None)
            if telling.cancelled_caught:
                client.connections.pop(key, None)  # it does not read what it is sent
        return bool(client.connections or self._bus.listeners)

    def _heard(self, client: Client, signal: Any) -> None:
        """Take notice of a tool's progress, in any thread."""
        if signal.kind == "progress" and client.caller is not None:
            request = client.caller.listens_to(signal.step_id)
            if request is not None and self._open is not None:
                facts = (request, signal.done, signal.total, signal.text)
                self._loop.call_soon_threadsafe(self._open[2].start_soon, _report, *facts)

    async def _pass_changes_on(self) -> None:
        """Tell clients of changes of the catalog, where these change what they list."""
        while not self._over.is_set():
            for client in [*self._clients.values()]:
                hasty, client.waits_for_more = client.waits_for_more, False
                if hasty or (client.caller is not None and client.caller.is_changed()):
                    await self._tell(client)
            await self._news.wait()
            with anyio.move_on_after(_CALM_SECONDS):
                await self._over.wait()
            self._news = anyio.Event()


async def _report(request: Request, done: float, total: float | None, text: str) -> None:
    """Tell a client of progress, as long as its request is open."""
    closed = (anyio.BrokenResourceError, anyio.ClosedResourceError)
    with suppress(*closed), anyio.move_on_after(_TELL_SECONDS):
        await request.ctx.session.report_progress(done, total, text or None)


class _Bus(InMemorySubscriptionBus):
    """The changes that clients of the newer protocol listen to."""

    listeners = 0
    """The number of those that do."""

    def subscribe(self, listener: Callable[[ServerEvent], None]) -> Callable[[], None]:
        """Count a listener, until it leaves."""
        unsubscribe, left = super().subscribe(listener), False
        self.listeners += 1

        def leave() -> None:
            nonlocal left
            self.listeners -= not left
            left = True
            unsubscribe()

        return leave


class _Server(Server[Any]):
    """The SDK's server, which by itself says that its list of tools never changes."""

    def create_initialization_options(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, dict[str, Any]] | None = None,
        extensions: dict[str, dict[str, Any]] | None = None,
    ) -> InitializationOptions:
        """Return what a client of the older protocol is told; it drops news of other changes."""
        changes = notification_options or NotificationOptions(tools_changed=True)
        return super().create_initialization_options(changes, experimental_capabilities, extensions)


class Client:
    """One client: its connections, and its session once it made a request."""

    def __init__(self, name: str, *, is_named: bool) -> None:
        self.name = name
        self.is_named = is_named
        """Whether the user gave it its name, and not it itself."""
        self.is_nobody = False
        """Whether it came over HTTP without a token, so that whoever comes next is the same."""
        self.lock = anyio.Lock()
        self.caller: Caller | None = None
        self.connections: dict[str, ServerSession] = {}
        """By connection, the last request's way to it; only where changes are told unasked."""
        self.waits_for_more = False
        """Whether it listed before the project was opened."""

    async def __call__(self, approval: Approval) -> None:
        """Ask nobody: what waits for a person is answered to the client's call."""

    async def reply(self, question: Question) -> Reply:
        """Return the answer of its person to a tool's question."""
        return Reply("cancel") if self.caller is None else await self.caller.reply(question)

    def remember(self, connection: str, session: ServerSession) -> None:
        """Keep the way to a connection; the oldest is forgotten."""
        self.connections[connection] = session
        while len(self.connections) > _CONNECTIONS:
            del self.connections[next(iter(self.connections))]


def client_of(scope: Mapping[str, Any]) -> str | None:
    """Return the client whose token a request over HTTP has; None where it has none."""
    user = scope.get("user")
    return user.access_token.client_id if isinstance(user, AuthenticatedUser) else None


def client_name(text: str) -> str:
    """Return what a client calls itself, as a principal's name."""
    return _OTHER.sub("-", text.strip().lower())[:_LONGEST_NAME].strip("-") or "unknown"
