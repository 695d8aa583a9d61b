"""The floor: a loop whose calls go through the smallest honest executor; turns are not recorded.

`floor_round.py` is the same with its turns recorded.

Its import is what the core is made of and cannot do without: pluggy, click, asyncio and sqlite3.
"""

from __future__ import annotations

from typing import Any


def load() -> Any:
    """Import it and return what runs it."""
    import asyncio
    import sqlite3

    import click
    import pluggy

    del sqlite3, click, pluggy
    return lambda *shape: asyncio.run(through(*shape))


async def through(bench: Any, rounds: int, tools: int, calls: int) -> None:
    """Make a script's calls, those of a round side by side."""
    import asyncio
    import tempfile
    from pathlib import Path

    from floor import Floor, FloorLog
    from loop_rounds import SCHEMA

    with tempfile.TemporaryDirectory() as folder:
        log = FloorLog(Path(folder) / "floor.db")
        log.open()
        floor = Floor(Path(folder), log, SCHEMA)
        offered = {f"tool_{number}": bench.async_tool(number) for number in range(tools)}

        async def call(number: int, given: dict[str, int]) -> int:
            asked = {"name": "tool_0", "input": given}
            await log.append(floor.intent(number, asked, floor.digest(given)))
            output = await offered["tool_0"](**given)
            await log.append(floor.end(number, output))
            return output

        for _ in bench.runs():
            with bench.clock():
                for number in range(rounds):
                    asked = [{"a": number, "b": index} for index in range(calls)]
                    await asyncio.gather(*(call(number, each) for each in asked))
        log.close()
