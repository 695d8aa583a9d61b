"""The algebra against brute force: every pattern is compared by the set it stands for."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawhive_core.capabilities import (
    Capability,
    contains,
    matches,
    meet,
    overlaps,
    parse,
)

# No pattern below has more than three fixed segments or more than two letters, so sequences of up
# to four segments over three letters tell any two of them apart.
LETTERS = ("a", "b", "c")
UNIVERSE = [items for size in range(5) for items in product(LETTERS, repeat=size)]

segments = st.tuples(
    st.lists(st.sampled_from(["a", "b", "*"]), max_size=3), st.sampled_from([[], ["**"]])
).map(lambda pair: tuple(pair[0] + pair[1]))


def language(pattern):
    """Say naively, by recursion, which sequences of the universe a pattern stands for."""

    def fits(rest, items):
        if not rest:
            return not items
        if rest[0] == "**":
            return True
        return bool(items) and rest[0] in ("*", items[0]) and fits(rest[1:], items[1:])

    return {items for items in UNIVERSE if fits(pattern, items)}


def path(items):
    return parse("fs.read:/" + "/".join(items))


paths = segments.map(path)
urls = st.tuples(
    st.sampled_from(["https://", "http://", "*://"]),
    st.sampled_from(["**", "*", "a", "a.b", "*.b", "**.b", "a.*", "*.*", "**.a.b"]),
    st.sampled_from(["", ":*", ":81", ":443"]),
    segments.map(lambda items: "/" + "/".join(items)),
).map(lambda parts: parse("net.http:" + "".join(parts)))
programs = st.tuples(st.sampled_from(["", "/", "./"]), segments).map(
    lambda pair: parse("sandbox.exec:" + pair[0] + ("/".join(pair[1]) or "**"))
)
capabilities = st.one_of(paths, urls, programs)


def language_of(capability):
    """Return the set of a capability: the product of the sets of its parts."""
    return [language(part) for part in capability.parts]


@given(segments, st.sampled_from(UNIVERSE))
def test_matching_is_membership(pattern, items):
    assert matches(path(pattern), path(items)) == (items in language(pattern))


@given(segments, segments)
def test_containing_is_being_a_superset(p, q):
    assert contains(path(p), path(q)) == (language(p) >= language(q))


@given(segments, segments)
def test_the_meet_is_the_intersection(p, q):
    met = meet(path(p), path(q))
    assert (language(met.parts[0]) if met else set()) == language(p) & language(q)


@given(segments, segments)
def test_two_patterns_are_equal_exactly_if_they_stand_for_the_same(p, q):
    assert (path(p) == path(q)) == (language(p) == language(q))
    assert (path(p) == path(q)) == (path(p).text == path(q).text)


@given(capabilities, capabilities)
def test_the_meet_is_commutative_and_inside_both(p, q):
    met = meet(p, q)
    assert met == meet(q, p)
    assert overlaps(p, q) == (met is not None)
    if met is not None:
        assert contains(p, met)
        assert contains(q, met)


@given(capabilities, capabilities, capabilities)
def test_the_meet_is_associative(p, q, r):
    def then(a, b):
        return meet(a, b) if a is not None and b is not None else None

    assert then(then(p, q), r) == then(p, then(q, r))


@given(capabilities)
def test_the_meet_with_itself_changes_nothing(p):
    assert meet(p, p) == p
    assert contains(p, p)


@given(capabilities, capabilities)
def test_containing_is_meeting_without_loss(p, q):
    assert contains(p, q) == (meet(p, q) == q)


@given(capabilities, capabilities, capabilities)
def test_containing_is_transitive(p, q, r):
    if contains(p, q) and contains(q, r):
        assert contains(p, r)


@given(capabilities, capabilities, capabilities)
def test_the_meet_is_the_greatest_lower_bound(p, q, r):
    if contains(p, r) and contains(q, r):
        met = meet(p, q)
        assert met is not None
        assert contains(met, r)


@given(capabilities, capabilities)
def test_what_two_capabilities_share_has_a_text_that_reads_back(p, q):
    met = meet(p, q)
    if met is not None:
        assert parse(met.text) == met


@given(urls, urls)
def test_addresses_contain_each_other_in_each_dimension(p, q):
    bigger = all(
        mine >= theirs for mine, theirs in zip(language_of(p)[2:], language_of(q)[2:], strict=True)
    )
    if contains(p, q):
        assert bigger


@given(capabilities, capabilities)
def test_equal_capabilities_hash_equally(p, q):
    again = Capability(p.verb, p.parts)
    assert again == p
    assert hash(again) == hash(p)
    assert (p == q) == (len({p, q}) == 1)


@pytest.mark.parametrize("operation", [matches, contains, overlaps])
def test_capabilities_of_two_verbs_have_nothing_in_common(operation):
    assert not operation(parse("fs.write:/**"), parse("fs.read:/a"))
    assert meet(parse("fs.write:/**"), parse("fs.read:/**")) is None


def test_writing_implies_neither_reading_nor_deleting():
    written = parse("fs.write:/a")
    assert not matches(parse("fs.read:/**"), written)
    assert not matches(parse("fs.delete:/**"), written)


def test_a_deny_inside_a_wider_need_overlaps_it_without_containing_it():
    deny, need = parse("fs.read:/srv/.clawhive/**"), parse("fs.read:/srv/**")
    assert not matches(deny, need)
    assert overlaps(deny, need)


def test_a_capability_is_concrete_if_it_has_no_wildcard():
    assert parse("fs.read:/a").is_concrete
    assert parse("fs.read:/a%2A").is_concrete
    assert not parse("fs.read:/a/*").is_concrete
    assert not parse("net.http:example.com").is_concrete
    assert not parse("net.connect:example.com").is_concrete
