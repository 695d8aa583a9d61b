"""Verdicts of plugins: the strictest counts, in any order; taking one away never tightens."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawhive_core.model.principal import DEFAULT_AGENT
from clawhive_core.policy.checks import run_checks
from clawhive_core.policy.decision import decide
from clawhive_core.policy.rules import Rules
from clawhive_core.protocols.check import CheckResult, PolicyRequest
from tests.harness import grant, tool_meta

RANK = {"allow": 0, "ask": 1, "deny": 2}
# What a plugin does, and what that is worth: whatever is no answer denies.
WORTH = {"nothing": "allow", "ask": "ask", "deny": "deny", "allow": "deny", "raise": "deny"}


class Check:
    def __init__(self, name, what):
        self.name, self.what = name, what

    async def check(self, request):
        if self.what == "raise":
            raise ValueError(self.name)
        return None if self.what == "nothing" else CheckResult(self.what, "r")


def verdict(plugins, risk, mode):
    call = PolicyRequest(
        tool_meta(risk=risk), {}, DEFAULT_AGENT, ("tool.call:demo.echo",), "t", "s", "c"
    )
    checks = [Check(f"p{number}", what) for number, what in enumerate(plugins)]
    results = asyncio.run(run_checks(checks, call))
    grants = [grant("tool.call:**", mode=mode)] if mode else []
    return decide(call, Rules(grants), results).verdict


plugins = st.lists(st.sampled_from(sorted(WORTH)), max_size=5)
risks = st.sampled_from(["safe", "guarded", "unsafe"])
modes = st.sampled_from(["allow", "ask", None])


@pytest.mark.promise("P-128")
@given(plugins, risks, modes, st.randoms(use_true_random=False))
def test_the_strictest_verdict_counts_in_every_order(said, risk, mode, random):
    alone = verdict([], risk, mode)
    expected = max([alone, *(WORTH[each] for each in said)], key=RANK.__getitem__)
    assert verdict(said, risk, mode) == expected
    assert verdict(random.sample(said, len(said)), risk, mode) == expected


@pytest.mark.promise("P-128")
@given(plugins, risks, modes, st.data())
def test_taking_plugins_away_only_loosens_and_never_below_what_is_left(said, risk, mode, data):
    left = [each for each in said if data.draw(st.booleans())]
    whole, part = verdict(said, risk, mode), verdict(left, risk, mode)
    assert RANK[part] <= RANK[whole]
    assert RANK[part] >= RANK[verdict([], risk, mode)]
    without = list(said)
    gone = [each for each in without if WORTH[each] == "allow"]
    for each in gone:
        without.remove(each)
    assert verdict(without, risk, mode) == whole
