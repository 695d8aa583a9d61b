"""How often and how long a right counts is taken out of what is written, and only narrows."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from clawhive_core.capabilities import parse
from clawhive_core.capabilities.constraints import MAX_USES
from clawhive_core.errors import CapabilityError, UsageError
from clawhive_core.policy.boundary import within
from clawhive_core.policy.rules import Rules
from clawhive_core.policy.terms import is_live, on_terms, usable
from tests.harness import grant

EARLY, LATE = "2026-01-01T00:00:00.000000Z", "2027-01-01T00:00:00.000000Z"
NOW = datetime(2026, 6, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("written", "left"),
    [
        ("fs.read:/a", (None, None)),
        ("fs.read:/a?n<=1", (None, None)),
        ("fs.read:/a?uses<=2", (2, None)),
        ("fs.read:/a?until=2026-01-01T00:00:00Z", (None, EARLY)),
        ("fs.read:/a?n<=1&uses<=2&until=2026-01-01T00:00:00Z", (2, EARLY)),
    ],
)
def test_uses_and_until_leave_the_pattern_and_become_the_grants_own(written, left):
    found = on_terms(grant("fs.read:/**"), parse(written))
    assert (found.uses, found.expires_at) == left
    assert found.capability == ("fs.read:/a?n<=1" if "n<=1" in written else "fs.read:/a")


@pytest.mark.parametrize(
    ("uses", "until", "written", "left"),
    [
        (1, EARLY, "?uses<=2&until=2027-01-01T00:00:00Z", (1, EARLY)),
        (2, LATE, "?uses<=1&until=2026-01-01T00:00:00Z", (1, EARLY)),
        (1, LATE, "?until=2026-01-01T00:00:00Z", (1, EARLY)),
        (2, EARLY, "?uses<=1", (1, EARLY)),
        (1, EARLY, "", (1, EARLY)),
    ],
)
def test_what_is_written_narrows_what_the_grant_has_and_never_widens_it(uses, until, written, left):
    given = grant("fs.read:/**", uses=uses, expires_at=until)
    found = on_terms(given, parse(f"fs.read:/a{written}"))
    assert (found.uses, found.expires_at, found.grant_id) == (*left, given.grant_id)


def test_where_nothing_is_counted_a_number_of_uses_is_refused_with_what_works_instead():
    counted = "fs.read:/a?n<=1&uses<=2"
    for make in (
        lambda: Rules((), denies=[counted]),
        lambda: Rules((), asks=[counted]),
        lambda: within([grant("fs.read:/**")], [counted], {}),
    ):
        with pytest.raises(CapabilityError, match="counts nothing") as caught:
            make()
        assert "`fs.read:/a?n<=1`" in caught.value.fix
    assert Rules((), denies=["fs.read:/a?n<=1"], asks=["fs.read:/b"]).counts()[2] > 0


@pytest.mark.parametrize("uses", [-1, 0, MAX_USES + 1])
def test_a_number_of_uses_that_cannot_be_counted_is_refused(uses):
    with pytest.raises(UsageError, match="no number of uses") as caught:
        usable(grant("fs.read:/a", uses=uses), NOW)
    assert caught.value.place == "--uses"
    for number in (1, MAX_USES, None):
        held = grant("fs.read:/a", uses=number)
        assert usable(held, NOW) is held


def test_a_right_for_every_project_counts_no_uses():
    held = replace(grant("fs.read:/a", expires_at=LATE), scope="persistent", scope_id="")
    assert usable(held, NOW) is held
    with pytest.raises(UsageError, match="not in it") as caught:
        usable(replace(held, uses=2), NOW)
    assert caught.value.place == "--uses"
    assert not is_live(replace(held, expires_at=None), NOW)


def test_where_nothing_is_written_the_grant_stays_as_it_is():
    held = grant("fs.read:/a?n<=1", expires_at="2027-01-01T01:00:00+01:00", uses=2)
    assert on_terms(held, parse(held.capability)) is held


def test_a_right_that_is_over_is_not_given():
    with pytest.raises(UsageError, match="the right ended at"):
        usable(grant("fs.read:/a", expires_at=EARLY), NOW)
    held = grant("fs.read:/a", expires_at=LATE)
    assert usable(held, NOW) is held
    assert not is_live(held, NOW + timedelta(days=365))
    assert not is_live(grant("fs.read:/a", expires_at="soon"), NOW)
    assert is_live(grant("fs.read:/a"), NOW)
