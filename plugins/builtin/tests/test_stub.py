import pytest

from clawhive_builtin.stub import SEARCH, StubProvider
from clawhive_core import ToolError


@pytest.mark.parametrize("query", ["logging", "a b & c=d/é", "\ud800", "x" * 5000])
async def test_every_result_has_the_shape_of_a_search_and_is_marked(call, query):
    from jsonschema_rs import validator_for

    result = await StubProvider().invoke("web.search", {"query": query}, call)
    validator_for(SEARCH.output_schema).validate(result.structured)
    assert len(result.structured["items"]) == 3
    for item in result.structured["items"]:
        assert item["provider"] == "stub"
        assert "stub" in item["title"]
        assert "stub" in item["snippet"]
        assert item["url"].isascii()


async def test_the_same_query_has_the_same_results_and_a_limit_counts(call):
    provider = StubProvider()
    one = await provider.invoke("web.search", {"query": "q", "limit": 2}, call)
    assert one == await provider.invoke("web.search", {"query": "q", "limit": 2}, call)
    assert len(one.structured["items"]) == 2


async def test_it_offers_one_safe_tool_and_no_other(call):
    (tool,) = await StubProvider().list_tools()
    assert (tool.name, tool.provider_id, tool.risk) == ("web.search", "stub", "safe")
    with pytest.raises(ToolError) as caught:
        await StubProvider().invoke("web.fetch", {}, call)
    assert caught.value.code == "tool_not_found"
