"""Repeating a run with its tools, its model or the policy of today."""

from __future__ import annotations

import pytest

from clawhive_core.errors import NotReplayable
from clawhive_core.model.messages import LlmResponse
from clawhive_core.model.tools import ToolCall
from clawhive_core.testing import ScriptedModel, calling, memory_hive

MODEL = "scripted:test"


def told(report):
    return [(each.kind, each.recorded, each.repeated) for each in report.differences]


@pytest.fixture
def counted(tools):
    """A tool whose answer the test changes."""
    tools.answer = "one"
    return tools.add("test.now", lambda given, ctx: tools.answer)


@pytest.mark.promise("P-111")
async def test_tools_are_called_anew_on_the_models_recorded_turns(counted):
    model = ScriptedModel([calling("test.now", {"n": 1}), "It is one."])
    async with memory_hive(providers=[counted], adapters=[model]) as hive:
        first = await hive.run("go", model=MODEL)
        same = await hive.replay("last", "tools")
        assert same.ok
        assert same.compared == 1
        assert len(counted.calls) == 2
        assert len(model.requests) == 2
        counted.answer = "two"
        report = await hive.replay(first["run_id"], "tools")
        assert told(report) == [("invocation", "test.now -> one", "two")]
        assert report.new_run_id not in {None, first["run_id"]}


@pytest.mark.promise("P-111")
async def test_a_model_is_asked_anew_over_the_tools_recorded_answers(counted):
    script = [calling("test.now", {"n": 1}), "It is one."]
    model = ScriptedModel([*script, *script, calling("test.now", {"n": 2}), "No idea."])
    async with memory_hive(providers=[counted], adapters=[model]) as hive:
        first = await hive.run("go", model=MODEL)
        assert (await hive.replay("last", "model")).ok
        report = await hive.replay(first["run_id"], "model")
        assert len(counted.calls) == 1
        assert [kind for kind, _, _ in told(report)] == ["invocation", "run.end"]
        answered = model.requests[-1].messages[-1].content[0]
        assert answered.structured["error"] == "not_recorded"


async def test_a_model_that_calls_more_often_gets_the_last_recorded_answer_again(counted):
    model = ScriptedModel(
        [
            calling("test.now", {}),
            "one",
            calling("test.now", {}),
            calling("test.now", {}),
            "one",
        ]
    )
    async with memory_hive(providers=[counted], adapters=[model]) as hive:
        await hive.run("go", model=MODEL)
        report = await hive.replay("last", "model")
        assert told(report) == [("invocation", "no call", "test.now {}")]


async def test_a_run_that_goes_another_way_ends_where_the_record_has_no_turn(counted):
    """A planned tool that now fails leads to no other model turn than the recorded ones."""
    model = ScriptedModel([calling("test.now", {"n": 1}), "ok"])
    async with memory_hive(providers=[counted], adapters=[model]) as hive:
        await hive.run("go", model=MODEL)
        counted.functions["test.now"] = lambda given, ctx: 1 / 0
        report = await hive.replay("last", "tools")
        (difference,) = report.differences
        assert difference.repeated.startswith("error ")


@pytest.mark.promise("P-112")
async def test_todays_policy_is_held_against_recorded_decisions_and_nothing_runs(tools):
    tools.add("test.write", lambda given, ctx: "written", effects={"path": "fs.write"})
    model = ScriptedModel(
        [calling("test.write", {"path": "/srv/a"}), calling("test.echo", {}), "ok"]
    )
    async with memory_hive(providers=[tools], adapters=[model]) as hive:
        await hive.run("go", model=MODEL)
        assert (await hive.replay("last", "policy")).ok
        made = len(tools.calls)
        from clawhive_core.runs.requests import RunOptions

        options = RunOptions(grants=["fs.write:/srv/**"])
        report = await hive.replay("last", "policy", options)
        assert told(report) == [("decision", "test.write deny", "allow")]
        assert len(tools.calls) == made
        assert len(model.requests) == 3


async def test_what_the_user_gave_the_task_counts_in_a_what_if(tools):
    tools.add("test.write", lambda given, ctx: "written", effects={"path": "fs.write"})
    model = ScriptedModel([calling("test.write", {"path": "/srv/a"}), "ok"])
    async with memory_hive(providers=[tools], adapters=[model]) as hive:
        await hive.run("go", model=MODEL, grants=["fs.write:/srv/**"])
        assert (await hive.replay("last", "policy")).ok


