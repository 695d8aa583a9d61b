"""What tools and handlers answer, and what a person makes of a call before approving it."""

from __future__ import annotations

import asyncio  # noqa: TID253 - all inputs are judged in one loop
import base64
import random
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, get_args

from fuzzing.judging import CODES, Verdict, coded, require
from fuzzing.making import Case, changed, changed_bytes, json_text, scalar, text, value

from clawhive_core import HandlerCall, Refusal, ToolError, ToolMeta, ToolResult
from clawhive_core.errors import ClawHiveError
from clawhive_core.execution.handlers.child import ChildPython
from clawhive_core.hive.hive import RunOptions
from clawhive_core.model.canonical import canonical_text
from clawhive_core.plugins.invocation import to_result
from clawhive_core.protocols.sandbox import Limit
from clawhive_core.testing import ScriptedModel, calling, memory_hive

SECRET = "kz8-very-secret-word-4711"
OUTPUT = {
    "type": "object",
    "properties": {"a": {"type": "integer"}, "b": {"type": "array", "items": {"type": "string"}}},
    "required": ["a"],
}
INPUT = {
    "type": "object",
    "properties": {
        "path": {"type": "string"},
        "line": {"type": "string", "maxLength": 20},
        "more": {"type": "object"},
    },
    "required": ["path"],
    "additionalProperties": False,
}


class Loop:
    """A loop, and a hive that stays open in it."""

    def __init__(self, provider: Any, script: Any = ()) -> None:
        self._loop = asyncio.new_event_loop()
        self._stack = AsyncExitStack()
        opening = memory_hive(providers=[provider], adapters=[ScriptedModel(script)])
        self.hive = self._loop.run_until_complete(self._stack.enter_async_context(opening))

    def run(self, waited: Any) -> Any:
        """Run something to its end."""
        return self._loop.run_until_complete(waited)


class Giving:
    """Offers tools that answer, or raise, what they are told to."""

    provider_id = "fuzz"

    def __init__(self) -> None:
        self.answer: Any = None
        self.given: list[Mapping[str, Any]] = []

    async def list_tools(self) -> list[ToolMeta]:
        facts: dict[str, Any] = {"provider_id": "fuzz", "risk": "safe"}
        keep = {"risk": "guarded", "effects": {"path": "fs.write"}, "sinks": ("path",)}
        return [
            ToolMeta("fuzz.any", "Answers.", {"type": "object"}, **facts),
            ToolMeta("fuzz.shaped", "Answers.", {"type": "object"}, output_schema=OUTPUT, **facts),
            ToolMeta("fuzz.keep", "Keeps.", INPUT, **{**facts, **keep}),
        ]

    async def invoke(self, tool_name: str, input: Mapping[str, Any], ctx: Any) -> Any:
        self.given.append(dict(input))
        if tool_name == "fuzz.keep":
            return ToolResult(ctx.tool_call_id, "kept")
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer

    async def close(self) -> None:
        return None


class Results:
    """Results of tools: odd values and types, exceptions, and a secret that nobody may read."""

    def __init__(self, _: Path) -> None:
        self._giving = Giving()
        self._loop = Loop(self._giving)
        self._hive = self._loop.hive
        self._hive.log.redactor.add(SECRET)

    def make(self, rnd: random.Random) -> Case:
        name = rnd.choice(("fuzz.any", "fuzz.shaped"))
        fitting = {"a": 1, "b": ["x"]}
        structured = changed(rnd, fitting) if rnd.random() < 0.5 else value(rnd)
        if rnd.random() < 0.2:
            form = rnd.choice((SECRET, base64.b64encode(SECRET.encode()).decode(), f"x{SECRET}y"))
            structured = {"a": 1, "b": [form, text(rnd)]}
        output = scalar(rnd) if rnd.random() < 0.2 else f"{text(rnd)}{rnd.choice(('', SECRET))}"
        kind = rnd.choice(("result", "result", "result", "plain", "value", "error", "raise"))
        return (name, kind, output, structured)

    def judge(self, case: Case) -> Verdict:
        name, kind, output, structured = case
        self._giving.answer = _answered(kind, output, structured)
        if kind == "value":
            try:
                self._giving.answer = to_result(structured, "c")
            except ClawHiveError as error:
                return coded(error)
        _, outcome = self._loop.run(self._hive.call(name, {}))
        if isinstance(outcome, Refusal):
            require(outcome.code in CODES, f"the code {outcome.code!r} is in no table")
        else:
            require(isinstance(outcome.output, str), "an output that is no text")
            canonical_text([outcome.output, outcome.structured])
        self._look_at_log()
        refused = isinstance(outcome, Refusal) or outcome.is_error
        return "refused" if refused else "taken"

    def _look_at_log(self) -> None:
        self._loop.run(self._hive.log.flush())
        for file in (self._hive.log.path, Path(f"{self._hive.log.path}-wal")):
            data = file.read_bytes() if file.exists() else b""
            require(SECRET.encode() not in data[-200_000:], "the secret is in the log")


