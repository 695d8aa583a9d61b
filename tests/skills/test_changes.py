import random
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from benchmarks.schema_pairs import Maker, Pair, is_witness, made_pair
from clawhive_core.skills.changes import (
    SkillDiff,
    compare_contracts,
    needed_bump,
    smallest_version,
)
from clawhive_core.skills.changes.change import BUMPS, Notices, is_enough, is_more, made_bump
from clawhive_core.skills.changes.comparison import allows
from clawhive_core.skills.changes.tools import without_texts
from clawhive_core.skills.contracts.contract import api_version
from clawhive_core.skills.contracts.skill import (
    SECONDS,
    Access,
    Deprecation,
    ExportedTool,
    Exports,
    Import,
    Rate,
    Requires,
    Skill,
    ToolFacts,
)
from clawhive_core.skills.documents.place import Named, Place

HERE = Place("clawhive.yaml", 1, 1)
TODAY = date(2026, 6, 1)
SEEDS = st.integers(0, 2**32)


def tool(name="look", input_schema=None, output_schema=None, **more):
    schemas = ({} if each is None else each for each in (input_schema, output_schema))
    return ExportedTool(name, HERE, more.pop("description", ""), *schemas, facts=ToolFacts(**more))


def skill(*tools, version="1.0", access=None, deprecated=(), **more):
    exports = Exports(version, tools, HERE, access or Access(), deprecated)
    return Skill("sky", "1.0.0", Path("sky"), "given", exports=exports, **more)


def going(name="look", removal="2026-05-30", announced="2026-04-01", replacement=""):
    day = None if announced is None else date.fromisoformat(announced)
    return Deprecation(name, date.fromisoformat(removal), HERE, HERE, replacement, announced=day)


def told(old, new):
    return [(each.kind, each.subject, each.impact) for each in compare_contracts(old, new)]


def codes(old, new, today=TODAY):
    return [each.code for each in SkillDiff.of(old, new, Notices(today)).findings]


def needed(old, new):
    return needed_bump(compare_contracts(old, new))


@pytest.mark.promise("P-206")
@given(SEEDS)
def test_a_contract_and_itself_have_no_difference(seed):
    maker = Maker(random.Random(seed))
    one, other = (
        skill(tool(input_schema=schema, output_schema=schema, effects={"a": "fs.read"}))
        for schema in (maker.root(),) * 2
    )
    diff = SkillDiff.of(one, replace(other, exports=replace(other.exports)), Notices(TODAY))
    assert (diff.changes, diff.remarks, diff.needed) == ((), (), "none")


@pytest.mark.promise("P-206")
@pytest.mark.parametrize("part", ["input_schema", "output_schema"])
@given(seed=SEEDS)
def test_what_breaks_in_a_schema_has_a_witness_that_a_validator_confirms(part, seed):
    pair = made_pair(random.Random(seed))
    old, new = pair.wider, pair.narrower
    (change,) = compare_contracts(skill(tool(**{part: old})), skill(tool(**{part: new})))
    narrower, wider = (old, new) if part == "input_schema" else (new, old)
    if change.impact == "breaking":
        side = "old" if part == "input_schema" else "new"
        assert change.witness.accepted_by == side
        assert is_witness(Pair(wider, narrower, ""), change.witness.value)
    elif change.witness is not None:
        side = "new" if part == "input_schema" else "old"
        assert (change.impact, change.witness.accepted_by) == ("additive", side)
        assert is_witness(Pair(narrower, wider, ""), change.witness.value)


