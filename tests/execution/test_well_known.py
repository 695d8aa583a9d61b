"""Whoever serves a well-known name answers in one shape."""

import pytest

from clawhive_core.model.tools import ToolResult
from tests.harness import House

ITEM = {"title": "", "url": "https://a.example/", "snippet": "", "provider": "mine"}


@pytest.fixture
def house(tmp_path):
    house = House(tmp_path)
    yield house
    house.close()


async def searching(house, value, **meta):
    async def search(given, ctx):
        return ToolResult(ctx.tool_call_id, "found", structured=value)

    house.give("tool.call:web.search")
    await house.offer("web.search", search, **meta).ready()
    return await house.call("web.search", {})


@pytest.mark.parametrize("items", [[], [ITEM], [ITEM, {**ITEM, "url": "http://b.example"}]])
async def test_the_shape_of_today_passes_unchanged(house, items):
    result = await searching(house, {"items": items})
    assert (result.is_error, result.output) == (False, "found")
    assert result.structured == {"items": items}


async def test_the_old_list_is_turned_over_with_a_notice(house):
    old = [{"title": "T", "url": "https://a.example/", "rank": 1}, ITEM]
    result = await searching(house, old)
    first, second = result.structured["items"]
    assert (first["title"], first["snippet"], sorted(first)) == ("T", "", sorted(ITEM))
    assert first["provider"]
    assert second == ITEM
    assert "deprecated" in result.output


@pytest.mark.parametrize(
    ("value", "place"),
    [
        (None, "object"),
        ({"results": []}, "items"),
        ({"items": [{**ITEM, "url": "ftp://a.example/"}]}, "/items/0/url"),
        ({"items": [{**ITEM, "url": "https://"}]}, "/items/0/url"),
        ({"items": [{**ITEM, "title": None}]}, "/items/0/title"),
        ({"items": [{**ITEM, "rank": 1}]}, "rank"),
        ({"items": [{"url": "https://a.example/"}]}, "title"),
        ({"items": None}, "/items"),
        ([{"title": "no address"}], "url"),
        (["https://a.example/"], "/items/0"),
        ([{"url": "javascript:alert(1)"}], "/items/0/url"),
    ],
)
async def test_anything_else_is_an_invalid_output(house, value, place):
    result = await searching(house, value)
    assert result.is_error
    assert result.structured["error"] == "invalid_output"
    assert place in result.structured["message"]


async def test_its_own_schema_counts_for_the_shape_that_it_answers(house):
    result = await searching(
        house, [{"url": "https://a.example/"}], output_schema={"type": "array"}
    )
    assert [each["url"] for each in result.structured["items"]] == ["https://a.example/"]