async def test_a_tool_that_is_gone_is_a_changed_decision(tools):
    from clawhive_core.model.tools import ToolMeta

    meta = ToolMeta("mine.now", "Now.", {"type": "object"}, "local", risk="safe")
    async with memory_hive(adapters=[ScriptedModel([calling("mine.now", {}), "ok"])]) as hive:
        hive.tools.add(meta, lambda: "x")
        await hive.run("go", model=MODEL)
        assert (await hive.replay("last", "policy")).ok
        hive.tools.remove("mine.now")
        report = await hive.replay("last", "policy")
        assert told(report)[0][1] == "mine.now allow"
        assert told(report)[0][2].startswith("tool_not_found")


async def test_a_sessions_calls_have_only_a_what_if(tools):
    async with memory_hive(providers=[tools]) as hive:
        await hive.call("test.echo", {"n": 1})
        assert (await hive.replay("last", "policy")).compared == 1
        with pytest.raises(NotReplayable, match="nothing planned"):
            await hive.replay("last", "tools")


async def test_a_planned_task_is_repeated_with_live_tools(counted, define):
    async with memory_hive(providers=[counted]) as hive:
        define(hive, {"name": "now", "tool": "test.now", "input": {}})
        await hive.run(task="job")
        counted.answer = "two"
        report = await hive.replay("last", "tools")
        assert ("invocation", "test.now -> one", "two") in told(report)


async def test_every_replay_is_recorded_with_what_it_found(counted):
    model = ScriptedModel([calling("test.now", {"n": 1}), "ok"])
    async with memory_hive(providers=[counted], adapters=[model]) as hive:
        run = await hive.run("go", model=MODEL)
        for mode in ("exact", "tools", "policy"):
            await hive.replay(run["run_id"], mode)
        found = [e.event.body for e in hive.log.events() if e.event.kind == "replay.end"]
        assert [body["mode"] for body in found] == ["exact", "tools", "policy"]


SECRET = "sk-ant-api03-abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGH"


@pytest.mark.parametrize("mode", ["exact", "tools", "model"])
async def test_a_secret_that_the_log_leaves_out_is_no_difference_and_not_told(tools, mode):
    tools.add("test.leak", lambda given, ctx: f"the key is {SECRET}")
    script = [calling("test.leak", {"with": SECRET}), f"It is {SECRET}."]
    model = ScriptedModel([*script, *script])
    async with memory_hive(providers=[tools], adapters=[model]) as hive:
        await hive.run("go", model=MODEL)
        report = await hive.replay("last", mode)
        assert report.differences == ()
        assert report.ok
        tools.functions["test.leak"] = lambda given, ctx: f"now it is {SECRET}"
        again = await hive.replay(report.run_id, "tools")
        assert told(again) == [
            ("invocation", "test.leak -> the key is [redacted]", "now it is [redacted]")
        ]


@pytest.mark.promise("P-111")
async def test_calls_side_by_side_are_held_against_those_of_their_own_steps(counted):
    """A refused call is on record before the one beside it, which waited for a person."""
    counted.add("test.keep", lambda given, ctx: "kept", risk="guarded")
    calls = (ToolCall("a", "test.keep", {}), ToolCall("b", "test.gone", {}))
    model = ScriptedModel([LlmResponse(calls, "tool_use"), "done"])
    async with memory_hive(providers=[counted], adapters=[model]) as hive:
        first = await hive.run("go", model=MODEL, approve="park")
        hive.approvals.resolve(hive.approvals.pending()[0].approval_id, "approve", by="user:ana")
        await hive.resume("last")
        report = await hive.replay(first["run_id"], "tools")
        assert told(report) == [("invocation", "test.keep -> kept", "refused: approval_required")]


async def test_a_call_that_is_left_out_hides_none_behind_it(counted):
    two = (ToolCall("a", "test.now", {"n": 1}), ToolCall("b", "test.now", {"n": 2}))
    one = (ToolCall("b", "test.now", {"n": 2}),)
    more = [calling("test.now", {"n": 3}), "done"]
    script = [LlmResponse(two, "tool_use"), *more, LlmResponse(one, "tool_use"), *more]
    async with memory_hive(providers=[counted], adapters=[ScriptedModel(script)]) as hive:
        await hive.run("go", model=MODEL)
        report = await hive.replay("last", "model")
        steps = [each.step_id.partition("/")[2] for each in report.differences]
        assert steps == ["r0.0", "r0.1"]
