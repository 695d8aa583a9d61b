"""Who executes a run, and what becomes of it without its executor."""

import asyncio
import contextlib
import os
from contextlib import asynccontextmanager

import anyio
import pytest

from clawhive_core.errors import RunBusy, RunError, StorageError
from clawhive_core.hive.hive import Hive
from clawhive_core.model.events import Event
from clawhive_core.model.ids import new_id
from clawhive_core.model.runs import Task
from clawhive_core.model.tools import ToolMeta
from clawhive_core.policy.revocations import Revocations
from clawhive_core.policy.rules import Rules
from clawhive_core.protocols.ledger import RunIs, RunOwnedBy, Unmet
from clawhive_core.runs.orchestrator import Orchestrator
from clawhive_core.runs.record import ownership, watch
from clawhive_core.runs.record.ownership import recover
from clawhive_core.runs.record.view import run_json
from clawhive_core.runs.requests import RunOptions
from clawhive_core.runs.run import RunResult
from clawhive_core.storage.sqlite.leases import Process, _process_start, worker_record
from clawhive_core.testing import ScriptedModel, calling, memory_hive
from tests.harness import grant, user_of

FORGET = "UPDATE runs SET worker = 'x'"
LAPSE = "UPDATE leases SET until = 0"


@pytest.fixture
async def hive():
    async with memory_hive() as opened:
        yield opened


@asynccontextmanager
async def beside(hive):
    """Open the same project once more, as another process would."""
    async with Hive.open(hive.root, env=user_of(hive)) as other:
        yield other


def lapse(hive):
    """Let every lease lapse, as where its worker says nothing for long."""
    hive.log.append_now(effect=lambda connection: connection.execute(LAPSE) and None)


async def left_behind(hive):
    """Start a run and leave it as a process would that stands still."""
    request = hive._requests.assemble(Task(new_id("task"), prompt="x"), RunOptions(), title="x")
    await hive._orchestrator.start(request)
    return request


async def take_up(hive, run_id, fence):
    body = {"reason": None, "fence": fence, "worker": hive.log.worker}
    await hive.log.hold()
    await hive.log.append(
        Event("run.status", body, run_id=run_id, status="running"),
        expects=[RunIs(run_id, ownership.STOPPED, fence - 1)],
    )


def row(hive, run_id):
    sql = "SELECT status, fence, worker FROM runs WHERE run_id = ?"
    return tuple(hive.log.read(sql, (run_id,))[0])


def record(host=None, pid=None, process_start=None, seconds_left=10.0):
    me = Process.me()
    return worker_record(
        "worker_x", host or me.host, pid or me.pid, process_start or me.process_start, seconds_left
    )


async def test_a_running_tool_sees_the_worker_of_its_run_with_a_lease(tools):
    def look(input, ctx):
        owners = hive.log.read("SELECT run_id, worker FROM runs WHERE worker IS NOT NULL")
        return [*map(list, owners), [each.worker for each in hive.log.workers()]]

    tools.add("test.look", look)
    async with memory_hive(providers=[tools]) as hive:
        run_id, outcome = await hive.call("test.look", {})
        assert outcome.structured == [[run_id, hive.log.worker], [hive.log.worker]]
        assert row(hive, run_id)[2] is None


async def test_a_worker_that_closes_its_log_gives_its_lease_up(hive):
    async with beside(hive) as other:
        await left_behind(other)
        assert [each.worker for each in hive.log.workers()] == [other.log.worker]
    assert hive.log.workers() == []


ABOVE = {"pid": os.getppid(), "process_start": _process_start(os.getppid())}


@pytest.mark.parametrize(
    ("found", "alive"),
    [
        (record(), True),
        (record(seconds_left=-1.0), False),
        (record(**ABOVE), True),
        (record(**ABOVE, seconds_left=0.0), False),
        (record(process_start="1"), False),
        (record(pid=2**22 - 1), False),
        (record(host="elsewhere/x/y"), True),
        (record(host="elsewhere/x/y", seconds_left=-1.0), False),
    ],
    ids=[
        "this one",
        "this one, lapsed",
        "another process",
        "a process that stands still",
        "a reused id",
        "a gone process",
        "another machine",
        "another machine, lapsed",
    ],
)
def test_a_worker_lives_by_its_lease_and_a_process_that_is_gone_is_dead(found, alive):
    assert found.is_alive is alive


async def test_a_lease_that_lapsed_is_renewed_before_something_else_is_taken(hive, monkeypatch):
    await left_behind(hive)
    lapse(hive)
    monkeypatch.setattr(hive.log._lease, "_renewed", -1e9)
    await left_behind(hive)
    assert hive.log.workers()[0].seconds_left > 1


