"""How deep a model's arguments are nested, counted without recursion."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawhive_core.errors import InvalidInput
from clawhive_core.execution.pending import MAX_INPUT
from clawhive_core.model.json_values import MAX_DEPTH, json_object
from clawhive_core.model.messages import LlmResponse, TextBlock, Usage
from clawhive_core.model.tools import ToolCall
from clawhive_core.runs.budget import Budget, BudgetLimits
from clawhive_core.runs.responses import is_deeper, readable

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=3), inner, max_size=3)
        | st.tuples(inner)
    ),
    max_leaves=20,
)


def levels(value):
    if isinstance(value, dict):
        return 1 + max(map(levels, value.values()), default=0)
    if isinstance(value, list | tuple):
        return 1 + max(map(levels, value), default=0)
    return 0


@given(VALUES, st.integers(1, 8))
def test_it_is_deeper_where_a_count_by_recursion_says_so(value, most):
    assert is_deeper(value, most) == (levels(value) > most)


def nested(depth, inner=()):
    value = list(inner)
    for _ in range(depth - 1):
        value = {"n": value}
    return value


@pytest.mark.parametrize("depth", [2, MAX_DEPTH - 1, MAX_DEPTH, MAX_DEPTH + 1, 900])
def test_what_is_bounded_is_what_the_executor_would_refuse(depth):
    said = TextBlock("x")
    response = LlmResponse((said, ToolCall("c", "a.b", nested(depth))), "tool_use")
    bounded = readable(response)
    if depth <= MAX_DEPTH:
        assert bounded is response
        json_object(response.tool_calls[0].input, MAX_INPUT)
        return
    with pytest.raises(InvalidInput):
        json_object(response.tool_calls[0].input, MAX_INPUT)
    first, call = bounded.content
    assert first is said
    assert call.input == {}
    assert levels(json.loads(call.malformed)) == MAX_DEPTH


@pytest.mark.parametrize("cost", [float("nan"), float("inf"), float("-inf"), -1000.0, "1", True])
def test_a_cost_that_a_server_makes_up_lifts_no_budget(cost):
    budget = Budget(BudgetLimits(cost=1.0))
    budget.charge(readable(LlmResponse((), "end_turn", Usage(cost=0.75))).usage)
    budget.charge(readable(LlmResponse((), "end_turn", Usage(cost=cost))).usage)
    assert budget.left().cost in {0.25, 0}
    budget.charge(readable(LlmResponse((), "end_turn", Usage(cost=0.25))).usage)
    assert budget.left().cost == 0


@pytest.mark.parametrize("count", [-5, 1.5, float("nan"), "9", 2**53, True, [1]])
def test_tokens_that_are_no_count_are_none(count):
    given = Usage(count, 2, count, count, cost=0.5)
    assert readable(LlmResponse((), "end_turn", given)).usage == Usage(None, 2, cost=0.5)
