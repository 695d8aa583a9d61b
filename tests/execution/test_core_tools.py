"""The core's own tools go through the door as every other provider's do."""

import pytest

from clawhive_core.execution.core_tools import CoreProvider, CoreTool
from tests.harness import tool_meta


@pytest.fixture
async def house(house):
    async def shout(input, ctx):
        return input["text"].upper()

    async def count(input, ctx):
        return {"words": len(input["text"].split()), "call": ctx.tool_call_id}

    functions = {"shout": shout, "count": count}
    tools = [CoreTool(tool_meta(name, "core"), run) for name, run in functions.items()]
    house.tools = CoreProvider(tools)
    await house.catalog.add(house.tools)
    return house


async def test_a_text_is_its_output_as_it_is(house):
    result = await house.call("shout", {"text": "a \u00fc"})
    assert (result.output, result.structured) == ("A \u00dc", "A \u00dc")


async def test_any_other_value_is_structured_and_shown_as_canonical_json(house):
    result = await house.call("count", {"text": "a b"})
    assert result.structured == {"words": 2, "call": "call_1"}
    assert result.output == '{"call":"call_1","words":2}'


async def test_each_has_its_definition_and_nothing_else_is_there(house):
    assert [meta.name for meta in await house.tools.list_tools()] == ["shout", "count"]
    with pytest.raises(Exception, match="no tool `read`") as caught:
        await house.tools.invoke("read", {}, None)
    assert caught.value.code == "tool_not_found"
    await house.tools.close()
