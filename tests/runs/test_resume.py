"""Runs that stopped go on: finished calls from the log, missing ones made, nothing twice."""

import shutil

import anyio
import pytest

from clawhive_core.errors import RunBusy, RunError, UnknownId
from clawhive_core.hive.hive import Hive, RunOptions
from clawhive_core.model.events import Event
from clawhive_core.model.messages import LlmResponse
from clawhive_core.model.tools import ToolCall
from clawhive_core.protocols.ledger import RunIs
from clawhive_core.runs.record import ownership
from clawhive_core.testing import ScriptedModel, calling, memory_hive
from tests.harness import user_of

GUARDED = {"risk": "guarded", "idempotent": True}


def step(name, tool, **more):
    return {"name": name, "tool": tool, "input": {}, **more}


async def test_finished_calls_are_answered_from_the_log(tools, define, stop):
    tools.add("test.once", lambda given, ctx: "done", idempotent=True)
    async with memory_hive(providers=[tools]) as hive:
        define(
            hive,
            step("first", "test.echo", input={"x": 1}),
            step("second", "test.once", needs=["first"]),
            step("third", "test.echo", input={"y": "${steps.second.output}"}),
        )
        await stop(hive).run(task="job", kill="test.once")
        run = await hive.resume("last")
        assert run["status"] == "succeeded"
        names = [name for name, _ in tools.calls]
        assert names == ["test.echo", "test.once", "test.once", "test.echo"]
        (second,) = [step for step in run["steps"] if step["label"] == "second"]
        assert [each["status"] for each in second["invocations"]] == ["unknown", "succeeded"]
        kinds = [stored.event.kind for stored in hive.log.events(run_id=run["run_id"])]
        assert (kinds.count("plan.made"), kinds.count("run.end")) == (1, 1)
        assert (await hive.replay("last")).ok


@pytest.mark.promise("P-055")
async def test_a_call_that_may_have_done_its_work_is_not_made_again(tools, define, stop):
    tools.add("test.send", lambda given, ctx: "sent")
    async with memory_hive(providers=[tools]) as hive:
        define(hive, step("send", "test.send"))
        await stop(hive).run(task="job", kill="test.send")
        run = await hive.resume("last")
        assert (run["status"], run["error"]["code"]) == ("failed", "unknown_outcome")
        assert run["steps"][0]["status"] == "unknown"
        assert len(tools.calls) == 1
        rows = hive.log.read("SELECT status FROM v_invocations")
        assert [row[0] for row in rows] == ["unknown"]
        assert (await hive.replay("last")).ok


async def test_a_used_approval_counts_for_the_call_that_was_broken_off(tools, define, stop):
    tools.add("test.keep", lambda given, ctx: "kept", **GUARDED)
    async with memory_hive(providers=[tools]) as hive:
        define(hive, step("keep", "test.keep"))

        async def ask(approval):
            hive.approvals.resolve(approval.approval_id, "approve", by="user:ana")

        asked = RunOptions(approve="ask", ask=ask)
        await stop(hive).run(task="job", kill="test.keep", options=asked)
        run = await hive.resume("last")
        assert (run["status"], len(tools.calls)) == ("succeeded", 2)
        assert [each.state for each in hive.approvals.list()] == ["consumed"]
        assert (await hive.replay("last")).ok


async def test_a_used_approval_does_not_count_for_a_tool_that_changed(tools, define, stop):
    tools.add("test.keep", lambda given, ctx: "kept", **GUARDED)
    async with memory_hive(providers=[tools]) as hive:
        define(hive, step("keep", "test.keep"))

        async def ask(approval):
            hive.approvals.resolve(approval.approval_id, "approve", by="user:ana")

        asked = RunOptions(approve="ask", ask=ask)
        await stop(hive).run(task="job", kill="test.keep", options=asked)
        tools.metas.clear()
        tools.add("test.keep", lambda given, ctx: "kept", **GUARDED, sinks=("x",))
        await hive.catalog.add(tools)
        run = await hive.resume("last")
        assert (run["error"]["code"], len(tools.calls)) == ("unknown_outcome", 1)


