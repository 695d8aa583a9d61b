import itertools
import json
import random
import sys

import jsonschema
import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.schema_pairs import (
    PATTERNS,
    Maker,
    is_witness,
    made_pair,
    refuting,
    rewritten,
    validators,
)
from clawhive_core.skills.compatibility import compare_inputs, compare_outputs, contains
from clawhive_core.skills.compatibility.document import Steps
from clawhive_core.skills.compatibility.pattern import Terms, language_of

SEEDS = st.integers(0, 2**32)


def obj(required=(), **properties):
    found = {"type": "object", "properties": properties}
    return {**found, "required": list(required)} if required else found


TREE = obj(value={"type": "string"}, next={"$ref": "#"})
WIDE_TREE = obj(value={"type": ["string", "null"]}, next={"$ref": "#"})
STRING, INTEGER, NUMBER = ({"type": each} for each in ("string", "integer", "number"))
CAT, DOG = obj(["kind"], kind={"const": "cat"}), obj(["kind"], kind={"const": "dog"}, n=INTEGER)
WHEN_A = {"if": {"required": ["a"]}, "then": {"required": ["b"]}}
SEVEN = {"$schema": "http://json-schema.org/draft-07/schema#"}

STRICTLY_INSIDE = {
    "integer in number": (INTEGER, NUMBER),
    "1.0 is an integer": ({"const": 1.0}, INTEGER),
    "bounds": ({**INTEGER, "minimum": 2}, {**INTEGER, "exclusiveMinimum": 0}),
    "multiples": ({**INTEGER, "multipleOf": 6}, {"multipleOf": 2}),
    "multiples of decimals": ({**NUMBER, "multipleOf": 0.1}, {**NUMBER, "multipleOf": 0.01}),
    "length": ({**STRING, "maxLength": 3}, {**STRING, "maxLength": 4}),
    "pattern": ({**STRING, "pattern": "^a+$"}, {**STRING, "pattern": "^a*$"}),
    "pattern in length": ({**STRING, "pattern": "^[ab]{2,3}$"}, {**STRING, "maxLength": 3}),
    "pattern against enum": ({"enum": ["cat", "dog"]}, {**STRING, "pattern": "^[a-z]+$"}),
    "enum of a finite pattern": ({**STRING, "pattern": "^(a|b)$"}, {"enum": ["a", "b", "c"]}),
    "format": ({**STRING, "format": "email"}, STRING),
    "union": ({"anyOf": [STRING, INTEGER]}, {"type": ["string", "number"]}),
    "nullable": (STRING, {"anyOf": [STRING, {"type": "null"}]}),
    "oneOf overlap": ({**NUMBER, "not": INTEGER}, {"oneOf": [NUMBER, {"type": ["null"]}]}),
    "oneOf leaves its overlap out": ({"oneOf": [NUMBER, INTEGER]}, NUMBER),
    "tagged union": (CAT, {"oneOf": [CAT, DOG]}),
    "allOf": ({"allOf": [obj(["a"]), obj(["b"])]}, obj(["b"])),
    "not": (STRING, {"not": INTEGER}),
    "conditional": (obj(["a", "b"]), {"type": "object", **WHEN_A}),
    "recursion": (TREE, WIDE_TREE),
    "additionalProperties": ({**obj(a=STRING), "additionalProperties": False}, obj(a=STRING)),
    "additional against patterns": (
        {"type": "object", "patternProperties": {"^x": INTEGER}, "additionalProperties": False},
        {"type": "object", "additionalProperties": NUMBER},
    ),
    "pattern properties": (
        obj(["x1"], x1=INTEGER, y=STRING) | {"additionalProperties": False},
        {"type": "object", "patternProperties": {"^x": NUMBER}},
    ),
    "required": (obj(["a", "b"], a=STRING), obj(["a"], a=STRING)),
    "property names": (
        {"type": "object", "propertyNames": {"maxLength": 2}},
        {"type": "object", "propertyNames": {"maxLength": 3}},
    ),
    "counted properties": (obj(["a", "b"]), {"type": "object", "minProperties": 2}),
    "closed objects are counted": (
        {**obj(a=STRING, b=STRING), "additionalProperties": False},
        {"type": "object", "maxProperties": 2},
    ),
    "dependent properties": (
        {**obj(["a"]), "dependentRequired": {"a": ["b"]}},
        obj(["a", "b"]) | {"required": ["b"]},
    ),
    "items": ({"type": "array", "items": INTEGER}, {"type": "array", "items": NUMBER}),
    "prefix items": (
        {"type": "array", "prefixItems": [INTEGER], "items": STRING, "minItems": 1},
        {"type": "array", "items": {"type": ["integer", "string"]}},
    ),
    "contains": ({"type": "array", "items": INTEGER, "minItems": 1}, {"contains": INTEGER}),
    "unique": ({"type": "array", "uniqueItems": True}, {"type": "array"}),
    "draft 7": ({**SEVEN, **obj(["a"], a=STRING)}, {**SEVEN, **obj(a=STRING)}),
}
REWRITTEN = {
    "descriptions": ({**STRING, "description": "a", "default": "b"}, {**STRING, "title": "T"}),
    "enum and consts": ({"enum": [1, "a"]}, {"anyOf": [{"const": "a"}, {"const": 1.0}]}),
    "definitions": ({"$ref": "#/$defs/a", "$defs": {"a": STRING}}, STRING),
    "integers listed": ({**INTEGER, "minimum": 1, "maximum": 3}, {"enum": [1, 2, 3]}),
    "booleans listed": ({"enum": [True, False]}, {"type": "boolean"}),
    "unrolled recursion": (TREE, obj(value=STRING, next={"$ref": "#/$defs/t"}) | {
        "$defs": {"t": obj(value=STRING, next={"$ref": "#/$defs/t"})}
    }),
    "names of other formats": ({**INTEGER, "format": "int32"}, {**INTEGER, "format": "int64"}),
    "contradictions": ({**STRING, "minLength": 3, "maxLength": 2}, False),
}  # fmt: skip


