"""Plans: references, needs, for_each, when, and what cannot run."""

import anyio
import pytest

from clawhive_core.errors import RunError
from clawhive_core.model.runs import Plan, PlannedStep
from clawhive_core.runs.plans.steps import check_plan
from clawhive_core.testing import memory_hive


def echo(name, **more):
    return {"name": name, "tool": "test.echo", "input": {"said": name}, **more}


def statuses(run):
    return {step["label"]: step["status"] for step in run["steps"]}


async def test_a_step_gets_what_an_earlier_one_answered(tools, define):
    async with memory_hive(providers=[tools]) as hive:
        define(
            hive,
            echo("first", input={"text": "${input.text}", "n": 3}),
            echo("second", input={"again": "${steps.first.output.n}", "as": "n=${input.text}!"}),
            output="${steps.second.output}",
        )
        run = await hive.run(task="job", input={"text": "hi"})
    assert run["output"] == {"again": 3, "as": "n=hi!"}
    assert run["status"] == "succeeded"
    assert [step["name"] for step in run["steps"]] == ["tool.test.echo"] * 2
    assert [step["label"] for step in run["steps"]] == ["first", "second"]


async def test_for_each_runs_a_step_once_an_item_in_order(tools, define):
    async with memory_hive(providers=[tools]) as hive:
        define(
            hive,
            echo("each", for_each="${input.items}", input={"url": "${item.url}"}),
            output="${steps.each.output}",
        )
        run = await hive.run(task="job", input={"items": [{"url": "a"}, {"url": "b"}]})
    assert run["output"] == [{"url": "a"}, {"url": "b"}]
    assert [step["step_id"].rpartition("/")[2] for step in run["steps"]] == ["each.0", "each.1"]


async def test_for_each_over_nothing_succeeds_with_an_empty_list(tools, define):
    async with memory_hive(providers=[tools]) as hive:
        define(hive, echo("each", for_each="${input.items}"), output="${steps.each.output}")
        run = await hive.run(task="job", input={"items": []})
    assert (run["status"], run["output"], tools.calls) == ("succeeded", [], [])


async def test_for_each_over_what_is_no_list_fails_the_step(tools, define):
    async with memory_hive(providers=[tools]) as hive:
        define(hive, echo("each", for_each="${input.items}"))
        run = await hive.run(task="job", input={"items": "ab"})
    assert run["error"]["code"] == "invalid_plan"
    assert run["error"]["step"] == "each"
    assert tools.calls == []


async def test_one_failing_item_fails_the_step_and_keeps_the_other_answers(tools, define):
    def odd(input, ctx):
        if input["n"] % 2:
            raise ValueError(f"{input['n']} is odd")
        return input["n"]

    tools.add("test.odd", odd)
    async with memory_hive(providers=[tools]) as hive:
        define(
            hive,
            {
                "name": "each",
                "tool": "test.odd",
                "for_each": "${input.items}",
                "input": {"n": "${item}"},
            },
            output="${steps.each.output}",
        )
        run = await hive.run(task="job", input={"items": [2, 3, 4]})
    assert run["status"] == "failed"
    assert (run["output"][0], run["output"][2]) == (2, 4)
    assert "3 is odd" in run["error"]["message"]


async def test_after_a_failure_the_next_steps_are_skipped_but_those_that_always_run(tools, define):
    async with memory_hive(providers=[tools]) as hive:
        define(
            hive,
            {"name": "broken", "tool": "test.fail"},
            echo("after"),
            echo("cleanup", when="always"),
        )
        run = await hive.run(task="job")
    assert statuses(run) == {"broken": "failed", "after": "skipped", "cleanup": "succeeded"}
    assert run["status"] == "failed"
    assert run["error"] == {"code": "tool_failed", "message": "it broke", "step": "broken"}


@pytest.mark.parametrize(("flag", "status"), [(True, "succeeded"), (False, "skipped")])
async def test_when_decides_whether_a_step_runs(tools, define, flag, status):
    async with memory_hive(providers=[tools]) as hive:
        define(hive, echo("maybe", when="${input.flag}"))
        run = await hive.run(task="job", input={"flag": flag})
    assert statuses(run) == {"maybe": status}
    assert run["status"] == "succeeded"


