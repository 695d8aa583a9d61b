import pytest

from clawhive_core.catalog.validation import Validators
from clawhive_core.errors import InvalidInput
from clawhive_core.execution.outcomes import checked_result, error_of, partial_result
from clawhive_core.execution.pending import input_of
from clawhive_core.model.canonical import canonical
from clawhive_core.model.refusal import Refusal
from clawhive_core.model.tools import Artifact, ToolCall, ToolResult
from tests.harness import tool_meta

ARTIFACT = Artifact("a.txt", "text/plain", 3, "00")


def finished(result, **fields):
    return checked_result(result, tool_meta(**fields), "call_1", Validators())[0]


def test_a_result_is_nobodys_to_change_once_it_is_finished():
    given_ = ToolResult("", "text", structured={"a": [1]})
    made = finished(given_)
    given_.structured["a"].append(2)
    given_.output = "other"
    assert (made.output, made.structured) == ("text", {"a": [1]})


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
