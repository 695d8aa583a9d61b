import asyncio
import json

import anyio
import pytest

from clawhive_core.errors import LogWriteFailed, SinkFailed, ToolError
from clawhive_core.model.refusal import CODES, Refusal
from clawhive_core.model.tools import ToolResult
from tests.harness import Provider, echo, text, tool_meta


async def refused(house, name="demo.echo", input=None, **fields):
    outcome = await house.call(name, input, **fields)
    assert isinstance(outcome, Refusal), outcome
    return outcome


async def test_a_call_that_is_allowed_is_executed_and_recorded_in_two_rows(house):
    await house.offer("demo.echo", echo).ready()
    result = await house.call(input={"a": [1, {"b": None}]})
    assert result == ToolResult("call_1", "done", structured={"a": [1, {"b": None}]})
    assert house.provider.calls == [("demo.echo", {"a": [1, {"b": None}]})]
    assert await house.kinds() == ["invocation.start", "invocation.end"]


async def test_the_log_has_the_minimum_of_an_execution(house):
    await house.offer(
        "demo.echo", echo, risk="guarded", effects={"": "tool.call:demo.echo"}
    ).ready()
    house.give("tool.call:demo.echo")
    await house.call(input={"a": 1}, label="look", ordinal=3)
    row = await house.row()
    start, end = await house.events()
    assert (start.event.trace_id, start.event.task_id) == ("trace_1", "task_1")
    assert {key: row[key] for key in ("run_id", "step_id", "tool", "provider_id", "principal")} == {
        "run_id": "run_1",
        "step_id": "step_1",
        "tool": "demo.echo",
        "provider_id": "demo",
        "principal": "agent:default",
    }
    assert row["requested_capabilities"] == ["tool.call:demo.echo"]
    assert row["granted_capabilities"] == [
        {"capability": "tool.call:demo.echo", "grant_id": house.grants[-1].grant_id}
    ]
    assert (row["approval_required"], row["approval_result"], row["error"]) == (0, None, None)
    assert (row["start_at"], row["end_at"]) == (start.ts, end.ts)
    assert (row["status"], row["decision"], row["risk"]) == ("succeeded", "allow", "guarded")
    assert (row["step_name"], row["step_label"], row["step_ordinal"]) == (
        "tool.demo.echo",
        "look",
        3,
    )
    assert start.event.body["tool_call"]["id"] == "call_1"
    assert house.log.load(start.event.body["tool_call"]["input"]) == {"a": 1}
    assert house.log.load(end.event.body["output"])["structured"] == {"a": 1}


async def test_the_intent_is_committed_before_the_provider_runs(house):
    seen = []

    async def look(_input, ctx):
        seen.extend(house.log.read("SELECT kind, status, invocation_id FROM events"))
        return text()

    await house.offer("demo.look", look).ready()
    await house.call("demo.look")
    assert [tuple(row) for row in seen] == [("invocation.start", "intended", "step_1#1")]


@pytest.mark.parametrize(
    ("fields", "synced"), [({}, False), ({"risk": "guarded"}, True), ({"side_effects": True}, True)]
)
async def test_the_intent_of_an_effect_reaches_the_disk_before_the_tool_runs(house, fields, synced):
    seen = []

    async def look(_input, _ctx):
        seen.append(house.log._writer._synced)
        return text()

    await house.offer("demo.look", look, **fields).ready()
    house.give("tool.call:demo.look")
    await house.call("demo.look")
    assert seen == [synced]


async def test_an_unknown_tool_is_refused_with_near_names(house):
    await house.offer("demo.echo", echo).ready()
    refusal = await refused(house, "demo.ecko", {"a": 1})
    assert refusal.error == "tool_not_found"
    assert refusal.next["suggestions"] == ["demo.echo"]
    row = await house.row()
    assert (row["status"], row["error"]["code"]) == ("refused", "tool_not_found")
    assert row["start_at"] == row["end_at"]
    assert await house.kinds() == ["invocation.refused"]


async def test_an_alias_calls_the_tool_under_its_canonical_name(house):
    await house.offer("demo.echo", echo, aliases=("echo_it",)).ready()
    assert (await house.call("echo_it")).output == "done"
    row = await house.row()
    assert (row["tool"], row["step_name"]) == ("demo.echo", "tool.demo.echo")


async def test_an_input_that_fails_the_schema_is_refused_with_its_places(house):
    schema = {
        "type": "object",
        "properties": {"n": {"type": "integer"}, "a/b": {"type": "string"}},
        "required": ["n"],
    }
    await house.offer("demo.echo", echo, input_schema=schema).ready()
    refusal = await refused(house, input={"n": "x", "a/b": 1})
    assert (refusal.error, refusal.reason) == ("invalid_input", "arguments")
    assert refusal.next["action"] == "fix_arguments"
    assert set(refusal.next["paths"]) == {"/n", "/a~1b"}
    assert house.provider.calls == []


