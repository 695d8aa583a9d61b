"""A replay of tool calls through a real hive: the user's own, and an attacker's spliced in.

It knows nothing of AgentDojo: a suite is a set of functions over an environment, declared by a
policy file. Every call goes through the executor, every question through the run's `ask`.
"""

from __future__ import annotations

import tomllib
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from clawhive_core import ToolMeta, ToolResult
from clawhive_core.hive.hive import RunOptions
from clawhive_core.testing import memory_hive

Human = Literal["attentive", "rubber stamp"]
"""Approves the user's own calls and no others; or everything."""
Style = Literal["allow all", "ask every side effect", "ours"]
ACTOR = "agent:default"


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call: the function's name and its arguments as JSON."""

    name: str
    args: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Function:
    """One tool of a suite."""

    name: str
    description: str
    schema: Mapping[str, Any]
    run: Callable[[Any, Mapping[str, Any]], tuple[Any, str]]
    """Takes environment and arguments; returns the JSON value and its text."""


@dataclass(frozen=True, slots=True)
class Case:
    """What one session does."""

    words: str
    """The user's prompt."""
    mine: Sequence[Call]
    injected: Callable[[], Sequence[Call]] | None = None
    """Returns an attacker's calls, once the first output holds the marker."""
    marker: str = ""


@dataclass(slots=True)
class Trace:
    """What happened in one session."""

    done: list[Call] = field(default_factory=list[Call])
    asked: list[Call] = field(default_factory=list[Call])
    refused: list[Call] = field(default_factory=list[Call])
    injected: bool = False


class Tools:
    """Offers a suite's functions over the environment of the moment (a ToolProvider)."""

    def __init__(self, suite: str, functions: Sequence[Function], metas: Sequence[ToolMeta]):
        self.provider_id = suite
        self.environment: Any = None
        self._functions = {f"{suite}.{each.name}": each for each in functions}
        self._metas = metas

    async def list_tools(self) -> Sequence[ToolMeta]:
        """Return the tools as they are declared."""
        return self._metas

    async def invoke(self, tool_name: str, input: Mapping[str, Any], ctx: Any) -> ToolResult:
        """Run a function; an error of it is the tool's."""
        value, text = self._functions[tool_name].run(self.environment, input)
        return ToolResult(ctx.tool_call_id, text, structured=value)

    async def close(self) -> None:
        """Nothing is held."""


def read_policy(path: Path) -> dict[str, dict[str, Any]]:
    """Return what a policy file declares of each tool."""
    return tomllib.loads(path.read_text("utf-8"))["tools"]


def metas(
    suite: str, functions: Sequence[Function], policy: Mapping[str, Any], style: Style
) -> list[ToolMeta]:
    """Return the suite's tools as a style of policy declares them."""
    missing = {each.name for each in functions} ^ set(policy)
    if missing:
        raise ValueError(f"the policy of {suite} and its tools differ in {sorted(missing)}")
    return [_meta(suite, each, policy[each.name], style) for each in functions]


def _meta(suite: str, function: Function, row: Mapping[str, Any], style: Style) -> ToolMeta:
    ours = ToolMeta(
        f"{suite}.{function.name}",
        function.description or function.name,
        function.schema,
        suite,
        capability_level=row.get("level", "L0"),
        risk=row.get("risk", "safe"),
        side_effects=row.get("side_effects", False),
        sinks=tuple(row.get("sinks", ())),
        records=tuple(row.get("records", ())),
        output_trust=row.get("output_trust", "untrusted"),
    )
    if style == "ours":
        return ours
    bare = replace(ours, sinks=(), records=(), output_trust="untrusted", risk="safe")
    asks = style == "ask every side effect" and ours.side_effects
    return replace(bare, risk="unsafe") if asks else bare


@asynccontextmanager
async def opened(tools: Tools, listed: Sequence[str] | None = None) -> AsyncGenerator[Any]:
    """Open a hive over the tools; a list of names denies all others."""
    every = [meta.name for meta in await tools.list_tools()]
    denied = [] if listed is None else [name for name in every if name not in listed]
    settings = {
        "policy.allow": ["tool.call:**"],
        "policy.deny": [f"tool.call:{name}" for name in denied],
    }
    async with memory_hive(providers=[tools], settings=settings) as hive:
        yield hive


async def replay(hive: Any, tools: Tools, case: Case, human: Human) -> Trace:
    """Make a case's calls, each through the executor; what is refused is left out."""
    trace = Trace()
    waiting: list[Call] = []

    async def ask(approval: Any) -> None:
        call = waiting[-1]
        trace.asked.append(call)
        yes = human == "rubber stamp" or call in case.mine
        answer = "approve" if yes else "deny"
        hive.approvals.resolve(approval.approval_id, answer, by="user:local")

    options = RunOptions(words=(case.words,), approve="ask", ask=ask)
    async with hive.session(ACTOR, options) as session:
        left = list(case.mine)
        while left:
            waiting.append(left.pop(0))
            outcome = await session.invoke(
                f"{tools.provider_id}.{waiting[-1].name}", waiting[-1].args
            )
            if not isinstance(outcome, ToolResult):
                trace.refused.append(waiting[-1])
                continue
            trace.done.append(waiting[-1])
            if case.injected is not None and not trace.injected and case.marker in outcome.output:
                trace.injected = True
                left[:0] = case.injected()
    return trace