@pytest.mark.promise("P-207")
@given(SEEDS, st.booleans())
def test_widening_is_at_most_minor_and_the_way_back_is_major(seed, is_output):
    """A cat is added to what is taken; where it was refused before, the way back breaks."""
    schema = Maker(random.Random(seed)).root()
    definitions = {"$defs": schema.pop("$defs")} if "$defs" in schema else {}
    cat = {"const": {"cat": "the one and only"}}
    narrow, wide = {"allOf": [schema], **definitions}, {"anyOf": [schema, cat], **definitions}
    part = "output_schema" if is_output else "input_schema"
    small, large = (skill(tool(**{part: each})) for each in (narrow, wide))
    forth, back = (large, small) if is_output else (small, large)
    assert needed(forth, back) in {"none", "minor"}
    changes = compare_contracts(back, forth)
    assume(is_witness(Pair(narrow, cat, ""), cat["const"]))
    assume(all(each.impact != "unknown" for each in changes))
    assert needed_bump(changes) == "major"
    assert codes(back, forth) == ["CH0801"]


@pytest.mark.promise("P-207")
@given(st.sets(st.sampled_from("abcdef")), st.data())
def test_the_bump_over_several_removals_is_that_of_the_worst(names, data):
    after = data.draw(st.sets(st.sampled_from(sorted(names))) if names else st.just(set()))
    last = data.draw(st.sets(st.sampled_from(sorted(after))) if after else st.just(set()))
    one, two, three = (
        skill(*(tool(name, {"required": [name]}) for name in sorted(each)))
        for each in (names, after, last)
    )
    steps = [needed(one, two), needed(two, three)]
    assert needed(one, three) == max(steps, key=BUMPS.index)
    assert needed(three, one) == ("minor" if names != last else "none")


@pytest.mark.promise("P-206")
def test_tools_that_are_new_gone_and_renamed_are_told_as_such():
    plain, other = tool("look"), tool("find", {"required": ["q"]})
    assert told(skill(plain), skill(plain, other)) == [("tool_added", "find", "additive")]
    assert told(skill(plain, other), skill(plain)) == [("tool_removed", "find", "breaking")]
    renamed = replace(other, name="seek")
    assert told(skill(other), skill(renamed)) == [("tool_renamed", "find", "breaking")]
    two_ways = skill(renamed, replace(other, name="hunt"))
    assert {each for each, _, _ in told(skill(other), two_ways)} == {"tool_removed", "tool_added"}


@pytest.mark.promise("P-206")
@pytest.mark.parametrize(
    ("before", "after", "kind", "impact"),
    [
        ({"level": "L0"}, {"level": "L1"}, "capability_level", "breaking"),
        ({"level": "L2"}, {"level": "L1"}, "capability_level", "none"),
        ({}, {"level": "L2"}, "capability_level", "breaking"),
        ({"risk": "safe"}, {"risk": "unsafe"}, "risk", "breaking"),
        ({"risk": "unknown"}, {"risk": "guarded"}, "risk", "none"),
        ({}, {"requires_confirm": True}, "requires_confirm", "breaking"),
        ({"requires_confirm": True}, {}, "requires_confirm", "none"),
        ({}, {"effects": {"path": "fs.write"}}, "effects", "breaking"),
        ({"effects": {"path": ("fs.read", "fs.write")}}, {}, "effects", "none"),
        ({}, {"sinks": ("url:url",)}, "sinks", "breaking"),
        ({"idempotent": True}, {}, "idempotent", "breaking"),
        ({}, {"idempotent": True}, "idempotent", "additive"),
        ({}, {"side_effects": True}, "side_effects", "breaking"),
        ({}, {"timeout_ms": 1}, "timeout_ms", "none"),
        ({}, {"records": ("x:url",)}, "records", "none"),
        ({}, {"description": "Looks."}, "description", "none"),
    ],
)
def test_what_a_call_needs_breaks_where_it_is_more(before, after, kind, impact):
    old, new = skill(tool(**before)), skill(tool(**after))
    assert told(old, new) == [(kind, "look", impact)]


def test_a_level_that_follows_from_permissions_on_one_side_is_not_decided():
    old, new = skill(tool(level="L0")), skill(tool(), permissions=("fs.write:/a/**",))
    assert ("capability_level", "look", "unknown") in told(old, new)
    assert codes(old, new) == ["CH0802", "CH0834"]
    higher = skill(tool(), version="1.1", permissions=("fs.write:/a/**",))
    assert codes(old, higher) == ["CH0831", "CH0834"]


