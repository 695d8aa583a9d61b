import shlex

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from clawhive_core.model.refusal import Refusal
from clawhive_core.protocols.check import CheckResult
from tests.examples import share
from tests.harness import House, Provider, echo


class Check:
    def __init__(self, verdict, name="guard"):
        self.verdict = verdict
        self.name = name

    async def check(self, request):
        return CheckResult(self.verdict, "because") if self.verdict else None


def patterns_in(command):
    words = shlex.split(command)
    return [words[index + 1] for index, word in enumerate(words) if word == "--grant"]


async def refused(house, input=None, **fields):
    outcome = await house.call("demo.tool", input, **fields)
    assert isinstance(outcome, Refusal), outcome
    return outcome


async def test_what_the_starter_set_asks_is_refused_with_the_grant_that_lifts_it(house):
    await house.offer("demo.tool", echo, effects={"path": "fs.write"}).ready()
    refusal = await refused(house, {"path": "a b.txt"})
    assert (refusal.error, refusal.reason) == ("approval_required", "approval")
    assert refusal.next["action"] == "grant"
    assert refusal.next["command"] == f"clawhive run --grant '{refusal.next['capabilities'][0]}'"
    row = await house.row()
    assert (row["status"], row["decision"], row["approval_required"]) == ("refused", "ask", 1)
    house.give(*patterns_in(refusal.next["command"]))
    assert not (await house.call("demo.tool", {"path": "a b.txt"}, step="step_2")).is_error


async def test_what_nothing_grants_is_denied_with_the_grant_that_lifts_it(house):
    await house.offer("demo.tool", echo, effects={"path": "fs.read"}).ready()
    refusal = await refused(house, {"path": "/etc/hostname"})
    assert (refusal.error, refusal.reason) == ("denied", "rights")
    assert refusal.next["capabilities"] == ["fs.read:/etc/hostname"]
    assert (await house.row())["requested_capabilities"] == ["fs.read:/etc/hostname"]
    house.give(*patterns_in(refusal.next["command"]))
    assert not (await house.call("demo.tool", {"path": "/etc/hostname"})).is_error


async def test_a_guarded_tool_needs_every_capability_from_a_person(house):
    effects = {"source": "fs.read", "target": "fs.write", "extra": "fs.read"}
    await house.offer("demo.tool", echo, effects=effects, risk="guarded").ready()
    paths = {"source": "a", "target": "b", "extra": "/etc/hosts"}
    refusal = await refused(house, paths)
    assert refusal.error == "denied"
    assert len(refusal.next["capabilities"]) == 3
    house.give(*patterns_in(refusal.next["command"]))
    assert not (await house.call("demo.tool", paths, step="step_2")).is_error


async def test_an_unsafe_tool_asks_each_time_whatever_is_granted(house):
    await house.offer("demo.tool", echo, effects={"path": "fs.write"}, risk="unsafe").ready()
    house.give("fs.write:**", "tool.call:**")
    for step in ("step_1", "step_2"):
        refusal = await refused(house, {"path": "a"}, step=step)
        assert (refusal.error, refusal.next) == ("approval_required", {"action": "ask_user"})


async def test_an_unsafe_tool_without_rights_is_told_both_steps(house):
    await house.offer("demo.tool", echo, effects={"path": "fs.read"}, risk="unsafe").ready()
    refusal = await refused(house, {"path": "/etc/x"})
    assert refusal.error == "denied"
    assert "approve each call" in refusal.message
    house.give(*patterns_in(refusal.next["command"]))
    assert (await refused(house, {"path": "/etc/x"})).error == "approval_required"


async def test_a_stored_deny_is_final_and_offers_no_grant(house):
    house.denies = house.canonical("fs.read:${workspace}/private/**")
    await house.offer("demo.tool", echo, effects={"path": "fs.read"}).ready()
    house.give("fs.read:**")
    refusal = await refused(house, {"path": "private/a"})
    assert (refusal.error, refusal.next["action"]) == ("denied", "choose_another_way")
    assert "private" not in refusal.message  # rules stay in the log
    (event,) = await house.events()
    assert any(rule.startswith("deny:deny:fs.read:") for rule in event.event.body["rules"])


async def test_a_sensitive_name_is_lifted_by_granting_exactly_it(house):
    await house.offer("demo.tool", echo, effects={"path": "fs.read"}).ready()
    refusal = await refused(house, {"path": ".env"})
    assert refusal.next["action"] == "grant"
    house.give(*patterns_in(refusal.next["command"]))
    assert not (await house.call("demo.tool", {"path": ".env"}, step="step_2")).is_error


async def test_own_files_are_denied_through_every_spelling_and_link(house):
    await house.offer("demo.tool", echo, effects={"path": "fs.read"}).ready()
    house.give("fs.read:**")
    (house.root / ".clawhive").mkdir()
    (house.root / "innocent").symlink_to(".clawhive")
    paths = [".clawhive/hive.db", "a/../.ClawHive/x", "innocent/hive.db", "./clawhive.toml"]
    for index, path in enumerate(paths):
        refusal = await refused(house, {"path": path}, step=f"step_{index}")
        assert (refusal.error, refusal.next["action"]) == ("denied", "choose_another_way")


