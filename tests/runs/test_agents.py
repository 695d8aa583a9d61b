"""An agent's list of tools: outside it nothing is offered, and the door knows nothing."""

import pytest

from clawhive_core.errors import CapabilityError, UsageError
from clawhive_core.model.refusal import Refusal
from clawhive_core.runs.requests import RunOptions
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
        names = {each.name for each in reader.tools}
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