@pytest.mark.promise("P-176")
@pytest.mark.parametrize("name", STRICTLY_INSIDE)
def test_a_widened_schema_is_compatible(name):
    inside, outside = STRICTLY_INSIDE[name]
    assert compare_inputs(inside, outside).verdict == "compatible"
    assert compare_outputs(outside, inside).verdict == "compatible"


@pytest.mark.promise("P-177")
@pytest.mark.parametrize("name", STRICTLY_INSIDE)
def test_a_narrowed_schema_breaks_with_a_witness(name):
    inside, outside = STRICTLY_INSIDE[name]
    for answer in (compare_inputs(outside, inside), compare_outputs(inside, outside)):
        assert answer.verdict == "breaking"
        assert answer.reason
        assert accepts(outside, answer.witness)
        assert not accepts(inside, answer.witness)
        assert names_a_keyword(inside, answer.where)


def accepts(schema, value):
    kind = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
    return kind(schema, format_checker=kind.FORMAT_CHECKER).is_valid(value)


def names_a_keyword(schema, pointer):
    for part in pointer.split("/")[1:]:
        key = part.replace("~1", "/").replace("~0", "~")
        if key == "$ref":
            return True
        schema = schema[int(key)] if isinstance(schema, list) else schema[key]
    return True


@pytest.mark.parametrize("name", REWRITTEN)
def test_another_spelling_is_compatible_both_ways(name):
    one, other = REWRITTEN[name]
    assert contains(one, other).verdict == "compatible"
    assert contains(other, one).verdict == "compatible"


def test_an_input_that_becomes_required_breaks_callers_and_no_reader():
    old, new = obj(a=STRING), obj(["a"], a=STRING)
    assert compare_inputs(old, new).witness == {}
    assert compare_inputs(old, new).where == "/required"
    assert compare_outputs(old, new).verdict == "compatible"


def test_the_witness_of_a_nested_change_holds_what_else_is_required():
    old = obj(["a", "b"], a={"type": "array", "items": obj(["n"], n=NUMBER)}, b={"const": "x"})
    new = obj(["a", "b"], a={"type": "array", "items": obj(["n"], n=INTEGER)}, b={"const": "x"})
    found = compare_inputs(old, new)
    assert found.witness["b"] == "x"
    assert found.where == "/properties/a/items/properties/n/type"


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ({"type": "strin"}, "cannot be used"),
        ({"pattern": "("}, "cannot be used"),
        ({"$ref": "https://example.com/a"}, "cannot be used"),
        ({"$ref": "#/$defs/none"}, "cannot be used"),
        ({"$schema": "http://json-schema.org/draft-04/schema#"}, "dialect"),
        ({"const": float("nan")}, "no JSON"),
        ({"$schema": {"a": 10**5_000}}, "written as JSON"),
        ({"enum": ["x" * 300_000]}, "too large"),
    ],
)
def test_what_cannot_be_compared_is_unknown_with_the_reason(schema, reason):
    for answer in (contains(schema, {}), contains({}, schema)):
        assert answer.verdict == "unknown"
        assert reason in answer.reason


