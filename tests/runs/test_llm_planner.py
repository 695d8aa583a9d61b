"""The planner `llm`: plans by a model, run side by side, made anew where steps fail."""

import json

import anyio
import pytest

from clawhive_core import ToolResult
from clawhive_core.errors import UsageError
from clawhive_core.model.messages import LlmResponse, TextBlock, Usage
from clawhive_core.model.runs import Plan, PlannedStep
from clawhive_core.runs.plans.planners import LlmPlanner
from clawhive_core.testing import ScriptedModel, memory_hive


def plan(*steps):
    return json.dumps({"steps": list(steps)})


def step(name, tool="test.echo", needs=(), **given):
    return {"name": name, "tool": tool, "input": given, "needs": list(needs)}


def house(tools, *script, **settings):
    model = ScriptedModel(script)
    found = memory_hive(providers=[tools], adapters=[model], settings=settings)
    found.model = model
    return found


async def run(hive, prompt="do it", **more):
    return await hive.run(prompt, model="scripted:x", planner="llm", **more)


@pytest.mark.promise("P-157")
async def test_a_model_plans_and_what_needs_nothing_of_each_other_runs_side_by_side(tools):
    both, met = [], anyio.Event()

    async def meet(given, ctx):
        both.append(given["n"])
        if len(both) == 2:
            met.set()
        await met.wait()
        return {"n": given["n"]}

    tools.add("test.meet", meet)
    script = plan(
        step("a", "test.meet", n=1),
        step("b", "test.meet", n=2),
        step("sum", needs=["a"], first="${steps.a.output.n}", second="${steps.b.output.n}"),
    )
    opening = house(tools, script, "it is 3")
    async with opening as hive:
        done = await run(hive)
        assert (done["status"], done["output"]) == ("succeeded", "it is 3")
        assert tools.calls[-1] == ("test.echo", {"first": 1, "second": 2})
        first, last = opening.model.requests
        assert first.response_schema is not None
        assert first.tools == last.tools == ()
        assert r"{\"first\":1,\"second\":2}" in last.messages[-1].content[0].text
        assert [message.role for message in last.messages] == ["user", "assistant", "user"]
        assert (await hive.replay("last")).ok
    assert sorted(both) == [1, 2]


@pytest.mark.promise("P-158")
async def test_a_failed_step_is_planned_anew_and_what_succeeded_is_kept(tools):
    opening = house(
        tools,
        plan(step("good", n=1), step("bad", "test.fail"), step("after", needs=["bad"])),
        plan(step("bad", n="${steps.good.output.n}"), step("good", n=9)),
        "done",
    )
    async with opening as hive:
        done = await run(hive)
        assert (done["status"], done["output"]) == ("succeeded", "done")
        assert tools.calls == [
            ("test.echo", {"n": 1}),
            ("test.fail", {}),
            ("test.echo", {"n": 1}),
        ]
        asked = opening.model.requests[1].messages[-1].content[0].text
        assert '"tool":"test.fail"' in opening.model.requests[1].messages[1].content[0].text
        assert '{"error":"tool_failed","step":"bad"}' in asked
        assert '{"output":"{\\"n\\":1}","step":"good"}' in asked
        assert (await hive.replay("last")).ok


async def test_planning_anew_is_bounded_and_the_run_fails_with_what_is_known(tools):
    opening = house(tools, *[plan(step("bad", "test.fail"))] * 3, "it did not work")
    async with opening as hive:
        done = await run(hive)
        assert (done["status"], done["output"]) == ("failed", "it did not work")
        assert done["error"]["code"] == "tool_failed"
        assert len(tools.calls) == 3
        assert (await hive.replay("last")).ok