async def test_a_loop_goes_on_where_it_stopped(tools):
    tools.add("test.keep", lambda given, ctx: "kept", **GUARDED)
    both = (ToolCall("c1", "test.keep", {}), ToolCall("c2", "test.echo", {"x": 1}))
    model = ScriptedModel([LlmResponse(both, "tool_use"), "all done"])
    async with memory_hive(providers=[tools], adapters=[model]) as hive:
        run = await hive.run("do it", model="scripted:x")
        assert run["status"] == "waiting_approval"
        assert [name for name, _ in tools.calls] == ["test.echo"]
        hive.approvals.resolve("last", "approve", by="user:ana")
        run = await hive.resume("last")
        assert (run["status"], run["output"]) == ("succeeded", "all done")
        assert [name for name, _ in tools.calls] == ["test.echo", "test.keep"]
        assert len(model.requests) == 2
        kinds = [stored.event.kind for stored in hive.log.events(run_id=run["run_id"])]
        assert (kinds.count("model.start"), kinds.count("model.end")) == (2, 2)
        assert (await hive.replay("last")).ok


async def test_a_model_reads_that_a_person_said_no(tools):
    tools.add("test.keep", lambda given, ctx: "kept", **GUARDED)
    model = ScriptedModel([calling("test.keep", {}), "then not"])
    async with memory_hive(providers=[tools], adapters=[model]) as hive:
        await hive.run("do it", model="scripted:x")
        hive.approvals.resolve("last", "deny", by="user:ana", reason="too early")
        run = await hive.resume("last")
        assert (run["status"], run["output"]) == ("succeeded", "then not")
        (result,) = model.requests[-1].messages[-1].content
        assert (result.structured["error"], "too early" in result.output) == (
            "approval_denied",
            True,
        )


async def test_a_run_that_still_waits_parks_again_and_asks_nothing_anew(tools, define):
    tools.add("test.keep", lambda given, ctx: "kept", **GUARDED)
    async with memory_hive(providers=[tools]) as hive:
        define(hive, step("keep", "test.keep"))
        first = await hive.run(task="job")
        assert (await hive.replay("last")).complete is False
        for _ in range(3):
            run = await hive.resume(first["run_id"])
            assert run["status"] == "waiting_approval"
        assert len(hive.approvals.list()) == 1
        hive.approvals.resolve("last", "approve", by="user:ana")
        assert (await hive.resume("last"))["status"] == "succeeded"
        assert len(tools.calls) == 1
        assert (await hive.replay("last")).ok


async def test_a_run_goes_on_with_the_rights_that_it_still_has(tools, define):
    tools.add("test.keep", lambda given, ctx: "kept", **GUARDED)
    tools.add("test.fetch", lambda given, ctx: "page", effects={"url": "net.http"})
    async with memory_hive(providers=[tools]) as hive:
        define(
            hive,
            step("keep", "test.keep"),
            step("fetch", "test.fetch", needs=["keep"], input={"url": "https://a.example/x"}),
        )
        await hive.run(task="job", options=RunOptions(grants=["net.http:a.example/**"]))
        hive.approvals.resolve("last", "approve", by="user:ana")
        run = await hive.resume("last")
        assert run["status"] == "succeeded"
        assert hive.approvals.pending() == []


@pytest.mark.parametrize("status", ["succeeded", "failed", "cancelled"])
async def test_a_run_that_has_ended_does_not_go_on(tools, define, status):
    async with memory_hive(providers=[tools]) as hive:
        define(hive, step("only", "test.fail" if status == "failed" else "test.echo"))
        if status == "cancelled":
            tools.add("test.keep", lambda given, ctx: "kept", **GUARDED)
            await hive.catalog.add(tools)
            define(hive, step("only", "test.keep"), name="waiting")
            await hive.run(task="waiting")
            (row,) = hive.log.read("SELECT run_id FROM runs")
            assert ownership.cancel(hive.log, row[0]) is False
        else:
            await hive.run(task="job")
        events = len(list(hive.log.events()))
        with pytest.raises(RunError) as caught:
            await hive.resume("last")
        assert caught.value.code == "not_resumable"
        assert status in caught.value.message
        assert len(list(hive.log.events())) == events


async def test_an_unknown_run_does_not_go_on(tools):
    async with memory_hive(providers=[tools]) as hive:
        with pytest.raises(UnknownId):
            await hive.resume("run_none")


