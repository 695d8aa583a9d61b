"""A run that repeats another one goes on as it began: with one side live, and no other."""

import pytest

from clawhive_core.errors import NotReplayable, UsageError
from clawhive_core.hive.hive import RunOptions
from clawhive_core.runs.orchestrator import Orchestrator
from clawhive_core.runs.record import ownership
from clawhive_core.runs.replays.replay import RecordedTools
from clawhive_core.testing import ScriptedModel, calling, memory_hive

MODEL = "scripted:test"
FORGET = "UPDATE runs SET worker = NULL"
TURNS = [calling("test.send", {"n": 1}), calling("test.send", {"n": 2}), "sent"]


class Cut(BaseException):
    """What ends a process."""


@pytest.fixture
def sending(tools):
    return tools.add("test.send", lambda given, ctx: f"sent {given['n']}")


async def killed_in_model_mode(hive, run_id, monkeypatch):
    """Ask the model anew, and kill the process at the second call."""
    calls = []

    async def cut(door, call, scope):
        calls.append(call)
        if len(calls) == 2:
            raise Cut
        return await real(door, call, scope)

    async def no_end(orchestrator, request, result):
        raise Cut

    real = RecordedTools.invoke
    with monkeypatch.context() as patch:
        patch.setattr(RecordedTools, "invoke", cut)
        patch.setattr(Orchestrator, "end", no_end)
        with pytest.raises(Cut):
            await hive.replay(run_id, "model")
    await hive.log.append(effect=lambda connection: connection.execute(FORGET))
    (run_id,) = ownership.recover(hive.log)
    return run_id


@pytest.mark.promise("P-262")
async def test_a_killed_replay_of_the_model_goes_on_without_calling_a_tool(sending, monkeypatch):
    model = ScriptedModel([*TURNS, *TURNS])
    async with memory_hive(providers=[sending], adapters=[model]) as hive:
        first = await hive.run("go", model=MODEL)
        again = await killed_in_model_mode(hive, first["run_id"], monkeypatch)
        run = await hive.resume(again)
        assert (run["status"], run["output"]) == ("succeeded", "sent")
        assert len(sending.calls) == 2
        assert len(model.requests) == 6
        assert (await hive.replay(again)).ok


async def approved(hive, run_id):
    """Approve what waits and go on, until nothing waits."""
    while waiting := hive.approvals.pending():
        hive.approvals.resolve(waiting[0].approval_id, "approve", by="user:ana")
        run = await hive.resume(run_id)
    return run


@pytest.mark.promise("P-262")
async def test_a_parked_replay_of_the_tools_goes_on_with_the_recorded_turns(tools):
    tools.add("test.keep", lambda given, ctx: "kept", risk="guarded")
    model = ScriptedModel([calling("test.keep", {"n": 1}), calling("test.keep", {"n": 2}), "done"])
    async with memory_hive(providers=[tools], adapters=[model]) as hive:
        first = await hive.run("go", model=MODEL, approve="park")
        await approved(hive, first["run_id"])
        report = await hive.replay(first["run_id"], "tools", RunOptions(approve="park"))
        run = await approved(hive, report.new_run_id)
        assert (run["status"], run["output"]) == ("succeeded", "done")
        assert len(tools.calls) == 4
        assert len(model.requests) == 3
        assert (await hive.replay(report.new_run_id)).ok


async def test_a_replay_of_the_model_is_repeated_exactly_and_holds_no_calls_of_its_own(sending):
    model = ScriptedModel([*TURNS, *TURNS, *TURNS])
    async with memory_hive(providers=[sending], adapters=[model]) as hive:
        first = await hive.run("go", model=MODEL)
        second = await hive.replay(first["run_id"], "model")
        third = await hive.replay(first["run_id"], "model")
        assert (await hive.replay(third.new_run_id)).ok
        for mode in ("tools", "model", "policy"):
            with pytest.raises(NotReplayable, match="its tools were not called") as refused:
                await hive.replay(second.new_run_id, mode)
            assert first["run_id"] in refused.value.fix
        assert len(sending.calls) == 2


async def test_a_mode_that_there_is_not_repeats_nothing(sending):
    async with memory_hive(providers=[sending], adapters=[ScriptedModel(TURNS)]) as hive:
        run = await hive.run("go", model=MODEL)
        with pytest.raises(UsageError, match="sideways") as refused:
            await hive.replay(run["run_id"], "sideways")
        assert "`policy`" in refused.value.fix
        assert len(hive.log.read("SELECT 1 FROM runs")) == 1
