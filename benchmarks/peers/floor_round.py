"""A round's floor: the smallest honest executor's calls, and its rows for each turn of the model.

A turn is recorded as a call is: a row before it with what is new in the conversation, which is the
answer before and what its calls came to, and one after it with the whole answer; both are awaited.
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
    """Make a script's calls, those of a round side by side, and record its turns."""
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

        async def turn(number: int, new: Any, answer: Any) -> None:
            await log.append(floor.asked(number, new))
            await log.append(floor.end(number, answer))

        async def call(number: int, asked: Any) -> dict[str, Any]:
            given = asked["input"]
            made = {"name": asked["name"], "input": given}
            await log.append(floor.intent(number, made, floor.digest(given)))
            output = await offered["tool_0"](**given)
            await log.append(floor.end(number, output))
            return {"type": "tool_result", "tool_call_id": asked["id"], "output": output}

        for _ in bench.runs():
            with bench.clock():
                new: list[Any] = [{"type": "text", "text": "Add."}]
                for number in range(rounds):
                    answer = [
                        {
                            "type": "tool_use",
                            "id": f"call_{number}_{index}",
                            "name": "tool_0",
                            "input": {"a": number, "b": index},
                        }
                        for index in range(calls)
                    ]
                    await turn(number, new, answer)
                    new = [*answer, *await asyncio.gather(*(call(number, each) for each in answer))]
                await turn(rounds, new, [{"type": "text", "text": "Done."}])
        log.close()
