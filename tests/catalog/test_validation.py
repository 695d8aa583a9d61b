import builtins
import sys

import pytest

from clawhive_core.catalog.validation import SchemaProblem, Validators, compile_schema, describe


@pytest.fixture(params=["jsonschema_rs", "jsonschema"])
def compiled(request, monkeypatch):
    """compile_schema with each of the libraries that it can use."""
    if request.param == "jsonschema":
        pytest.importorskip("jsonschema")
        monkeypatch.setitem(sys.modules, "jsonschema_rs", None)
    return compile_schema


def test_a_valid_value_has_no_problems(compiled):
    assert compiled({"type": "object"})({}) == []


def test_a_problem_is_placed_by_a_json_pointer(compiled):
    schema = {"properties": {"a/b~c": {"items": {"type": "string"}}}}
    (problem,) = compiled(schema)({"a/b~c": ["x", 1]})
    assert problem.path == "/a~1b~0c/1"
    assert "string" in problem.message


def test_at_most_five_problems_are_told(compiled):
    check = compiled({"items": {"type": "string"}})
    assert len(check(list(range(100)))) == 5


@pytest.mark.parametrize(
    "schema", [{"type": "nonsense"}, {"properties": []}, {"pattern": "("}, {"required": "a"}]
)
def test_a_schema_that_cannot_be_used_refuses_everything(compiled, schema):
    (problem,) = compiled(schema)({})
    assert "schema cannot be used" in problem.message


def test_a_schema_reads_no_file_and_no_address(compiled, tmp_path):
    other = tmp_path / "other.json"
    other.write_text('{"type": "string"}', encoding="utf-8")
    for reference in (other.as_uri(), "http://127.0.0.1:9/schema.json"):
        (problem,) = compiled({"$ref": reference})("text")
        assert "schema cannot be used" in problem.message or "cannot be checked" in problem.message


def test_references_inside_a_schema_are_followed(compiled):
    check = compiled({"$defs": {"n": {"type": "integer"}}, "items": {"$ref": "#/$defs/n"}})
    assert check([1]) == []
    assert [problem.path for problem in check(["x"])] == ["/0"]


def test_a_value_that_no_validator_can_read_is_a_problem():
    problems = compile_schema({"properties": {"a": {"type": "string"}}})({1: 2})
    assert "cannot be checked" in problems[0].message


def test_each_schema_is_compiled_once(monkeypatch):
    validators, schema = Validators(), {"type": "integer"}
    assert validators.problems("key", schema, 1) == []
    monkeypatch.setattr(builtins, "__import__", None)
    assert len(validators.problems("key", schema, "x")) == 1


def test_without_any_library_everything_is_refused_with_the_install_line(monkeypatch):
    monkeypatch.setitem(sys.modules, "jsonschema_rs", None)
    monkeypatch.setitem(sys.modules, "jsonschema", None)
    (problem,) = compile_schema({})({})
    assert "pip install jsonschema-rs" in problem.message


def test_problems_read_as_one_sentence():
    problems = [SchemaProblem("", "too small"), SchemaProblem("/a", "no text")]
    assert describe(problems) == "the input: too small; /a: no text"