@pytest.mark.parametrize(
    "schema",
    [
        {"unevaluatedProperties": False},
        {**SEVEN, "items": [STRING]},
        {**SEVEN, "contains": INTEGER, "minContains": 3},
        {"$dynamicRef": "#a", "$defs": {"a": {"$dynamicAnchor": "a", **STRING}}},
        {"pattern": "(?=a)b"},
    ],
)
def test_keywords_that_are_not_reasoned_about_prove_nothing(schema):
    assert contains(schema, {"type": ["object", "array", "string"]}).verdict != "compatible"
    for narrower in ({"type": "array", "items": STRING}, obj(a=STRING), {"const": "b"}):
        found = contains(schema, narrower)
        assert found.verdict != "compatible" or not refuted_by_hand(schema, narrower)


def refuted_by_hand(wider, narrower):
    values = ([], ["a"], ["a", 1], {}, {"a": "b"}, "b", "ab", 1)
    return [each for each in values if accepts(narrower, each) and not accepts(wider, each)]


def deep(count, leaf):
    for _ in range(count):
        leaf = obj(["a"], a=leaf)
    return leaf


def cases(count, low):
    tagged = [obj(["k"], k={"const": str(n)}, v={"minimum": n + low}) for n in range(count)]
    return {"oneOf": tagged}


@pytest.mark.promise("P-178")
def test_large_schemas_are_decided_or_unknown_within_the_bound():
    assert contains(deep(30, {}), deep(30, STRING)).verdict == "compatible"
    assert contains(deep(300, {}), deep(300, STRING)).verdict in {"compatible", "unknown"}
    assert contains(deep(5_000, {}), deep(5_000, STRING)).verdict == "unknown"
    assert contains(cases(12, 0), cases(12, 1)).verdict == "compatible"
    assert contains(cases(12, 1), cases(12, 0)).verdict == "breaking"
    maze = {"allOf": [{"anyOf": [obj([f"{n}{m}"]) for m in range(5)]} for n in range(30)]}
    assert contains({"type": "object", "maxProperties": 29}, maze).verdict in {
        "breaking",
        "unknown",
    }


def test_a_long_string_is_a_witness_too():
    found = contains({**STRING, "maxLength": 50_000}, {**STRING, "maxLength": 60_000})
    assert 50_000 < len(found.witness) <= 60_000


@pytest.mark.promise("P-176")
@pytest.mark.promise("P-177")
@given(SEEDS)
def test_no_sampled_value_refutes_a_proof_and_every_break_has_its_witness(seed):
    pair = made_pair(random.Random(seed))
    found = contains(pair.wider, pair.narrower)
    if found.verdict == "compatible":
        assert refuting(pair, random.Random(seed + 1), 60) == []
    elif found.verdict == "breaking":
        assert is_witness(pair, found.witness)
    assert found == contains(pair.wider, pair.narrower)


def test_few_generated_pairs_stay_unknown():
    pairs = [made_pair(random.Random(f"few/{number}")) for number in range(300)]
    verdicts = [contains(pair.wider, pair.narrower).verdict for pair in pairs]
    assert verdicts.count("unknown") <= 9
    assert min(verdicts.count("compatible"), verdicts.count("breaking")) >= 60


@given(SEEDS)
def test_a_rewritten_schema_never_breaks(seed):
    maker = Maker(random.Random(seed))
    schema = maker.root()
    other = rewritten(rewritten(schema, maker), maker)
    assert contains(schema, other).verdict != "breaking"
    assert contains(other, schema).verdict != "breaking"


SCALARS = [None, True, False, 0, 1, 2, 3, 1.0, 0.5, -1, "", "a", "b", "ab", "aa", "ba", "abb"]
UNIVERSE = [
    *SCALARS,
    *([each] for each in SCALARS),
    *([one, other] for one, other in itertools.product(SCALARS[3:13], repeat=2)),
    *[[], {}],
    *({name: each} for name in ("a", "b", "ab") for each in SCALARS),
    *({"a": one, "b": other} for one, other in itertools.product(SCALARS[3:13], repeat=2)),
]


