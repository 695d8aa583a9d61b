"""Turns of one session that begin at the same time."""

import pytest

from clawhive_core.errors import RunBusy
from clawhive_core.runs.requests import RunOptions
from clawhive_core.testing import ScriptedModel, memory_hive

MODEL = "scripted:test"


async def test_a_turn_that_would_not_know_of_another_one_is_refused_and_nothing_is_recorded():
    model = ScriptedModel(["one", "two", "three"])
    options = RunOptions(session="conv_1", model=MODEL)
    async with memory_hive(adapters=[model]) as hive:
        await hive.run("first", options=options)
        late = hive._requests.prompt("late", options)
        await hive.run("second", options=options)
        with pytest.raises(RunBusy) as caught:
            await hive._running.run(late)
        assert (caught.value.code, caught.value.place) == ("session_busy", "conv_1")
        assert list(hive.log.events(run_id=late.scope.run_id)) == []
        again = await hive.run("late", options=options)
        assert again["output"] == "three"
        said = [message.role for message in model.requests[-1].messages]
        assert said == ["user", "assistant"] * 2 + ["user"]


async def test_turns_of_other_sessions_do_not_matter():
    model = ScriptedModel(["one", "two"])
    async with memory_hive(adapters=[model]) as hive:
        late = hive._requests.prompt("late", RunOptions(session="conv_1", model=MODEL))
        await hive.run("first", options=RunOptions(session="conv_2", model=MODEL))
        await hive._running.run(late)
        rows = hive.log.read("SELECT status FROM runs")
        assert [row[0] for row in rows] == ["succeeded", "succeeded"]


async def test_the_last_turn_is_found_without_reading_other_runs():
    from clawhive_core.storage.sqlite.expectations import TURNS

    async with memory_hive() as hive:
        plan = hive.log.read(f"EXPLAIN QUERY PLAN {TURNS} LIMIT 1", ("conv_1",))
    assert ["runs_of_conversation" in row["detail"] for row in plan] == [True]