async def test_an_executor_looks_again_where_it_could_not_read(hive, monkeypatch):
    monkeypatch.setattr(watch, "POLL_SECONDS", 0.001)
    looked = []

    def look():
        looked.append(1)
        raise StorageError("the grants cannot be read")

    async with watch.Watch(hive.log).owned("run_x", 1, look):
        with anyio.fail_after(10):
            while len(looked) < 3:
                await anyio.lowlevel.checkpoint()


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

            await stack.enter_async_context(watching.owned(f"run_{number}", 1, look))
        monkeypatch.setattr(hive.log, "read", reading(hive.log.read, read))
        with anyio.fail_after(10):
            while len(looked) < 150:
                await anyio.lowlevel.checkpoint()
    assert sum("cancel_requests" in sql for sql in read) <= len(looked) // 50 + 1
    assert sum("cancel_requests" not in sql for sql in read) <= 1


def reading(read, seen):
    def noted(sql, params=()):
        seen.append(sql)
        return read(sql, params)

    return noted


async def test_a_run_that_ends_at_once_has_nobody_who_watches_it(hive):
    before = asyncio.all_tasks()
    async with watch.Watch(hive.log).owned("run_x", 1):
        assert asyncio.all_tasks() == before


@pytest.mark.parametrize("is_taken", [False, True], ids=["cancelled", "taken over"])
def test_a_run_that_goes_on_is_watched_until_it_ends_on_a_loop_of_asyncio_alone(
    monkeypatch, is_taken
):
    monkeypatch.setattr(watch, "POLL_SECONDS", 0.001)

    async def go_on(hive, run_id, looked):
        async with watch.Watch(hive.log).owned(run_id, 1, looked.set):
            await looked.wait()
            if is_taken:
                body = {"reason": "x", "fence": 2}
                event = Event("run.status", body, run_id=run_id, status="interrupted")
                await hive.log.append(event)
            else:
                assert ownership.cancel(hive.log, run_id) is True
            await asyncio.sleep(3600)

    async def main():
        async with memory_hive() as hive:
            run_id = (await left_behind(hive)).scope.run_id
            before = asyncio.all_tasks()
            with pytest.raises(RunError) as caught:
                await go_on(hive, run_id, asyncio.Event())
            assert asyncio.all_tasks() == before
            assert asyncio.current_task().cancelling() == 0
        assert caught.value.code == ("run_busy" if is_taken else "cancelled")

    asyncio.run(main())


async def test_a_run_without_a_living_executor_is_interrupted_once(hive):
    run_id = (await left_behind(hive)).scope.run_id
    assert recover(hive.log) == []
    async with beside(hive) as other:
        assert recover(other.log) == []
        lapse(hive)
        assert recover(other.log) == [run_id]
        assert recover(other.log) == []
    assert run_json(hive.log, run_id)["status"] == "interrupted"
    assert row(hive, run_id) == ("interrupted", 2, None)
    kinds = [stored.event.kind for stored in hive.log.events(run_id=run_id)]
    assert kinds.count("run.status") == 1


async def test_a_run_whose_worker_is_unknown_is_interrupted(hive):
    run_id = (await left_behind(hive)).scope.run_id
    hive.log.append_now(effect=lambda connection: connection.execute(FORGET) and None)
    assert recover(hive.log) == [run_id]


async def test_ended_runs_are_left_alone(tools):
    async with memory_hive(providers=[tools]) as hive:
        run_id, _ = await hive.call("test.echo", {})
        assert recover(hive.log) == []
        assert run_json(hive.log, run_id)["status"] == "succeeded"


async def test_a_run_that_was_just_taken_up_is_not_interrupted_for_its_dead_executor(
    hive, monkeypatch
):
    """Who is dead was read before; the run is another one's by the time that it is written."""
    run_id = (await left_behind(hive)).scope.run_id
    lapse(hive)
    async with beside(hive) as first, beside(hive) as second:
        recover(first.log)
        await take_up(first, run_id, 3)
        lapse(hive)
        read = second.log.workers

        def slowly():
            found = read()
            for status, fence in (("interrupted", 4), ("running", 5)):
                body = {"fence": fence, "worker": first.log.worker}
                hive.log.append_now(Event("run.status", body, run_id=run_id, status=status))
            return found

        monkeypatch.setattr(second.log, "workers", slowly)
        assert recover(second.log) == []
        assert row(hive, run_id) == ("running", 5, first.log.worker)


async def test_an_executor_that_wakes_writes_nothing_more_of_a_run_that_another_one_took(hive):
    request = await left_behind(hive)
    run_id = request.scope.run_id
    lapse(hive)
    async with beside(hive) as other:
        recover(other.log)
        await take_up(other, run_id, 3)
        before = [stored.seq for stored in hive.log.events(run_id=run_id)]
        hive.log.post(Event("step.end", {}, run_id=run_id), expects=request.scope.owned)
        await hive.log.flush()
        with pytest.raises(Unmet) as caught:
            await hive._orchestrator.end(request, RunResult("succeeded"))
        assert caught.value.expectation == RunOwnedBy(run_id, 1)
        assert [stored.seq for stored in hive.log.events(run_id=run_id)] == before
        assert row(hive, run_id) == ("running", 3, other.log.worker)
        await hive.log.append(Event("note", {}))  # nothing else is refused


