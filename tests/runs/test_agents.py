"""An agent's list of tools: outside it nothing is offered, and the door knows nothing."""

from pathlib import Path

import pytest

from clawhive_core.errors import CapabilityError, UsageError
from clawhive_core.model.refusal import Refusal
from clawhive_core.model.runs import Plan, PlannedStep
from clawhive_core.runs.requests import RunOptions
from clawhive_core.skills.contracts.skill import Skill, TaskType
from clawhive_core.testing import memory_hive
from tests.harness import Provider, echo

FLAGS = {"agents.reader.allow": ["demo.read", "web.*"]}


def provider():
    found = Provider()
    for name in ("demo.read", "demo.write", "demo.listed"):
        found.offer(name, echo)
    return found


def hive(**flags):
    return memory_hive(providers=[provider()], settings={**FLAGS, **flags})


@pytest.mark.promise("P-098")
async def test_a_tool_outside_the_list_is_unknown_to_the_agent_and_not_offered():
    async with hive() as house:
        reader = house._requests.prompt("x", RunOptions(model="scripted:demo", agent="reader"))
        names = {each.name for each in reader.offer.tools}
        assert "demo.read" in names
        assert not {"demo.write", "demo.listed"} & names
        async with house.session("agent:reader") as session:
            assert not isinstance(await session.invoke("demo.read", {}), Refusal)
            refused = await session.invoke("demo.write", {})
            unknown = await session.invoke("demo.writ", {})
        assert refused.error == unknown.error == "tool_not_found"
        assert "demo.write" not in str(unknown.to_dict())
        async with house.session("agent:default") as session:
            assert not isinstance(await session.invoke("demo.write", {}), Refusal)


@pytest.mark.promise("P-125")
async def test_a_resumed_run_of_an_agent_keeps_its_list_and_its_rights():
    found = Provider()
    for name, more in (("demo.write", {"risk": "guarded"}), ("demo.read", {}), ("demo.other", {})):
        found.offer(name, echo, **more)

    class Planner:
        name, replans = "procedure", False

        async def plan(self, task, ctx):
            names = ("demo.write", "demo.read", "demo.other")
            steps = [PlannedStep(each[5:], each, needs=(), when="always") for each in names]
            return Plan("procedure", tuple(steps))

    flags = {"agents.reader.allow": ["demo.write", "demo.read"]}
    async with memory_hive(providers=[found], settings=flags) as house:
        house._orchestrator.planners = {"procedure": Planner()}
        task = TaskType("job", "A job.", {"type": "object"}, ())
        house.skills.append(Skill("test", "1.0.0", Path(), "test", tasks={"job": task}))
        options = RunOptions(agent="reader", grants=["tool.call:demo.read"])
        run = await house.run(task="job", options=options)
        assert run["status"] == "waiting_approval"
        before = rights_of(house, run["task_id"])
        (waiting,) = house.approvals.pending()
        assert waiting.principal == "agent:reader"
        house.approvals.resolve(waiting.approval_id, "approve", by="user:ana")
        run = await house.resume("last")
        assert rights_of(house, run["task_id"]) == before
        sql = "SELECT tool, principal, status FROM v_invocations ORDER BY seq"
        rows = [tuple(row) for row in house.log.read(sql)]
    ended = {each["label"]: each["status"] for each in run["steps"]}
    assert ended == {"write": "succeeded", "read": "succeeded", "other": "failed"}
    assert run["error"]["code"] == "tool_not_found"
    assert {principal for _, principal, _ in rows} == {"agent:reader"}
    assert [name for name, _ in found.calls] == ["demo.read", "demo.write"]


def rights_of(house, task_id):
    sql = "SELECT grant_id, capability, subject, issuer FROM v_grants WHERE scope_id = ?"
    rows = [tuple(row) for row in house.log.read(f"{sql} ORDER BY grant_id", (task_id,))]
    assert {subject for _, _, subject, _ in rows} == {"agent:reader"}
    return rows


async def test_an_unknown_agent_is_refused_with_those_that_there_are():
    async with hive() as house:
        with pytest.raises(UsageError) as caught:
            await house.run("x", options=RunOptions(model="scripted:demo", agent="nobody"))
    assert "reader" in caught.value.message
    assert "[agents.nobody]" in caught.value.fix


async def test_a_name_that_none_can_be_is_refused_when_the_agent_runs():
    async with hive(**{"agents.reader.allow": ["de*"]}) as house:
        with pytest.raises(CapabilityError):
            await house.run("x", options=RunOptions(model="scripted:demo", agent="reader"))


async def test_runs_of_one_revision_are_offered_the_same_list_until_a_tool_is_added():
    async with hive() as house:

        def tools(agent):
            options = RunOptions(model="scripted:demo", agent=agent)
            return house._requests.prompt("x", options).offer.tools

        first = tools("reader")
        assert tools("reader") is first
        assert tools(None) is not first
        more = Provider("more")
        more.offer("web.look", echo)
        await house.catalog.add(more)
        names = [each.name for each in tools("reader")]
        assert names == [*(each.name for each in first), "web.look"]
