"""fastmcp's client and proxy of a server over stdio.

`mcp_fastmcp.py client COUNT turn|once COMMAND...` prints the CPU and wall seconds of a call;
`mcp_fastmcp.py proxy COMMAND...` serves the tools of the server that COMMAND starts.
"""

from __future__ import annotations

import asyncio  # noqa: TID253 - a script, which nothing imports
import json
import sys
import time
from typing import Any

from fastmcp import Client
from fastmcp.client.transports import StdioTransport

TIMES = 5


async def least(count: int, how: str, argv: list[str]) -> tuple[float, float]:
    """Return the least CPU and wall seconds of a call, of several rounds."""
    found: list[tuple[float, float]] = []
    async with Client(StdioTransport(argv[0], argv[1:]), mode="legacy") as client:
        for _ in range(TIMES):
            cpu, wall = time.process_time(), time.perf_counter()
            calls = (client.call_tool("add", {"a": number, "b": 1}) for number in range(count))
            if how == "once":
                await asyncio.gather(*calls)
            else:
                for call in calls:
                    await call
            found.append((time.process_time() - cpu, time.perf_counter() - wall))
    return min(each[0] for each in found) / count, min(each[1] for each in found) / count


def serve(argv: list[str]) -> None:
    """Serve a proxy over stdio."""
    from fastmcp.server import create_proxy

    config: dict[str, Any] = {"mcpServers": {"demo": {"command": argv[0], "args": argv[1:]}}}
    create_proxy(config).run(show_banner=False)


if __name__ == "__main__":
    if sys.argv[1] == "proxy":
        serve(sys.argv[2:])
    else:
        _, _, times, way, *command = sys.argv
        print(json.dumps(asyncio.run(least(int(times), way, command))))