async def test_a_beat_keeps_the_runs_of_its_own_worker_only(hive):
    async with beside(hive) as dead, beside(hive) as other:
        run_id = (await left_behind(dead)).scope.run_id
        await left_behind(hive)
        lapse(hive)
        await hive.log.append(effect=hive.log._lease.renew)
        assert recover(other.log) == [run_id]


async def test_an_executor_that_wakes_first_renews_its_lease_and_goes_on(hive):
    request = await left_behind(hive)
    lapse(hive)
    await hive.log.append(effect=hive.log._lease.renew)
    async with beside(hive) as other:
        assert recover(other.log) == []
    await hive._orchestrator.end(request, RunResult("succeeded"))
    assert row(hive, request.scope.run_id)[0] == "succeeded"


@pytest.mark.parametrize("as_session", [False, True], ids=["a run", "a session"])
async def test_whose_run_was_taken_over_is_told_so(tools, define, as_session, monkeypatch):
    monkeypatch.setattr(watch, "POLL_SECONDS", 3600)

    async def freeze(input, ctx):
        lapse(hive)
        async with beside(hive):  # which looks for runs without an executor
            return "done meanwhile"

    tools.add("test.freeze", freeze)
    async with memory_hive(providers=[tools]) as hive:
        define(hive, {"name": "freeze", "tool": "test.freeze"})
        call = hive.call("test.freeze", {}) if as_session else hive.run(task="job")
        with pytest.raises(RunBusy) as caught:
            await call
        run_id = hive.log.read("SELECT run_id FROM runs")[0][0]
        assert caught.value.place == run_id
        *_, last = hive.log.events(run_id=run_id)
        assert (last.event.kind, last.event.status) == ("run.status", "interrupted")
        assert run_json(hive.log, run_id)["steps"][0]["status"] == "unknown"


async def test_who_loses_the_race_for_a_run_and_is_cancelled_does_not_end_it(hive):
    """Two may take a run under the same number; only one does."""
    request = await left_behind(hive)
    run_id = request.scope.run_id
    lapse(hive)
    async with beside(hive) as other:
        recover(other.log)
        await take_up(other, run_id, 3)
        mine = RunIs(run_id, frozenset({"running"}), 3, hive.log.worker)
        with pytest.raises(Unmet):
            await hive.log.append(Event("run.end", {"error": None}, run_id=run_id), expects=[mine])


async def test_a_cancellation_asks_whoever_executes_the_run_now(hive):
    run_id = (await left_behind(hive)).scope.run_id
    with pytest.raises(Unmet):
        hive.log.request_cancel(run_id, 7)
    assert ownership.cancel(hive.log, run_id) is True
    asked = hive.log.read("SELECT run_id, fence FROM cancel_requests")
    assert [tuple(row) for row in asked] == [(run_id, 1)]


async def test_a_run_that_went_on_and_parked_since_its_record_was_read_is_not_resumed_from_it(
    monkeypatch,
):
    begun, read, parked = anyio.Event(), anyio.Event(), anyio.Event()
    effects, refused = [], []

    async def first(ctx):
        begun.set()
        await read.wait()
        return "done"

    async def effect(ctx):
        effects.append(ctx.step_id)
        return "done"

    def offer(hive):
        schema = {"type": "object"}
        hive.tools.add(ToolMeta("local.first", "Do.", schema, "local", risk="safe"), first)
        hive.tools.add(ToolMeta("local.effect", "Do.", schema, "local", risk="safe"), effect)
        hive.tools.add(ToolMeta("local.asked", "Do.", schema, "local", risk="guarded"), effect)

    calls = [calling(f"local.{name}", {}) for name in ("first", "effect", "asked")]
    take = Orchestrator.resume

    async def take_late(orchestrator, request):
        read.set()
        await parked.wait()
        return await take(orchestrator, request)

    monkeypatch.setattr(Orchestrator, "resume", take_late)
    async with (
        memory_hive(adapters=[ScriptedModel([*calls, "Done."])]) as hive,
        beside(hive) as other,
    ):
        offer(hive)
        offer(other)

        async def resume_beside():
            await begun.wait()
            try:
                await other.resume("last", RunOptions(approve="park"))
            except RunBusy as error:
                refused.append(error.code)
            finally:
                read.set()

        async with anyio.create_task_group() as group:
            group.start_soon(resume_beside)
            run = await hive.run("go", model="scripted:any", approve="park")
            parked.set()
        assert run["status"] == "waiting_approval"
    assert len(effects) == 1
    assert refused == ["run_busy"]
