"""Revoking reaches every child, however deep, whenever it was made, and nobody else."""

from dataclasses import replace
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawhive_core.capabilities import parse
from clawhive_core.events import grants as grant_events
from clawhive_core.model.events import Event
from clawhive_core.policy.rules import Rules
from clawhive_core.storage.sqlite import grants
from clawhive_core.storage.sqlite.log import EventLog
from clawhive_core.storage.sqlite.tables import tables_of
from tests.harness import grant

PATTERNS = ["fs.read:/a/**", "fs.read:/a/b", "fs.read:/**", "fs.read:/*/b", "fs.write:/a/**"]
RESOURCES = [parse(each) for each in ("fs.read:/a/b", "fs.read:/a/c", "fs.read:/d/b")]
RESOURCES.append(parse("fs.write:/a/b"))
bounds = st.lists(st.sampled_from(PATTERNS), min_size=1, max_size=2).map(tuple)


@st.composite
def families(draw):
    """Return grants, each maybe derived from one before it, some of a step's own."""
    found = []
    for number in range(draw(st.integers(1, 7))):
        parent = draw(st.sampled_from([None, *found]))
        made = grant(
            draw(st.sampled_from(PATTERNS)),
            mode=draw(st.sampled_from(["allow", "ask"])),
            grant_id=f"grant_{number}",
            parent_grant=None if parent is None else parent.grant_id,
        )
        step = draw(st.sampled_from([None, "run_1/one"]))
        found.append(made if step is None else replace(made, scope="step", scope_id=step))
    return found


def descendants(family, gone):
    """Return the ids that end with these, by walking up from each grant."""
    parents = {each.grant_id: each.parent_grant for each in family}

    def ends(name):
        return name is not None and (name in gone or ends(parents[name]))

    return {each.grant_id for each in family if ends(each.grant_id)}


@pytest.mark.promise("P-129")
@given(families(), st.lists(bounds, max_size=3), st.data())
def test_a_revocation_reaches_children_at_every_depth_and_nobody_else(family, chain, data):
    split = data.draw(st.integers(0, len(family)))
    rules = Rules(family[:split])
    line = [rules]
    for bound in chain:
        line.append(line[-1].bounded(bound))
    for each in line:
        each.of_step("run_1/one")
    rules.extend(family[split:])
    gone = set(data.draw(st.lists(st.sampled_from([each.grant_id for each in family]), max_size=2)))
    told = set()
    for each in family:
        rules.watch([each.grant_id], partial(told.add, each.grant_id))
    ended = {each.grant_id for each in rules.revoke(gone)}
    over = descendants(family, gone)
    assert ended == over == told
    fresh = Rules([each for each in family if each.grant_id not in over])
    for each, bound in zip(line, [None, *chain], strict=True):
        fresh = fresh if bound is None else fresh.bounded(bound)
        assert not over & {held.grant_id for held in each.every}
        for resource in RESOURCES:
            assert each.authority(resource).verdict == fresh.authority(resource).verdict
            mine = each.of_step("run_1/one").authority(resource)
            assert mine.verdict == fresh.of_step("run_1/one").authority(resource).verdict
            assert mine.rule not in over


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("revoked")


@pytest.mark.promise("P-129")
def test_in_the_log_a_revocation_ends_the_same_grants(folder):
    log = EventLog.open(folder / "hive.db", tables_of(grants))
    count = iter(range(10_000))

    @given(families(), st.data())
    def holds(family, data):
        lead = f"f{next(count)}_"
        named = [
            replace(
                each,
                grant_id=lead + each.grant_id,
                parent_grant=each.parent_grant and lead + each.parent_grant,
            )
            for each in family
        ]
        log.append_now(grant_events.issued(named))
        gone = data.draw(st.sampled_from(named)).grant_id
        log.append_now(Event("grant.revoked", {"grant_id": gone, "reason": "test"}))
        rows = log.read("SELECT grant_id FROM grants WHERE grant_id LIKE ?", (f"{lead}%",))
        left = {each.grant_id for each in named} - descendants(named, {gone})
        assert {row[0] for row in rows} == left

    try:
        holds()
        assert log.compare() == ()
    finally:
        log.close()
