"""What `policy explain` says is what the door does; nothing is executed or recorded for it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawhive_core.errors import InvalidInput, ToolError, UnknownId
from clawhive_core.model.refusal import Refusal
from clawhive_core.protocols.check import CheckResult
from clawhive_core.runs.requests import RunOptions
from clawhive_core.testing import memory_hive
from tests.examples import share
from tests.harness import Provider, echo

PATHS = ("a.md", "docs/b.md", ".env", ".clawhive/hive.db", "../x", "/etc/passwd", "clawhive.toml")


def provider():
    made = Provider()
    for risk in ("safe", "guarded", "unsafe", "unknown"):
        for verb in ("fs.read", "fs.write"):
            name = f"demo.{risk}_{verb[3:]}"
            made.offer(name, echo, risk=risk, effects={"path": verb})
    return made.offer("demo.plain", echo, risk="guarded")


class Check:
    name = "curfew"

    def __init__(self, verdict="deny"):
        self.verdict = verdict

    async def check(self, request):
        return CheckResult(self.verdict, "late")


@share(1 / 10)
@given(
    st.sampled_from(["safe", "guarded", "unsafe", "unknown"]),
    st.sampled_from(["read", "write"]),
    st.sampled_from(PATHS),
    st.lists(st.sampled_from(["fs.write:${workspace}/**", "fs.read:/etc/**"]), max_size=2),
)
def test_the_explained_verdict_is_the_doors(risk, verb, path, grants):
    import anyio

    async def compare():
        offered = provider()
        async with memory_hive(providers=[offered]) as hive:
            name, asked = f"demo.{risk}_{verb}", {"path": path}
            options = RunOptions(grants=grants, approve="deny")
            told = await hive.explain(name, asked, options)
            assert offered.calls == []
            assert list(hive.log.events()) == []
            _, outcome = await hive.call(name, asked, options)
            assert (told["verdict"] == "allow") == (not isinstance(outcome, Refusal))
            if told["verdict"] == "deny":
                assert outcome.error == "denied"
                assert told["message"] == outcome.message
            assert bool(offered.calls) == (told["verdict"] == "allow")

    anyio.run(compare)


async def test_it_names_each_capability_its_rule_and_what_is_missing():
    async with memory_hive(providers=[provider()]) as hive:
        told = await hive.explain("demo.guarded_write", {"path": "docs/a.md"})
        (part,) = told["capabilities"]
        target = f"fs.write:{hive.root}/docs/a.md"
        assert (part["capability"], part["verdict"], part["issuer"]) == (target, "ask", "starter")
        assert part["pattern"] == f"fs.write:{hive.root}/**"
        assert told["missing"] == [target]
        assert f"grants=['{target}']" in told["next"]["hint"]
        granted = await hive.explain(
            "demo.guarded_write", {"path": "docs/a.md"}, RunOptions(grants=told["missing"])
        )
        assert (granted["verdict"], granted["next"], granted["floor"]) == ("allow", None, "allow")


async def test_an_unsafe_tool_asks_each_time_and_a_check_denies_for_good():
    async with memory_hive(providers=[provider()]) as hive:
        told = await hive.explain(
            "demo.unsafe_read", {"path": "a"}, RunOptions(grants=["fs.read:${workspace}/**"])
        )
        assert (told["verdict"], told["each_time"], told["missing"]) == ("ask", True, [])
    async with memory_hive(providers=[provider()], checks=[Check()]) as hive:
        told = await hive.explain("demo.safe_read", {"path": "a"})
        assert (told["verdict"], told["final"]) == ("deny", True)
        assert told["checks"] == [{"verdict": "deny", "rule": "check:curfew:late"}]


async def test_a_call_that_cannot_be_made_at_all_is_an_error():
    broken = Provider().offer("demo.odd", echo, effects={"path": "fs.fly"})
    async with memory_hive(providers=[provider(), broken]) as hive:
        with pytest.raises(UnknownId):
            await hive.explain("demo.none", {})
        with pytest.raises(InvalidInput):
            await hive.explain("demo.safe_read", {"path": "a\0b"})
        with pytest.raises(ToolError):
            await hive.explain("demo.odd", {"path": "a"})


async def test_the_rules_in_force_tell_pattern_mode_and_issuer():
    given_ = {"policy.deny": ["fs.read:${workspace}/private/**"], "policy.ask": ["net.http:**"]}
    async with memory_hive(settings=given_) as hive:
        facts = hive.rules(RunOptions(grants=["fs.write:${workspace}/docs/**"]))
        rules = {(each["mode"], each["pattern"], each["issuer"]) for each in facts["rules"]}
        assert ("deny", f"fs.read:{hive.root}/private/**", "config") in rules
        assert ("ask", "net.http:**", "config") in rules
        assert ("allow", f"fs.write:{hive.root}/docs/**", "user") in rules
        assert ("allow", f"fs.read:{hive.root}/**", "starter") in rules
        assert "fs.*:.clawhive/**" in facts["protected"]
        assert list(hive.log.events()) == []


async def test_the_rules_in_force_tell_what_children_may_get():
    async with memory_hive() as hive:
        docs = f"fs.write:{hive.root}/docs/**"
        facts = hive.rules(RunOptions(grants=[docs, "fs.exec:/usr/bin/git"]))
        faces = {each["pattern"]: each["delegate"] for each in facts["rules"]}
        assert faces[docs] == docs
        assert faces["fs.exec:/usr/bin/git"] is None
