"""The least gateway that the SDK makes: its client of a server, and a low-level server before it.

`python mcp_pair.py COMMAND...` serves the tools of the server that COMMAND starts, over stdio.
"""

from __future__ import annotations

import sys
from typing import Any

import anyio
from mcp import Client, StdioServerParameters  # noqa: TID253 - a program of its own
from mcp.server.lowlevel import Server  # noqa: TID253 - likewise
from mcp.server.stdio import stdio_server  # noqa: TID253 - likewise


async def main() -> None:
    """Pass lists and calls on until stdin ends."""
    program, *words = sys.argv[1:]
    async with Client(StdioServerParameters(command=program, args=words)) as client:

        async def listed(context: Any, params: Any) -> Any:  # noqa: ARG001 - the SDK's signature
            return await client.list_tools()

        async def called(context: Any, params: Any) -> Any:  # noqa: ARG001 - the SDK's signature
            return await client.call_tool(params.name, params.arguments or {})

        server: Server[Any] = Server("pair", on_list_tools=listed, on_call_tool=called)
        async with stdio_server() as (read, write):
            await server.run(read, write, server.create_initialization_options())


if __name__ == "__main__":
    anyio.run(main)
