"""What a skill's handler may call."""

import pytest

from clawhive_core.execution.scope import Reach
from tests.harness import tool_meta

REACH = Reach("one", {"one.get": "skill_one", "two.get": "skill_two", "two.put": "skill_two",
                      "web.search": None, "file_read": None})  # fmt: skip


@pytest.mark.parametrize(
    ("name", "resolved"),
    [("get", "one.get"), ("put", "two.put"), ("search", "web.search"), ("two.get", "two.get"),
     ("read", "read"), ("nothing", "nothing"), ("", "")],
)  # fmt: skip
def test_a_bare_name_is_an_own_tool_then_an_imported_one(name, resolved):
    assert REACH.resolve(name) == resolved


def test_a_whole_name_is_never_taken_for_the_end_of_an_own_one():
    reach = Reach("one", {"one.two.get": "skill_one", "two.get": "skill_two"})
    assert reach.resolve("two.get") == "two.get"
    assert reach.resolve("one.two.get") == "one.two.get"


@pytest.mark.parametrize(
    ("name", "tool", "provider", "allowed"),
    [
        ("one.get", "one.get", "skill_one", True),
        ("two.get", "two.get", "skill_two", True),
        ("two.get", "two.get", "thief", False),
        ("web.search", "web.search", "web", True),
        ("web.fetch", "web.fetch", "web", False),
        ("read", "read", "core", True),
        ("tool_search", "tool_search", "core", True),
        ("read", "read", "thief", False),
        ("file.read", "file.read", "builtin", True),
        ("two.other", "two.other", "skill_two", False),
    ],
)
def test_only_what_the_contract_names_may_be_called(name, tool, provider, allowed):
    aliases = ("file_read",) if tool == "file.read" else ()
    assert REACH.allows(name, tool_meta(tool, provider, aliases=aliases)) is allowed


def test_a_declared_tool_that_is_not_there_is_not_found_and_another_not_imported():
    assert REACH.allows("two.get", None)
    assert not REACH.allows("three.get", None)
