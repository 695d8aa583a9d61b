import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from clawhive_core.capabilities import contains, parse
from clawhive_core.errors import CapabilityError
from clawhive_core.policy.boundary import within
from clawhive_core.policy.rules import Rules
from tests.harness import grant

RANK = {"allow": 0, "ask": 1, "deny": 2}
PATTERNS = st.sampled_from(
    [
        "fs.read:**",
        "fs.read:/w/**",
        "fs.read:/w/*/a",
        "fs.read:/w/b/**",
        "fs.read:/w/.env",
        "fs.read:/w/.env/**",
        "fs.write:/w/**",
        "net.http:https://**.example.com/**",
        "net.http:https://api.example.com/v1/**",
        "net.http:**",
        "tool.call:web.*",
        "tool.call:**",
    ]
)
RESOURCES = st.sampled_from(
    [
        "fs.read:/w/b/a",
        "fs.read:/w/x",
        "fs.read:/etc/x",
        "fs.read:/w/.env",
        "fs.read:/w/.env/a",
        "fs.write:/w/a",
        "net.http:https://api.example.com/v1/x",
        "net.http:https://example.com/",
        "tool.call:web.search",
    ]
)
GRANTS = st.lists(
    st.builds(
        grant,
        PATTERNS,
        st.sampled_from(["starter", "user", "skill"]),
        st.sampled_from(["allow", "ask"]),
    ),
    max_size=6,
)


@given(GRANTS, st.lists(PATTERNS, min_size=1, max_size=4))
def test_a_boundary_never_widens_either_side(grants, permissions):
    for each in within(grants, permissions, {}):
        pattern = parse(each.capability)
        assert any(contains(parse(bound), pattern) for bound in permissions)
        assert any(
            contains(parse(given.capability), pattern)
            and (given.mode, given.issuer, given.subject) == (each.mode, each.issuer, each.subject)
            for given in grants
        )


@given(GRANTS, st.lists(PATTERNS, min_size=1, max_size=4), RESOURCES)
@example(
    [grant("fs.read:**", "starter"), grant("fs.read:/w/.env", "user", "ask")],
    ["fs.read:/w/.env"],
    "fs.read:/w/.env",
)
def test_a_boundary_decides_as_both_sides_together(grants, permissions, resource):
    capability = parse(resource)
    inside = any(contains(parse(bound), capability) for bound in permissions)
    before = Rules(grants).authority(capability)
    after = Rules(within(grants, permissions, {})).authority(capability)
    assert after.verdict == (before.verdict if inside else "deny")
    assert after.by_person == (before.by_person and inside)
    assert RANK[after.verdict] >= RANK[before.verdict]


def test_a_skill_that_names_a_secret_does_not_name_it_for_the_person_who_granted_its_folder():
    wide, secret = [grant("fs.read:/w/**", "user")], "fs.read:/w/.env"
    for rules in (Rules(within(wide, [secret], {})), Rules(wide).bounded([secret])):
        assert rules.authority(parse(secret)).verdict == "deny"
    exact = within([grant(secret, "user")], ["fs.read:/w/**"], {})
    assert Rules(exact).authority(parse(secret)).verdict == "allow"


def test_a_side_that_states_nothing_does_not_narrow():
    grants = [grant("fs.read:/w/**")]
    assert within(grants, (), {}) == grants


def test_cut_grants_have_ids_of_their_own_and_no_duplicates():
    grants = [grant("fs.read:/w/**"), grant("fs.read:/w/a")]
    cut = within(grants, ["fs.read:/w/a", "fs.read:/w/a"], {})
    assert [each.capability for each in cut] == ["fs.read:/w/a"]
    assert cut[0].grant_id not in {each.grant_id for each in grants}


def test_grants_that_differ_in_anything_are_kept_apart():
    grants = [grant("fs.read:/w/a", expires_at=when) for when in (None, "2030-01-01T00:00:00Z")]
    assert {each.expires_at for each in within(grants, ["fs.read:**"], {})} == {
        None,
        "2030-01-01T00:00:00Z",
    }


def test_permissions_may_use_variables():
    cut = within([grant("fs.read:**")], ["fs.read:${workspace}/**"], {"workspace": "/w"})
    assert [each.capability for each in cut] == ["fs.read:/w/**"]


def test_an_unusable_permission_is_an_error():
    with pytest.raises(CapabilityError):
        within([grant("fs.read:**")], ["fs.read:a/**/b"], {})


@given(GRANTS, st.lists(PATTERNS, max_size=3), RESOURCES)
def test_bounded_rules_say_the_same_within_their_bounds_and_deny_beyond(grants, bounds, resource):
    rules, capability = Rules(grants, ["fs.read:/w/b/**"], ["tool.call:web.*"]), parse(resource)
    bounded = rules.bounded(bounds).authority(capability)
    if any(contains(parse(bound), capability) for bound in bounds):
        whole = rules.authority(capability)
        assert (bounded.verdict, bounded.by_person) == (whole.verdict, whole.by_person)
    else:
        assert bounded.verdict == "deny"


@given(GRANTS, GRANTS, st.lists(PATTERNS, max_size=3), RESOURCES)
def test_later_grants_reach_bounded_rules_cut_down(grants, later, bounds, resource):
    rules, capability = Rules(grants), parse(resource)
    bounded = rules.bounded(bounds)
    rules.extend(later)
    fresh = Rules(rules.grants).bounded(bounds)
    assert bounded.authority(capability).verdict == fresh.authority(capability).verdict
    assert rules.bounded(bounds) is bounded


def test_bounded_grants_keep_their_ids_so_that_the_log_names_them():
    whole = grant("fs.read:/w/**")
    authority = Rules([whole]).bounded(["fs.read:/w/a"]).authority(parse("fs.read:/w/a"))
    assert authority.rule == whole.grant_id


def test_a_bounded_grant_ends_with_its_time():
    rules = Rules([grant("fs.read:/w/**", expires_at="2030-01-01T00:00:00Z")]).bounded(
        ["fs.read:**"]
    )
    assert rules.authority(parse("fs.read:/w/a")).verdict == "allow"
    rules.expire("2031-01-01T00:00:00Z")
    assert rules.authority(parse("fs.read:/w/a")).verdict == "deny"
