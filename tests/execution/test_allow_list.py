"""An agent's list of tools: names, skills, and what bounds them from above."""

import pytest

from clawhive_core.errors import CapabilityError
from clawhive_core.execution.scope import AllowList
from tests.harness import tool_meta

SEARCH = tool_meta("web.search", "web", aliases=("web_search",))
READ = tool_meta("file.read", "builtin")
CHART = tool_meta("zodiac.chart", "skill_zodiac")
DREAM = tool_meta("jung.dream", "skill_jung")
EVERY = (SEARCH, READ, CHART, DREAM)


def held(allowed):
    return [meta.name for meta in EVERY if allowed.has(meta)]


def test_names_are_patterns_of_tools_by_any_of_their_spellings():
    assert held(AllowList.read("a", ["web.*", "zodiac.chart"])) == ["web.search", "zodiac.chart"]
    assert held(AllowList.read("a", ["web_search"])) == ["web.search"]
    assert held(AllowList.read("a", [])) == []


def test_skills_bound_the_tools_of_skills_and_no_others():
    assert held(AllowList.read("a", None, ["zodiac"])) == [
        "web.search",
        "file.read",
        "zodiac.chart",
    ]
    assert held(AllowList.read("a", None, [])) == ["web.search", "file.read"]
    assert held(AllowList.read("a", ["zodiac.*", "jung.*"], ["jung"])) == ["jung.dream"]


def test_nothing_is_in_a_list_that_is_not_in_the_one_above():
    above = AllowList.read("parent", ["web.*", "jung.*"], ["jung"])
    assert held(AllowList.read("a", ["**"], above=above)) == ["web.search", "jung.dream"]
    assert held(AllowList.read("a", ["file.*", "jung.*"], above=above)) == ["jung.dream"]
    assert held(AllowList.read("a", None, ["zodiac"], above)) == ["web.search"]


def test_where_nothing_is_said_the_list_above_counts_or_none():
    above = AllowList.read("parent", ["web.*"])
    assert AllowList.read("a", None, None, above) is above
    assert AllowList.read("a", None) is None


def test_what_cannot_be_a_name_is_refused():
    with pytest.raises(CapabilityError):
        AllowList.read("a", ["web search"])
