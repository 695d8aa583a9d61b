"""Constraints against brute force: each is compared by the inputs that satisfy it."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawhive_core.capabilities import contains, meet, normalise, parse
from clawhive_core.errors import CapabilityError

# No bound below lies outside 0 to 3, so these values tell any two constraints apart.
VALUES = (None, -1, 0, 0.5, 1, 1.0, 1.5, 2, 2.5, 3, 4, "1", "a", "b", "", True, False, [1, 2], [])
UNIVERSE = [{"x": x, "y": y} for x, y in product(VALUES, VALUES)]

atoms = st.sampled_from(["0", "1", "2", "1.5", "a", "b", "'1'", "true", "''"])
items = st.one_of(
    st.tuples(st.sampled_from("xy"), st.sampled_from(["<=", ">="]), st.sampled_from("0123")).map(
        "".join
    ),
    st.tuples(st.sampled_from("xy"), st.lists(atoms, min_size=1, max_size=4)).map(
        lambda pair: f"{pair[0]} in {{{','.join(pair[1])}}}"
    ),
    st.tuples(st.sampled_from("xy"), atoms).map("=".join),
)
counted = st.sampled_from(["uses<=1", "uses<=2", "until=2030-01-01T00:00:00Z"])


def read(texts):
    try:
        return parse("tool.call:a.b" + ("?" + "&".join(texts) if texts else ""))
    except CapabilityError:
        return None  # nothing satisfies it


constrained = st.lists(st.one_of(items, counted), max_size=3).map(read).filter(bool)


def language(texts):
    """Say naively, by the texts alone, which inputs of the universe satisfy them."""
    return {i for i, call in enumerate(UNIVERSE) if all(satisfies(each, call) for each in texts)}


def satisfies(text, call):
    for operator in (" in ", "<=", ">=", "="):
        name, found, value = text.partition(operator)
        if found:
            break
    given_values = call[name] if isinstance(call[name], list) else [call[name]]
    return bool(given_values) and all(one(operator, value, each) for each in given_values)


def one(operator, value, given_value):
    number = isinstance(given_value, int | float) and not isinstance(given_value, bool)
    if operator == "<=":
        return number and given_value <= float(value)
    if operator == ">=":
        return number and given_value >= float(value)
    return any(same(each, given_value) for each in value.strip("{}").split(","))


def same(atom, value):
    if isinstance(value, bool):
        return atom == ("true" if value else "false")
    if isinstance(value, str):
        return (
            atom.strip("'") == value
            and (atom[0] == "'" or not atom[0].isdigit())
            and (atom != "true")
        )
    return isinstance(value, int | float) and atom[0].isdigit() and float(atom) == value


def set_of(capability):
    return {i for i, call in enumerate(UNIVERSE) if capability.constraints.admit(call)}


@given(st.lists(items, min_size=1, max_size=3))
def test_what_a_text_says_is_what_its_inputs_satisfy(texts):
    capability = read(texts)
    assert (set_of(capability) if capability else set()) == language(texts)


@given(st.lists(items, max_size=3), st.lists(items, max_size=3))
def test_the_meet_is_satisfied_by_what_satisfies_both(p, q):
    one_, other = read(p), read(q)
    if one_ and other:
        met = meet(one_, other)
        assert (set_of(met) if met else set()) == language(p) & language(q)


@given(constrained, constrained)
def test_containing_is_sound_and_is_meeting_without_loss(p, q):
    assert contains(p, q) == (meet(p, q) == q)
    if contains(p, q):
        assert set_of(p) >= set_of(q)


@given(constrained, constrained, constrained)
def test_the_meet_is_commutative_associative_and_idempotent(p, q, r):
    def then(a, b):
        return meet(a, b) if a is not None and b is not None else None

    assert then(p, q) == then(q, p)
    assert then(then(p, q), r) == then(p, then(q, r))
    assert meet(p, p) == p
    met = meet(p, q)
    if met is not None:
        assert contains(p, met)
        assert contains(q, met)
        assert parse(met.text) == met


@given(constrained)
def test_the_canonical_text_reads_back_and_is_equal_exactly_if_the_constraints_are(p):
    assert parse(p.text) == p
    assert normalise(p.text) == p.text


@given(st.text(max_size=8), st.text(min_size=1, max_size=4))
def test_every_text_can_be_written_as_a_value_and_as_a_name(value, name):
    quote = "".join(f"%{byte:02X}" for byte in value.encode("utf-8"))
    named = "".join(f"%{byte:02X}" for byte in name.encode("utf-8"))
    found = parse(f"tool.call:a?{named}='{quote}'")
    assert parse(found.text) == found
    assert found.constraints.admit({name: value})
    assert not found.constraints.admit({name: value + "x"})


@given(st.text("ax<=>&{},'\"%20in uses until.1-", max_size=24))
def test_whatever_follows_the_question_mark_is_read_or_refused_with_a_place_and_a_fix(text):
    found, refused = None, None
    try:
        found = parse("tool.call:a?" + text)
    except CapabilityError as error:
        refused = error
    assert (refused.place and refused.fix) if found is None else parse(found.text) == found


@pytest.mark.parametrize(
    "value", [None, "100", "", True, [], {}, {"amount": 1}, [[1]], float("nan"), 100.1]
)
def test_what_is_missing_or_no_number_does_not_satisfy_a_bound(value):
    capability = parse("tool.call:bank.pay?amount<=100")
    assert not capability.constraints.admit({"amount": value})
    assert not capability.constraints.admit({})
    assert not capability.constraints.admit(None)


@pytest.mark.parametrize(
    "value",
    [10**400, -(10**5000), 2**53 + 1, 1e300, float("nan")],
    ids=["large", "very large", "inexact", "float", "nan"],
)
def test_a_number_that_no_pattern_can_name_is_in_no_set(value):
    assert not parse("tool.call:pay?amount in {1, 2}").constraints.admit({"amount": value})


def test_a_number_and_the_text_of_its_digits_are_two_values():
    number, text = parse("tool.call:a?id=7"), parse("tool.call:a?id='7'")
    assert number.constraints.admit({"id": 7.0})
    assert not number.constraints.admit({"id": "7"})
    assert text.constraints.admit({"id": "7"})
    assert not text.constraints.admit({"id": 7})


def test_an_argument_inside_an_object_is_named_by_its_path():
    capability = parse("tool.call:a?payment.amount<=100")
    assert capability.constraints.admit({"payment": {"amount": 100}})
    assert not capability.constraints.admit({"payment": 100})
    assert capability.constraints.admit({"payment.amount": 3})


def test_of_a_list_each_item_must_satisfy():
    capability = parse("tool.call:mail.send?to in {ana,bo}")
    assert capability.constraints.admit({"to": ["ana", "bo"]})
    assert not capability.constraints.admit({"to": ["ana", "eve"]})


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("net.http:shop.example/search?q=cats", "net.http:shop.example/search?q in {cats}"),
        ("fs.read:/srv/what?", "fs.read:/srv/what%3F"),
        ("tool.call:a?until=2026-12-01", "until=2026-12-01T00:00:00Z"),
        ("tool.call:a?amount<5", "amount<=100"),
        ("tool.call:a?uses=3", "uses<=3"),
        ("tool.call:a?id=12345678901234567890", "'0123'"),
    ],
)
def test_a_constraint_that_cannot_be_used_is_answered_with_one_that_works(text, line):
    with pytest.raises(CapabilityError) as caught:
        parse(text)
    assert line in caught.value.fix


def test_constraints_keep_within_the_resources_of_their_line():
    deny = parse("tool.call:bank.*?amount>=1000")
    assert not contains(deny, parse("tool.call:bank.pay"))
    assert contains(parse("tool.call:bank.*"), deny)
    assert meet(deny, parse("tool.call:shop.*")) is None
    assert meet(deny, parse("tool.call:*.pay?amount<=5")) is None