@pytest.mark.parametrize(
    ("input", "place"),
    [
        (["a"], ""),
        ("text", ""),
        (7, ""),
        ({"a": {1: 2}}, "/a"),
        ({"a": float("nan")}, "/a"),
        ({"a": [float("inf")]}, "/a/0"),
        ({"a/b": b"bytes"}, "/a~1b"),
        ({"a": {1, 2}}, "/a"),
        ({"a": object()}, "/a"),
        ({"a": 10**5000}, "/a"),
        ({"a": "x" * (17 * 1024 * 1024)}, "/a"),
    ],
)
async def test_what_is_no_json_object_is_refused_and_recorded(house, input, place):
    await house.offer("demo.echo", echo, input_schema={}).ready()
    refusal = await refused(house, input=input)
    assert refusal.error == "invalid_input"
    assert refusal.next["paths"] == [place]
    assert house.provider.calls == []
    assert (await house.row())["error"]["code"] == "invalid_input"


async def test_a_bottomless_input_is_refused(house):
    deep, cycle = {}, {}
    cycle["self"] = cycle
    for _ in range(200_000):
        deep = {"a": deep}
    await house.offer("demo.echo", echo, input_schema={}).ready()
    for bottomless in (deep, cycle):
        refusal = await refused(house, input=bottomless)
        assert refusal.error == "invalid_input"
        assert "nested deeper" in refusal.message
    while deep:  # freeing it at once would exhaust the stack
        deep = deep["a"]


async def test_an_input_that_explodes_by_sharing_is_refused(house):
    value = ["x" * 100]
    for _ in range(40):
        value = [value, value]
    await house.offer("demo.echo", echo).ready()
    assert (await refused(house, input={"a": value})).error == "invalid_input"


async def test_a_large_but_bearable_input_passes(house):
    async def size(input, _ctx):
        return text(str(len(input["a"])))

    await house.offer("demo.size", size).ready()
    assert (await house.call("demo.size", {"a": "x" * 5_000_000})).output == "5000000"


async def test_half_surrogate_pairs_reach_the_tool_and_do_not_break_the_log(house):
    await house.offer("demo.echo", echo).ready()
    result = await house.call(input={"a\ud800": "b\udfff"})
    assert result.structured == {"a\ud800": "b\udfff"}
    assert (await house.row())["status"] == "succeeded"


@pytest.mark.parametrize("name", [None, ["a"], {"a": 1}, "x" * 1_000_000, "demo.\ud800", "", "a\0"])
async def test_a_name_that_is_none_is_not_found_and_recorded(house, name):
    await house.offer("demo.echo", echo).ready()
    assert (await refused(house, name)).error == "tool_not_found"
    assert len((await house.row())["tool"]) <= 200


async def test_the_tool_gets_a_copy_so_that_nobody_changes_what_was_decided(house):
    given = {"path": ["a"]}

    class Meddler:
        name = "meddler"

        async def check(self, request):
            request.input["path"].append("b")
            given["path"].append("c")

    house.checks = (Meddler(),)
    await house.offer("demo.echo", echo).ready()
    assert (await house.call(input=given)).structured == {"path": ["a"]}


async def test_a_changed_contract_since_the_offer_is_refused(house):
    await house.offer("demo.echo", echo).ready()
    offered = house.catalog.current.revision
    house.provider.metas = [tool_meta(risk="guarded")]
    await house.catalog.refresh()
    refusal = await refused(house, revision=offered)
    assert (refusal.error, refusal.next["action"]) == ("tool_changed", "search")
    house.give("tool.call:demo.echo")
    assert (await house.call(revision=house.catalog.current.revision)).output == "done"


async def test_a_changed_text_or_another_tool_does_not_invalidate_an_offer(house):
    await house.offer("demo.echo", echo).ready()
    offered = house.catalog.current.revision
    house.provider.metas = [tool_meta(description="said otherwise"), tool_meta("demo.other")]
    await house.catalog.refresh()
    assert house.catalog.current.revision != offered
    assert (await house.call(revision=offered)).output == "done"