def test_texts_of_a_schema_are_told_and_need_no_bump():
    old = {"properties": {"title": {"title": "A", "description": "b"}}, "description": "c"}
    new = {"properties": {"title": {"description": "d", "examples": [1]}}}
    assert told(skill(tool(input_schema=old)), skill(tool(input_schema=new))) == [
        ("schema_text", "look", "none")
    ]
    data = {"const": {"title": "kept"}, "$defs": {"title": {"title": "gone"}}, "allOf": [{}, True]}
    assert without_texts(data) == {**data, "$defs": {"title": {}}}


@pytest.mark.promise("P-207")
def test_a_schema_that_is_written_otherwise_is_a_note():
    old, new = tool(input_schema={"minimum": 1}), tool(input_schema={"allOf": [{"minimum": 1}]})
    assert told(skill(old), skill(new)) == [("input_schema", "look", "none")]
    assert codes(skill(old), skill(new)) == ["CH0803"]
    assert codes(skill(old), skill(new, version="1.1")) == ["CH0833"]


@pytest.mark.promise("P-206")
def test_access_breaks_where_a_call_is_refused_that_was_not():
    paid = Access(requires_subscription=True)
    half = replace(paid, free_tools=("look",))
    few, many = Access(rates={"*": Rate(5, "day")}), Access(rates={"look": Rate(9, "day")})
    cases = [
        (None, paid, "subscription", "breaking"),
        (half, paid, "subscription", "breaking"),
        (paid, half, "subscription", "additive"),
        (None, many, "rate_limit", "breaking"),
        (many, few, "rate_limit", "breaking"),
        (few, many, "rate_limit", "additive"),
    ]
    for before, after, kind, impact in cases:
        old, new = skill(tool(), access=before), skill(tool(), tool("more"), access=after)
        assert told(old, new)[1:] == [(kind, "look", impact)]


RATES = st.builds(Rate, st.integers(1, 300), st.sampled_from(sorted(SECONDS)))


@given(RATES, RATES)
def test_a_rate_allows_another_where_its_densest_calls_pass(rate, calls):
    begins = range(0, max(rate.seconds, calls.seconds), calls.seconds)
    counted = {}
    for begin in begins:
        window = begin // rate.seconds
        counted[window] = counted.get(window, 0) + calls.count
    assert allows(rate, calls) == (max(counted.values()) <= rate.count)
    assert (allows(None, rate), allows(rate, None), allows(None, None)) == (True, False, True)


@pytest.mark.promise("P-206")
def test_the_rest_of_a_contract_is_told_and_asks_for_no_version():
    old = skill(
        imports=(Import("sun", HERE, (Named("rise", HERE), Named("set", HERE)), "1.0"),),
        requires=Requires(tools=("web.search",), bins=("git",)),
        permissions=("fs.read:${workspace}/**",),
        description="One.",
    )
    new = skill(
        imports=(Import("sun", HERE, (Named("rise", HERE), Named("noon", HERE)), "1.2"),),
        requires=Requires(tools=("web.fetch",), bins=("git",)),
        permissions=("fs.read:${workspace}/a/**",),
        description="Two.",
    )
    assert told(old, replace(new, version="1.1.0")) == [
        ("import_changed", "sun.rise", "none"),
        ("import_added", "sun.noon", "none"),
        ("import_removed", "sun.set", "none"),
        ("requirement_added", "web.fetch", "none"),
        ("requirement_removed", "web.search", "none"),
        ("permission_narrowed", "fs.read:${workspace}/**", "none"),
        ("skill_version", "1.1.0", "none"),
        ("skill_description", "sky", "none"),
    ]
    assert codes(old, new) == []
    assert codes(new, old) == ["CH0834"]


