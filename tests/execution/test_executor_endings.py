import asyncio
import threading
import tracemalloc

import anyio
import pytest

from clawhive_core.errors import ClawHiveError, ToolError
from clawhive_core.execution.outcomes import MAX_TEXT
from clawhive_core.model.json_values import MAX_STRUCTURED
from clawhive_core.model.tools import Artifact, ToolResult
from clawhive_core.plugins.invocation import to_result
from tests.harness import text


class Mute(Exception):
    def __str__(self):
        raise RuntimeError("not even that")


ANYTHING = [
    ValueError("bad"),
    Mute(),
    RecursionError("deep"),
    MemoryError(),
    StopAsyncIteration(),
    SystemExit(3),
    GeneratorExit(),
    asyncio.CancelledError("I quit"),
    ExceptionGroup("several", [ValueError("one"), KeyError("two")]),
    BaseExceptionGroup("worse", [SystemExit(1)]),
    BaseExceptionGroup("worst", [KeyboardInterrupt()]),
]


@pytest.mark.parametrize("error", ANYTHING, ids=map(repr, range(len(ANYTHING))))
async def test_whatever_a_tool_raises_is_its_own_failure(house, error):
    async def fail(_input, _ctx):
        raise error

    await house.offer("demo.fail", fail).ready()
    result = await house.call("demo.fail")
    assert result.is_error
    assert result.structured["error"] == "tool_failed"
    assert type(error).__name__ in result.structured["message"]
    assert result.structured["next"] == {"action": "report", "provider_id": "demo"}
    row = await house.row()
    assert (row["status"], row["error"]["code"]) == ("failed", "tool_failed")


async def test_an_interrupt_out_of_a_tool_is_recorded_and_goes_on_to_the_caller(house):
    async def fail(_input, _ctx):
        raise KeyboardInterrupt

    await house.offer("demo.fail", fail).ready()
    with pytest.raises(KeyboardInterrupt):
        await house.call("demo.fail")
    assert (await house.row())["error"]["code"] == "cancelled"


async def test_a_tool_error_keeps_its_code_its_fix_and_its_facts(house):
    async def fail(_input, _ctx):
        raise ToolError("no such file", code="not_found", fix="name another", data={"path": "a"})

    await house.offer("demo.fail", fail).ready()
    result = await house.call("demo.fail")
    assert result.structured == {
        "error": "not_found",
        "message": "no such file",
        "reason": None,
        "next": {"action": "fix", "hint": "name another"},
        "path": "a",
    }
    assert (await house.row())["error"] == {"code": "not_found", "message": "no such file"}


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ToolError("x", data={"a": object()}), "tool_failed"),
        (ToolError("x", data={"error": "fake", "next": "fake", "reason": "fake"}), "tool_failed"),
        (ToolError("x", data={"a": "y" * 1_000_000}), "tool_failed"),
        (ToolError("x" * 10_000_000), "tool_failed"),
        (ToolError(["no", "text"]), "tool_failed"),
        (ToolError("x", code=""), "tool_failed"),
        (ToolError("x", code="c" * 500), "c" * 99 + "…"),
        (ClawHiveError("x", code="own"), "own"),
    ],
)
async def test_a_tool_error_of_any_content_is_recorded(house, error, code):
    async def fail(_input, _ctx):
        raise error

    await house.offer("demo.fail", fail).ready()
    result = await house.call("demo.fail")
    assert result.structured["error"] == code
    assert result.structured["next"] == {"action": "read_error"}
    assert len(result.output) < 100_000
    assert (await house.row())["status"] == "failed"