def small_schemas():
    words, counts = st.sampled_from(["", "a", "b", "ab"]), st.integers(0, 2)
    flat = st.one_of(
        st.booleans(),
        st.fixed_dictionaries({}, optional={
            "type": st.sampled_from(["string", "integer", "number", ["string", "null"]]),
            "minimum": counts, "exclusiveMaximum": counts, "multipleOf": st.sampled_from([1, 0.5]),
            "minLength": counts, "maxLength": counts,
            "pattern": st.sampled_from(["^a", "b$", "^a?b*$", "^(a|b)$", "a.b|^$"]),
        }),
        st.lists(st.sampled_from(["a", "", 0, 1, None, True]), min_size=1, unique_by=repr)
        .map(lambda values: {"enum": values}),
    )  # fmt: skip

    def deeper(inner):
        several = st.lists(inner, min_size=1, max_size=3)
        return st.one_of(
            *(several.map(lambda parts, name=name: {name: parts}) for name in ("anyOf", "oneOf")),
            several.map(lambda parts: {"allOf": parts}),
            inner.map(lambda part: {"not": part}),
            st.fixed_dictionaries({"if": inner}, optional={"then": inner, "else": inner}),
            st.fixed_dictionaries({"type": st.just("object")}, optional={
                "properties": st.dictionaries(words, inner, max_size=2),
                "patternProperties": st.dictionaries(st.just("^a"), inner, max_size=1),
                "additionalProperties": inner, "propertyNames": flat,
                "required": st.lists(words, max_size=2, unique=True),
                "minProperties": counts, "maxProperties": counts,
                "dependentRequired": st.just({"a": ["b"]}),
                "dependentSchemas": st.dictionaries(words, inner, max_size=1),
            }),
            st.fixed_dictionaries({"type": st.just("array")}, optional={
                "items": inner, "prefixItems": several, "contains": inner,
                "minContains": counts, "maxContains": counts,
                "minItems": counts, "maxItems": counts, "uniqueItems": st.booleans(),
            }),
        )  # fmt: skip

    return st.recursive(flat, deeper, max_leaves=5)


@given(small_schemas(), small_schemas())
def test_no_value_of_a_small_world_refutes_a_proof(wider, narrower):
    found = contains(wider, narrower)
    outside, inside = validators(wider)[0], validators(narrower)[0]
    shown = [value for value in UNIVERSE if inside(value) and not outside(value)]
    assert found.verdict != "compatible" or shown == []
    if found.verdict == "breaking":
        assert inside(found.witness)
        assert not outside(found.witness)


PATTERN_PARTS = st.sampled_from(
    [*"ab.^$|", "a*", "[ab]", "[^a]", r"\d", r"\w+?", "(a|b)", "b{1,2}"]
)


@given(st.lists(PATTERN_PARTS, max_size=6).map("".join) | st.sampled_from(PATTERNS))
def test_a_pattern_s_language_is_what_the_validator_finds(pattern):
    try:
        validator = jsonschema_rs.Draft202012Validator({"pattern": pattern})
    except jsonschema_rs.ValidationError:
        return
    terms = Terms(Steps(100_000))
    try:
        language = language_of(pattern, terms)
    except ValueError:
        return
    for text in ("", "a", "b", "ab", "ba", "aab", "bb", "1", "a\n", "cat", "v1.0", "x", "Ab", "é"):
        rest = language
        for char in text:
            rest = terms.derivative(rest, ord(char))
        assert rest.nullable is validator.is_valid(text), text


def test_the_second_library_gives_the_same_answers(monkeypatch):
    pairs = [STRICTLY_INSIDE[name] for name in ("pattern", "recursion", "tagged union", "items")]
    first = [(contains(one, two), contains(two, one)) for one, two in pairs]
    monkeypatch.setitem(sys.modules, "jsonschema_rs", None)
    second = [(contains(one, two), contains(two, one)) for one, two in pairs]
    assert [[each.verdict for each in pair] for pair in second] == [
        [each.verdict for each in pair] for pair in first
    ]
    monkeypatch.setitem(sys.modules, "jsonschema", None)
    assert "pip install jsonschema-rs" in contains(STRING, INTEGER).reason


def test_an_answer_does_not_depend_on_the_order_of_keys():
    for name in ("tagged union", "conditional", "additional against patterns"):
        inside, outside = STRICTLY_INSIDE[name]
        turned = json.loads(json.dumps(inside, sort_keys=True))
        assert contains(inside, outside).verdict == contains(turned, outside).verdict
