"""What a task of 30 dependent calls costs in code mode, beside the plain loop.

Run `python benchmarks/code_mode.py [--smoke]`. A scripted model adds up 30 numbers, each call
needing the answer of the one before: once with a call a turn, once with one program
(`--planner code`, in the engine `monty`). Policy, validation and the log are on in both. It prints
rounds, the bytes of all requests, and CPU time; then the same with 300 KB of answers in between,
which the loop sends to the model and the program does not.
"""

from __future__ import annotations

import asyncio  # noqa: TID253 - a script, which nothing imports
import time
from collections.abc import Mapping
from typing import Any

from measure import CannotRun, arguments, finish, start, table

from clawhive_builtin.monty import MontyEngine
from clawhive_core.model.canonical import canonical
from clawhive_core.model.messages import LlmRequest, message_to_json
from clawhive_core.model.tools import ToolMeta, ToolResult
from clawhive_core.protocols.context import InvokeContext
from clawhive_core.testing import ScriptedModel, calling, memory_hive

CALLS = 30
MODEL = "scripted:any"
SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {"a": {"type": "integer"}},
    "required": ["a"],
    "additionalProperties": False,
}
PROGRAM = f"""\
async def main():
    total = 0
    for _ in range({CALLS}):
        total = (await sum_next(a=total))["sum"]
    return total
"""


class Sums:
    """A provider of one tool that adds one, and answers with some text beside it."""

    provider_id = "bench"

    def __init__(self, beside: int) -> None:
        self.beside = "x" * beside
        self.called = 0

    async def list_tools(self) -> list[ToolMeta]:
        """Return the tool."""
        answers = {"type": "object", "properties": {"sum": {"type": "integer"}}}
        facts = {"risk": "safe", "output_schema": answers}
        return [ToolMeta("sum.next", "Add one.", SCHEMA, self.provider_id, **facts)]

    async def invoke(
        self, tool_name: str, input: Mapping[str, Any], ctx: InvokeContext
    ) -> ToolResult:
        """Add one."""
        del tool_name
        self.called += 1
        value = {"sum": input["a"] + 1, "beside": self.beside}
        return ToolResult(ctx.tool_call_id, f"{value['sum']} {self.beside}", structured=value)

    async def close(self) -> None:
        """Nothing is held."""


def size(request: LlmRequest) -> int:
    """Return the bytes of a request, as JSON."""
    messages = [message_to_json(message) for message in request.messages]
    tools = [[tool.name, tool.description, tool.parameters] for tool in request.tools]
    return len(canonical([request.system, messages, tools]))


async def measured(planner: str, beside: int, times: int) -> tuple[int, int, float, float]:
    """Return rounds, bytes of all requests, and the least CPU and wall seconds of a run."""
    plain = [calling("sum.next", {"a": n}) for n in range(CALLS)]
    script = plain if planner == "react" else [calling("run_program", {"code": PROGRAM})]
    best: list[tuple[float, float]] = []
    rounds = sent = 0
    for _ in range(times):
        model, sums = ScriptedModel([*script, "Done."]), Sums(beside)
        parts: dict[str, Any] = {"providers": [sums], "adapters": [model]}
        async with memory_hive(**parts, sandboxes=[MontyEngine()]) as hive:
            cpu, wall = time.process_time(), time.perf_counter()
            run = await hive.run("Add up.", model=MODEL, planner=planner, max_tool_rounds=CALLS + 2)
            best.append((time.process_time() - cpu, time.perf_counter() - wall))
        if run["status"] != "succeeded" or sums.called != CALLS:
            raise CannotRun(f"{planner}: {run['status']}, {sums.called} calls: {run['error']}")
        rounds, sent = len(model.requests), sum(map(size, model.requests))
    return rounds, sent, min(each[0] for each in best), min(each[1] for each in best)


def main() -> None:
    """Print the table."""
    options = arguments(__doc__)
    times = 1 if options.smoke else 5
    rows: list[list[str]] = []
    figures: dict[str, Any] = {}
    for beside in (0, 10_000):
        for planner in ("react", "code"):
            rounds, sent, cpu, wall = asyncio.run(measured(planner, beside, times))
            row = [f"{beside:,}", planner, str(rounds), f"{sent:,}"]
            rows.append([*row, f"{cpu * 1000:.0f}", f"{wall * 1000:.0f}"])
            figures[f"{planner}_{beside}"] = {"rounds": rounds, "bytes": sent, "cpu_s": cpu}
    table(["bytes beside", "planner", "rounds", "bytes sent", "CPU ms", "wall ms"], rows)
    finish("code_mode", figures)


if __name__ == "__main__":
    start(main)
