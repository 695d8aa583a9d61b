from enum import IntEnum

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawhive_core.catalog.validation import Validators
from clawhive_core.errors import InvalidInput
from clawhive_core.execution.plain import (
    MAX_DEPTH,
    input_of,
    plain_json,
    plain_object,
    plainly,
)
from clawhive_core.execution.results import error_of, finish, partial_result
from clawhive_core.model.canonical import canonical, canonical_plain
from clawhive_core.model.refusal import Refusal
from clawhive_core.model.tools import Artifact, ToolCall, ToolResult
from tests.harness import tool_meta

ARTIFACT = Artifact("a.txt", "text/plain", 3, "00")

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text()
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


def finished(result, **fields):
    return finish(result, tool_meta(**fields), "call_1", Validators())[0]


@given(JSON)
def test_a_json_value_is_copied_as_it_is(value):
    copy = plain_json(value, 1_000_000)
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
def test_what_a_copy_calls_plain_needs_no_look_to_be_written_canonically(value):
    for copy, plain in (
        plainly(value, 1_000_000),
        input_of(ToolCall("c1", "x.y", {"k": value, **(value if type(value) is dict else {})})),
    ):
        if plain:
            assert canonical_plain(copy) == canonical(copy)


@pytest.mark.parametrize("value", ["a", True, None, 7, 0.5, [1, "a"], {"a": {"b": [False]}}])
def test_usual_values_are_called_plain(value):
    assert plainly(value, 1000)[1]
    assert input_of(ToolCall("c1", "x.y", {"k": value}))[1]


def test_a_result_is_nobodys_to_change_once_it_is_finished():
    given_ = ToolResult("", "text", structured={"a": [1]})
    made = finished(given_)
    given_.structured["a"].append(2)
    given_.output = "other"
    assert (made.output, made.structured) == ("text", {"a": [1]})


def test_a_copy_shares_nothing_with_its_original():
    value = {"a": [{"b": 1}]}
    copy = plain_object(value, 1000)
    copy["a"][0]["b"] = 2
    assert value == {"a": [{"b": 1}]}


def test_the_depth_is_bounded_exactly():
    value = "leaf"
    for _ in range(MAX_DEPTH):
        value = [value]
    assert plain_json(value, 10_000) == value
    with pytest.raises(InvalidInput) as caught:
        plain_json([value], 10_000)
    assert caught.value.place == "/0" * MAX_DEPTH


def test_the_size_is_bounded_by_texts_keys_and_items():
    for value in ("x" * 101, {"x" * 101: 1}, [0] * 101):
        with pytest.raises(InvalidInput, match="too large"):
            plain_json(value, 100)


def test_tuples_become_lists():
    result = finished(ToolResult("", "x", structured={"a": (1, (2,))}))
    assert result.structured == {"a": [1, [2]]}


def test_artifacts_in_a_list_are_kept():
    assert finished(ToolResult("", "x", artifacts=[ARTIFACT])).artifacts == (ARTIFACT,)


def test_a_text_answer_is_held_to_the_output_schema_too():
    refusal = finished(ToolResult("", "words"), output_schema={"type": "object"})
    assert isinstance(refusal, Refusal)
    assert refusal.error == "invalid_output"


@pytest.mark.parametrize(
    ("structured", "error"),
    [
        (None, {"code": "tool_failed", "message": "text"}),
        ([1], {"code": "tool_failed", "message": "text"}),
        ({"error": "busy", "message": "m"}, {"error": "busy", "code": "busy", "message": "m"}),
        ({"error": {"code": "c", "message": "m"}}, {"code": "c", "message": "m"}),
        ({"error": {"message": "m"}}, {"code": "tool_failed", "message": "text"}),
        ({"error": 7}, {"code": "tool_failed", "message": "text"}),
    ],
)
def test_an_error_result_always_has_a_code_and_a_message(structured, error):
    assert error_of(ToolResult("", "text", is_error=True, structured=structured)) == error


def test_a_good_result_has_no_error():
    assert error_of(ToolResult("", "text", structured={"error": "quoted"})) is None


def test_partial_output_stands_beside_the_error():
    refusal = Refusal("timeout", "late", {"action": "none"})
    result = partial_result(
        "call_1", refusal, {"stdout": bytearray(b"a"), "stderr": bytearray(b"b")}
    )
    assert (result.structured["stdout"], result.structured["stderr"]) == ("a", "b")
    assert result.is_error
    assert result.output == canonical(result.structured).decode()


@pytest.mark.parametrize(
    ("text", "says"), [('{"a": ', "are no JSON"), ("[1]", "are list"), ("", "are no JSON")]
)
def test_arguments_that_a_model_wrote_wrong_are_refused_with_the_reason(text, says):
    with pytest.raises(InvalidInput, match=says):
        input_of(ToolCall("c1", "x.y", {}, malformed=text))
