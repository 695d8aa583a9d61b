"""Exact replay: no difference without a change, the first different event with one."""

import dataclasses
import inspect
import shutil
import sqlite3
import sys
from contextlib import closing
from importlib.util import module_from_spec, spec_from_file_location

import pytest

from clawhive_core.errors import NotReplayable, UnknownId
from clawhive_core.hive.hive import Hive
from clawhive_core.runs import loop
from clawhive_core.runs.plans import planners
from clawhive_core.runs.record.view import run_json
from clawhive_core.testing import ScriptedModel, calling, memory_hive

MODEL = "scripted:test"
STEPS = (
    {"name": "one", "tool": "test.echo", "input": {"n": "${input.n}"}},
    {"name": "two", "tool": "test.echo", "input": {"n": "${steps.one.output.n}"}},
    {"name": "three", "tool": "test.echo", "when": "always"},
)


@pytest.fixture
def changed(tmp_path, monkeypatch):
    """Return a module as it would be with one part of its source changed."""

    def load(module, old, new):
        source = inspect.getsource(module)
        assert source.count(old) == 1
        file = tmp_path / "changed.py"
        file.write_text(source.replace(old, new), "utf-8")
        name = f"changed_{module.__name__.rpartition('.')[2]}"
        spec = spec_from_file_location(name, file)
        made = module_from_spec(spec)
        monkeypatch.setitem(sys.modules, name, made)
        spec.loader.exec_module(made)
        return made

    return load


@pytest.fixture
async def planned(tools, define):
    async with memory_hive(providers=[tools]) as hive:
        define(hive, *STEPS, output="${steps.two.output}")
        run = await hive.run(task="job", input={"n": 7})
        assert run["status"] == "succeeded"
        yield hive


async def test_a_run_repeats_without_calling_any_tool(planned, tools):
    before = list(tools.calls)
    report = await planned.replay("last")
    assert (report.ok, report.complete, report.difference) == (True, True, None)
    assert report.compared == 8
    assert tools.calls == before


async def test_a_replay_is_itself_recorded_and_does_not_disturb_the_next(planned):
    first = await planned.replay("last")
    second = await planned.replay("last")
    assert first == second
    kinds = [stored.event.kind for stored in planned.log.events()]
    assert kinds.count("replay.end") == 2


async def test_one_changed_character_of_the_planner_is_found_and_its_event_named(
    planned, changed, monkeypatch
):
    other = changed(planners, "steps[-1].name", "steps[-0].name")
    monkeypatch.setattr(
        "clawhive_core.runs.plans.planners.ProcedurePlanner", other.ProcedurePlanner
    )
    report = await planned.replay("last")
    assert not report.ok
    found = report.difference
    assert found.kind == "plan.made"
    recorded = [s for s in planned.log.events() if s.seq == found.seq]
    assert recorded[0].event.kind == "plan.made"
    assert "needs" in found.recorded
    assert (found.recorded.endswith("two"), found.repeated) == (True, "one")


async def test_a_changed_task_type_is_found(planned):
    (skill,) = [each for each in planned.skills if each.id == "test"]
    task = skill.tasks["job"]
    steps = (task.steps[0], {**task.steps[1], "input": {"n": 8}}, *task.steps[2:])
    edited = dataclasses.replace(skill, tasks={"job": dataclasses.replace(task, steps=steps)})
    planned.skills[planned.skills.index(skill)] = edited
    report = await planned.replay("last")
    assert report.difference.kind == "plan.made"
    assert "plan.steps.1.input.n" in report.difference.recorded


async def test_a_changed_output_of_a_task_type_is_found(planned):
    (skill,) = [each for each in planned.skills if each.id == "test"]
    task = dataclasses.replace(skill.tasks["job"], output="${steps.one}")
    planned.skills[planned.skills.index(skill)] = dataclasses.replace(skill, tasks={"job": task})
    report = await planned.replay("last")
    assert report.difference.kind == "plan.made"


async def test_a_task_type_that_is_gone_is_a_coded_error(planned):
    planned.skills[:] = [each for each in planned.skills if each.id != "test"]
    with pytest.raises(NotReplayable) as caught:
        await planned.replay("last")
    assert "test.job" in caught.value.message


@pytest.fixture
async def looped(tools):
    script = [calling("test.echo", {"n": 1}), calling("test.fail", {}), "Done."]
    async with memory_hive(providers=[tools], adapters=[ScriptedModel(script)]) as hive:
        await hive.run("go", model=MODEL)
        yield hive


async def test_a_loop_repeats_without_asking_the_model(looped):
    report = await looped.replay("last")
    assert (report.ok, report.complete) == (True, True)


