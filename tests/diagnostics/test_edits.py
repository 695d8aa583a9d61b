from hypothesis import given
from hypothesis import strategies as st

from clawhive_core.diagnostics import Edit, Fix
from clawhive_core.diagnostics.finding import apply_fixes

TEXT = "0123456789"
EDITS = st.builds(
    lambda start, length, text: Edit(start, start + length, text),
    st.integers(0, 12),
    st.integers(0, 4),
    st.sampled_from(["", "a", "bb"]),
)
FIXES = st.builds(lambda edits: Fix("f", tuple(edits)), st.lists(EDITS, max_size=3))


def test_fixes_that_lie_apart_are_all_made():
    fixes = [Fix("b", (Edit(8, 9, "xy"),)), Fix("a", (Edit(0, 1, ""), Edit(4, 4, "-")))]
    assert apply_fixes(TEXT, fixes) == ("123-4567xy9", 2)


def test_of_two_that_overlap_one_is_made():
    first, second = Fix("a", (Edit(2, 5, "A"),)), Fix("b", (Edit(4, 6, "B"),))
    assert apply_fixes(TEXT, [second, first]) == ("01A56789", 1)


def test_two_that_insert_at_one_place_are_not_both_made():
    assert apply_fixes(TEXT, [Fix("a", (Edit(2, 2, "A"),)), Fix("b", (Edit(2, 2, "B"),))])[1] == 1


def test_a_fix_is_made_whole_or_not_at_all():
    half = Fix("b", (Edit(0, 1, "x"), Edit(9, 12, "y")))
    assert apply_fixes(TEXT, [half]) == (TEXT, 0)
    blocked = Fix("b", (Edit(3, 4, "x"), Edit(8, 9, "y")))
    assert apply_fixes(TEXT, [Fix("a", (Edit(2, 4, ""),)), blocked]) == ("01456789", 1)


def test_a_fix_that_overlaps_itself_is_not_made():
    assert apply_fixes(TEXT, [Fix("a", (Edit(0, 2, "x"), Edit(1, 3, "y")))]) == (TEXT, 0)


def test_equal_fixes_are_one_and_a_fix_without_edits_is_none():
    one = Fix("a", (Edit(0, 1, "x"),))
    assert apply_fixes(TEXT, [one, one, Fix("say it")]) == ("x123456789", 1)


@given(st.lists(FIXES, max_size=6))
def test_whatever_is_asked_the_characters_outside_of_edits_stay(fixes):
    text, made = apply_fixes(TEXT, fixes)
    touched = {at for fix in fixes for edit in fix.edits for at in range(edit.start, edit.end)}
    kept = [char for at, char in enumerate(TEXT) if at not in touched]
    assert [char for char in text if char in kept] == kept
    assert made <= len([fix for fix in fixes if fix.edits])
