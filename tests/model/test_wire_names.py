"""The names under which a model's API knows tools."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawhive_core.errors import ModelError
from clawhive_core.model.tools import ToolDef
from clawhive_core.model.wire_names import WireTools, wire_name

_SEGMENT = st.from_regex(r"[A-Za-z0-9_-]{1,24}", fullmatch=True)
_NAMES = st.lists(_SEGMENT, min_size=1, max_size=4).map(".".join)
_ACCEPTED = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")


def _tools(*names):
    return tuple(ToolDef(name, "", {"type": "object"}) for name in names)


def _table(*names):
    return WireTools(lambda tool, wire: (wire, tool.name)).table(_tools(*names))


def test_dots_become_two_underscores():
    assert wire_name("web.search") == "web__search"
    assert wire_name("mcp.git.git_status") == "mcp__git__git_status"


@given(_NAMES)
def test_every_canonical_name_becomes_one_that_all_providers_take(name):
    assert _ACCEPTED.fullmatch(wire_name(name))


@given(st.sets(_NAMES, min_size=2, max_size=30))
def test_different_names_never_become_one_and_the_way_back_is_exact(names):
    table = _table(*sorted(names))
    assert len(table.names) == len(names)
    assert {table.canonical(wire_name(name)) for name in names} == names


@pytest.mark.parametrize(
    ("one", "other"),
    [("a.b", "a__b"), ("a_.b", "a._b"), ("a.b.c", "a.b__c"), ("x" * 70, "x" * 71)],
)
def test_names_that_look_alike_on_the_wire_stay_apart(one, other):
    assert wire_name(one) != wire_name(other)


def test_a_collision_is_an_error_that_names_both():
    with pytest.raises(ModelError) as caught:
        _table("web.search", "web.search")
    assert caught.value.code == "wire_name_collision"
    assert "`web.search`" in caught.value.message


def test_the_same_list_is_compiled_once():
    tools, made = _tools("a.b", "c"), []
    wire = WireTools(lambda tool, name: made.append(tool.name) or name)
    assert wire.table(tools) is wire.table(tools)
    assert made == ["a.b", "c"]


def test_a_name_that_was_never_offered_is_read_as_the_likeliest():
    assert _table("web.search").canonical("file__read") == "file.read"