async def test_an_effect_whose_intent_no_sink_acknowledges_does_not_happen(house):
    async def acknowledge(seq):
        if seq:
            raise SinkFailed("`siem` is gone")

    house.wiring.acknowledge = acknowledge
    await house.offer("demo.write", echo, side_effects=True).ready()
    house.give("tool.call:demo.write")
    outcome = await house.call("demo.write")
    assert (outcome.is_error, outcome.structured["error"]) == (True, "sink_failed")
    assert house.provider.calls == []
    assert await house.kinds() == ["invocation.start", "invocation.end"]


async def test_while_a_required_sink_stands_still_effects_are_refused_and_reads_are_not(house):
    async def acknowledge(seq):
        raise SinkFailed("`siem` is gone")

    house.wiring.acknowledge = acknowledge
    await house.offer("demo.write", echo, side_effects=True).ready()
    house.give("tool.call:demo.write")
    refusal = await refused(house, "demo.write")
    assert (refusal.error, refusal.next["command"]) == ("sink_failed", "clawhive doctor")
    await house.offer("demo.look", echo, idempotent=True).ready()
    assert (await house.call("demo.look")).output == "done"


async def test_checks_that_cannot_be_loaded_deny(house):
    def broken():
        raise RuntimeError("no such plugin")

    house.wiring.checks = broken
    await house.offer("demo.echo", echo).ready()
    refusal = await refused(house)
    assert (refusal.error, refusal.next["action"]) == ("denied", "choose_another_way")


async def test_a_log_that_cannot_be_written_keeps_the_tool_from_running(house):
    await house.offer("demo.echo", echo).ready()
    house.log.close()
    with pytest.raises(LogWriteFailed):
        await house.call()
    assert house.provider.calls == []


async def test_secrets_that_a_tool_asked_for_are_not_in_the_log(house, tmp_path):
    async def leak(_input, ctx):
        secret = ctx.secret("TOKEN")
        ctx.output("stdout", secret.encode())
        raise ToolError(f"401 for {secret}", data={"header": f"Bearer {secret}"})

    house.secrets["TOKEN"] = "s3cr3t-value-of-the-token"
    house.give("secret.use:TOKEN")
    await house.offer("demo.leak", leak, effects={"": "secret.use:TOKEN"}).ready()
    result = await house.call("demo.leak")
    assert result.is_error
    await house.log.flush()
    house.close()
    for file in tmp_path.glob("hive.db*"):
        assert b"s3cr3t-value" not in file.read_bytes()


async def test_a_missing_secret_fails_with_the_line_that_sets_it(house):
    async def ask(_input, ctx):
        return text(ctx.secret("TOKEN"))

    house.give("secret.use:TOKEN")
    await house.offer("demo.ask", ask, effects={"": "secret.use:TOKEN"}).ready()
    result = await house.call("demo.ask")
    assert result.structured["error"] == "secret_not_found"
    assert "export TOKEN=" in result.structured["next"]["hint"]


async def test_a_hundred_calls_at_once_each_get_their_own_answer(house):
    together = asyncio.Event()
    waiting = []

    async def meet(input, ctx):
        waiting.append(input["n"])
        if len(waiting) == 100:
            together.set()
        await together.wait()
        return ToolResult(ctx.tool_call_id, str(input["n"]))

    await house.offer("demo.meet", meet).ready()
    answers = {}

    async def one(number):
        answers[number] = await house.call("demo.meet", {"n": number}, step=f"step_{number}")

    async with anyio.create_task_group() as group:
        for number in range(100):
            group.start_soon(one, number)
    assert {number: result.output for number, result in answers.items()} == {
        number: str(number) for number in range(100)
    }
    rows = await house.rows()
    assert len(rows) == 100
    assert {row["status"] for row in rows} == {"succeeded"}


async def test_every_refusal_code_of_the_executor_is_a_known_one(house):
    await house.offer("demo.echo", echo, effects={"path": "fs.write"}, risk="unsafe").ready()
    codes = {
        (await refused(house, "no.tool")).error,
        (await refused(house, input=[])).error,
        (await refused(house, input={"path": "a"})).error,
        (await refused(house, input={"path": "/etc/x"})).error,
    }
    assert codes <= set(CODES)
    assert json.dumps((await refused(house, "no.tool")).to_dict())


async def test_a_provider_that_breaks_the_protocol_is_a_failure_not_a_crash(house):
    class Rude(Provider):
        def invoke(self, tool_name, input, ctx):
            if tool_name == "demo.raises":
                raise ValueError("before any coroutine")
            return "no coroutine"

    house.provider = Rude()
    await house.offer("demo.raises", None).offer("demo.returns", None).ready()
    for name in ("demo.raises", "demo.returns"):
        result = await house.call(name)
        assert result.structured["error"] == "tool_failed"
    assert [row["status"] for row in await house.rows()] == ["failed", "failed"]
