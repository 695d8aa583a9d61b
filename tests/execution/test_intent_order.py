"""When an intent is committed: before what leaves the process, and with the next batch else."""

import asyncio
import sqlite3
from contextlib import contextmanager

import pytest

from clawhive_core.errors import LogWriteFailed
from clawhive_core.execution.pending import PendingCall
from clawhive_core.model.tools import ToolCall
from tests.harness import echo

READING = {"idempotent": True}
FILE = {"input_schema": {"type": "object", "properties": {"path": {"type": "string"}}}}


@contextmanager
def nothing_is_committed(log):
    """Hold the turn of whoever commits."""
    with log._writer._turn:
        yield


async def began_before_its_commit(house, input=None, **fields):
    """Whether a tool is asked although nothing can be committed."""
    await house.offer("demo.echo", echo, **fields).ready()
    with nothing_is_committed(house.log):
        call = asyncio.ensure_future(house.call(input=input))
        for _ in range(20):
            await asyncio.sleep(0)
        began = bool(house.provider.calls)
        assert call.done() == began
    outcome = await call
    assert getattr(outcome, "output", outcome) == "done"
    assert await house.kinds() == ["invocation.start", "invocation.end"]
    return began


@pytest.mark.promise("P-233")
@pytest.mark.parametrize(
    "fields",
    [
        {},
        {**FILE, "effects": {"path": "fs.read"}},
        {"effects": {"": "env.read:LANG"}},
        {"effects": {"": ("tool.call:demo.echo", "env.read:LANG")}},
    ],
    ids=["touches nothing", "reads a file", "reads the environment", "says so"],
)
async def test_a_call_that_only_reads_need_not_wait_for_its_intent(house, fields):
    house.give("env.read:LANG", "tool.call:demo.echo")
    assert await began_before_its_commit(house, {"path": "a.txt"}, **READING, **fields)


@pytest.mark.promise("P-233")
@pytest.mark.parametrize(
    "fields",
    [
        {"idempotent": False},
        {"side_effects": True},
        {"risk": "guarded"},
        {"risk": "unknown"},
        {"capability_level": "L1"},
        {"capability_level": "L2"},
        {"effects": {"path": "fs.write"}},
        {"effects": {"path": ("fs.read", "fs.write")}},
        {"effects": {"": "net.http:example.com/**"}},
        {"effects": {"": "mem.read:notes"}},
        {"effects": {"": "tool.call:demo.other"}},
        {"effects": {"": "host.mail.read:inbox"}},
    ],
    ids=str,
)
async def test_every_other_call_waits_until_its_intent_is_committed(house, fields):
    house.give(
        "fs.read:**", "fs.write:${workspace}/**", "net.http:**", "mem.read:**", "tool.call:**"
    )
    house.give("host.mail.read:**")
    given = {**READING, **FILE, **fields}
    assert not await began_before_its_commit(house, {"path": "a.txt"}, **given)


async def test_a_call_that_counts_as_a_use_waits_until_that_is_committed(house):
    house.give("tool.call:demo.echo?uses<=3")
    await house.offer("demo.echo", echo, **READING).ready()
    (tool,) = house.catalog.current.tools.values()
    pending = PendingCall(ToolCall("call_1", "demo.echo", {}), house.scope(), tool)
    pending.capabilities = ("tool.call:demo.echo",)
    assert pending.only_reads
    pending.approval_id = "approval_1"
    assert not pending.only_reads


async def test_rows_of_calls_that_did_not_wait_stand_before_those_of_the_next_that_does(house):
    await house.offer("demo.read", echo, **READING).offer("demo.act", echo).ready()
    await house.call("demo.read", step="step_1")
    await house.call("demo.act", step="step_2")
    rows = house.log.read("SELECT step_id, kind FROM events ORDER BY seq")
    assert [tuple(row) for row in rows][:3] == [
        ("step_1", "invocation.start"),
        ("step_1", "invocation.end"),
        ("step_2", "invocation.start"),
    ]


@pytest.mark.promise("P-233")
async def test_the_end_of_a_call_that_did_something_is_not_queued_behind(house):
    await house.offer("demo.read", echo, **READING).offer("demo.act", echo).ready()
    await house.call("demo.act", step="step_1")
    with nothing_is_committed(house.log):
        call = asyncio.ensure_future(house.call("demo.read", step="step_2"))
        for _ in range(20):
            await asyncio.sleep(0)
        assert [name for name, _ in house.provider.calls] == ["demo.act"]
    await call
    (row,) = house.log.read("SELECT status FROM events WHERE kind = 'invocation.end' LIMIT 1")
    assert row[0] == "succeeded"
    with nothing_is_committed(house.log):
        assert (await house.call("demo.read", step="step_3")).output == "done"


async def test_calls_that_do_not_wait_are_committed_before_many_of_them_wait(house):
    await house.offer("demo.read", echo, **READING).ready()
    for number in range(100):
        await house.call("demo.read", step=f"step_{number}")
    (row,) = house.log.read("SELECT count(*) FROM events")
    assert row[0] >= 200 - 62


async def test_large_inputs_of_calls_that_do_not_wait_are_committed_at_once(house):
    await house.offer("demo.read", echo, **READING).ready()
    for number in range(4):
        await house.call("demo.read", {"text": "x" * 200_000}, step=f"step_{number}")
        started = "SELECT count(*) FROM events WHERE kind = 'invocation.start'"
        assert house.log.read(started)[0][0] == number + 1


async def test_what_was_lost_with_a_batch_stops_the_next_call(house, monkeypatch):
    await house.offer("demo.read", echo, **READING).ready()
    with monkeypatch.context() as patched:
        patched.setattr(house.log._writer, "_name", "/nowhere/hive.db")
        await house.call("demo.read")
        with pytest.raises(LogWriteFailed):
            await house.log.flush()
    calls = len(house.provider.calls)
    with pytest.raises(LogWriteFailed):
        await house.call("demo.read", step="step_2")
    assert len(house.provider.calls) == calls


async def test_a_call_that_is_cancelled_while_its_full_batch_is_committed_says_so(house):
    await house.offer("demo.read", echo, **READING).ready()
    with nothing_is_committed(house.log):
        call = asyncio.ensure_future(house.call("demo.read", {"text": "x" * 200_000}))
        for _ in range(5):
            await asyncio.sleep(0)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
    assert house.provider.calls == []
    assert [row["status"] for row in await house.rows()] == ["failed"]


async def test_a_row_that_cannot_be_written_is_no_batch(house):
    await house.offer("demo.read", echo, **READING).ready()
    house.log.close()
    with pytest.raises(LogWriteFailed):
        await house.call("demo.read")
    assert house.provider.calls == []
    with pytest.raises(sqlite3.ProgrammingError):
        house.log._writer._connection.execute("SELECT 1")