def _answered(kind: str, output: Any, structured: Any) -> Any:
    if kind == "result":
        return ToolResult("", output, structured=structured)
    if kind == "error":
        return ToolResult("", output, is_error=True, structured=structured)
    if kind == "raise":
        code = output if isinstance(output, str) else "x"
        return ToolError(str(code), code="tool_failed") if len(code) % 2 else ValueError(code)
    return structured


ASKED = {"path": "a.txt", "line": "x", "more": {"k": [1, {"z": None}]}}


class Edits:
    """Other arguments for a call that waits: what is executed is what was approved, and no more."""

    def __init__(self, _: Path) -> None:
        self._giving = Giving()
        script = [calling("fuzz.keep", ASKED), "done"] * 20_000
        self._loop = Loop(self._giving, script)
        self._hive = self._loop.hive
        self._waiting: str | None = None

    def make(self, rnd: random.Random) -> Case:
        given = changed(rnd, ASKED) if rnd.random() < 0.8 else value(rnd)
        again = changed(rnd, given, 1) if rnd.random() < 0.3 else None
        return (given, again, rnd.random() < 0.2)

    def judge(self, case: Case) -> Verdict:
        given, again, approve = case
        if self._waiting is None:
            self._loop.run(self._hive.run("keep it", model="scripted:x"))
            self._waiting = self._hive.approvals.find("last").approval_id
        edited = None
        verdict: Verdict = "taken"
        for each in [given] if again is None else [given, again]:
            try:
                edited = self._loop.run(self._hive.edited(self._waiting, each, edited))
            except ClawHiveError as error:
                verdict = coded(error)
                break
            wanted = canonical_text(ASKED if edited is None else edited.input)
            require(wanted == canonical_text(each), "another input than the person's")
        if approve and verdict == "taken":
            self._do(edited)
        return verdict

    def _do(self, edited: Any) -> None:
        waiting, self._waiting = self._waiting, None
        approvals = self._hive.approvals
        approvals.resolve(waiting, "approve", by="user:ana", edited=edited)
        self._giving.given.clear()
        self._loop.run(self._hive.resume("last", RunOptions(approve="deny")))
        expected = ASKED if edited is None else edited.input
        done = [canonical_text(each) for each in self._giving.given]
        require(done == [canonical_text(expected)], f"executed {done!r:.300}")


HANDLER = """\
def f(input, ctx):
    import os
    for fd in range(3, 20):
        try:
            os.write(fd, {data!r})
        except OSError:
            continue
    return 1
"""
LINES = (
    b'{"value": 1}', b'{"error": "x", "line": 3}', b'{"limit": "memory"}', b'{"not_json": "x"}',
    b'{"ask": 1, "method": "call", "arguments": {"name": "a.b", "input": {}}}', b'{"fence": []}',
)  # fmt: skip


class Handlers:
    """Lines that a handler writes into its own process's pipe, where only the protocol belongs."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._loop = asyncio.new_event_loop()

    def make(self, rnd: random.Random) -> Case:
        if rnd.random() < 0.5:
            line = json_text(rnd, changed(rnd, {"value": 1, "ask": 2, "method": "x", "error": "y"}))
            return line.encode(errors="replace") + b"\n"
        return changed_bytes(rnd, rnd.choice(LINES), most=2) + b"\n"

    def judge(self, case: Case) -> Verdict:
        source = HANDLER.format(data=bytes(case[:60_000]))
        call = HandlerCall(source, str(self._folder / "handlers.py"), "f", {})
        engine = ChildPython(self._folder, "run_1")
        asked: list[Any] = []

        async def host(method: str, arguments: Mapping[str, Any]) -> Any:
            require(isinstance(method, str) and isinstance(arguments, dict), "asked for no method")
            asked.append(method)
            raise ToolError("there is none", code="unknown_tool")

        outcome = self._loop.run_until_complete(
            engine.run_handler(call, host, lambda _stream, _data: None)
        )
        require(outcome.error is None or isinstance(outcome.error, str), "an error that is no text")
        require(
            outcome.killed_by in {None, *get_args(Limit)},
            f"killed by {outcome.killed_by!r}",
        )
        require(outcome.line is None or isinstance(outcome.line, int), "a line that is no number")
        canonical_text(outcome.value)
        return "refused" if outcome.error else "taken"