async def test_a_check_can_deny_what_is_granted(house):
    house.checks = (Check(None, "silent"), Check("deny"))
    await house.offer("demo.tool", echo).ready()
    refusal = await refused(house)
    assert (refusal.error, refusal.next["action"]) == ("denied", "choose_another_way")
    (event,) = await house.events()
    assert event.event.body["rules"][-1] == "deny:check:guard:because"


async def test_an_ask_of_a_check_is_for_a_person_and_no_grant_is_offered(house):
    house.checks = (Check("ask"),)
    await house.offer("demo.tool", echo).ready()
    house.give("tool.call:demo.tool")
    refusal = await refused(house)
    assert (refusal.error, refusal.next) == ("approval_required", {"action": "ask_user"})


async def test_a_tool_whose_effect_cannot_be_read_is_denied(house):
    await house.offer("demo.tool", echo, effects={"": "fs.everything:**"}).ready()
    refusal = await refused(house)
    assert (refusal.error, refusal.next) == ("denied", {"action": "report", "provider_id": "demo"})
    assert house.provider.calls == []


async def test_an_argument_that_names_nothing_is_an_invalid_input(house):
    effects = {"path": "fs.read", "url": "net.http"}
    await house.offer("demo.tool", echo, effects=effects, input_schema={}).ready()
    for index, (argument, value) in enumerate(
        [
            ("path", "a\0b"),
            ("path", "\ud800"),
            ("path", [["a"]]),
            ("path", [None]),
            ("path", True),
            ("url", "http://user@host/"),
            ("url", "http://[::1"),
        ]
    ):
        refusal = await refused(house, {argument: value}, step=f"step_{index}")
        assert (refusal.error, refusal.next["paths"]) == ("invalid_input", [f"/{argument}"])


EFFECTS = st.sampled_from(["fs.read", "fs.write", "fs.delete", "fs.read:{}/**", "net.http"])
NAMES = st.sampled_from(
    ["a.txt", "b/c d", "/etc/hosts", ".env", "it's", "x*y", "%41", "${home}", "é", "..", "a\udcff"]
)


@settings(share(1 / 4), suppress_health_check=list(HealthCheck))
@given(
    effects=st.dictionaries(st.sampled_from("abc"), EFFECTS, max_size=3),
    values=st.fixed_dictionaries(dict.fromkeys("abc", NAMES)),
    risk=st.sampled_from(["safe", "guarded", "unknown"]),
    confirm=st.booleans(),
    asks=st.lists(st.sampled_from(["fs.read:${workspace}/**", "tool.call:**"]), max_size=2),
)
def test_the_grants_of_a_refusal_really_lift_it(
    tmp_path_factory, effects, values, risk, confirm, asks
):
    async def scenario():
        house = House(tmp_path_factory.mktemp("house"), Provider())
        try:
            house.asks = house.canonical(*asks)
            house.offer("demo.tool", echo, effects=effects, risk=risk, requires_confirm=confirm)
            await house.ready()
            first = await house.call("demo.tool", values)
            if isinstance(first, Refusal) and first.error != "invalid_input":
                assert first.next["action"] == "grant", first
                house.give(*patterns_in(first.next["command"]))
                second = await house.call("demo.tool", values, step="step_2")
                assert not isinstance(second, Refusal), second
        finally:
            house.close()

    anyio.run(scenario)


@pytest.mark.parametrize("patterns", [("fs.write:${workspace}/**",), ("fs.write:**",)])
async def test_a_wider_grant_lifts_as_well(house, patterns):
    await house.offer("demo.tool", echo, effects={"path": "fs.write"}, risk="guarded").ready()
    house.give(*patterns)
    assert not (await house.call("demo.tool", {"path": "a"})).is_error


@pytest.mark.parametrize("issuer", ["starter", "skill"])
async def test_no_grant_but_a_persons_lifts_a_guarded_tool(house, issuer):
    await house.offer("demo.tool", echo, effects={"path": "fs.write"}, risk="guarded").ready()
    house.give("fs.write:**", "tool.call:**", issuer=issuer)
    assert (await refused(house, {"path": "a"})).error == "approval_required"


async def test_a_path_of_the_project_or_of_the_run_is_no_destination_and_any_other_is(house):
    fields = {"risk": "safe", "effects": {"path": "fs.read"}, "sinks": ("path:path",)}
    await house.offer("demo.tool", echo, **fields).ready()
    others = [f"{house.root.parent}/outside", f"{house.root}-too"]
    house.give(*(f"fs.read:{each}/**" for each in others), issuer="starter")
    for path in (".", "a.txt", f"{house.root}/b/c.txt", f"{house.artifacts}/d.txt"):
        outcome = await house.call("demo.tool", {"path": path})
        assert not isinstance(outcome, Refusal), path
    for path in others:
        refusal = await house.call("demo.tool", {"path": f"{path}/a.txt"})
        assert refusal.error == "approval_required", path
