"""References: what they resolve to, by example and by property."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawhive_core.errors import RunError
from clawhive_core.runs.plans.steps import look_up, references, resolve, steps_named_in

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
VALUES = {
    "input": {"a": 1, "list": ["x", {"y": None}], "text": "t"},
    "steps": {"s": {"output": {"items": [1, 2]}, "status": "succeeded"}},
}


@pytest.mark.parametrize(
    ("template", "value"),
    [
        ("${input.a}", 1),
        ("${ input.a }", 1),
        ("${input.list.1.y}", None),
        ("${steps.s.output.items}", [1, 2]),
        ("a=${input.a}, ${input.text}", "a=1, t"),
        ("${steps.s.output}!", '{"items":[1,2]}!'),
        ("$input.a {input.a} $${", "$input.a {input.a} $${"),
        ({"k": ["${input.text}", 2.5, None]}, {"k": ["t", 2.5, None]}),
    ],
)
def test_a_template_resolves(template, value):
    assert resolve(template, VALUES) == value


@pytest.mark.parametrize(
    "template",
    ["${}", "${nothing}", "${input.zz}", "${input.list.9}", "${input.list.x}", "${input.a.b}"],
)
def test_a_reference_to_nothing_is_an_error_that_names_it(template):
    with pytest.raises(RunError) as caught:
        resolve([template], VALUES)
    assert caught.value.code == "unresolved_reference"
    assert template in caught.value.message
    assert caught.value.fix


def test_only_a_whole_absent_input_is_left_out():
    assert resolve({"a": "${input.zz}", "b": 1}, VALUES) == {"b": 1}
    with pytest.raises(RunError):
        resolve({"a": "x${input.zz}"}, VALUES)
    with pytest.raises(RunError):
        resolve({"a": "${steps.zz.output}"}, VALUES)


def test_values_are_not_resolved_again():
    assert resolve("${input.t}", {"input": {"t": "${input.t}"}}) == "${input.t}"


def test_steps_are_found_wherever_they_are_named():
    template = {"a": ["${steps.x.output}", "b ${steps.y.output.z} ${input.q}"], "c": 1}
    assert steps_named_in(template) == {"x", "y"}
    assert "input.q" in references(template)


@given(JSON)
def test_a_whole_reference_gives_the_value_itself(value):
    assert resolve("${input.v}", {"input": {"v": value}}) == value


@given(JSON)
def test_a_template_without_references_is_itself(value):
    if not references(value):
        assert resolve(value, {"input": {}, "steps": {}}) == value


@given(st.text())
def test_looking_up_any_text_gives_a_value_or_the_coded_error(text):
    error = None
    try:
        look_up(text, VALUES)
    except RunError as caught:
        error = caught
    assert error is None or error.code == "unresolved_reference"
