"""A run's start and end, whatever happens in between."""

import pytest

from clawhive_core.errors import InvalidInput, UnknownTaskType, UsageError
from clawhive_core.model.runs import Plan, PlannedStep
from clawhive_core.runs.plans.tasks import find_task_type
from clawhive_core.runs.record.view import find_run, list_runs
from clawhive_core.runs.requests import RunOptions
from clawhive_core.testing import memory_hive

SCHEMA = {
    "type": "object",
    "additionalProperties": False,
    "required": ["language"],
    "properties": {
        "language": {"type": "string"},
        "count": {"type": "integer", "default": 3},
        "files": {"type": "object", "additionalProperties": {"type": "string"}},
    },
}
ECHO = {"name": "one", "tool": "test.echo", "input": {"n": "${input.count}"}}


@pytest.fixture
async def hive(tools, define):
    async with memory_hive(providers=[tools]) as opened:
        define(opened, ECHO, schema=SCHEMA, output="${steps.one.output.n}")
        yield opened


async def test_defaults_of_the_schema_are_filled_in(hive):
    assert (await hive.run(task="job", input={"language": "x"}))["output"] == 3


@pytest.mark.parametrize(
    ("given", "place", "says"),
    [
        ({}, "/language", "required"),
        ({"language": 1}, "/language", "string"),
        ({"language": "x", "count": "3"}, "/count", "integer"),
        ({"language": "x", "files": {"a": 1}}, "/files/a", "string"),
        ({"language": "x", "cuont": 3}, "/cuont", "cuont"),
    ],
)
async def test_an_input_that_fails_its_schema_names_the_argument(hive, given, place, says):
    with pytest.raises(InvalidInput) as caught:
        await hive.run(task="job", input=given)
    assert caught.value.place == place
    assert caught.value.exit_code == 2
    assert says in caught.value.message
    assert hive.log.read("SELECT count(*) FROM events WHERE kind = 'run.start'")[0][0] == 0


async def test_a_misspelt_argument_is_answered_with_the_one_that_was_meant(hive):
    with pytest.raises(InvalidInput) as caught:
        await hive.run(task="job", input={"language": "x", "cuont": 3})
    assert caught.value.fix.startswith("did you mean `count`?")


@pytest.mark.parametrize(
    ("name", "fix"), [("jobb", "did you mean `job`?"), ("zzz", "known are: "), ("", "known are: ")]
)
async def test_an_unknown_task_type_is_wrong_usage(hive, name, fix):
    with pytest.raises(UnknownTaskType) as caught:
        await hive.run(task=name)
    assert caught.value.fix.startswith(fix)


async def test_a_task_that_two_skills_have_must_be_named_in_full(hive, define):
    define(hive, ECHO)
    hive.skills[-1] = type(hive.skills[-1])(
        "other", "1", hive.skills[-1].folder, "test", tasks=hive.skills[-1].tasks
    )
    with pytest.raises(UnknownTaskType) as caught:
        await hive.run(task="job")
    assert caught.value.fix == "write one of other.job, test.job"
    assert find_task_type(hive.skills, "other.job")[1].id == "other"


@pytest.mark.parametrize(("prompt", "task"), [(None, None), ("a", "b")])
async def test_a_run_is_a_prompt_or_a_task(hive, prompt, task):
    with pytest.raises(UsageError):
        await hive.run(prompt, task=task)


async def test_artifacts_never_lie_inside_the_state_folder(hive):
    with pytest.raises(UsageError) as caught:
        await hive.run(task="job", input={}, out=hive.root / ".clawhive" / "x")
    assert caught.value.place in {"--out", "/language"}


async def test_an_out_folder_is_made_when_something_is_left_there(tools, define, tmp_path):
    def leave(input, ctx):
        from pathlib import Path

        Path(ctx.artifacts, "a.txt").write_text("x")
        return "left"

    tools.add("test.leave", leave)
    async with memory_hive(providers=[tools]) as hive:
        define(hive, {"name": "one", "tool": "test.leave"})
        run = await hive.run(task="job", out=tmp_path / "new" / "out")
    assert run["artifacts_dir"] == str(tmp_path / "new" / "out")
    assert tmp_path.joinpath("new", "out", "a.txt").read_text() == "x"


class Planner:
    name = "procedure"
    replans = False

    def __init__(self, answer):
        self.answer = answer

    async def plan(self, task, ctx):
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (ValueError("a bug"), "internal_error"),
        (SystemExit(4), "invalid_plan"),
        (None, "invalid_plan"),
        ([PlannedStep("a", "t")], "invalid_plan"),
        (Plan("procedure", ("a",)), "invalid_plan"),
        (Plan("procedure", (PlannedStep("a", "t", needs=("b",)),)), "invalid_plan"),
    ],
)
async def test_a_planner_that_fails_fails_its_run_and_leaves_no_owner(
    hive, monkeypatch, answer, code
):
    monkeypatch.setitem(hive._orchestrator.planners, "procedure", Planner(answer))
    run = await hive.run(task="job", input={"language": "x"})
    assert (run["status"], run["error"]["code"]) == ("failed", code)
    assert hive.log.read("SELECT count(*) FROM runs WHERE worker IS NOT NULL")[0][0] == 0
    assert (await hive.replay("last")).ok is False or code == "invalid_plan"


async def test_a_task_type_without_steps_cannot_be_planned(hive, define):
    define(hive, name="empty")
    run = await hive.run(task="empty")
    assert run["error"]["code"] == "cannot_plan"
    assert run["error"]["fix"]


async def test_grants_are_recorded_with_the_run_and_end_with_it(hive):
    await hive.run(task="job", input={"language": "x"}, grants=["fs.read:/srv/**"])
    rows = hive.log.read("SELECT capability, issuer, scope, ended_at FROM v_grants")
    mine = [row for row in rows if row["capability"] == "fs.read:/srv/**"]
    assert [(row["issuer"], row["scope"]) for row in mine] == [("user", "task")]
    assert all(row["ended_at"] for row in rows)


async def test_runs_are_found_by_id_prefix_and_last(hive):
    ids = [(await hive.run(task="job", input={"language": "x"}))["run_id"] for _ in range(2)]
    assert find_run(hive.log, "last") == ids[1]
    for run_id in ids:
        assert find_run(hive.log, run_id) == run_id
        assert find_run(hive.log, run_id.removeprefix("run_")[:12]) == run_id
    listed = list_runs(hive.log)
    assert [row["run_id"] for row in listed] == ids[::-1]
    assert len(list_runs(hive.log, 1)) == 1
    for bad in ("", "run_", "zz", "%", "_"):
        with pytest.raises(UsageError):
            find_run(hive.log, bad)


async def test_the_runs_own_options_reach_its_record(hive):
    told = []
    options = RunOptions(session="conv_mine", on_start=told.append)
    run = await hive.run(task="job", input={"language": "x"}, options=options)
    assert run["conversation_id"] == "conv_mine"
    assert run["parent_run_id"] is None
    assert [request.scope.run_id for request in told] == [run["run_id"]]
    events = list(hive.log.events(run_id=run["run_id"]))
    assert {stored.event.trace_id for stored in events} == {run["trace_id"]}
    assert [events[0].event.kind, events[-1].event.kind] == ["run.start", "run.end"]
