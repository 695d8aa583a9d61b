"""`hive.spawn`: sub-agents that a program starts, and their handles."""

import anyio
import pytest

from clawhive_core import Hive
from clawhive_core.errors import NeedHumanApproval, RunError, StorageError, UnknownModel, UsageError
from clawhive_core.hive.hive import RunOptions
from clawhive_core.testing import ScriptedModel, calling, memory_hive

AGENT = {"agents.helper.description": "Helps.", "agents.helper.model": "child:x"}
SESSION = RunOptions(grants=("agent.spawn:helper",))


def house(tools, *script, **settings):
    model = ScriptedModel(script, name="child")
    return memory_hive(providers=[tools], adapters=[model], settings={**AGENT, **settings})


def rows(hive):
    sql = "SELECT status, parent_run_id, principal FROM v_runs ORDER BY started_at"
    return [tuple(row) for row in hive.log.read(sql)]


@pytest.fixture
def hanging(tools):
    """A tool that never ends, and what tells that it began and was cancelled."""
    tools.begun, tools.ended = anyio.Event(), []

    async def hang(given, ctx):
        tools.begun.set()
        try:
            await anyio.sleep_forever()
        finally:
            tools.ended.append(True)

    return tools.add("test.hang", hang)


@pytest.mark.promise("P-163")
async def test_a_program_starts_an_agent_goes_on_and_merges_what_it_says(tools):
    async with house(tools, calling("test.echo", {"n": 1}), "found") as hive:
        child = await hive.spawn("look", agent="helper")
        assert not child.done
        assert await child.merge() == "found"
        run = await child.result()
        assert (run["status"], run["output"], run["parent_run_id"]) == ("succeeded", "found", None)
        assert rows(hive) == [("succeeded", None, "agent:helper")]


async def test_a_sessions_agent_is_its_child_and_needs_the_right(tools):
    async with house(tools, "found") as hive:
        async with hive.session(options=SESSION) as session:
            child = await hive.spawn("look", agent="helper", parent=session)
            assert await child.merge() == "found"
            run = await child.result()
            assert run["parent_run_id"] == session.run_id
        async with hive.session() as session:
            child = await hive.spawn("look", agent="helper", parent=session)
            with pytest.raises(RunError) as caught:
                await child.result()
            assert caught.value.code == "approval_required"
            assert "agent.spawn:helper" in str(caught.value.data)
            assert "grants=['agent.spawn:helper']" in caught.value.fix


async def test_agents_of_one_session_work_side_by_side(tools):
    met, met_all = [], anyio.Event()

    async def meet(given, ctx):
        met.append(ctx.run_id)
        if len(met) == 3:
            met_all.set()
        await met_all.wait()
        return "ok"

    tools.add("test.meet", meet)

    def answer(request):
        return calling("test.meet", {}) if len(request.messages) == 1 else "met"

    async with house(tools, *[answer] * 6) as hive, hive.session(options=SESSION) as session:
        children = [await hive.spawn(f"{n}", agent="helper", parent=session) for n in range(3)]
        assert [await child.merge() for child in children] == ["met"] * 3
    assert len(set(met)) == 3


@pytest.mark.promise("P-164")
@pytest.mark.parametrize("of_session", [False, True])
async def test_cancelling_a_handle_ends_the_run_and_its_tool(hanging, of_session):
    async with (
        house(hanging, calling("test.hang", {}), "never") as hive,
        hive.session(options=SESSION) as session,
    ):
        parent = session if of_session else None
        child = await hive.spawn("look", agent="helper", parent=parent)
        await hanging.begun.wait()
        await child.cancel()
        assert child.done
        run = await child.result()
        assert (run["status"], hanging.ended) == ("cancelled", [True])
        with pytest.raises(RunError) as caught:
            await child.merge()
        assert caught.value.code == "cancelled"
        await child.cancel()


async def test_what_never_began_is_cancelled_without_a_trace(tools):
    async with house(tools, "x") as hive:
        child = await hive.spawn("look", agent="helper")
        await child.cancel()
        with pytest.raises(RunError) as caught:
            await child.result()
        assert (caught.value.code, rows(hive)) == ("cancelled", [])


async def test_whoever_stops_waiting_does_not_stop_the_agent(hanging):
    async with house(hanging, calling("test.hang", {})) as hive:
        child = await hive.spawn("look", agent="helper")
        with anyio.move_on_after(0.01):
            await child.result()
        assert not child.done
        await child.cancel()


async def test_a_session_that_closes_and_a_hive_that_closes_end_what_they_started(hanging):
    script = [calling("test.hang", {})] * 2
    async with house(hanging, *script) as hive:
        async with hive.session(options=SESSION) as session:
            first = await hive.spawn("look", agent="helper", parent=session)
            await hanging.begun.wait()
        assert first.done
        assert [row[0] for row in rows(hive)] == ["succeeded", "cancelled"]
        second = await hive.spawn("look", agent="helper")
    assert second.done


