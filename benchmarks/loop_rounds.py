"""What a round of the tool-use loop costs, and whether it stays flat.

Run `python benchmarks/loop_rounds.py [--smoke]`. A scripted model asks for one call a round,
through `Hive.run` with policy, validation and the event log on, for 10, 50 and 200 rounds; the same
with 200 tools offered instead of one; 100 calls in one round. Beside it a bare loop over the same
model that validates each input with jsonschema-rs, calls the tool and keeps no record.
Goals: a round of 200 costs at most 1.5 times a round of 10; 200 tools cost nothing a further round.
"""

from __future__ import annotations

import asyncio  # noqa: TID253 - a script, which nothing imports
import atexit
import os
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

from measure import (
    CannotRun,
    Sample,
    Series,
    alternate,
    arguments,
    clock,
    finish,
    micros,
    start,
    table,
)

from clawhive_core.config import Config
from clawhive_core.hive.hive import Hive
from clawhive_core.model.messages import LlmMessage, LlmRequest, LlmResponse
from clawhive_core.model.tools import ToolCall, ToolMeta, ToolResult
from clawhive_core.plugins.contribution import Contribution
from clawhive_core.plugins.manager import PluginManager
from clawhive_core.protocols.context import InvokeContext
from clawhive_core.protocols.provider import ToolProvider
from clawhive_core.testing.scripted import Answer, ScriptedModel, answer, calling

GOAL = 1.5
PARALLEL = 100
SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
    "required": ["a", "b"],
    "additionalProperties": False,
}


class Sums:
    """A provider of tools that add two numbers, differently each time: equal calls are a loop."""

    provider_id = "bench"

    def __init__(self, tools: int) -> None:
        self.tools = tools
        self.called = 0

    async def list_tools(self) -> list[ToolMeta]:
        """Return the tools."""
        text = "Add two whole numbers and return their sum, for the comparison of loops."
        return [
            ToolMeta(f"sum.tool{n}", text, SCHEMA, self.provider_id, risk="safe", idempotent=True)
            for n in range(self.tools)
        ]

    async def invoke(
        self, tool_name: str, input: Mapping[str, Any], ctx: InvokeContext
    ) -> ToolResult:
        """Add."""
        del tool_name
        self.called += 1
        total = input["a"] + input["b"]
        return ToolResult(ctx.tool_call_id, str(total), structured=total)

    async def close(self) -> None:
        """Nothing is held."""


class Plugins(PluginManager):
    """The plugins of a run: one provider, one model, nothing that is installed."""

    def __init__(self, tools: int, model: ScriptedModel) -> None:
        super().__init__([])
        self.sums = Sums(tools)
        self.model = model

    def providers(self) -> list[ToolProvider]:
        """Return the provider."""
        return [self.sums]

    def contributions(self, hook: str) -> list[Contribution]:
        """Return the model."""
        if hook != "clawhive_llm_adapters":
            return []
        return [Contribution("bench", "bench", self.model)]


class Script(ScriptedModel):
    """A scripted model without a host, which keeps no requests."""

    default_host = None

    def __init__(self, rounds: int, calls: int = 1) -> None:
        super().__init__([])
        self.answers: list[Answer] = [*(turn(number, calls) for number in range(rounds)), "Done."]
        self.asked = 0

    async def chat(self, request: LlmRequest) -> LlmResponse:
        """Return the next answer."""
        self.asked += 1
        return answer(self.answers, self.asked, request)


def turn(number: int, calls: int) -> LlmResponse:
    """Return a turn that asks for calls."""
    if calls == 1:
        return calling("sum.tool0", {"a": number, "b": 1})
    content = tuple(ToolCall("", "sum.tool0", {"a": number, "b": index}) for index in range(calls))
    return LlmResponse(content, "tool_use")


def through_hive(rounds: int, tools: int, calls: int) -> Sample:
    """Run one prompt in a fresh project of the same user; opening the project is not counted."""
    (found,) = runs_through_hive(rounds, tools, calls, 1)
    return found


def runs_through_hive(rounds: int, tools: int, calls: int, runs: int) -> list[Sample]:
    """Do what `through_hive` does with some runs, one after the other."""
    with tempfile.TemporaryDirectory(dir=home()) as name:
        root = Path(name).resolve()
        (root / "clawhive.toml").write_text("", encoding="utf-8")
        return asyncio.run(hive_runs(root, rounds, tools, calls, runs))


@cache
def home() -> str:
    """Return the user's folder: the key of the audit log is made once a user, not once a run."""
    folder = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


async def hive_runs(root: Path, rounds: int, tools: int, calls: int, runs: int) -> list[Sample]:
    """Open a project and clock each of some runs in it."""
    model = Script(rounds, calls)
    plugins = Plugins(tools, model)

    def load(config: Config, env: Mapping[str, str]) -> PluginManager:
        del config, env
        return plugins

    env = {"HOME": home(), "PATH": os.environ.get("PATH", "")}
    found: list[Sample] = []
    async with Hive.open(root, env=env, plugins=load) as hive:
        for _ in range(runs):
            model.asked = plugins.sums.called = 0
            before = clock_now()
            run = await hive.run("Add.", model="scripted:bench", max_tool_rounds=rounds + 1)
            await hive.log.flush()
            found.append(since(before))
            if run["status"] != "succeeded" or model.asked != rounds + 1:
                raise CannotRun(f"the run ended as {run['status']}: {run.get('error')}")
            if plugins.sums.called != rounds * calls:
                raise CannotRun(f"{plugins.sums.called} calls were executed, not {rounds * calls}")
    return found


