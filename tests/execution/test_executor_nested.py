import time
from dataclasses import replace

import anyio
import pytest

from clawhive_core.errors import LogWriteFailed, ToolError
from tests.harness import echo, text


async def test_a_nested_call_goes_through_the_door_under_its_parent(house):
    async def outer(_input, ctx):
        first = await ctx.call("demo.echo", {"n": 1})
        second = await ctx.call("demo.plain", {})
        return text(structured=[first, second])

    async def plain(_input, _ctx):
        return text("words")

    house.offer("demo.outer", outer).offer("demo.echo", echo).offer("demo.plain", plain)
    await house.ready()
    assert (await house.call("demo.outer")).structured == [{"n": 1}, "words"]
    rows = {row["tool"]: row for row in await house.rows()}
    assert rows["demo.outer"]["parent_invocation_id"] is None
    assert rows["demo.echo"]["parent_invocation_id"] == "step_1#1"
    assert rows["demo.echo"]["invocation_id"] == "step_1>1#1"
    assert rows["demo.plain"]["invocation_id"] == "step_1>2#1"
    assert {row["principal"] for row in rows.values()} == {"agent:default"}
    assert {row["trace_id"] for row in rows.values()} == {"trace_1"}


async def test_a_refused_nested_call_comes_back_as_a_dict(house):
    async def outer(_input, ctx):
        return text(structured=await ctx.call("demo.missing", {}))

    await house.offer("demo.outer", outer).ready()
    answer = (await house.call("demo.outer")).structured
    assert (answer["error"], answer["next"]["action"]) == ("tool_not_found", "search")


async def test_a_nested_input_that_is_no_object_is_refused_not_raised(house):
    async def outer(_input, ctx):
        return text(structured=[await ctx.call("demo.echo", each) for each in ([1], None, "x")])

    await house.offer("demo.outer", outer).offer("demo.echo", echo).ready()
    answers = (await house.call("demo.outer")).structured
    assert {answer["error"] for answer in answers} == {"invalid_input"}


async def test_nested_rights_are_those_of_the_run(house):
    async def outer(_input, ctx):
        return text(structured=await ctx.call("demo.write", {"path": "a.txt"}))

    house.offer("demo.outer", outer)
    house.offer("demo.write", echo, effects={"path": "fs.write"}, risk="safe")
    await house.ready()
    answer = (await house.call("demo.outer")).structured
    assert answer["error"] == "approval_required"
    house.give("fs.write:${workspace}/a.txt")
    assert (await house.call("demo.outer", step="step_2")).structured == {"path": "a.txt"}


async def test_tools_that_call_each_other_without_end_are_stopped(house):
    async def again(_input, ctx):
        return text(structured=await ctx.call("demo.again", {}))

    await house.offer("demo.again", again).ready()
    answer = (await house.call("demo.again")).structured
    assert answer["error"] == "call_depth_exceeded"
    assert len(house.provider.calls) == 4  # the first, and three levels below it


async def test_a_nested_call_never_outlives_its_parent(house):
    left = []

    async def outer(_input, ctx):
        await ctx.call("demo.inner", {})
        return text()

    async def inner(_input, ctx):
        left.append(ctx.remaining())
        return text()

    house.offer("demo.outer", outer, timeout_ms=300_000)
    await house.offer("demo.inner", inner, timeout_ms=3_600_000).ready()
    await house.call("demo.outer")
    assert left[0] <= 300


async def test_a_call_whose_time_is_over_does_not_begin(house):
    await house.offer("demo.echo", echo).ready()
    refusal = await house.call(deadline=time.monotonic())
    assert refusal.error == "timeout"
    assert house.provider.calls == []


async def test_a_context_that_outlives_its_call_calls_nothing(house):
    kept = []

    async def keep(_input, ctx):
        kept.append(ctx)
        return text()

    await house.offer("demo.keep", keep).offer("demo.echo", echo).ready()
    await house.call("demo.keep")
    assert (await kept[0].call("demo.echo", {}))["error"] == "timeout"
    assert [name for name, _ in house.provider.calls] == ["demo.keep"]


async def test_parallel_nested_calls_have_ids_of_their_own(house):
    async def outer(_input, ctx):
        async with anyio.create_task_group() as group:
            for number in range(10):
                group.start_soon(ctx.call, "demo.echo", {"n": number})
        return text()

    await house.offer("demo.outer", outer).offer("demo.echo", echo).ready()
    assert not (await house.call("demo.outer")).is_error
    assert len({row["invocation_id"] for row in await house.rows()}) == 11


async def test_a_log_that_fails_below_a_call_fails_the_call(house):
    async def outer(_input, ctx):
        house.log.close()
        return text(structured=await ctx.call("demo.echo", {}))

    await house.offer("demo.outer", outer).offer("demo.echo", echo).ready()
    with pytest.raises(LogWriteFailed):
        await house.call("demo.outer")
    assert [name for name, _ in house.provider.calls] == ["demo.outer"]


async def test_every_execution_of_one_call_has_the_same_idempotency_key(house):
    keys = []

    async def tool(_input, ctx):
        keys.append((ctx.idempotency_key, ctx.invocation_id))
        raise ToolError("try again")

    await house.offer("demo.tool", tool).ready()
    await house.call("demo.tool")
    await house.call("demo.tool", attempt=2)
    await house.call("demo.tool", step="step_2")
    assert keys[0][0] == keys[1][0] != keys[2][0]
    assert keys[0][1] != keys[1][1]
    recorded = [stored.event.body.get("idempotency_key") for stored in await house.events()]
    assert [key for key in recorded if key] == [key for key, _ in keys]


async def test_what_the_executor_lacks_it_says(house):
    async def store(_input, ctx):
        return text(str(ctx.store))

    async def model(_input, ctx):
        return text(str(await ctx.complete(None)))

    await house.offer("demo.store", store).offer("demo.model", model).ready()
    assert (await house.call("demo.store")).structured["error"] == "storage_failed"
    assert (await house.call("demo.model")).structured["error"] == "unknown_model"


async def test_a_tool_knows_whose_call_it_serves(house):
    facts = []

    async def who(_input, ctx):
        facts.extend([ctx.trace_id, ctx.task_id, ctx.run_id, ctx.step_id, ctx.conversation_id])
        facts.extend([ctx.user_id, str(ctx.principal), ctx.skill_id, dict(ctx.profile)])
        return text(ctx.artifacts)

    await house.offer("demo.who", who).ready()
    assert (await house.call("demo.who")).output == house.artifacts
    ids = ["trace_1", "task_1", "run_1", "step_1", "conv_1", "user_1"]
    assert facts == [*ids, "agent:default", None, {}]
    scope = replace(house.scope(), attempt=3)
    assert scope.invocation_id == "step_1#3"