@pytest.mark.parametrize(
    ("bad", "told"),
    [
        ("no json", "not JSON"),
        ("[1]", "no list `steps`"),
        ('{"steps": [1]}', "no object"),
        ('{"steps": [{"name": "a"}]}', "lacks"),
        (plan({"name": "a", "tool": "test.echo", "input": []}), "no object"),
        (plan({"name": "a", "tool": "test.echo", "input": {}, "needs": "b"}), "no list"),
        (plan(step("a", "test.nothing")), "test.nothing"),
        (plan(step("a"), step("a")), "two steps"),
        (plan(step("a b")), "no name"),
        (plan(step("a", needs=["z"])), "no step"),
        (plan(step("a", needs=["b"]), step("b", needs=["a"])), "a cycle: a -> b -> a"),
        (plan(*(step(f"s{n}") for n in range(51))), "51 steps"),
        ("[" * 100_000, "nested too deep"),
        (plan(step("a", n="DEEP")).replace('"DEEP"', "[" * 900 + "]" * 900), "100 levels"),
        (plan(step("a", n="DEEP")).replace('"DEEP"', "[" * 100 + "]" * 100), "100 levels"),
        ("", "not JSON"),
        (LlmResponse(()), "not JSON"),
    ],
)
async def test_a_bad_plan_is_shown_to_the_model_once_and_a_good_one_counts(tools, bad, told):
    opening = house(tools, bad, f"```json\n{plan(step('a'))}\n```", "done")
    async with opening as hive:
        assert (await run(hive))["output"] == "done"
        corrected = opening.model.requests[1].messages
        assert told in corrected[-1].content[-1].text
        assert all(message.content for message in corrected)
        assert (await hive.replay("last")).ok
    async with house(tools, bad, bad) as hive:
        done = await run(hive)
        assert done["error"]["code"] == "cannot_plan"
        assert told in done["error"]["message"]
        assert (await hive.replay("last")).ok


async def test_two_bad_plans_end_the_run_with_what_was_wrong_with_either(tools):
    many = plan(*(step(f"s{n}") for n in range(51)))
    async with house(tools, many, "[" * 100_000) as hive:
        done = await run(hive)
        assert (done["status"], done["error"]["code"]) == ("failed", "cannot_plan")
        assert "51 steps, and 50 are the most" in done["error"]["message"]
        assert "nested too deep" in done["error"]["message"]
        assert (await hive.replay("last")).ok


async def test_no_steps_lead_straight_to_the_answer(tools):
    async with house(tools, plan(), "nothing to do") as hive:
        done = await run(hive)
        assert (done["output"], tools.calls) == ("nothing to do", [])


@pytest.mark.promise("P-159")
async def test_a_step_of_a_plan_that_must_ask_parks_and_the_plan_goes_on(appending):
    steps = plan(step("note", "test.note", path="b"), step("keep", "test.keep", path="a"))
    opening = house(appending, steps, "kept")
    async with opening as hive:
        assert (await run(hive))["status"] == "waiting_approval"
        hive.approvals.resolve("last", "approve", by="user:ana")
        done = await hive.resume("last")
        assert (done["output"], len(appending.calls)) == ("kept", 2)
        assert (await hive.replay("last")).ok


async def test_what_the_model_used_for_planning_counts(tools):
    planned = LlmResponse((TextBlock(plan()),), usage=Usage(3, 4))
    answered = LlmResponse((TextBlock("x"),), usage=Usage(10, 20))
    async with house(tools, planned, answered) as hive:
        used = (await run(hive))["usage"]
        assert (used["input_tokens"], used["output_tokens"]) == (13, 24)


async def test_a_planner_that_is_not_there_is_refused_before_a_run_starts(tools):
    async with house(tools) as hive:
        with pytest.raises(UsageError) as caught:
            await hive.run("x", model="scripted:x", planner="guess")
        assert caught.value.fix == "there are: code, llm, procedure, react"
        assert hive.log.read("SELECT 1 FROM v_runs") == []


async def test_the_configuration_names_the_planner_an_agent_its_own_and_the_user_another(tools):
    settings = {"model.planner": "llm", "agents.quick.planner": "react"}
    async with house(tools, plan(), "a", "b", "c", **settings) as hive:
        for more in ({}, {"agent": "quick"}, {"planner": "react"}):
            await hive.run("x", model="scripted:x", **more)
        await hive.log.flush()
        starts = [each.event.body for each in hive.log.events() if each.event.kind == "run.start"]
        assert [body["planner"] for body in starts] == ["llm", "react", "react"]


async def test_what_steps_say_grounds_no_destination_of_the_next_plan(tools):
    tools.add("test.send", lambda given, ctx: "sent", risk="guarded", sinks=("to:recipient",))
    tools.add("test.read", lambda given, ctx: ToolResult("", "eve@x.org"))
    steps = plan(step("page", "test.read"), step("send", "test.send", to="${steps.page.output}"))
    script = [steps, plan(step("send", "test.send", to="eve@x.org")), plan(), "refused"]
    async with house(tools, *script, **{"policy.allow": ["tool.call:**"]}) as hive:
        done = await run(hive, approve="deny")
        assert done["output"] == "refused"
        assert [name for name, _ in tools.calls] == ["test.read"]


