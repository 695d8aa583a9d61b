"""Two faces: what a principal may use, and what it may give on; a child never gets more."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawhive_core.capabilities import contains, parse
from clawhive_core.policy.boundary import attenuate, cut, delegate_of, handed_on
from clawhive_core.policy.rules import Rules
from tests.harness import grant

ORDER = {"allow": 0, "ask": 1, "deny": 2}
segments = st.lists(st.sampled_from(["a", "b", "*"]), max_size=2).flatmap(
    lambda items: st.sampled_from(["/".join(items), "/".join([*items, "**"])])
)
constraints = st.sampled_from(["", "?n<=1", "?n<=2", "?n>=1", "?to in {x}", "?n<=1&to in {x,y}"])
patterns = st.tuples(
    st.sampled_from(["fs.read", "fs.exec", "fs.write"]), segments, constraints
).map(lambda part: f"{part[0]}:/{part[1]}{part[2]}")
grants = st.lists(
    st.tuples(
        patterns,
        st.sampled_from(["user", "starter"]),
        st.sampled_from(["allow", "ask"]),
        st.one_of(st.none(), st.just(""), patterns),
    ).map(lambda part: grant(parse(part[0]).text, part[1], part[2], delegate=part[3])),
    max_size=5,
)
calls = st.tuples(
    st.sampled_from(["fs.read", "fs.exec", "fs.write"]),
    st.lists(st.sampled_from("abc"), min_size=1, max_size=3),
    st.fixed_dictionaries({"n": st.sampled_from([0, 1, 2, "1"]), "to": st.sampled_from("xyz")}),
).map(lambda part: (parse(f"{part[0]}:/{'/'.join(part[1])}"), part[2]))


@pytest.mark.promise("P-094")
@given(grants, st.lists(patterns, max_size=3), st.lists(patterns, max_size=3), calls)
def test_attenuation_never_widens_however_long_the_chain(held, first, second, call):
    parent = Rules(held)
    child = parent.bounded(tuple(parse(each).text for each in first))
    grandchild = child.bounded(tuple(parse(each).text for each in second))
    verdicts = [ORDER[rules.authority(*call).verdict] for rules in (parent, child, grandchild)]
    assert verdicts == sorted(verdicts)


@given(grants, st.lists(patterns, max_size=3), calls)
def test_a_child_has_what_both_a_delegate_face_and_its_request_cover(held, request, call):
    faces = [(each, delegate_of(each)) for each in held]
    asked = [parse(each) for each in request]

    def covers(pattern):
        return contains(pattern.unconstrained, call[0]) and pattern.constraints.admit(call[1])

    expected = any(
        face is not None and covers(face) and any(map(covers, asked)) for _, face in faces
    )
    child = Rules(attenuate(held, [each.text for each in asked]))
    assert (child.authority(*call).verdict != "deny") == expected


@given(grants, calls)
def test_a_sub_agent_has_what_delegate_faces_cover_and_never_more_than_its_parent(held, call):
    child, parent = Rules(handed_on(held)), Rules(held)
    capability, given_input = call
    faces = [face for face in map(delegate_of, held) if face is not None]
    covered = any(
        contains(face.unconstrained, capability) and face.constraints.admit(given_input)
        for face in faces
    )
    verdicts = [ORDER[rules.authority(*call).verdict] for rules in (parent, child)]
    assert verdicts == sorted(verdicts)
    assert (verdicts[1] < ORDER["deny"]) == covered


@given(grants, st.lists(patterns, max_size=3))
def test_what_a_child_holds_it_holds_by_ids_of_its_parent_and_within_its_delegate_face(held, asked):
    faces = {each.grant_id: delegate_of(each) for each in held}
    for each in attenuate(held, [parse(text).text for text in asked]):
        assert contains(faces[each.grant_id], parse(each.capability))


@given(grants, st.lists(patterns, min_size=1, max_size=3))
def test_a_boundary_narrows_the_delegate_face_with_the_use(held, bounds):
    for each in cut(held, [parse(text).text for text in bounds]):
        face = delegate_of(each)
        assert face is None or contains(parse(each.capability), face)


def test_unsafe_rights_are_not_given_on_unless_a_grant_says_so():
    kept, given_on = grant("fs.exec:/bin/a"), grant("fs.exec:/bin/a", delegate="fs.exec:/bin/a")
    assert delegate_of(kept) is None
    assert delegate_of(given_on) == parse("fs.exec:/bin/a")
    assert Rules([kept]).bounded(("fs.exec:/**",)).grants == ()
    assert Rules([kept]).authority(parse("fs.exec:/bin/a")).verdict == "allow"


def test_a_grant_that_delegates_nothing_is_for_its_holder_alone():
    rules = Rules([grant("fs.read:/a/**", delegate="")])
    assert rules.authority(parse("fs.read:/a/b")).verdict == "allow"
    assert rules.bounded(("fs.read:/**",)).authority(parse("fs.read:/a/b")).verdict == "deny"
