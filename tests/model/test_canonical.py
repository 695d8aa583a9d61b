import math

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from clawhive_core.model.canonical import canonical, canonical_text, digest, preview

SAFE = 2**53 - 1
TEXT = st.text(st.characters(exclude_categories=["Cs"]))
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-SAFE, SAFE) | FLOATS | TEXT,
    lambda inner: st.lists(inner) | st.dictionaries(TEXT, inner),
)


@given(JSON)
def test_it_is_rfc_8785(value):
    assert canonical(value) == rfc8785.dumps(value)


NEAR = [1e-7, 1e-6, 1e-5, 1e-4, 0.1, 1.0, 1e14, 1e15, 1e16, 2.0**53, 1e20, 1e21, 1e22]


@given(st.sampled_from(NEAR), st.floats(-2, 2), st.integers(0, 17))
def test_floats_are_rfc_8785_around_where_other_encoders_change_their_form(near, factor, digits):
    found = [near * factor, round(near * factor, digits)]
    found += [math.nextafter(near, math.inf), math.nextafter(near, -math.inf)]
    for value in (*found, {"k": [found, "text", None, 5]}):
        assert canonical(value) == rfc8785.dumps(value)


def test_a_deep_value_with_floats_is_rfc_8785():
    value = 0.5
    for _ in range(300):
        value = [value]
    assert canonical(value) == rfc8785.dumps(value)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1.0, "1"),
        (-0.0, "0"),
        (1e21, "1e+21"),
        (0.1, "0.1"),
        (SAFE, str(SAFE)),
        (SAFE + 1, '{"$int":"9007199254740992"}'),
        (-SAFE - 1, '{"$int":"-9007199254740992"}'),
        ([True, 1], "[true,1]"),
        (math.inf, '{"$float":"inf"}'),
        ({"\U0001f600": 1, "\uffee": 2}, '{"\U0001f600":1,"\uffee":2}'),
        ("\x00\x7f\u2028", '"\\u0000\x7f\u2028"'),
        ("\ud800", '"?"'),
        ((1, (2,)), "[1,[2]]"),
    ],
)
def test_hard_values_have_one_spelling(value, text):
    assert canonical_text(value) == text
    assert canonical_text({"k": [value]}) == f'{{"k":[{text}]}}'


class Key(str):
    __slots__ = ()

    def __str__(self):
        return "b"


@pytest.mark.parametrize(
    ("key", "text"), [(1, "1"), (1.5, "1.5"), (None, "null"), (True, "true"), (Key("a"), "a")]
)
def test_keys_that_are_no_plain_text_have_one_spelling_at_any_depth(key, text):
    assert canonical_text({key: 1}) == f'{{"{text}":1}}'
    assert canonical_text({"k": [1, {key: "x"}]}) == f'{{"k":[1,{{"{text}":"x"}}]}}'


def test_nan_is_marked():
    assert canonical_text([math.nan]) == '[{"$float":"nan"}]'


@pytest.mark.parametrize("value", [b"x", {1, 2}, object(), [math.nan, b"x"], ["\ud800", {1}]])
def test_what_is_no_json_is_a_type_error(value):
    with pytest.raises(TypeError):
        canonical(value)


def test_a_value_that_contains_itself_is_an_error_and_no_endless_loop():
    value = []
    value.append(value)
    with pytest.raises(RecursionError):
        canonical(value)


def test_the_digest_is_sha_256_of_the_canonical_form():
    assert digest({}) == "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"
    assert digest({"a": 1, "b": 2}) == digest({"b": 2, "a": 1})


@pytest.mark.parametrize(
    ("text", "short"),
    [
        ("", ""),
        (" a\n b\t", "a b"),
        ("abcde", "abcde"),
        ("abcdef", "abcd…"),
        ("a" * 100, "aaaa…"),
        ("a         b         c", "a…"),
    ],
)
def test_a_preview_is_one_line_of_bounded_length(text, short):
    assert preview(text, 5) == short


@given(st.text(), st.integers(1, 50))
def test_a_preview_is_never_too_long_and_never_two_lines(text, limit):
    short = preview(text, limit)
    assert len(short) <= limit
    assert len(short.splitlines()) <= 1


@given(st.text(st.sampled_from("ab \n\u2003\x1f")), st.integers(2, 12))
def test_a_preview_shows_what_it_would_show_of_the_whole_text(text, limit):
    flat = " ".join(text[: limit * 2].split())
    is_whole = len(flat) <= limit and len(text) <= limit * 2
    assert preview(text, limit) == (flat if is_whole else flat[: limit - 1] + "…")
