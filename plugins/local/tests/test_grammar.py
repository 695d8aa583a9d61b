"""Patterns for llama.cpp: those that its grammar can enforce are given to it."""

from clawhive_local.grammar import held


def test_a_pattern_that_is_not_anchored_is_left_out_wherever_it_stands():
    text = {"type": "string", "pattern": r"\S"}
    schema = {
        "anyOf": [{"properties": {"path": text}}, text],
        "$defs": {"name": {"items": text}},
    }
    assert held(schema) == {
        "anyOf": [{"properties": {"path": {"type": "string"}}}, {"type": "string"}],
        "$defs": {"name": {"items": {"type": "string"}}},
    }


def test_an_anchored_pattern_stays():
    schema = {"type": "string", "pattern": "^[a-z]+$"}
    assert held(schema) == schema


def test_what_is_only_called_pattern_stays():
    schema = {
        "properties": {"pattern": {"type": "string"}, "const": {"pattern": "x", "minLength": 1}},
        "default": {"pattern": "x"},
        "enum": [{"pattern": "x"}],
    }
    assert held(schema) == {
        **schema,
        "properties": {**schema["properties"], "const": {"minLength": 1}},
    }


def test_what_is_no_schema_stays_as_it_is():
    assert held({"properties": ["pattern"], "pattern": 3, "items": True}) == {
        "properties": ["pattern"],
        "pattern": 3,
        "items": True,
    }
