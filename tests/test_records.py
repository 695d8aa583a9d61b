"""What a program reads of a project's log, page by page."""

import json

import pytest

from clawhive_core import Hive
from clawhive_core.errors import UsageError
from clawhive_core.hive.hive import RunOptions
from clawhive_core.testing import ScriptedModel, calling, memory_hive
from tests.harness import Provider, echo

MODEL = "scripted:test"


def adapters():
    return [ScriptedModel([calling("demo.echo", {"path": "docs/a"}), "done"] * 9)]


def echoing():
    return Provider().offer("demo.echo", echo)


@pytest.fixture
async def hive():
    async with memory_hive(providers=[echoing()], adapters=adapters()) as opened:
        yield opened


async def told(hive, *titles):
    return [(await hive.run(title, options=RunOptions(model=MODEL)))["run_id"] for title in titles]


async def test_runs_come_newest_first_a_page_at_a_time_with_their_number(hive):
    ids = await told(hive, "one", "two", "three")
    first = hive.records.runs(limit=2)
    assert [run.run_id for run in first] == [ids[2], ids[1]]
    assert (first.total, len(first)) == (3, 2)
    await told(hive, "four")  # what comes meanwhile moves nothing
    second = hive.records.runs(limit=2, after=first.next)
    assert [run.title for run in second.items] == ["one"]
    assert second.next is None
    (run,) = hive.records.runs(run_id=ids[0])
    assert (run.status, run.error, run.seq) == ("succeeded", None, 1)
    assert json.loads(json.dumps(run.to_dict()))["conversation_id"] == run.conversation_id


async def test_filters_must_all_hold_and_the_count_follows_them(hive):
    ids = await told(hive, "one", "two")
    records = hive.records
    assert records.runs(status="failed").total == 0
    assert [run.run_id for run in records.runs(status="succeeded", since="2000")] == ids[::-1]
    assert records.runs(until="2000").items == []
    assert records.invocations(run_id=ids[0], tool="demo.echo").total == 1
    assert records.invocations(run_id=ids[0], tool="demo.keep").total == 0
    assert records.events(run_id=ids[1], kind="run").total == 2
    assert records.events(kind="run", limit=1).total == 4


async def test_a_runs_steps_and_calls_are_what_its_report_says(hive):
    (run_id,) = await told(hive, "one")
    steps = hive.records.steps(run_id)
    assert [step.name for step in steps] == ["tool.demo.echo", "respond"]
    assert [step.status for step in steps] == ["succeeded", "succeeded"]
    (call,) = hive.records.invocations(run_id=run_id)
    assert (call.tool, call.status, call.decision) == ("demo.echo", "succeeded", "allow")
    assert call.approval_required is False
    assert call.requested_capabilities


async def test_grants_are_there_while_they_stand_and_after(hive):
    (run_id,) = await told(hive, "one")
    task = hive.records.runs(run_id=run_id).items[0].task_id
    ended = hive.records.grants(scope="task", scope_id=task, limit=None)
    assert ended.total == len(ended) > 3
    assert all(each.ended_at for each in ended)
    assert hive.records.grants(scope_id=task, ended=False).total == 0
    found, page = [], hive.records.grants(scope_id=task, limit=2)
    while True:
        found += page.items
        if page.next is None:
            break
        page = hive.records.grants(scope_id=task, limit=2, after=page.next)
    assert found == [*ended]


async def test_approvals_stand_as_the_book_has_them():
    async def keep(input, ctx):
        raise AssertionError

    provider = Provider().offer("demo.keep", keep, risk="unsafe")
    model = ScriptedModel([calling("demo.keep", {})])
    async with memory_hive(providers=[provider], adapters=[model]) as hive:
        run = await hive.run("go", options=RunOptions(model=MODEL, approve="park"))
        assert run["status"] == "waiting_approval"
        (approval,) = hive.records.approvals(state="pending", run_id=run["run_id"])
        assert approval == hive.approvals.find("last")
        assert hive.records.approvals(state="denied").total == 0


async def test_an_after_that_is_no_pages_end_is_refused(hive):
    for wrong in ("x", "[]", "3"):
        with pytest.raises(UsageError) as caught:
            hive.records.runs(after=wrong)
        assert caught.value.place == "after"


def test_a_program_without_async_reads_the_same(tmp_path):
    env = {"HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path / "config")}
    (tmp_path / "project").mkdir()
    with Hive.open_sync(tmp_path / "project", env=env) as hive:
        assert hive.records.runs().total == 0
