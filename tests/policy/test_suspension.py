"""Grants that name a tool count while it is what it was; none of it needs a clock or a file."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawhive_core.model.identity import ToolIdentity
from clawhive_core.model.principal import DEFAULT_AGENT
from clawhive_core.policy.decision import decide
from clawhive_core.policy.rules import Rules
from clawhive_core.protocols.check import PolicyRequest
from tests.harness import grant, tool_meta

NAME = "mcp.git.push"
META = tool_meta(NAME, "mcp_git", risk="guarded")
CHANGED = {
    "input_schema": {"type": "object", "properties": {"x": {}}},
    "risk": "unknown",
    "capability_level": "L2",
    "effects": {"": "net.http:example.com"},
    "sinks": ("to",),
    "idempotent": True,
    "requires_confirm": True,
}
TEXT = {"description": "another", "annotations": {"a": 1}, "examples": ({},)}


def bound(meta=META, **fields):
    return grant(f"tool.call:{meta.name}", tool=ToolIdentity.of(meta).text, **fields)


def decided(meta, *grants):
    request = PolicyRequest(meta, {}, DEFAULT_AGENT, (f"tool.call:{NAME}",), "t", "s", "c")
    return decide(request, Rules(grants))


def test_it_counts_while_the_tool_is_what_it_was():
    assert decided(META, bound()).verdict == "allow"
    assert decided(META, bound()).suspended == ()


@pytest.mark.parametrize("field", [*CHANGED, *TEXT])
def test_any_change_of_an_mcp_tool_suspends_it(field):
    held = bound()
    found = decided(replace(META, **{field: {**CHANGED, **TEXT}[field]}), held)
    assert found.verdict == "deny"
    assert found.suspended == (held.grant_id,)
    assert f"suspended:{held.grant_id}" in found.rules


@pytest.mark.parametrize("field", TEXT)
def test_a_plugins_text_may_change(field):
    meta = replace(META, provider_id="git")
    assert decided(replace(meta, **{field: TEXT[field]}), bound(meta)).verdict == "allow"


def test_other_grants_count_still_and_a_persons_lifts_the_ask():
    after = replace(META, description="another")
    starter = grant("tool.call:**", issuer="starter")
    assert decided(after, bound(), starter).verdict == "ask"
    found = decided(after, bound(), grant("tool.call:mcp.**"))
    assert (found.verdict, found.suspended) == ("allow", ())


def test_a_person_is_told_of_the_grant_that_they_gave():
    held = bound(parent_grant="grant_given")
    assert decided(replace(META, risk="unknown"), held).suspended == ("grant_given",)


def test_a_right_that_came_with_an_approval_is_for_its_tool():
    held = grant("fs.write:/w/a", tool=ToolIdentity.of(META).text)
    other = tool_meta("demo.other", risk="guarded")
    for meta, verdict in (
        (META, "allow"),
        (replace(META, risk="unknown"), "deny"),
        (other, "allow"),
    ):
        request = PolicyRequest(meta, {}, DEFAULT_AGENT, ("fs.write:/w/a",), "t", "s", "c")
        assert decide(request, Rules([held])).verdict == verdict


def test_rules_of_steps_and_within_bounds_suspend_too():
    rules = Rules([bound()])
    after = replace(META, risk="unknown")
    assert len(rules.suspended(after)) == 1
    assert len(rules.bounded(["tool.call:**"]).suspended(after)) == 1
    step = replace(bound(), scope="step", scope_id="run/0")
    assert len(Rules([step]).of_step("run/0").suspended(after)) == 1
    ending = Rules([replace(bound(), expires_at="2001-01-01T00:00:00.000000Z")])
    ending.expire("2002-01-01T00:00:00.000000Z")
    assert ending.suspended(after) == ()


@given(st.text(), st.text())
def test_what_was_written_is_read_and_only_the_same_is_still_it(one, other):
    meta, after = replace(META, description=one), replace(META, description=other)
    identity = ToolIdentity.parse(ToolIdentity.of(meta).text)
    assert identity.text == ToolIdentity.of(meta).text
    assert identity.is_still(after) == (one == other)
    assert bool(identity.diff(after)) == (one != other)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"name": 1}', "null", "{" * 5000])
def test_what_is_no_identity_is_refused(text):
    with pytest.raises(ValueError, match=r"."):
        ToolIdentity.parse(text)