def clock_now() -> Sample:
    """Return the CPU and wall clocks."""
    import time

    return Sample(time.process_time(), time.perf_counter())


def since(before: Sample) -> Sample:
    """Return what passed since a reading of the clocks."""
    now = clock_now()
    return Sample(now.cpu - before.cpu, now.wall - before.wall)


def bare(rounds: int, tools: int, calls: int) -> Sample:
    """Clock a loop without policy, record or deadline."""
    return clock(lambda: asyncio.run(bare_loop(Script(rounds, calls), tools)))


async def bare_loop(model: Script, tools: int) -> None:
    """Ask, validate, call and answer until the model is done."""
    import jsonschema_rs

    metas = await Sums(tools).list_tools()
    offered = tuple(meta.to_def() for meta in metas)
    validators = {meta.name: jsonschema_rs.validator_for(dict(meta.input_schema)) for meta in metas}
    messages = [LlmMessage.text("user", "Add.")]
    while True:
        response = await model.chat(LlmRequest("bench", tuple(messages), tools=offered))
        if not response.tool_calls:
            return
        results: list[ToolResult] = []
        for call in response.tool_calls:
            if not validators[call.name].is_valid(call.input):
                raise ValueError(call.name)
            total = call.input["a"] + call.input["b"]
            results.append(ToolResult(call.id, str(total), structured=total))
        messages.append(LlmMessage("assistant", response.content))
        messages.append(LlmMessage("user", tuple(results)))


def measured(rounds: int) -> dict[str, Series]:
    """Return the cost of a round, or of a call, in each case."""
    shapes = {
        "10 rounds": (10, 1, 1),
        "50 rounds": (50, 1, 1),
        "200 rounds": (200, 1, 1),
        "50 rounds, 200 tools": (50, 200, 1),
        "200 rounds, 200 tools": (200, 200, 1),
        "1 round of 100 calls, per call": (1, 1, PARALLEL),
    }
    found: dict[str, Any] = {}
    for name, (turns, tools, calls) in shapes.items():
        parts = turns * calls
        found[f"hive, {name}"] = partial(part, through_hive, parts, (turns, tools, calls))
        found[f"bare, {name}"] = partial(part, bare, parts, (turns, tools, calls))
    return alternate(found, rounds)


def part(run: Any, parts: int, shape: Sequence[int]) -> Sample:
    """Return the cost of one of a run's equal parts."""
    return run(*shape).per(parts)


def main() -> None:
    """Measure and print."""
    found = measured(2 if arguments(__doc__).smoke else 9)
    header = ("per round", "cpu us", "min", "wall us", "min", "cpu: to bare", "of mins")
    rows: list[Sequence[str]] = []
    for name, series in found.items():
        floor = found[f"bare, {name.partition(', ')[2]}"]
        costs = (series.cpu(), series.cpu_min(), series.wall(), series.wall_min())
        ratios = (f"{series.ratio(floor):.1f}", f"{series.ratio_min(floor):.1f}")
        rows.append((name, *map(micros, costs), *ratios))
    table(header, rows)
    ten, two_hundred = found["hive, 10 rounds"], found["hive, 200 rounds"]
    growth, of_minima = two_hundred.ratio(ten), two_hundred.ratio_min(ten)
    fifty, fifty_many = found["hive, 50 rounds"], found["hive, 50 rounds, 200 tools"]
    many = fifty_many.ratio(fifty) - 1
    later, earlier = marginal(fifty, 50, two_hundred, 200), marginal(ten, 10, fifty, 50)
    later_many = marginal(fifty_many, 50, found["hive, 200 rounds, 200 tools"], 200) / later - 1
    print(f"a round of 200 beside a round of 10: {growth:.2f}, of minima {of_minima:.2f}", end="")
    print(f" (goal: {GOAL} or less)")
    print(f"rounds 51 to 200 beside rounds 11 to 50: {later / earlier:.2f}")
    print(f"200 tools instead of one, 50 rounds with all that is done once: {many:+.0%}")
    print(f"200 tools instead of one, a further round: {later_many:+.0%}")
    finish(
        "loop_rounds",
        {
            "growth_200_to_10": round(growth, 2),
            "growth_200_to_10_of_minima": round(of_minima, 2),
            "growth_of_later_rounds": round(later / earlier, 2),
            "share_of_200_tools_in_50_rounds": round(many, 2),
            "share_of_200_tools_in_a_further_round": round(later_many, 2),
            "goal": GOAL,
        },
    )


def marginal(fewer: Series, few: int, more: Series, many: int) -> float:
    """Return what one of the further rounds cost, by the minima; never nothing."""
    total = more.cpu_min() * many - fewer.cpu_min() * few
    return max(total / (many - few), sys.float_info.min)


if __name__ == "__main__":
    start(main)
