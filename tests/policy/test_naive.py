"""Two engines, one answer: the decision against a naive one on calls made at random."""

import random
from dataclasses import replace

import pytest

from clawhive_core.capabilities import parse
from clawhive_core.catalog.listing import admitted
from clawhive_core.errors import CapabilityError
from clawhive_core.model.identity import ToolIdentity
from clawhive_core.model.principal import DEFAULT_AGENT
from clawhive_core.model.tools import ToolMeta
from clawhive_core.policy.decision import decide
from clawhive_core.policy.rules import Rules
from clawhive_core.protocols.check import CheckResult, PolicyRequest
from tests.harness import grant
from tests.policy import naive

NAMES = ["a", "b", "*", ".env", "id_rsa", ".git", "hooks", ".clawhive", "A"]
NAMES += ["a", "b", "*", ".husky", "HEAD", ".npmrc"]
VALUES = [0, 1, 1.0, 1.5, 2, 3, "1", "x", "y", True, None, [1, 2], ["x"], []]
CONSTRAINTS = ["n<=1", "n>=1", "n<=2", "to in {x}", "to in {x,y}", "n in {1,2}", "to in {'1'}"]
CALLS_OF_A_POLICY = 50


TOOL = ToolMeta(
    "demo.tool", "A tool.", {"type": "object"}, "mcp_demo", risk="safe", text_counts=True
)
EFFECTS = [
    *("fs.read", "fs.read:${workspace}/**", "fs.write", "fs.write:{}/**", "fs.write:${run}/{}"),
    *("fs.write:${run}/../{}", "fs.write:${run}x/{}", "fs.delete", "fs.delete:${run}/**"),
    *("fs.exec:/bin/sh", "fs.exec:${run}/{}", "net.http", "net.http:https://a.org/{}"),
    *("net.connect", "mem.read", "mem.write", "mem.write:own/{}", "mem.write:shared/{}"),
    *("sandbox.write", "sandbox.exec:{0}", "sandbox.read:**", "secret.use:k", "tool.call:a.b"),
    *("host.gmail.read:INBOX", "agent.spawn:a", "model.call:p", "env.read"),
]
IDENTITIES = [
    ToolIdentity.of(each).text
    for each in (
        TOOL,
        replace(TOOL, provider_id="demo"),
        replace(TOOL, risk="guarded"),
        replace(TOOL, name="demo.other", risk="unknown"),
    )
]


def resource(rnd, verb, *, pattern):
    def names(choice, size):
        found = [rnd.choice(choice) for _ in range(rnd.randint(1, size))]
        return found if pattern else [each.replace("*", "c") for each in found]

    wide = pattern and rnd.random() < 0.5
    if verb == "net.http":
        host = ".".join(
            [*(["**"] if wide and rnd.random() < 0.3 else []), *names(["a", "b", "*"], 2)]
        )
        path = "/".join([*names(["v", "w", "*"], 2), *(["**"] if wide else [])])
        return f"{rnd.choice(['https', 'http', '*'] if pattern else ['https', 'http'])}://{host}/{path}"
    if verb == "tool.call":
        return ".".join([*names(["git", "web", "*"], 2), *(["**"] if wide else [])])
    if verb == "mem.read":
        return "/".join([*names(["own", "k", "*"], 2), *(["**"] if wide else [])])
    return "/" + "/".join([*names(NAMES, 3), *(["**"] if wide else [])])


VERBS = ["fs.read", "fs.delete", "fs.write", "net.http", "tool.call", "mem.read"]


def capability(rnd, verbs, *, pattern):
    verb = rnd.choice(verbs)
    text = f"{verb}:{resource(rnd, verb, pattern=pattern)}"
    if pattern and rnd.random() < 0.3:
        text += "?" + "&".join(rnd.sample(CONSTRAINTS, rnd.randint(1, 2)))
    try:
        return parse(text).text
    except CapabilityError:  # no value satisfies both constraints
        return parse(text.partition("?")[0]).text


