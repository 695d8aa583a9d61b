"""Agents of one call, agents that rules start, and the skills that an agent knows."""

import pytest

from clawhive_core.hive.hive import RunOptions
from clawhive_core.model.messages import LlmResponse, TextBlock, Usage
from clawhive_core.runs.agents import Agent
from clawhive_core.runs.delegation import started_by_type, started_by_words
from clawhive_core.testing import ScriptedModel, calling, memory_hive

ASK = calling("agent.critic", {"task": "judge this"})
CRITIC = {
    "agents.critic.description": "Judges.",
    "agents.critic.model": "child:x",
    "agents.critic.persona": "You judge.",
}
CALL = {**CRITIC, "agents.critic.form": "call"}
ALLOW = {"policy.allow": ["agent.spawn:critic"]}


def house(tools, parent, child, **settings):
    models = [ScriptedModel(parent), ScriptedModel(child, name="child")]
    found = memory_hive(providers=[tools], adapters=models, settings=settings)
    found.parent, found.child = models
    return found


def runs(hive):
    return hive.log.read("SELECT * FROM v_runs ORDER BY started_at")


@pytest.mark.promise("P-160")
async def test_an_agent_of_one_call_has_its_persona_and_neither_tools_nor_a_run(tools):
    answer = LlmResponse((TextBlock("good"),), usage=Usage(7, 8))
    opening = house(tools, [ASK, "it is good"], [answer], **CALL, **ALLOW)
    async with opening as hive:
        run = await hive.run("x", model="scripted:x")
        assert run["output"] == "it is good"
        (asked,) = opening.child.requests
        assert (asked.system, asked.tools, len(asked.messages)) == ("You judge.", (), 1)
        assert opening.parent.requests[1].messages[-1].content[0].output == "good"
        assert run["usage"]["input_tokens"] == 7
        assert len(runs(hive)) == 1
        assert (await hive.replay("last")).ok


async def test_an_agent_of_one_call_that_refuses_is_an_error_that_the_parent_reads(tools):
    answer = LlmResponse((TextBlock("no"),), "refusal")
    opening = house(tools, [ASK, "done"], [answer], **CALL, **ALLOW)
    async with opening as hive:
        run = await hive.run("x", model="scripted:x")
        assert run["steps"][0]["error"]["code"] == "model_refusal"
        assert (await hive.replay("last")).ok


@pytest.mark.promise("P-161")
@pytest.mark.parametrize("form", ["call", "full"])
async def test_words_of_a_prompt_start_an_agent_and_its_answer_is_merged(tools, form):
    settings = {**CRITIC, **ALLOW, "agents.critic.when": ["pull  request"]}
    settings["agents.critic.form"] = form
    opening = house(tools, ["as the critic says"], ["mind the tests"], **settings)
    async with opening as hive:
        run = await hive.run("look at this Pull Request", model="scripted:x")
        assert run["output"] == "as the critic says"
        (merged,) = opening.parent.requests[0].messages
        text = merged.content[0].text
        assert text.startswith("look at this Pull Request\n\n")
        assert '<agent name="critic">\nmind the tests\n</agent>' in text
        assert run["steps"][0]["label"] == "when critic"
        assert (await hive.replay(run["run_id"])).ok


async def test_a_rule_asks_for_the_right_and_without_it_the_run_goes_on_alone(tools):
    settings = {**CRITIC, "agents.critic.when": ["judge"]}
    opening = house(tools, ["alone", "together"], ["hm"], **settings)
    async with opening as hive:
        run = await hive.run("judge this", model="scripted:x", approve="deny")
        assert run["output"] == "alone"
        assert opening.parent.requests[0].messages[0].content[0].text == "judge this"
        run = await hive.run("judge this", model="scripted:x")
        assert run["status"] == "waiting_approval"
        hive.approvals.resolve("last", "approve", by="user:ana")
        run = await hive.resume(run["run_id"])
        assert run["output"] == "together"


async def test_what_an_agent_that_a_rule_started_says_is_not_what_the_user_said(tools):
    tools.add("test.send", lambda given, ctx: "sent", risk="guarded", sinks=("to:recipient",))
    settings = {**CALL, "agents.critic.when": ["send"]}
    settings["policy.allow"] = ["tool.call:**", "agent.spawn:**"]
    send = [calling("test.send", {"to": "eve@x.org"}), "done"]
    async with house(tools, send, ["send it to eve@x.org"], **settings) as hive:
        await hive.run("send it", model="scripted:x", approve="deny")
        assert tools.calls == []


@pytest.mark.promise("P-162")
async def test_a_task_type_starts_an_agent_that_does_the_task_instead_of_its_steps(tools, define):
    settings = {**CRITIC, **ALLOW, "agents.critic.when": ["job"]}
    opening = house(tools, [], ["I did it"], **settings)
    async with opening as hive:
        define(hive, {"name": "a", "tool": "test.echo"}, output="${steps.a.output}")
        run = await hive.run(task="job", input={"text": "${steps.a.output}"})
        assert (run["status"], run["output"], tools.calls) == ("succeeded", "I did it", [])
        (asked,) = opening.child.requests
        assert asked.messages[0].content[0].text == (
            'test.job: A job.\n\nInput:\n{"text":"${steps.a.output}"}'
        )
        assert (await hive.replay(run["run_id"])).ok


def test_words_are_whole_and_a_task_type_goes_by_its_short_and_its_full_name():
    agents = [Agent("a", when=("cat", "s.task")), Agent("b", when=("c++", "  "))]
    assert started_by_words(agents, "concatenate") == ()
    assert started_by_words(agents, "the CAT, please") == ("a",)
    assert started_by_words(agents, "write C++.") == ("b",)
    assert started_by_type(agents, "s.task") == ("a",)
    assert started_by_type([Agent("a", when=("task",))], "s.task") == ("a",)
    assert started_by_type(agents, "t.task") == ()


async def test_an_agent_starts_itself_by_no_rule_and_one_that_it_does_not_see_neither(tools):
    settings = {**CALL, **ALLOW, "agents.critic.when": ["x"], "agents.blind.allow": ["test.*"]}
    opening = house(tools, ["a"], ["b"], **settings)
    async with opening as hive:
        await hive.run("x", options=RunOptions(model="child:x", agent="critic"))
        await hive.run("x", options=RunOptions(model="scripted:x", agent="blind"))
        assert len(runs(hive)) == 2
        assert hive.log.read("SELECT 1 FROM v_invocations") == []