async def test_an_agent_that_waits_says_so_and_can_be_cancelled(appending):
    async with house(appending, calling("test.keep", {"path": "a"}), "kept") as hive:
        child = await hive.spawn("look", agent="helper")
        with pytest.raises(NeedHumanApproval) as caught:
            await child.merge()
        assert "runs resume" in caught.value.fix
        await child.cancel()
        assert [row[0] for row in rows(hive)] == ["cancelled"]


@pytest.mark.promise("P-163")
async def test_an_agent_that_waited_is_merged_once_somebody_went_on_with_it(appending):
    async with house(appending, calling("test.keep", {"path": "a"}), "kept") as hive:
        child = await hive.spawn("look", agent="helper")
        run = await child.result()
        assert run["status"] == "waiting_approval"
        hive.approvals.resolve("last", "approve", by="user:ana")
        assert (await child.result())["status"] == "waiting_approval"
        async with anyio.create_task_group() as group:
            group.start_soon(hive.resume, run["run_id"])
            await anyio.wait_all_tasks_blocked()
            assert (await child.result())["status"] in {"waiting_approval", "succeeded"}
        assert (await child.result())["status"] == "succeeded"
        assert await child.merge() == "kept"
        await child.cancel()
        assert [row[0] for row in rows(hive)] == ["succeeded"]


async def test_an_agent_that_somebody_goes_on_with_is_waited_for(appending, monkeypatch):
    monkeypatch.setattr("clawhive_core.hive.spawned._POLL_SECONDS", 0)
    held, begun = anyio.Event(), anyio.Event()

    async def hold(given, ctx):
        begun.set()
        await held.wait()
        return "held"

    appending.add("test.hold", hold)
    script = [calling("test.keep", {"path": "a"}), calling("test.hold", {}), "kept"]
    async with house(appending, *script) as hive:
        child = await hive.spawn("look", agent="helper")
        run = await child.result()
        hive.approvals.resolve("last", "approve", by="user:ana")
        async with anyio.create_task_group() as group:
            group.start_soon(hive.resume, run["run_id"])
            await begun.wait()
            group.start_soon(child.merge)
            with anyio.move_on_after(0.05) as early:
                await child.result()
            assert early.cancelled_caught
            held.set()
        assert await child.merge() == "kept"


async def test_a_denied_agent_answers_and_a_closed_hive_tells_of_ended_ones(appending):
    keep = calling("test.keep", {"path": "a"})
    async with house(appending, keep, "not kept", keep) as hive:
        child = await hive.spawn("look", agent="helper")
        run = await child.result()
        hive.approvals.resolve("last", "deny", by="user:ana")
        await hive.resume(run["run_id"])
        assert await child.merge() == "not kept"
        waits = await hive.spawn("look", agent="helper")
        assert (await waits.result())["status"] == "waiting_approval"
    with pytest.raises(StorageError, match="closed"):
        await waits.result()  # how it stands by now is not to be seen any more
    assert (await child.result())["status"] == "succeeded"


async def test_an_agent_of_one_call_has_a_result_too(tools):
    settings = {"agents.helper.form": "call"}
    async with house(tools, "one", "two", **settings) as hive:
        assert await (await hive.spawn("x", agent="helper")).merge() == "one"
        async with hive.session(options=SESSION) as session:
            grants = ("agent.spawn:helper",)
            assert grants == SESSION.grants
            child = await hive.spawn("x", agent="helper", parent=session)
            assert await child.merge() == "two"
            assert (await child.result())["run_id"] == session.run_id


async def test_what_cannot_begin_is_refused_at_once(tools):
    async with house(tools, **{"agents.dull.persona": "x"}) as hive:
        with pytest.raises(UsageError) as caught:
            await hive.spawn("x", agent="nobody")
        assert "[agents.nobody]" in caught.value.fix
        with pytest.raises(UnknownModel):
            await hive.spawn("x", agent="dull")
        with pytest.raises(UsageError):
            await hive.spawn("x", agent="helper", options=RunOptions(planner="guess"))
        async with hive.session() as session:
            with pytest.raises(UsageError):
                await hive.spawn("x", agent="nobody", parent=session)


def test_a_program_without_async_spawns_too(tmp_path):
    root = tmp_path / "project"
    root.mkdir()
    (root / "s.json").write_text('["found"]', "utf-8")
    env = {"HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path / "config")}
    flags = {"agents.helper.model": "scripted:s.json"}
    with Hive.open_sync(root, flags=flags, env=env) as hive:
        child = hive.spawn("look", agent="helper")
        assert child.merge() == "found"
        assert (child.result()["status"], child.done) == ("succeeded", True)
        child.cancel()
        with hive.session(options=SESSION) as session:
            below = hive.spawn("look", agent="helper", parent=session)
            assert below.result()["parent_run_id"] == session.run_id
