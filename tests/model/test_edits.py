"""What is said of a changed input: the same for the same change, nothing where there is none."""

from hypothesis import given
from hypothesis import strategies as st

from clawhive_core.model.approvals import edits
from clawhive_core.model.canonical import canonical_text

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text("ab/~", max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab/~", max_size=2), inner),
    max_leaves=8,
)
INPUTS = st.dictionaries(st.text("ab/~", max_size=2), VALUES, max_size=4)


def test_each_changed_place_is_named_with_what_stands_there_now():
    before = {"path": "a", "proposal": {"a/b": 1, "keep": [1]}, "gone": 1}
    after = {"path": "b", "proposal": {"a/b": 2, "keep": [1], "new": None}}
    assert edits(before, after) == (
        'A person edited the input before approving the call: /gone is left out; /path is now "b"; '
        "/proposal/a~1b is now 2; /proposal/new is now null."
    )


def test_many_and_long_changes_are_cut():
    after = {str(number): "x" * 10_000 for number in range(100)}
    said = edits({}, after)
    assert said.endswith("; and 90 more places.")
    assert len(said) < 4000


@given(INPUTS, INPUTS)
def test_nothing_is_said_exactly_where_nothing_changed(before, after):
    assert (edits(before, after) == "") == (canonical_text(before) == canonical_text(after))


@given(INPUTS, INPUTS)
def test_what_is_said_does_not_depend_on_the_order_of_keys(before, after):
    turned = dict(reversed(list(after.items())))
    assert edits(before, turned) == edits(before, after)
