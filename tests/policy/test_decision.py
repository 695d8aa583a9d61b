import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawhive_core.capabilities import overlaps, parse
from clawhive_core.model.principal import DEFAULT_AGENT
from clawhive_core.policy.decision import asks_by_itself, decide, strictest
from clawhive_core.policy.protected import as_rules
from clawhive_core.policy.rules import Authority, Rules
from clawhive_core.protocols.check import CheckResult, PolicyRequest
from tests.harness import grant, tool_meta

RANK = {"allow": 0, "ask": 1, "deny": 2}
PATTERNS = [
    "fs.read:/w/**",
    "fs.read:/w/a",
    "fs.read:/w/*",
    "fs.read:/w/secret/**",
    "fs.write:/w/**",
    "fs.write:/w/a",
    "net.http:https://**",
    "net.http:https://**.example.com/**",
    "tool.call:**",
    "tool.call:demo.echo",
]
CAPABILITIES = [
    "fs.read:/w/a",
    "fs.read:/w/secret/k",
    "fs.read:/w/**",
    "fs.read:/w/.env",
    "fs.read:/w/.clawhive/hive.db",
    "fs.write:/w/a",
    "fs.write:/x",
    "net.http:https://api.example.com/v1",
    "net.http:https://api.example.com/**",
    "tool.call:demo.echo",
]
GRANTS = st.lists(
    st.builds(
        grant,
        st.sampled_from([*PATTERNS, "fs.read:/w/.env"]),
        st.sampled_from(["starter", "user", "config", "skill", "approval"]),
        st.sampled_from(["allow", "ask"]),
        uses=st.none() | st.just(3),
    ),
    max_size=6,
)
RULE_LISTS = st.lists(st.sampled_from(PATTERNS), max_size=3)
CHECKS = st.lists(
    st.builds(CheckResult, st.sampled_from(["ask", "deny"]), st.just("check:c:r")), max_size=2
)
NEEDS = st.lists(st.sampled_from(CAPABILITIES), min_size=1, max_size=3, unique=True)
TOOLS = st.builds(
    lambda risk, confirm: tool_meta(risk=risk, requires_confirm=confirm),
    st.sampled_from(["safe", "guarded", "unknown", "unsafe"]),
    st.booleans(),
)
CASES = st.tuples(NEEDS, TOOLS, GRANTS, RULE_LISTS, RULE_LISTS, CHECKS)
"""What a call needs, its tool, the grants, denies and asks of its task, what checks say."""


def request(capabilities, tool=None):
    return PolicyRequest(
        tool or tool_meta(), {}, DEFAULT_AGENT, tuple(capabilities), "task", "step", "conv"
    )


def naive_covers(pattern, resource):
    """Containment of patterns, dimension by dimension, by walking both."""

    def walk(p, q):
        if p == ("**",):
            return True
        if not p or not q or q[0] == "**":
            return p == q
        return p[0] in {"*", q[0]} and walk(p[1:], q[1:])

    return pattern.verb == resource.verb and all(map(walk, pattern.parts, resource.parts))


def naive_authority(text, grants, denies, asks):
    """Section by section: denies, protected names, grants, a person's grant over an ask."""
    capability = parse(text)
    handled = capability.verb in {"fs.read", "fs.write"}
    for deny in map(parse, denies):
        if naive_covers(deny, capability) or (not handled and overlaps(deny, capability)):
            return "deny", False
    fitting = [each for each in grants if naive_covers(parse(each.capability), capability)]
    name = text.rpartition("/")[2]
    exactly = any(each.by_person and each.capability == text for each in grants)
    if "/.clawhive/" in text or (name == ".env" and not exactly):
        return "deny", False
    if not fitting:
        return "deny", False
    if not any(each.mode == "allow" for each in fitting):
        return "ask", False
    person = any(each.mode == "allow" and each.by_person for each in fitting)
    asked = any(overlaps(parse(ask), capability) for ask in asks)
    return ("allow", True) if person else ("ask" if asked else "allow", False)


def naive_decision(needs, tool, grants, denies, asks, checks):
    found = [naive_authority(text, grants, denies, asks) for text in needs]
    verdicts = [verdict for verdict, _ in found] + [check.verdict for check in checks]
    lifted = all(by_person for _, by_person in found) and tool.risk != "unsafe"
    if not lifted and (tool.risk != "safe" or tool.requires_confirm):
        verdicts.append("ask")
    return max(verdicts, key=RANK.__getitem__)


@given(CASES)
def test_the_decision_agrees_with_a_second_naive_one(case):
    needs, tool, grants, denies, asks, checks = case
    decision = decide(request(needs, tool), Rules(grants, denies, asks), checks)
    assert decision.verdict == naive_decision(needs, tool, grants, denies, asks, checks)


