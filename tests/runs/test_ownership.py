"""Who owns a run, and what becomes of it without its owner."""

import asyncio
import contextlib
import os
import time

import anyio
import pytest

from clawhive_core.errors import RunBusy, RunError, StorageError
from clawhive_core.policy.revocations import Revocations
from clawhive_core.policy.rules import Rules
from clawhive_core.runs.record import watch
from clawhive_core.runs.record.owner import STALE_SECONDS, Owner
from clawhive_core.runs.record.ownership import claim, recover
from clawhive_core.runs.record.view import run_json
from clawhive_core.testing import memory_hive
from tests.harness import grant

RUN = "run_0123456789abcdef"


@pytest.fixture
async def hive():
    async with memory_hive() as opened:
        yield opened


def put_owner(hive, owner, heartbeat=None, run_id=RUN):
    def insert(connection):
        connection.execute(
            "INSERT OR REPLACE INTO run_owners VALUES(?, ?, ?, ?, ?, 0)",
            (run_id, owner.host, owner.pid, owner.process_start, heartbeat or time.time()),
        )

    hive.log.append_now(within=insert)


def owner_rows(hive):
    return [tuple(row) for row in hive.log.read("SELECT run_id, pid FROM run_owners")]


def alive_other():
    """Return a living process that is not this one."""
    from clawhive_core.runs.record.owner import _process_start

    return Owner(Owner.me().host, os.getppid(), _process_start(os.getppid()))


async def test_a_running_tool_sees_its_runs_owner_row_with_a_heartbeat(tools):
    def look(input, ctx):
        rows = hive.log.read("SELECT run_id, pid, heartbeat FROM run_owners")
        return [list(row) for row in rows]

    tools.add("test.look", look)
    async with memory_hive(providers=[tools]) as hive:
        run_id, outcome = await hive.call("test.look", {})
        ((owned, pid, heartbeat),) = outcome.structured
        assert (owned, pid) == (run_id, os.getpid())
        assert heartbeat > 0
        assert owner_rows(hive) == []


async def test_one_beat_renews_the_heartbeats_of_every_run_of_a_process(hive, monkeypatch):
    monkeypatch.setattr(watch, "POLL_SECONDS", 0.001)
    for run_id in (RUN, "run_2", "run_of_another"):
        put_owner(hive, Owner.me(), heartbeat=1.0, run_id=run_id)

    def beaten():
        rows = hive.log.read("SELECT run_id FROM run_owners WHERE heartbeat > 1.0 ORDER BY run_id")
        return [row[0] for row in rows]

    watching = watch.Watch(hive.log, 0.001)
    async with watching.owned(RUN), watching.owned("run_2"):
        with anyio.fail_after(10):
            while not beaten():
                await anyio.lowlevel.checkpoint()
    assert beaten() == [RUN, "run_2"]


async def test_a_look_reads_once_for_all_runs_of_a_process(hive, monkeypatch):
    monkeypatch.setattr(watch, "POLL_SECONDS", 0.001)
    looked, read = [], []
    watching = watch.Watch(hive.log)
    refresh = Revocations(hive.log, hive.config.user_dir)
    async with contextlib.AsyncExitStack() as stack:
        for number in range(50):
            rules = Rules([grant("fs.read:/srv/**", grant_id=f"g{number}")])

            def look(rules=rules, number=number):
                looked.append(number)
                refresh(rules)

            await stack.enter_async_context(watching.owned(f"run_{number}", look))
        monkeypatch.setattr(hive.log, "read", reading(hive.log.read, read))
        with anyio.fail_after(10):
            while len(looked) < 150:
                await anyio.lowlevel.checkpoint()
    assert sum("run_owners" in sql for sql in read) <= len(looked) // 50 + 1
    assert sum("run_owners" not in sql for sql in read) <= 1


def reading(read, seen):
    def noted(sql, params=()):
        seen.append(sql)
        return read(sql, params)

    return noted


async def test_a_run_of_a_living_process_cannot_be_taken(hive):
    put_owner(hive, alive_other())
    with pytest.raises(RunBusy) as caught:
        await hive.log.append(within=claim(RUN, Owner.me()))
    assert caught.value.code == "run_busy"
    assert str(os.getppid()) in caught.value.message
    assert owner_rows(hive) == [(RUN, os.getppid())]