@pytest.mark.parametrize(
    ("old", "new", "kind"),
    [
        ("You act for the user", "You act for the users", "model.start"),
        (
            'LlmMessage("assistant", response.content)',
            'LlmMessage("user", response.content)',
            "model.start",
        ),
        ('"label": "answer"', '"label": "answers"', "step.end"),
        ('"action": action', '"action": "finish"', "step.end"),
        ("call.id, call.name,", 'call.id + "x", call.name,', "invocation.start"),
        ("if not calls and", "if turn and", "step.end"),
    ],
)
async def test_a_changed_loop_is_found_and_its_event_named(
    looped, changed, monkeypatch, old, new, kind
):
    other = changed(loop, old, new)
    monkeypatch.setattr("clawhive_core.runs.loop.Loop", other.Loop)
    monkeypatch.setattr("clawhive_core.runs.loop.LoopSettings", other.LoopSettings)
    report = await looped.replay("last")
    assert not report.ok
    assert report.difference.kind == kind


async def test_a_loop_that_would_end_earlier_leaves_recorded_events_over(
    looped, changed, monkeypatch
):
    other = changed(
        loop,
        "            if not calls and",
        "            return 'Done.'\n            if not calls and",
    )
    monkeypatch.setattr("clawhive_core.runs.loop.Loop", other.Loop)
    report = await looped.replay("last")
    assert not report.ok
    assert report.difference.seq is not None
    assert report.difference.message


async def test_a_failed_run_repeats_with_the_same_failure(tools, define):
    async with memory_hive(providers=[tools]) as hive:
        define(hive, {"name": "bad", "tool": "test.fail"}, *STEPS)
        run = await hive.run(task="job", input={"n": 1})
        report = await hive.replay("last")
        assert (run["status"], report.ok, report.complete) == ("failed", True, True)


async def test_refused_calls_repeat(tools):
    tools.add("test.far", lambda given, ctx: "", effects={"": "fs.read:/far/**"})
    script = [calling("test.far", {}), calling("test.none", {}), "ok"]
    async with memory_hive(providers=[tools], adapters=[ScriptedModel(script)]) as hive:
        await hive.run("go", model=MODEL)
        report = await hive.replay("last")
    assert report.ok


async def test_large_inputs_and_answers_repeat_from_their_blobs(tools, define):
    big = "é\U0001f600x" * 50_000
    async with memory_hive(providers=[tools]) as hive:
        define(hive, *STEPS)
        await hive.run(task="job", input={"n": big})
        report = await hive.replay("last")
    assert report.ok


async def test_a_sessions_calls_have_nothing_to_repeat(tools):
    async with memory_hive(providers=[tools]) as hive:
        run_id, _ = await hive.call("test.echo", {"a": 1})
        with pytest.raises(NotReplayable) as caught:
            await hive.replay(run_id)
        with pytest.raises(NotReplayable):
            await hive.replay(run_id, "model")
        with pytest.raises(UnknownId):
            await hive.replay("nothing")
    assert caught.value.place == run_id
    assert caught.value.fix == f"clawhive runs replay {run_id} --mode policy"


async def test_an_interrupted_run_repeats_as_far_as_it_came(tools, define, tmp_path):
    copied = tmp_path / "after" / ".clawhive"
    copied.mkdir(parents=True)

    def crash(input, ctx):
        """Keep the log as a crash at this moment would leave it, its owner gone."""
        with (
            closing(sqlite3.connect(hive.log.path)) as live,
            closing(sqlite3.connect(copied / "hive.db")) as copy,
        ):
            live.backup(copy)
            copy.execute("UPDATE leases SET process_start = 'another'")
            copy.commit()
        shutil.copytree(hive.config.user_dir, tmp_path / "config" / "clawhive")
        return "ok"

    tools.add("test.crash", crash)
    async with memory_hive(providers=[tools]) as hive:
        define(hive, STEPS[0], {"name": "crash", "tool": "test.crash"})
        await hive.run(task="job", input={"n": 1})
        skills = hive.skills
    env = {"HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path / "config")}
    async with Hive.open(tmp_path / "after", env=env) as after:
        after.skills[:] = skills
        (row,) = after.log.read("SELECT run_id, status FROM runs")
        assert row[1] == "interrupted"
        report = await after.replay("last")
        assert (report.ok, report.complete) == (True, False)
        assert report.compared == 4
        shown = run_json(after.log, row[0])
    assert [step["status"] for step in shown["steps"]] == ["succeeded", "unknown"]
    assert shown["steps"][1]["invocations"][0]["status"] == "unknown"


async def test_an_edited_answer_in_the_record_shows_as_a_difference(planned):
    """The record is what is compared: another recorded call is another run."""
    with closing(sqlite3.connect(planned.log.path)) as other:
        other.execute("DROP TRIGGER IF EXISTS events_no_update")
        for (name,) in other.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'"):
            other.execute(f'DROP TRIGGER "{name}"')
        changed = other.execute(
            "UPDATE events SET body = replace(body, '\"n\":7', '\"n\":6')"
            " WHERE kind = 'invocation.start' AND step_id LIKE '%/two'"
        ).rowcount
        other.commit()
    assert changed == 1
    report = await planned.replay("last")
    assert report.difference.kind == "invocation.start"
    assert report.difference.step_id.endswith("/two")
