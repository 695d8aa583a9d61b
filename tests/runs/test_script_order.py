"""`scripted:FILE.json`: the answers in their order, whatever becomes of them."""

from __future__ import annotations

import json

import pytest

from clawhive_builtin.scripted import ScriptedAdapter
from clawhive_core.testing import memory_hive

MODEL = "scripted:script.json"
GOOD = json.dumps({"steps": [{"name": "a", "tool": "test.echo", "input": {"n": 1}}]})
KEEP = json.dumps({"steps": [{"name": "a", "tool": "test.keep", "input": {"path": "a"}}]})
FAILS = json.dumps({"steps": [{"name": "a", "tool": "test.fail", "input": {}}]})


@pytest.fixture
def playing(appending, tmp_path):
    """Open a hive whose model plays these answers."""

    def opened(*script, **settings):
        (tmp_path / "script.json").write_text(json.dumps(script), "utf-8")
        adapter = ScriptedAdapter(str(tmp_path))
        return memory_hive(providers=[appending], adapters=[adapter], settings=settings)

    return opened


def call(name, **given):
    return {"tool_calls": [{"name": name, "input": given}]}


@pytest.mark.promise("P-257")
@pytest.mark.parametrize(
    ("planner", "script"),
    [
        ("llm", ["no plan", GOOD, "answered"]),
        ("llm", ["", GOOD, "answered"]),
        ("llm", [FAILS, "no plan", GOOD, "", "answered"]),
        ("react", ["", call("test.echo"), "", " ", "answered"]),
        ("react", [{"text": "half", "stop_reason": "malformed_call"}, "answered"]),
    ],
    ids=["corrected", "silent-plan", "planned-anew", "silent", "malformed"],
)
async def test_each_answer_is_used_once_and_in_order(playing, planner, script):
    async with playing(*script, "next", "last") as hive:
        run = await hive.run("go", model=MODEL, planner=planner)
        assert (run["status"], run["output"]) == ("succeeded", "answered")
        assert (await hive.replay("last")).ok
        again = await hive.replay(run["run_id"], "model")
        assert again.ok, again
        session = run["conversation_id"]
        assert (await hive.run("go on", model=MODEL, session=session))["output"] == "next"
        assert (await hive.run("and on", model=MODEL, session=session))["output"] == "last"
        assert (await hive.replay("last", "model")).ok
        run = await hive.run("too far", model=MODEL, session=session)
        assert run["error"]["code"] == "script_exhausted"


@pytest.mark.promise("P-257")
@pytest.mark.parametrize(
    ("planner", "script"),
    [
        ("llm", ["no plan", KEEP, "", "answered"]),
        ("react", ["", call("test.keep", path="a"), "", "answered"]),
    ],
)
async def test_a_script_goes_on_where_it_was_after_a_resume(playing, planner, script):
    async with playing(*script) as hive:
        run = await hive.run("go", model=MODEL, planner=planner)
        assert run["status"] == "waiting_approval"
        hive.approvals.resolve("last", "approve", by="user:ana")
        run = await hive.resume("last")
        assert (run["status"], run["output"]) == ("succeeded", "answered")
        assert (await hive.replay("last")).ok


async def test_a_script_goes_on_after_a_resume_in_a_conversation(playing):
    script = ["no plan", GOOD, "answered", "", call("test.keep", path="a"), "kept"]
    async with playing(*script) as hive:
        run = await hive.run("go", model=MODEL, planner="llm")
        session = run["conversation_id"]
        await hive.run("keep it", model=MODEL, session=session)
        hive.approvals.resolve("last", "approve", by="user:ana")
        assert (await hive.resume("last"))["output"] == "kept"