@pytest.mark.parametrize(
    "owner",
    [
        Owner(Owner.me().host, os.getpid(), "1"),
        Owner(Owner.me().host, 2**22 - 1, "1"),
        Owner("elsewhere/x/y", 1, "1"),
    ],
    ids=["a reused id", "a gone process", "another machine, silent for long"],
)
async def test_a_run_of_a_dead_process_can_be_taken(hive, owner):
    put_owner(hive, owner, heartbeat=time.time() - STALE_SECONDS - 1)
    await hive.log.append(within=claim(RUN, Owner.me()))
    assert owner_rows(hive) == [(RUN, os.getpid())]


async def test_an_owner_looks_again_where_it_could_not_read_and_its_heart_goes_on(
    hive, monkeypatch
):
    monkeypatch.setattr(watch, "POLL_SECONDS", 0.001)
    put_owner(hive, Owner.me(), heartbeat=1.0)
    looked = []

    def look():
        looked.append(1)
        raise StorageError("the grants cannot be read")

    def renewed():
        return hive.log.read("SELECT heartbeat FROM run_owners")[0][0] > 1.0

    async with watch.Watch(hive.log, 0.01).owned(RUN, look):
        with anyio.fail_after(10):
            while len(looked) < 3 or not renewed():
                await anyio.lowlevel.checkpoint()


async def test_a_run_that_ends_at_once_has_nobody_who_watches_it(hive):
    before = asyncio.all_tasks()
    async with watch.Watch(hive.log).owned(RUN):
        assert asyncio.all_tasks() == before


def test_a_run_that_goes_on_is_watched_until_it_ends_on_a_loop_of_asyncio_alone(monkeypatch):
    monkeypatch.setattr(watch, "POLL_SECONDS", 0.001)

    async def go_on(log, looked):
        async with watch.Watch(log).owned(RUN, looked.set):
            await looked.wait()
            log.append_now(within=lambda db: db.execute("UPDATE run_owners SET cancel = 1"))
            await asyncio.sleep(3600)

    async def main():
        async with memory_hive() as hive:
            put_owner(hive, Owner.me())
            before = asyncio.all_tasks()
            with pytest.raises(RunError, match="cancelled"):
                await go_on(hive.log, asyncio.Event())
            assert asyncio.all_tasks() == before

    asyncio.run(main())


async def test_an_owner_on_another_machine_lives_by_its_heartbeat(hive):
    put_owner(hive, Owner("elsewhere/x/y", 1, "1"))
    with pytest.raises(RunBusy):
        await hive.log.append(within=claim(RUN, Owner.me()))


async def test_a_claim_by_the_same_process_is_no_conflict(hive):
    put_owner(hive, Owner.me())
    await hive.log.append(within=claim(RUN, Owner.me()))


async def left_behind(hive, tools_called=None):
    """Start a run and leave it as a process would that died."""
    from clawhive_core.model.ids import new_id
    from clawhive_core.model.runs import Task

    request = hive._requests.assemble(Task(new_id("task"), prompt="x"), options(), title="x")
    await hive._orchestrator.start(request)
    return request.scope.run_id


def options():
    from clawhive_core.runs.requests import RunOptions

    return RunOptions()


async def test_a_run_without_a_living_owner_is_interrupted_once(hive):
    run_id = await left_behind(hive)
    assert recover(hive.log) == []

    def bury(connection):
        connection.execute("UPDATE run_owners SET process_start = 'before'")

    hive.log.append_now(within=bury)
    assert recover(hive.log) == [run_id]
    assert recover(hive.log) == []
    assert run_json(hive.log, run_id)["status"] == "interrupted"
    assert owner_rows(hive) == []
    kinds = [stored.event.kind for stored in hive.log.events(run_id=run_id)]
    assert kinds.count("run.status") == 1


async def test_a_run_whose_owner_row_is_gone_is_interrupted(hive):
    run_id = await left_behind(hive)
    hive.log.append_now(within=lambda connection: connection.execute("DELETE FROM run_owners"))
    assert recover(hive.log) == [run_id]


async def test_ended_runs_are_left_alone(tools):
    async with memory_hive(providers=[tools]) as hive:
        run_id, _ = await hive.call("test.echo", {})
        assert recover(hive.log) == []
        assert run_json(hive.log, run_id)["status"] == "succeeded"
