"""Grants of one step: they count there, and nowhere else."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from clawhive_core.capabilities import parse
from clawhive_core.model.grants import CapabilityGrant
from clawhive_core.policy.rules import Rules

PATHS = ("fs.read:/a", "fs.read:/a/**", "fs.read:/b", "fs.write:/a", "fs.read:/**")
STEPS = ("run_1/one", "run_1/two", "run_1/one.0")
MOMENTS = ("2026-01-01T00:00:00.000000Z", "2026-06-01T00:00:00.000000Z", None)


def _grant(number, capability, step, ends, mode):
    scope = ("step", step) if step else ("task", "task_1")
    return CapabilityGrant(
        f"grant_{number}", capability, "agent:default", *scope, "approval", mode, ends
    )


GRANTS = st.lists(
    st.tuples(
        st.sampled_from(PATHS),
        st.sampled_from((*STEPS, "")),
        st.sampled_from(MOMENTS),
        st.sampled_from(("allow", "ask")),
    ),
    max_size=6,
).map(lambda rows: [_grant(number, *row) for number, row in enumerate(rows)])


def verdict(rules, capability):
    return rules.authority(parse(capability)).verdict


@given(GRANTS, st.sampled_from(STEPS), st.sampled_from(PATHS[:1] + PATHS[2:4]), st.data())
def test_a_step_has_its_grants_and_the_runs_and_no_others(grants, step, capability, data):
    split = data.draw(st.integers(0, len(grants)))
    rules = Rules(grants[:split])
    rules.of_step(step)
    rules.extend(grants[split:])
    counting = [each for each in grants if each.scope == "task" or each.scope_id == step]
    naive = Rules([replace(each, scope="task") for each in counting])
    assert verdict(rules.of_step(step), capability) == verdict(naive, capability)
    without = Rules([each for each in grants if each.scope == "task"])
    assert verdict(rules, capability) == verdict(without, capability)
    assert rules.counts() == without.counts()


@given(GRANTS, st.sampled_from(STEPS), st.sampled_from(PATHS[:1] + PATHS[2:4]))
def test_the_end_of_a_step_ends_its_grants_alone(grants, step, capability):
    rules = Rules(grants)
    rules.of_step(step)
    ended = rules.end_step(step)
    assert [each.grant_id for each in ended] == [
        each.grant_id for each in grants if each.scope == "step" and each.scope_id == step
    ]
    assert rules.end_step(step) == ()
    assert verdict(rules.of_step(step), capability) == verdict(rules, capability)
    other = next(each for each in STEPS if each != step)
    assert verdict(rules.of_step(other), capability) == verdict(
        Rules(grants).of_step(other), capability
    )


@given(GRANTS, st.sampled_from(STEPS), st.sampled_from(PATHS[:1] + PATHS[2:4]))
def test_grants_of_a_step_expire_as_others_do(grants, step, capability):
    now = "2026-03-01T00:00:00.000000Z"
    rules = Rules(grants)
    rules.of_step(step)
    rules.expire(now)
    left = Rules([each for each in grants if each.expires_at is None or each.expires_at > now])
    assert verdict(rules.of_step(step), capability) == verdict(left.of_step(step), capability)


def test_what_a_step_was_denied_stays_denied():
    denied = Rules([_grant(1, "fs.read:/**", STEPS[0], None, "allow")], ("fs.read:/a",))
    assert verdict(denied.of_step(STEPS[0]), "fs.read:/a") == "deny"
    assert verdict(denied.of_step(STEPS[0]), "fs.read:/b") == "allow"
