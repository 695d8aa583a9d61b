"""A gateway over a hive in memory, its tools functions, and clients of both eras."""

import inspect
from contextlib import asynccontextmanager

import anyio
from mcp import Client
from mcp.shared.memory import create_client_server_memory_streams

from clawhive_core import ToolMeta, ToolResult
from clawhive_core.testing import memory_hive
from clawhive_mcp.serving.gateway import Gateway, Options

ERAS = ("legacy", "2026-07-28")
OPEN = {"type": "object"}


class Provider:
    """A provider of functions `(input, ctx)`."""

    provider_id = "test"

    def __init__(self, *, more=0):
        self.metas, self.functions = [], {}
        self.told = None
        self.add("test.echo", lambda given, _: dict(given), risk="safe")
        self.add("test.keep", lambda given, _: {"kept": given["path"]}, risk="guarded")
        for number in range(more):
            self.add(f"test.more{number}", lambda given, _: "more", risk="safe")

    def add(self, name, function, **meta):
        self.functions[name] = function
        self.metas.append(ToolMeta(name, f"The tool {name}.", OPEN, self.provider_id, **meta))

    def subscribe(self, changed):
        self.told = changed

    async def list_tools(self):
        return list(self.metas)

    async def invoke(self, tool_name, input, ctx):
        value = self.functions[tool_name](input, ctx)
        if inspect.isawaitable(value):
            value = await value
        if isinstance(value, str):
            return ToolResult(ctx.tool_call_id, value)
        return ToolResult(ctx.tool_call_id, str(value), structured=value)

    async def close(self):
        return None


class House:
    """A gateway over a hive in memory."""

    def __init__(self, provider, **options):
        self.provider, self.hive = provider, None
        self.gateway = Gateway(self._opened, Options(**{"client": "tester", **options}))

    @asynccontextmanager
    async def _opened(self):
        async with memory_hive(providers=[self.provider]) as self.hive:
            yield self.hive

    @asynccontextmanager
    async def client(self, era="legacy", **more):
        """Open it, and give a client."""
        async with self.gateway.open() as server, Client(over(server), mode=era, **more) as made:
            yield made


@asynccontextmanager
async def over(server):
    """Give the way to a server, as over a pipe."""
    async with (
        create_client_server_memory_streams() as (ours, theirs),
        anyio.create_task_group() as group,
    ):
        group.start_soon(server.run, *theirs, server.create_initialization_options())
        yield ours
        group.cancel_scope.cancel()


def text_of(result):
    (block,) = result.content
    return block.text