@given(CASES, st.randoms(use_true_random=False))
def test_order_and_duplicates_change_nothing(case, random):
    needs, tool, grants, denies, asks, checks = case
    before = decide(request(needs, tool), Rules(grants, denies, asks), checks)
    needs, grants, denies, asks, checks = (
        random.sample(each * 2, len(each) * 2) for each in (needs, grants, denies, asks, checks)
    )
    after = decide(request(needs, tool), Rules(grants, denies, asks), checks)
    assert (after.verdict, after.final, after.each_time, after.floor) == (
        before.verdict,
        before.final,
        before.each_time,
        before.floor,
    )
    assert set(after.missing) == set(before.missing)
    assert set(after.needed) == set(before.needed)


@given(CASES, st.sampled_from(PATTERNS))
def test_a_further_deny_ask_or_check_only_tightens(case, pattern):
    needs, tool, grants, denies, asks, checks = case

    def rank(denies, asks, checks):
        return RANK[decide(request(needs, tool), Rules(grants, denies, asks), checks).verdict]

    before = rank(denies, asks, checks)
    assert rank([*denies, pattern], asks, checks) >= before
    assert rank(denies, [*asks, pattern], checks) >= before
    for verdict in ("ask", "deny"):
        further = rank(denies, asks, [*checks, CheckResult(verdict, "r")])
        assert further >= max(before, RANK[verdict])


@given(CASES)
def test_a_further_grant_only_loosens(case):
    needs, tool, grants, denies, asks, checks = case
    before = decide(request(needs, tool), Rules(grants, denies, asks), checks)
    more = [*grants, *(grant(text) for text in needs)]
    after = decide(request(needs, tool), Rules(more, denies, asks), checks)
    assert RANK[after.verdict] <= RANK[before.verdict]
    assert after.final == before.final


@given(CASES)
def test_granting_what_is_needed_lifts_all_but_final_denies_and_asks_of_each_time(case):
    needs, tool, grants, denies, asks, checks = case
    before = decide(request(needs, tool), Rules(grants, denies, asks), checks)
    more = [*grants, *(grant(text) for text in before.needed)]
    after = decide(request(needs, tool), Rules(more, denies, asks), checks)
    expected = "deny" if before.final else "ask" if before.each_time else "allow"
    assert after.verdict == expected


@given(GRANTS, NEEDS)
def test_an_unsafe_tool_is_never_allowed_by_itself(grants, needs):
    everything = [grant(f"{text.partition(':')[0]}:**") for text in needs]
    rules = Rules([*grants, *everything])
    assert decide(request(needs, tool_meta(risk="unsafe")), rules).verdict != "allow"


@pytest.mark.parametrize("issuer", ["user", "config", "approval"])
@pytest.mark.parametrize("risk", ["guarded", "unknown"])
def test_a_persons_grant_of_each_capability_lifts_a_guarded_tool(risk, issuer):
    needs = ["fs.read:/w/a", "fs.write:/w/a"]
    tool = tool_meta(risk=risk)
    both = [grant(text, issuer) for text in needs]
    assert decide(request(needs, tool), Rules(both)).verdict == "allow"
    one = [both[0], grant("fs.write:/w/a", "starter")]
    decision = decide(request(needs, tool), Rules(one))
    assert (decision.verdict, decision.needed) == ("ask", ("fs.write:/w/a",))
    assert decision.rules[-1] == f"ask:risk.{risk}"


@pytest.mark.parametrize("issuer", ["starter", "skill"])
def test_the_starter_set_and_skills_never_lift_the_floor(issuer):
    rules = Rules([grant("tool.call:**", issuer)])
    for tool in (tool_meta(risk="guarded"), tool_meta(requires_confirm=True)):
        assert decide(request(["tool.call:demo.echo"], tool), rules).verdict == "ask"


def test_no_grant_is_a_deny_that_names_what_is_missing():
    decision = decide(request(["fs.read:/w/a", "fs.read:/x"]), Rules([grant("fs.read:/w/**")]))
    assert (decision.verdict, decision.missing) == ("deny", ("fs.read:/x",))
    assert "deny:no-grant" in decision.rules


def test_a_narrow_allow_lifts_a_broad_ask():
    rules = Rules([grant("fs.write:/w/**", mode="ask"), grant("fs.write:/w/out/**", "starter")])
    assert decide(request(["fs.write:/w/out/a"]), rules).verdict == "allow"
    assert decide(request(["fs.write:/w/a"]), rules).verdict == "ask"