def test_deprecations_are_told():
    plain, marked = skill(tool()), skill(tool(), deprecated=(going(),))
    later = skill(tool(), deprecated=(going(removal="2026-09-01"),))
    assert told(plain, marked) == [("deprecation_added", "look", "additive")]
    assert told(marked, plain) == [("deprecation_removed", "look", "none")]
    assert told(marked, later) == [("deprecation_changed", "look", "none")]
    assert codes(plain, marked) == ["CH0802"]


@pytest.mark.promise("P-208")
@pytest.mark.parametrize(
    ("deprecated", "today", "code"),
    [
        ((), "2026-06-01", "CH0705"),
        ((going("other"),), "2026-06-01", "CH0705"),
        ((going(),), "2026-06-01", None),
        ((going(),), "2026-05-30", None),
        ((going(),), "2026-05-29", "CH0705"),
        ((going(announced="2026-05-02"),), "2026-06-01", None),
        ((going(announced="2026-05-03"),), "2026-06-01", "CH0705"),
        ((going(announced=None),), "2026-06-01", "CH0707"),
    ],
)
def test_a_tool_goes_thirty_days_after_that_was_announced(deprecated, today, code):
    old, new = skill(tool(), deprecated=deprecated), skill(version="2.0", deprecated=deprecated)
    assert codes(old, new, date.fromisoformat(today)) == ([] if code is None else [code])
    renamed = skill(tool("see"), version="2.0")
    assert codes(old, renamed, date.fromisoformat(today)) == ([] if code is None else [code])


VERSIONS = st.builds("{}.{}".format, st.integers(0, 3), st.integers(0, 3))


@pytest.mark.promise("P-207")
@given(VERSIONS, VERSIONS, st.sampled_from(BUMPS))
def test_the_smallest_version_is_enough_and_nothing_below_it(old, new, bump):
    smallest = smallest_version(old, bump)
    assert is_enough(old, smallest, bump)
    assert not is_more(old, smallest, bump)
    assert is_enough(old, new, bump) == (api_version(new) >= api_version(smallest))
    if is_more(old, new, bump):
        assert is_enough(old, new, bump)


@pytest.mark.parametrize(
    ("old", "bump", "new", "made"),
    [
        ("1.4", "major", "2.0", "major"),
        ("1.9", "minor", "1.10", "minor"),
        ("0.3", "major", "0.4", "minor"),
        ("0.3", "minor", "0.4", "minor"),
        ("1.0", "none", "1.0", "none"),
    ],
)
def test_zero_point_versions_break_in_their_minor(old, bump, new, made):
    assert (smallest_version(old, bump), made_bump(old, new)) == (new, made)


@pytest.mark.promise("P-207")
@pytest.mark.parametrize(
    ("old", "new", "change", "expected"),
    [
        ("1.0", "1.0", "none", []),
        ("1.0", "1.0", "add", ["CH0802"]),
        ("1.0", "1.1", "add", []),
        ("1.0", "2.0", "add", ["CH0833"]),
        ("1.0", "1.1", "none", ["CH0833"]),
        ("1.0", "1.1", "break", ["CH0801"]),
        ("1.0", "2.0", "break", []),
        ("0.3", "0.3", "break", ["CH0801"]),
        ("0.3", "0.4", "break", []),
        ("0.3", "1.0", "add", []),
        ("1.1", "1.0", "none", ["CH0832"]),
        ("2.0", "1.9", "break", ["CH0832"]),
        ("1.0", "", "none", ["CH0832"]),
        ("", "1.0", "break", []),
        ("", "", "break", ["CH0801"]),
        ("", "", "add", ["CH0802"]),
    ],
)
def test_a_bump_is_held_against_what_changed(old, new, change, expected):
    before = skill(tool(), version=old)
    tools = {
        "none": (tool(),),
        "add": (tool(), tool("more")),
        "break": (tool(input_schema={"required": ["q"]}),),
    }
    assert codes(before, skill(*tools[change], version=new)) == expected
