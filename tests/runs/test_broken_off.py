"""Runs whose caller goes away, or whose hive closes, are ended, on record, with what they do."""

import asyncio

import anyio
import pytest

from clawhive_core.errors import RunBusy, RunError
from clawhive_core.hive.hive import Hive
from clawhive_core.testing import ScriptedModel, calling, memory_hive
from tests.harness import user_of

MODEL = "scripted:test"


@pytest.fixture
def waiting(tools):
    """A tool that waits until it is stopped."""
    tools.began, tools.ended = anyio.Event(), []

    async def wait(given, ctx):
        tools.began.set()
        try:
            await anyio.sleep_forever()
        finally:
            tools.ended.append(given)

    return tools.add("test.wait", wait)


def statuses(hive):
    return [row[0] for row in hive.log.read("SELECT status FROM runs")]


def owners(hive):
    return [tuple(row) for row in hive.log.read("SELECT run_id FROM runs WHERE worker IS NOT NULL")]


@pytest.mark.promise("P-263")
async def test_closing_a_hive_ends_the_runs_that_are_under_way(waiting):
    model = ScriptedModel([calling("test.wait", {})])
    async with memory_hive(providers=[waiting], adapters=[model]) as hive:
        run = asyncio.ensure_future(hive.run("go", model=MODEL))
        await waiting.began.wait()
        root = hive.root
        await hive._close()
        assert waiting.ended == [{}]
        found = await run
        assert (found["status"], found["error"]["code"]) == ("cancelled", "cancelled")
        async with Hive.open(root, env=user_of(hive)) as again:
            assert statuses(again) == ["cancelled"]
            assert owners(again) == []


@pytest.mark.promise("P-263")
async def test_closing_a_hive_ends_the_sessions_of_others(waiting):
    caught = []

    async def call(hive):
        try:
            async with hive.session() as session:
                await session.call("test.wait", {})
        except RunError as error:
            caught.append(error.code)

    async with memory_hive(providers=[waiting]) as hive:
        caller = asyncio.ensure_future(call(hive))
        await waiting.began.wait()
        await hive._close()
        await caller
        assert caught == ["cancelled"]
        assert waiting.ended == [{}]


@pytest.mark.promise("P-264")
@pytest.mark.parametrize("turns", range(8))
async def test_a_caller_that_is_cancelled_at_any_time_leaves_no_run_behind(waiting, turns):
    model = ScriptedModel([calling("test.wait", {})])
    async with memory_hive(providers=[waiting], adapters=[model]) as hive:
        run = asyncio.ensure_future(hive.run("go", model=MODEL))
        for _ in range(turns):
            await asyncio.sleep(0)
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
        assert set(statuses(hive)) <= {"cancelled"}
        assert owners(hive) == []


@pytest.mark.promise("P-264")
async def test_a_caller_that_is_cancelled_as_it_resumes_leaves_no_run_behind(tools):
    tools.add("test.keep", lambda given, ctx: "kept", risk="guarded")
    model = ScriptedModel([calling("test.keep", {}), "done"])
    async with memory_hive(providers=[tools], adapters=[model]) as hive:
        await hive.run("go", model=MODEL, approve="park")
        hive.approvals.resolve(hive.approvals.pending()[0].approval_id, "approve", by="user:ana")
        for turns in range(8):
            going = asyncio.ensure_future(hive.resume("last"))
            for _ in range(turns):
                await asyncio.sleep(0)
            going.cancel()
            with pytest.raises(asyncio.CancelledError):
                await going
            assert statuses(hive)[0] in {"waiting_approval", "cancelled"}
            if statuses(hive) == ["cancelled"]:
                break
        assert statuses(hive) == ["cancelled"]
        assert owners(hive) == []


async def test_a_run_is_resumed_once_at_a_time(waiting):
    tools = waiting.add("test.keep", lambda given, ctx: "kept", risk="guarded")
    model = ScriptedModel([calling("test.keep", {}), calling("test.wait", {})])
    async with memory_hive(providers=[tools], adapters=[model]) as hive:
        run = await hive.run("go", model=MODEL, approve="park")
        hive.approvals.resolve(hive.approvals.pending()[0].approval_id, "approve", by="user:ana")
        going = asyncio.ensure_future(hive.resume("last"))
        await waiting.began.wait()
        with pytest.raises(RunBusy):
            await hive.resume(run["run_id"])
        assert statuses(hive) == ["running"]
        going.cancel()
        with pytest.raises(asyncio.CancelledError):
            await going