def test_an_allowed_capability_is_recorded_with_its_grant():
    given = grant("fs.read:/w/**")
    decision = decide(request(["fs.read:/w/a"]), Rules([given]))
    assert decision.granted == (("fs.read:/w/a", given.grant_id),)


def test_of_a_call_that_is_held_only_what_is_allowed_is_recorded_as_granted():
    given, asking = grant("fs.read:/w/**"), grant("fs.write:/w/**", mode="ask")
    needs = ["fs.read:/w/a", "fs.write:/w/a", "net.http:https://a.example/"]
    decision = decide(request(needs), Rules([given, asking]))
    assert decision.granted == (("fs.read:/w/a", given.grant_id),)
    assert (decision.asked, decision.missing) == (("fs.write:/w/a",), (needs[2],))


@pytest.mark.parametrize("risk", ["safe", "guarded"])
def test_of_the_grants_of_a_call_those_with_a_number_of_uses_are_counted(risk):
    counted, other = grant("fs.read:/w/**", uses=3), grant("fs.write:/w/**")
    needs = ["fs.read:/w/a", "fs.read:/w/b", "fs.write:/w/a"]
    decision = decide(request(needs, tool_meta(risk=risk)), Rules([counted, other]))
    assert (decision.verdict, decision.counted) == ("allow", (counted.grant_id,))


@given(CASES)
def test_a_check_that_asks_adds_its_verdict_and_its_rule_and_changes_nothing_else(case):
    needs, tool, grants, denies, asks, _ = case
    rules, asking = Rules(grants, denies, asks), CheckResult("ask", "check:c:r")
    without, held = (decide(request(needs, tool), rules, checks) for checks in ((), (asking,)))
    assert held.verdict == strictest([without.verdict, "ask"])
    assert held.rules == (*without.rules, "ask:check:c:r")
    for name in ("granted", "missing", "asked", "needed", "final", "floor", "counted", "suspended"):
        assert getattr(held, name) == getattr(without, name), name
    denied = decide(request(needs, tool), rules, [CheckResult("deny", "check:c:r")])
    assert held.each_time
    assert denied.each_time == without.each_time == (tool.risk == "unsafe")


def test_a_user_ask_is_lifted_by_a_persons_grant_only():
    asks = ["fs.read:/w/**"]
    starter = [grant("fs.read:/w/**", "starter")]
    assert decide(request(["fs.read:/w/a"]), Rules(starter, asks=asks)).verdict == "ask"
    lifted = Rules([*starter, grant("fs.read:/w/a")], asks=asks)
    assert decide(request(["fs.read:/w/a"]), lifted).verdict == "allow"


def test_reading_a_folder_asks_where_a_part_of_it_asks():
    rules = Rules([grant("fs.read:/w/**", "starter")], asks=["fs.read:/w/private/**"])
    assert decide(request(["fs.read:/w/**"]), rules).verdict == "ask"
    assert decide(request(["fs.read:/w/public/**"]), rules).verdict == "allow"


def test_a_deny_inside_a_folder_leaves_reading_to_the_handle_and_forbids_deleting():
    rules = Rules(
        [grant("fs.read:/w/**"), grant("fs.delete:/w/**"), grant("net.http:**")],
        denies=["fs.read:/w/keep/**", "fs.delete:/w/keep/**", "net.http:https://a.example/x/**"],
    )
    assert decide(request(["fs.read:/w/**"]), rules).verdict == "allow"
    assert decide(request(["fs.delete:/w/**"]), rules).verdict == "deny"
    assert decide(request(["net.http:https://a.example/**"]), rules).verdict == "deny"
    assert decide(request(["net.http:https://b.example/**"]), rules).verdict == "allow"


def test_nothing_to_decide_is_a_deny():
    assert strictest([]) == "deny"
    assert decide(request([]), Rules([grant("fs.read:**")])).verdict == "deny"


def test_the_floor_of_each_risk():
    given, not_given = Authority("allow", "g", by_person=True), Authority("allow", "g")
    for risk, floor, lifted in [
        ("safe", False, False),
        ("guarded", True, False),
        ("unknown", True, False),
        ("unsafe", True, True),
    ]:
        assert asks_by_itself(tool_meta(risk=risk), [not_given]) is floor
        assert asks_by_itself(tool_meta(risk=risk), [given]) is lifted
        assert asks_by_itself(tool_meta(risk=risk), [given, not_given]) is floor


def test_the_rules_are_counted_for_the_line_that_a_run_prints():
    allowing = [grant(f"fs.read:/a/{number}") for number in range(5)]
    rules = Rules(
        [*allowing, grant("fs.read:/b", mode="ask")], ["fs.read:/c", "fs.read:/d"], ["fs.read:/e"]
    )
    assert rules.counts() == (5, 1 + 1, 2 + len(as_rules()))