BLOB = 96 * 1024 * 1024
BLOBS = {
    "text": lambda: "é" * BLOB,
    "structured": lambda: {"a": "é" * BLOB},
    "pieces": lambda: {"a": ["é" * (BLOB // 64) for _ in range(64)]},
    "result": lambda: ToolResult("", "é" * BLOB),
    "structured result": lambda: ToolResult("", "x", structured={"a": "é" * BLOB}),
}


@pytest.mark.parametrize("make", BLOBS.values(), ids=BLOBS)
async def test_a_huge_answer_is_cut_or_refused_before_it_is_in_memory_twice(house, make):
    async def blob(_input, ctx):
        return to_result(make(), ctx.tool_call_id)

    await house.offer("demo.blob", blob).ready()
    result, peak = await measured(house, "demo.blob")
    assert BLOB < peak < BLOB * 1.75
    assert len(result.output) <= MAX_TEXT + 100


async def test_huge_output_is_cut_before_it_is_in_memory_twice(house):
    async def say(_input, ctx):
        ctx.output("stdout", bytes(BLOB))
        return ToolResult("", "done")

    await house.offer("demo.say", say).ready()
    assert BLOB < (await measured(house, "demo.say"))[1] < BLOB * 1.75


async def measured(house, name):
    """Return what a call answers, and the most memory that it took."""
    tracemalloc.start()
    try:
        return await house.call(name), tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


WRONG = [
    None,
    "text",
    {"output": "x"},
    ToolResult("", None),
    ToolResult("", b"bytes"),
    ToolResult("", "x", is_error="no"),
    ToolResult("", "x", structured={1, 2}),
    ToolResult("", "x", structured={1: 2}),
    ToolResult("", "x", structured=[float("nan")]),
    ToolResult("", "x", structured=object()),
    ToolResult("", "x", structured="x" * (MAX_STRUCTURED + 1)),
    ToolResult("", "x", artifacts=("a.txt",)),
    ToolResult("", "x", artifacts=(Artifact("a", "t", "3", "h"),)),
    ToolResult("", "x", artifacts=(Artifact(None, "t", 3, "h"),)),
    ToolResult("", "x", artifacts=3),
]


@pytest.mark.parametrize("answer", WRONG, ids=map(repr, range(len(WRONG))))
async def test_an_answer_that_is_no_result_is_invalid_output(house, answer):
    async def tool(_input, _ctx):
        return answer

    await house.offer("demo.odd", tool).ready()
    result = await house.call("demo.odd")
    assert result.is_error
    assert result.structured["error"] == "invalid_output"
    assert result.structured["next"]["provider_id"] == "demo"
    assert (await house.row())["status"] == "failed"


async def test_a_bottomless_value_is_invalid_output(house):
    value = []
    for _ in range(5_000):
        value = [value]

    async def tool(_input, _ctx):
        return text(structured=value)

    await house.offer("demo.deep", tool).ready()
    assert (await house.call("demo.deep")).structured["error"] == "invalid_output"


async def test_ten_megabytes_of_text_are_cut_and_the_cut_is_marked(house):
    async def tool(_input, _ctx):
        return text("x" * 10_000_000)

    await house.offer("demo.long", tool).ready()
    result = await house.call("demo.long")
    mark = f"\n[cut: {10_000_000 - MAX_TEXT} more characters]"
    assert result.output == "x" * MAX_TEXT + mark


async def test_a_value_that_the_output_schema_refuses_is_invalid_output(house):
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}

    async def tool(input, _ctx):
        return text(structured=input["value"])

    await house.offer("demo.typed", tool, output_schema=schema).ready()
    assert (await house.call("demo.typed", {"value": {"n": 1}})).structured == {"n": 1}
    result = await house.call("demo.typed", {"value": {"n": "x"}}, step="step_2")
    assert result.structured["error"] == "invalid_output"
    assert "/n" in result.structured["message"]


async def test_an_error_result_need_not_fit_the_output_schema(house):
    async def tool(_input, _ctx):
        return ToolResult("", "sorry", is_error=True, structured={"error": "busy", "message": "m"})

    await house.offer("demo.typed", tool, output_schema={"type": "array"}).ready()
    assert (await house.call("demo.typed")).output == "sorry"
    assert (await house.row())["error"] == {"code": "busy", "message": "m"}


async def test_a_result_always_answers_the_call_that_was_made(house):
    async def tool(_input, _ctx):
        return ToolResult("somebody else's", "x")

    await house.offer("demo.tool", tool).ready()
    assert (await house.call("demo.tool")).tool_call_id == "call_1"


async def test_a_tool_that_hangs_is_stopped_at_its_time_and_keeps_its_output(house):
    stopped = []

    async def hang(_input, ctx):
        ctx.output("stdout", b"half of it \xff")
        ctx.progress(1, 2, "working")
        try:
            await anyio.sleep_forever()
        finally:
            stopped.append(ctx.remaining())

    await house.offer("demo.hang", hang, timeout_ms=20).ready()
    result = await house.call("demo.hang")
    assert result.structured["error"] == "timeout"
    assert result.structured["stdout"] == "half of it \ufffd"
    assert result.structured["next"]["action"] == "retry_smaller"
    assert stopped == [0.0]
    assert [signal.kind for signal in house.signals] == ["output", "progress"]
    row = await house.row()
    assert (row["status"], row["error"]["code"]) == ("failed", "timeout")


async def test_a_tool_that_swallows_its_cancellation_is_abandoned(house):
    release = asyncio.Event()

    async def stubborn(_input, ctx):
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue
        ended.append(await ctx.call("demo.stubborn", {}))
        return text()

    ended = []
    await house.offer("demo.stubborn", stubborn, timeout_ms=20).ready()
    assert (await house.call("demo.stubborn")).structured["error"] == "timeout"
    assert (await house.row())["status"] == "abandoned"
    release.set()
    while not ended:
        await anyio.lowlevel.checkpoint()
    assert ended[0]["error"] == "timeout"  # what was given up calls nothing any more
    assert len(house.provider.calls) == 1


async def test_a_tool_that_waits_for_its_thread_is_abandoned_with_it(house):
    release, ended = threading.Event(), asyncio.Event()

    async def tool(_input, _ctx):
        thread = asyncio.ensure_future(asyncio.to_thread(release.wait))
        while not thread.done():
            try:
                await asyncio.shield(thread)
            except asyncio.CancelledError:
                continue
        ended.set()
        return text()

    await house.offer("demo.thread", tool, timeout_ms=20).ready()
    assert (await house.call("demo.thread")).structured["error"] == "timeout"
    assert (await house.row())["status"] == "abandoned"
    release.set()
    await ended.wait()


async def test_a_cancelled_call_is_recorded_and_the_cancellation_goes_on(house):
    started = anyio.Event()

    async def hang(_input, ctx):
        ctx.output("stderr", b"so far")
        started.set()
        await anyio.sleep_forever()

    await house.offer("demo.hang", hang).ready()
    task = asyncio.ensure_future(house.call("demo.hang"))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    row = await house.row()
    assert (row["status"], row["error"]["code"]) == ("failed", "cancelled")
    end = (await house.events())[-1].event
    assert house.log.load(end.body["output"])["structured"]["stderr"] == "so far"


async def test_a_tool_has_its_grace_time_although_its_caller_is_cancelled(house):
    started, tidied = anyio.Event(), []

    async def careful(_input, _ctx):
        started.set()
        try:
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                for _ in range(5):
                    await anyio.lowlevel.checkpoint()
            tidied.append(True)

    await house.offer("demo.careful", careful).ready()
    async with anyio.create_task_group() as group:
        group.start_soon(house.call, "demo.careful")
        await started.wait()
        group.cancel_scope.cancel()
    assert tidied == [True]
    assert (await house.row())["status"] == "failed"


async def test_a_tool_that_finishes_in_spite_of_the_cancellation_is_recorded_as_done(house):
    started = anyio.Event()

    async def finish(_input, _ctx):
        started.set()
        try:
            await anyio.sleep_forever()
        except asyncio.CancelledError:
            return text("written")

    await house.offer("demo.finish", finish).ready()
    async with anyio.create_task_group() as group:
        group.start_soon(house.call, "demo.finish")
        await started.wait()
        group.cancel_scope.cancel()
    row = await house.row()
    assert (row["status"], row["output_preview"]) == ("succeeded", "written")


async def test_a_cancelled_call_whose_tool_goes_on_is_abandoned(house):
    started, release = anyio.Event(), asyncio.Event()

    async def stubborn(_input, _ctx):
        started.set()
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue

    await house.offer("demo.stubborn", stubborn).ready()
    async with anyio.create_task_group() as group:
        group.start_soon(house.call, "demo.stubborn")
        await started.wait()
        group.cancel_scope.cancel()
    assert (await house.row())["status"] == "abandoned"
    release.set()


async def test_a_call_cancelled_while_its_intent_is_written_says_that_nothing_was_done(house):
    async def never(_input, _ctx):
        raise AssertionError("it must not run")

    await house.offer("demo.never", never).ready()
    with anyio.CancelScope() as scope:
        scope.cancel()
        await house.call("demo.never")
    assert house.provider.calls == []
    row = await house.row()
    assert (row["status"], row["error"]["code"]) == ("failed", "cancelled")
