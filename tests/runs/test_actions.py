"""Each step, and each turn of a loop, ends in one recorded action."""

import pytest

from clawhive_core.errors import ModelError
from clawhive_core.model.messages import LlmResponse, MediaBlock, ProviderBlock, TextBlock
from clawhive_core.model.tools import ToolCall
from clawhive_core.runs.record.page import timeline_items
from clawhive_core.testing import ScriptedModel, calling, memory_hive

MODEL = "scripted:test"
ECHO = calling("test.echo", {"n": 1})


def actions(run):
    return [(each["step_id"].partition("/")[2], each["action"]) for each in run["steps"]]


def raising(request):
    raise ModelError("it is down", code="overloaded")


def house(tools, *script, **settings):
    return memory_hive(providers=[tools], adapters=[ScriptedModel(script)], settings=settings)


@pytest.mark.promise("P-203")
@pytest.mark.parametrize(
    ("last", "code", "settings"),
    [
        (raising, "overloaded", {}),
        (LlmResponse((TextBlock("half"),), "max_tokens"), "model_max_tokens", {}),
        (LlmResponse((), "refusal"), "model_refusal", {}),
        (LlmResponse((*ECHO.content,), "content_filter"), "model_content_filter", {}),
        (calling("test.echo", {"n": 2}), "max_tool_rounds", {"loop.max_tool_rounds": 1}),
    ],
    ids=["model", "cut", "refusal", "filter", "rounds"],
)
async def test_a_turn_that_comes_to_nothing_finishes_with_what_went_wrong(
    tools, last, code, settings
):
    async with house(tools, ECHO, last, **settings) as hive:
        run = await hive.run("go", model=MODEL)
        assert run["error"]["code"] == code
        assert actions(run) == [("r0.0", "tool_call"), ("r1", "finish")]
        step = run["steps"][-1]
        assert (step["name"], step["status"], step["error"]["code"]) == ("finish", "failed", code)
        rows = hive.log.read("SELECT step_id, action FROM v_steps ORDER BY step_id")
        assert [(row[0].partition("/")[2], row[1]) for row in rows] == actions(run)
        assert (await hive.replay("last")).ok


@pytest.mark.promise("P-203")
@pytest.mark.parametrize(
    ("answer", "action"),
    [("words", "respond"), (LlmResponse((MediaBlock("image", "image/png", "AA=="),)), "finish")],
    ids=["words", "image"],
)
async def test_a_last_turn_responds_with_words_and_finishes_without(tools, answer, action):
    async with house(tools, answer) as hive:
        run = await hive.run("go", model=MODEL)
        assert (run["status"], actions(run)) == ("succeeded", [("r0", action)])
        assert run["steps"][0]["error"] is None
        assert (await hive.replay("last")).ok


async def test_a_third_equal_call_ends_its_turn_without_a_call(tools):
    async with house(tools, ECHO, ECHO, ECHO) as hive:
        run = await hive.run("go", model=MODEL)
        assert run["error"]["code"] == "repeated_call"
        assert actions(run)[-1] == ("r2", "finish")
        assert [each for _, each in actions(run)[:-1]] == ["tool_call", "tool_call"]
        assert (await hive.replay("last")).ok


async def test_a_turn_whose_calls_were_made_does_not_finish_too(tools):
    refused = [calling("test.none", {"n": n}) for n in range(3)]
    async with house(tools, *refused) as hive:
        run = await hive.run("go", model=MODEL)
        assert run["error"]["code"] == "too_many_refusals"
        assert [each for _, each in actions(run)] == ["tool_call"] * 3


async def test_a_pause_is_no_end_of_a_step(tools):
    pause = LlmResponse((ProviderBlock("scripted", {"type": "search"}),), "pause_turn")
    async with house(tools, pause, "done") as hive:
        assert actions(await hive.run("go", model=MODEL)) == [("r1", "respond")]


@pytest.mark.promise("P-203")
async def test_a_planned_step_that_makes_no_call_finishes(tools, define):
    steps = [
        {"name": "bad", "tool": "test.fail"},
        {"name": "after", "tool": "test.echo", "needs": ["bad"]},
        {"name": "lost", "tool": "test.echo", "when": "always", "input": {"a": "${item.x}"}},
        {"name": "good", "tool": "test.echo", "when": "always"},
    ]
    async with house(tools) as hive:
        define(hive, *steps)
        run = await hive.run(task="job")
        found = {each["label"]: (each["action"], each["status"]) for each in run["steps"]}
        assert found == {
            "bad": ("tool_call", "failed"),
            "after": ("finish", "skipped"),
            "lost": ("finish", "failed"),
            "good": ("tool_call", "succeeded"),
        }
        assert (await hive.replay("last")).ok


async def test_a_run_that_goes_on_ends_each_turn_once(appending):
    keep = calling("test.keep", {"path": "a"})
    async with house(appending, keep, LlmResponse((), "refusal")) as hive:
        assert (await hive.run("go", model=MODEL))["status"] == "waiting_approval"
        hive.approvals.resolve("last", "approve", by="user:ana")
        run = await hive.resume("last")
        assert actions(run) == [("r0.0", "tool_call"), ("r1", "finish")]
        assert (await hive.replay("last")).ok


@pytest.mark.promise("P-204")
@pytest.mark.parametrize("given", ["{bad", [1], {"n": float("nan")}])
async def test_a_call_whose_arguments_cannot_be_used_is_told_repeats_and_goes_on(appending, given):
    wrong = LlmResponse(
        (ToolCall("c1", "test.echo", given), ToolCall("c2", "test.keep", {"path": "a"})), "tool_use"
    )
    async with house(appending, wrong, "done") as hive:
        assert (await hive.run("go", model=MODEL))["status"] == "waiting_approval"
        hive.approvals.resolve("last", "approve", by="user:ana")
        run = await hive.resume("last")
        assert [each["status"] for each in run["steps"]] == ["failed", "succeeded", "succeeded"]
        assert run["steps"][0]["error"]["code"] == "invalid_input"
        assert (await hive.replay(run["run_id"])).ok
        assert (await hive.replay(run["run_id"], "model")).new_run_id is not None


async def test_the_page_of_a_run_shows_plans_and_steps_that_made_no_call(tools, define):
    async with house(tools) as hive:
        define(hive, {"name": "bad", "tool": "test.fail"}, {"name": "after", "tool": "test.echo"})
        run = await hive.run(task="job")
        await hive.log.flush()
        items = timeline_items(hive.log, hive.log.events(run_id=run["run_id"]))
        found = [(each.name, each.status) for each in items]
    assert found == [
        ("plan of procedure", "succeeded"),
        ("test.fail", "failed"),
        ("tool.test.echo after", "skipped"),
    ]