def test_a_grant_that_counts_already_counts_once():
    held = [grant("fs.read:/a"), grant("fs.read:/b", expires_at="2026-05-01T12:00:00.000000Z")]
    rules = Rules(held)
    rules.extend(held)
    assert rules.grants == tuple(held)
    rules.extend([held[0], another := grant("fs.read:/c")])
    assert rules.grants == (*held, another)
    rules.expire("2026-05-01T12:00:00.000000Z")
    assert rules.grants == (held[0], another)


def test_what_was_allowed_once_ends_with_its_grant_and_what_was_denied_once_begins_with_one():
    need, held = parse("fs.read:/w/a"), grant("fs.read:/w/**", grant_id="grant_1")
    rules = Rules([held])
    assert rules.authority(need).verdict == "allow"
    rules.revoke(["grant_1"])
    assert rules.authority(need).verdict == "deny"
    rules.extend([grant("fs.read:/w/*", grant_id="grant_2", expires_at="2026-01-01T00:00:00Z")])
    assert rules.authority(need).grant.grant_id == "grant_2"
    rules.extend([grant("fs.read:/w/**", "starter", grant_id="grant_0")])
    assert rules.authority(need).grant.grant_id == "grant_2"
    rules.expire("2026-01-01T00:00:01Z")
    assert rules.authority(need).grant.grant_id == "grant_0"


def test_rules_know_whether_a_grant_of_theirs_ends():
    ending = grant("fs.read:/a", expires_at="2026-05-01T12:00:00.000000Z", grant_id="grant_1")
    rules = Rules([grant("fs.read:/b")])
    assert not rules.may_expire
    rules.extend([ending])
    assert rules.may_expire
    rules.revoke(["grant_1"])
    assert not rules.may_expire


def test_a_rule_about_arguments_is_asked_again_for_each_call():
    need = parse("fs.write:/w/a")
    for rules in (
        Rules([grant("fs.write:/w/**?n=1")]),
        Rules([grant("fs.write:/w/**")], denies=["fs.write:/w/**?n=2"]),
        Rules([grant("fs.write:/w/**", "starter")], asks=["fs.write:/w/**?n=2"]),
    ):
        first = [rules.authority(need, {"n": n}).verdict for n in (1, 2, 1)]
        assert first[0] == first[2] == "allow"
        assert first[1] != "allow"


def test_what_rules_alone_decide_is_decided_once_until_they_change():
    rules, need = Rules([grant("fs.read:/w/**")]), "fs.read:/w/a"
    asked = request([need])
    first, authority = decide(asked, rules), rules.authority(parse(need))
    assert decide(asked, rules) is first
    assert rules.authority(parse(need)) is authority
    assert decide(asked, rules, [CheckResult("ask", "r")]).verdict == "ask"
    assert decide(request([need], tool_meta(risk="guarded")), rules) is not first
    rules.extend([grant("fs.read:/x")])
    assert decide(asked, rules) is not first
    assert decide(asked, rules) == first


def test_no_more_answers_are_kept_than_fit(monkeypatch):
    monkeypatch.setattr("clawhive_core.policy.rules._KNOWN", 3)
    rules = Rules([grant("fs.read:/w/**")])
    for number in range(10):
        assert rules.authority(parse(f"fs.read:/w/{number}")).verdict == "allow"
        assert decide(request([f"fs.read:/w/{number}"]), rules).verdict == "allow"
    assert len(rules._known) <= 3
    assert len(rules.decided) <= 3


@given(
    st.lists(st.tuples(st.integers(0, 3), NEEDS, TOOLS, CHECKS), max_size=12),
    st.lists(st.sampled_from([*PATTERNS, "fs.read:/w/**?n=1"]), min_size=4, max_size=4),
    RULE_LISTS,
)
def test_rules_that_decided_before_decide_as_new_ones_do_after_every_change(
    turns, patterns, denies
):
    held = [grant(each, "starter", grant_id=f"grant_{n}") for n, each in enumerate(patterns)]
    rules, left = Rules([], denies), {}
    for number, needs, tool, checks in turns:
        asked = request(needs, tool)
        assert decide(asked, rules, checks) == decide(asked, Rules(left.values(), denies), checks)
        if number in left:
            del left[number]
            rules.revoke([f"grant_{number}"])
        else:
            left[number] = held[number]
            rules.extend([held[number]])
        assert decide(asked, rules, checks) == decide(asked, Rules(left.values(), denies), checks)