async def test_a_sessions_run_does_not_go_on(tools):
    async with memory_hive(providers=[tools]) as hive:
        await hive.call("test.echo", {})
        with pytest.raises(RunError) as caught:
            await hive.resume("last")
        assert caught.value.code == "not_resumable"


async def test_a_run_that_somebody_takes_up_is_busy_for_others(tools, define):
    tools.add("test.keep", lambda given, ctx: "kept", **GUARDED)
    async with memory_hive(providers=[tools]) as hive:
        define(hive, step("keep", "test.keep"))
        run = await hive.run(task="job")
        body = {"reason": None, "fence": 2, "worker": "worker_living"}
        taken = Event("run.status", body, run_id=run["run_id"], status="running")
        await hive.log.append(taken, expects=[RunIs(run["run_id"], ownership.STOPPED, 1)])
        with pytest.raises(RunBusy):
            await hive.resume("last")
        ownership.recover(hive.log)
        hive.approvals.resolve("last", "approve", by="user:ana")
        assert (await hive.resume("last"))["status"] == "succeeded"


async def test_a_run_whose_task_goes_another_way_now_is_left_as_it_was(tools, define):
    tools.add("test.keep", lambda given, ctx: "kept", **GUARDED)
    async with memory_hive(providers=[tools]) as hive:
        define(hive, step("keep", "test.keep"))
        await hive.run(task="job")
        hive.approvals.resolve("last", "approve", by="user:ana")
        skill = hive.skills.pop()
        define(hive, step("keep", "test.keep", input={"more": 1}))
        with pytest.raises(RunError) as caught:
            await hive.resume("last")
        assert caught.value.code == "not_resumable"
        assert "plan.made" in caught.value.message
        assert tools.calls == []
        hive.skills[-1] = skill
        assert (await hive.resume("last"))["status"] == "succeeded"


async def test_a_living_owner_notices_that_its_run_is_cancelled(tools, define):
    begun = anyio.Event()

    async def wait(given, ctx):
        begun.set()
        await anyio.sleep_forever()

    tools.add("test.wait", wait)
    async with memory_hive(providers=[tools]) as hive:
        define(hive, step("wait", "test.wait"))
        ended = []

        async def run():
            ended.append(await hive.run(task="job"))

        with anyio.fail_after(300):
            async with anyio.create_task_group() as group:
                group.start_soon(run)
                await begun.wait()
                (row,) = hive.log.read("SELECT run_id FROM runs")
                assert ownership.cancel(hive.log, row[0]) is True
        assert (ended[0]["status"], ended[0]["error"]["code"]) == ("cancelled", "cancelled")
        assert hive.log.read("SELECT * FROM runs WHERE worker IS NOT NULL") == []


async def test_a_cancelled_session_tells_its_caller(tools):
    async with memory_hive(providers=[tools]) as hive:

        async def session():
            async with hive.session() as opened:
                ownership.cancel(hive.log, opened.run_id)
                await anyio.sleep_forever()

        with anyio.fail_after(300), pytest.raises(RunError) as caught:
            await session()
        assert caught.value.code == "cancelled"


@pytest.mark.promise("P-265")
async def test_a_run_goes_on_in_no_other_folder_than_it_began_in(tools, tmp_path):
    tools.add("test.keep", lambda given, ctx: "kept", **GUARDED)
    model = ScriptedModel([calling("test.keep", {}), "done"])
    copy, link = tmp_path / "copy", tmp_path / "link"
    async with memory_hive(providers=[tools], adapters=[model]) as hive:
        run = await hive.run("go", model="scripted:test", approve="park")
        await hive.log.flush()
        shutil.copytree(hive.root / ".clawhive", copy / ".clawhive")
        async with Hive.open(copy, env=user_of(hive)) as moved:
            with pytest.raises(RunError) as refused:
                await moved.resume(run["run_id"])
            assert refused.value.code == "not_resumable"
            assert f"move the project back to {hive.root}" in refused.value.fix
            assert moved.log.read("SELECT status FROM runs")[0][0] == "waiting_approval"
            assert (await moved.replay(run["run_id"])).ok
        link.symlink_to(hive.root)
        async with Hive.open(link, env=user_of(hive)) as same:
            assert (await same.resume(run["run_id"], RunOptions(approve="deny")))["status"]