async def test_steps_that_need_nothing_run_side_by_side(tools, define):
    both = []
    met = anyio.Event()

    async def meet(input, ctx):
        both.append(input["said"])
        if len(both) == 2:
            met.set()
        await met.wait()
        return "met"

    tools.add("test.meet", meet, timeout_ms=300_000)
    async with memory_hive(providers=[tools]) as hive:
        define(hive, *(echo(name, tool="test.meet", needs=[]) for name in ("one", "two")))
        run = await hive.run(task="job")
    assert run["status"] == "succeeded"
    assert sorted(both) == ["one", "two"]


async def test_a_reference_to_a_later_step_is_a_need(tools, define):
    async with memory_hive(providers=[tools]) as hive:
        define(
            hive,
            echo("uses", input={"x": "${steps.makes.output.said}"}, needs=[]),
            echo("makes", needs=[]),
            output="${steps.uses.output.x}",
        )
        run = await hive.run(task="job")
    assert run["output"] == "makes"


async def test_an_unresolved_reference_fails_its_step_and_names_it(tools, define):
    async with memory_hive(providers=[tools]) as hive:
        define(hive, echo("bad", input={"x": {"deep": "${input.nope.deeper}"}}))
        run = await hive.run(task="job")
    assert run["error"]["code"] == "unresolved_reference"
    assert "${input.nope.deeper}" in run["error"]["message"]
    assert tools.calls == []


async def test_an_optional_input_that_was_not_given_is_left_out(tools, define):
    async with memory_hive(providers=[tools]) as hive:
        define(hive, echo("some", input={"a": "${input.a}", "b": 1}))
        await hive.run(task="job")
    assert tools.calls == [("test.echo", {"b": 1})]


async def test_a_tool_that_is_not_there_is_a_failed_step_with_suggestions(tools, define):
    async with memory_hive(providers=[tools]) as hive:
        define(hive, {"name": "typo", "tool": "test.eccho"})
        run = await hive.run(task="job")
    assert run["error"]["code"] == "tool_not_found"
    assert run["error"]["next"]["suggestions"][0] == "test.echo"
    assert run["steps"][0]["invocations"][0]["status"] == "refused"


async def test_more_steps_than_run_at_once_all_end(tools, define):
    async with memory_hive(providers=[tools]) as hive:
        define(hive, *(echo(f"s{number}", needs=[]) for number in range(40)))
        run = await hive.run(task="job")
    assert len(run["steps"]) == 40
    assert run["status"] == "succeeded"


async def test_a_cyclic_plan_fails_before_anything_ran_and_shows_the_cycle(tools, define):
    async with memory_hive(providers=[tools]) as hive:
        define(hive, echo("a", needs=["b"]), echo("b", needs=["a"]))
        run = await hive.run(task="job")
    assert run["error"]["code"] == "invalid_plan"
    assert "a -> b" in run["error"]["message"] or "b -> a" in run["error"]["message"]
    assert tools.calls == []


def plan(*steps):
    return Plan("test", tuple(steps))


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        (plan(PlannedStep("a", "t"), PlannedStep("a", "t")), "two steps are named `a`"),
        (plan(PlannedStep("a", "t", needs=("z",))), "needs `z`"),
        (plan(PlannedStep("a", "t", {"x": "${steps.z.output}"})), "needs `z`"),
        (plan(PlannedStep("a", "t", for_each="${steps.a.output}")), "a -> a"),
        (plan(PlannedStep("a.0", "t")), "`a.0` is no name"),
        (plan(PlannedStep("", "t")), "`` is no name"),
    ],
)
def test_a_plan_that_cannot_run_is_refused_with_the_reason(bad, says):
    with pytest.raises(RunError) as caught:
        check_plan(bad)
    assert caught.value.code == "invalid_plan"
    assert says in caught.value.message


@pytest.mark.promise("P-266")
async def test_an_output_that_names_nothing_fails_the_run_and_says_which(tools, define):
    async with memory_hive(providers=[tools]) as hive:
        echo = {"name": "a", "tool": "test.echo", "input": {"n": 1}}
        define(hive, echo, output={"n": "${steps.a.output.n}", "m": "${steps.a.output.m}"})
        run = await hive.run(task="job")
        assert (run["status"], run["output"]) == ("failed", None)
        assert run["error"]["code"] == "unresolved_reference"
        assert "`${steps.a.output.m}` names nothing" in run["error"]["message"]
        assert (await hive.replay("last")).ok