def policy(rnd, verbs):
    def some(most):
        return [capability(rnd, verbs, pattern=True) for _ in range(rnd.randint(0, most))]

    patterns = some(8)
    if verbs[0].startswith("fs.") and rnd.random() < 0.2:  # a secret, by itself and in its folder
        patterns += [f"{verbs[0]}:/a/.env", f"{verbs[0]}:/a/.env", f"{verbs[0]}:/a/**"]
    grants = [
        grant(
            each,
            rnd.choice(["user", "starter", "skill", "config", "approval"]),
            rnd.choice(["allow", "allow", "ask"]),
            uses=rnd.choice([None, None, 3]),
            tool=rnd.choice([None] * 12 + IDENTITIES),
        )
        for each in patterns
    ]
    return grants, some(2), some(2)


def declared(rnd):
    """Return what a tool says of its calls; most say no more than that they are safe."""
    if rnd.random() < 0.7:
        return {"side_effects": rnd.random() < 0.1}
    return {
        "effects": {
            name: tuple(rnd.sample(EFFECTS, rnd.randint(1, 2))) if rnd.random() < 0.5 else each
            for name, each in zip("xyz", rnd.sample(EFFECTS, rnd.randint(0, 2)), strict=False)
        },
        "side_effects": rnd.random() < 0.3,
        "capability_level": rnd.choice(["L0", "L0", "L1", "L2"]),
    }


def request(rnd, verbs, held):
    needs = []
    for _ in range(rnd.randint(1, 2)):
        if held and rnd.random() < 0.3:  # as a call that needs a whole folder, or just what is held
            needs.append(rnd.choice(held).capability.partition("?")[0])
        else:
            needs.append(capability(rnd, verbs, pattern=False))
    tool = ToolMeta(
        "demo.tool",
        rnd.choice(["A tool.", "Another."]),
        {"type": "object"},
        rnd.choice(["demo", "mcp_demo", "skill_demo"]),
        risk=rnd.choice(["safe", "safe", "guarded", "unknown", "unsafe"]),
        requires_confirm=rnd.random() < 0.1,
        **declared(rnd),
    )
    given = {"n": rnd.choice(VALUES), "to": rnd.choice(VALUES)}
    return PolicyRequest(tool, given, DEFAULT_AGENT, tuple(dict.fromkeys(needs)), "t", "s", "c")


def compare(rnd, count):
    """Decide calls twice; return how often each verdict was given."""
    seen = dict.fromkeys(("allow", "ask", "deny", "suspended", "raised"), 0)
    for _ in range(count // CALLS_OF_A_POLICY):
        verbs = rnd.sample(VERBS, 2)
        grants, denies, asks = policy(rnd, verbs)
        rules = Rules(grants, denies, asks)
        for _ in range(CALLS_OF_A_POLICY):
            call = request(rnd, verbs, grants)
            checks = [CheckResult(rnd.choice(["ask", "deny"]), "c")] if rnd.random() < 0.05 else []
            admission = replace(call, tool=admitted(call.tool))
            ours = decide(admission, rules, checks)
            theirs = naive.decide(call, grants, denies, asks, checks)
            assert ours.verdict == theirs, (call, [each.to_dict() for each in grants], denies, asks)
            seen[ours.verdict] += 1
            seen["suspended"] += bool(ours.suspended)
            seen["raised"] += bool(admission.tool.raised)
    return seen


@pytest.mark.promise("P-097")
def test_a_naive_decision_agrees_on_twenty_thousand_calls():
    seen = compare(random.Random(20261122), 20_000)
    assert min(seen.values()) > 1_000


@pytest.mark.timeout(900)
@pytest.mark.slow
def test_a_naive_decision_agrees_on_a_million_calls():
    seen = compare(random.Random(1), 1_000_000)
    assert min(seen.values()) > 50_000


def test_order_grouping_and_duplicates_of_rules_never_matter():
    rnd = random.Random(7)
    for _ in range(300):
        verbs = rnd.sample(VERBS, 2)
        grants, denies, asks = policy(rnd, verbs)
        twice = [*grants, *(replace(each, grant_id=f"{each.grant_id}+") for each in grants)]
        mixed = Rules((), rnd.sample(denies, len(denies)) * 2, rnd.sample(asks, len(asks)) * 2)
        for each in rnd.sample(twice, len(twice)):
            mixed.extend([each])
        plain = Rules(grants, denies, asks)
        for _ in range(20):
            call = request(rnd, verbs, grants)
            assert decide(call, mixed).verdict == decide(call, plain).verdict
