"""JSON values: copies of what comes from outside, and what every encoder writes in one way."""

from contextlib import suppress
from enum import IntEnum

import orjson
import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from clawhive_core.errors import InvalidInput
from clawhive_core.execution.pending import input_of
from clawhive_core.model.canonical import canonical, canonical_portable, has_portable_order
from clawhive_core.model.json_values import (
    MAX_DEPTH,
    is_portable,
    is_portable_number,
    json_copy,
    json_object,
)
from clawhive_core.model.tools import ToolCall

SORTED = orjson.OPT_SORT_KEYS

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text()
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(JSON)
def test_a_json_value_is_copied_as_it_is(value):
    copy = json_copy(value, 1_000_000)[0]
    assert copy == value
    assert canonical(copy) == canonical(value)


class Name(str):
    """Text that is not quite text."""

    __slots__ = ()


class Level(IntEnum):
    """A number that is not quite a number."""

    HIGH = 1


ODD = st.sampled_from([Name("a"), Level.HIGH, 2**53, -(2**53), 1.0, 1e-7, 1e21, "\ud800", ("a",)])
KEYS = st.text() | st.sampled_from([Name("b"), "\U0001f600", "\ue000", "\ud800"])
UNUSUAL = st.recursive(
    JSON | ODD, lambda inner: st.lists(inner) | st.dictionaries(KEYS, inner), max_leaves=9
)


@given(UNUSUAL)
def test_what_a_copy_calls_portable_needs_no_look_to_be_written_canonically(value):
    for copy, portable in (
        json_copy(value, 1_000_000),
        input_of(ToolCall("c1", "x.y", {"k": value, **(value if type(value) is dict else {})})),
    ):
        if portable:
            assert canonical_portable(copy) == canonical(copy)


def portable_by_parts(value):
    """Whether a value is portable, said once more as slow and simple as possible."""
    if type(value) in {list, tuple}:
        return all(map(portable_by_parts, value))
    if type(value) is dict:
        return all(map(portable_by_parts, value.values()))
    return type(value) in {str, bool, type(None)} or is_portable_number(value)


@given(UNUSUAL)
def test_a_value_is_portable_where_all_its_parts_are(value):
    assert is_portable(value) == portable_by_parts(value)


@given(UNUSUAL)
def test_what_is_portable_is_written_alike_by_both_encoders(value):
    with suppress(TypeError):  # a key that is no text, a lone surrogate
        if is_portable(value) and has_portable_order(data := orjson.dumps(value, option=SORTED)):
            assert data == rfc8785.dumps(value)


def test_a_bound_of_levels_holds_exactly():
    value = "leaf"
    for levels in range(1, 20):
        value = [value]
        assert is_portable(value, levels=levels)
        assert not is_portable([value], levels=levels)


def test_a_leaf_of_a_known_class_is_portable_and_a_reserved_key_is_not():
    assert is_portable({"a": [1j]}, leaf=complex)
    assert not is_portable({"a": [1j]})
    assert not is_portable({"a": [{"mine": 1}]}, reserved=frozenset({"mine"}))


@pytest.mark.parametrize("value", ["a", True, None, 7, 0.5, [1, "a"], {"a": {"b": [False]}}])
def test_usual_values_are_called_portable(value):
    assert json_copy(value, 1000)[1]
    assert input_of(ToolCall("c1", "x.y", {"k": value}))[1]


def test_a_copy_shares_nothing_with_its_original():
    value = {"a": [{"b": 1}]}
    copy = json_object(value, 1000)[0]
    copy["a"][0]["b"] = 2
    assert value == {"a": [{"b": 1}]}


def test_the_depth_is_bounded_exactly():
    value = "leaf"
    for _ in range(MAX_DEPTH):
        value = [value]
    assert json_copy(value, 10_000)[0] == value
    with pytest.raises(InvalidInput) as caught:
        json_copy([value], 10_000)
    assert caught.value.place == "/0" * MAX_DEPTH


def test_the_size_is_bounded_by_texts_keys_and_items():
    for value in ("x" * 101, {"x" * 101: 1}, [0] * 101):
        with pytest.raises(InvalidInput, match="too large"):
            json_copy(value, 100)