async def test_an_agent_may_be_a_step(tools):
    settings = {"agents.helper.description": "Helps.", "agents.helper.planner": "react"}
    script = [plan(step("ask", "agent.helper", task="look")), "looked", "it looked"]
    async with house(tools, *script, **settings) as hive:
        done = await run(hive, grants=("agent.spawn:helper",))
        assert done["output"] == "it looked"
        assert (await hive.replay(done["run_id"])).ok


def test_the_planner_is_one():
    from clawhive_core import Planner

    planner: Planner = LlmPlanner()
    assert (planner.name, planner.replans) == ("llm", True)


async def test_a_plan_goes_on_with_what_was_said_in_the_conversation_before(tools):
    opening = house(tools, "I am Ana", plan(), "you asked who I am", "still Ana")
    async with opening as hive:
        await hive.run("who are you?", model="scripted:x", session="conv_1")
        await run(hive, "what did I ask?", session="conv_1")
        for request in opening.model.requests[1:]:
            assert request.messages[1].content[0].text == "I am Ana"
        await hive.run("again?", model="scripted:x", session="conv_1")
        texts = [each.content[0].text for each in opening.model.requests[-1].messages]
        assert texts[-2:] == ["you asked who I am", "again?"]
        assert (await hive.replay("last")).ok


def said(request):
    return [(each.role, LlmResponse(each.content).text) for each in request.messages]


@pytest.mark.promise("P-194")
@pytest.mark.parametrize("bad", [(), ("no plan",)])
async def test_what_a_planner_asked_is_no_part_of_the_conversation_that_goes_on(appending, bad):
    planned = plan(step("r0", "test.keep", path="a"))
    opening = house(appending, *bad, planned, "it is kept", "yes")
    async with opening as hive:
        await run(hive, "keep it", session="conv_1")
        hive.approvals.resolve("last", "approve", by="user:ana")
        assert (await hive.resume("last"))["output"] == "it is kept"
        assert (await hive.replay("last")).ok
        await hive.run("did you?", model="scripted:x", session="conv_1")
        (first, report), (second, answer), (third, asked) = said(opening.model.requests[-1])
        assert (first, second, third) == ("user", "assistant", "user")
        assert report.startswith("keep it# What was done")
        assert (answer, asked) == ("it is kept", "did you?")
        assert (await hive.replay("last")).ok


async def test_a_step_named_as_a_turn_is_shown_beside_the_answer(tools):
    async with house(tools, plan(step("r0")), "done") as hive:
        done = await run(hive)
        shown = [(each["step_id"].partition("/")[2], each["action"]) for each in done["steps"]]
        assert shown == [("p0.r0", "tool_call"), ("r0", "respond")]


async def test_an_output_that_no_turn_said_is_what_the_conversation_goes_on_with(tools):
    class Direct:
        name = "direct"
        replans = False

        async def plan(self, task, ctx):
            steps = (PlannedStep("echo", "test.echo", {"n": 1}),)
            return Plan(self.name, steps, "${steps.echo.output}")

    opening = house(tools, "I echoed it", "again")
    async with opening as hive:
        hive._orchestrator.planners["direct"] = Direct()
        for planner in ("react", "direct", "react"):
            await hive.run(f"{planner}?", model="scripted:x", session="conv_1", planner=planner)
        assert (await hive.replay("last")).ok
        assert said(opening.model.requests[-1]) == [
            ("user", "react?"),
            ("assistant", "I echoed it"),
            ("user", "direct?"),
            ("assistant", '{"n":1}'),
            ("user", "react?"),
        ]


async def test_a_long_conversation_of_plans_goes_on(tools):
    failing = plan(step("bad", "test.fail"))
    turns = ["hello", *[failing, plan(step("a")), "done"] * 3, "at the end"]
    opening = house(tools, *turns)
    async with opening as hive:
        await hive.run("hi", model="scripted:x", session="conv_1")
        for number in range(3):
            await run(hive, f"{number}?", session="conv_1")
            assert (await hive.replay("last")).ok
        await hive.run("so?", model="scripted:x", session="conv_1")
        found = said(opening.model.requests[-1])
    assert [role for role, _ in found] == ["user", "assistant"] * 4 + ["user"]
    assert [text for role, text in found if role == "assistant"] == ["hello", *["done"] * 3]
    asked = [text.partition("#")[0] for role, text in found if role == "user"]
    assert asked == ["hi", "0?", "1?", "2?", "so?"]
