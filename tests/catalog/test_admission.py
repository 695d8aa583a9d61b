"""A tool outside every sandbox engine is safe only where it changes nothing but own state."""

from dataclasses import replace
from pathlib import Path

import pytest

from clawhive_core.capabilities.verbs import VERBS
from clawhive_core.catalog.listing import admitted
from clawhive_core.catalog.store import CatalogStore
from clawhive_core.execution.handlers.handlers import meta_of
from clawhive_core.model.identity import ToolIdentity
from clawhive_core.skills.contracts.skill import ExportedTool, Exports, Skill, ToolFacts
from clawhive_core.skills.documents.place import Place
from tests.harness import Provider, echo, tool_meta

OWN = [
    {},
    {"effects": {"path": "fs.read"}},
    {"effects": {"path": "fs.read:{}/**"}},
    {"effects": {"files": "fs.write:${run}/{}"}, "capability_level": "L1"},
    {"effects": {"files": "fs.write:${run}/{}"}, "side_effects": True},
    {"effects": {"": ("fs.read:${workspace}/**", "fs.delete:${run}/**")}, "side_effects": True},
    {"effects": {"key": "mem.write:own/{}"}, "capability_level": "L1", "side_effects": True},
    {"effects": {"code": "sandbox.exec:python"}, "capability_level": "L2", "side_effects": True},
    {"effects": {"files": "sandbox.write"}, "capability_level": "L1"},
    {"effects": {"url": "net.http"}},
    {"effects": {"url": "net.http"}, "capability_level": "L2"},
    {"effects": {"": ("secret.use:key", "env.read:LANG", "tool.call:web.*")}},
]
BEYOND = [
    ({"effects": {"path": "fs.write"}}, "writes files"),
    ({"effects": {"path": ("fs.read", "fs.write")}}, "writes files"),
    ({"effects": {"path": ["fs.read", "fs.write"]}}, "writes files"),
    ({"effects": {"path": "fs.write:${run}/../{}"}}, "writes files"),
    ({"effects": {"path": "fs.write:${run}x/{}"}}, "writes files"),
    ({"effects": {"path": "fs.write:${workspace}/{}"}}, "writes files"),
    ({"effects": {"path": "fs.delete"}}, "deletes files"),
    ({"effects": {"": "fs.exec:/usr/bin/git"}}, "runs programs"),
    ({"effects": {"path": "fs.exec:${run}/{}"}}, "runs programs"),
    ({"effects": {"host": "net.connect"}}, "opens connections"),
    ({"effects": {"": "host.gmail.send:INBOX"}}, "uses host.gmail.send"),
    ({"effects": {"key": "mem.write:shared/{}"}}, "writes into a memory"),
    ({"effects": {"key": "mem.write"}}, "writes into a memory"),
    ({"side_effects": True}, "has side effects"),
    ({"effects": {"path": "fs.read"}, "side_effects": True}, "has side effects"),
    ({"effects": {"url": "net.http"}, "side_effects": True}, "has side effects"),
    (
        {"effects": {"url": "net.http", "out": "fs.write:${run}/{}"}, "side_effects": True},
        "has side effects",
    ),
    ({"capability_level": "L1"}, "writes files, and no effect says which"),
    (
        {"capability_level": "L2", "effects": {"path": "fs.read"}},
        "runs programs or uses the network, and no effect says which",
    ),
]


@pytest.mark.promise("P-201")
@pytest.mark.parametrize(("declared", "why"), BEYOND)
def test_a_tool_that_calls_itself_safe_and_reaches_further_is_guarded(declared, why):
    found = admitted(tool_meta(risk="safe", **declared))
    assert (found.risk, found.raised) == ("guarded", f"declared safe, and it {why}")


@pytest.mark.parametrize("declared", OWN)
def test_a_tool_that_changes_only_what_is_clawhives_own_stays_safe(declared):
    meta = tool_meta(risk="safe", **declared)
    assert admitted(meta) is meta


@pytest.mark.parametrize("risk", ["guarded", "unknown", "unsafe"])
@pytest.mark.parametrize("declared", [each for each, _ in BEYOND])
def test_no_other_risk_is_changed(declared, risk):
    meta = tool_meta(risk=risk, **declared)
    assert admitted(meta) is meta


def test_every_verb_either_reads_is_its_rooms_own_or_is_told():
    """A verb that is added to the table is not safe unless somebody says so."""
    safe = {
        name for name in VERBS if admitted(tool_meta(effects={"x": name})).risk == "safe"
    }  # fmt: skip
    assert safe == {
        *("fs.read", "net.http", "env.read", "secret.use", "tool.call", "tool.enable"),
        *("agent.spawn", "mem.read", "model.call"),
        *("sandbox.read", "sandbox.write", "sandbox.exec"),
    }


def test_nobody_says_for_the_catalog_that_a_risk_was_raised():
    assert admitted(tool_meta(raised="trust me")).raised == ""


@pytest.mark.parametrize("effects", [{"x": 3}, {"x": ("fs.read", None)}, {"x": {}}, [], "fs.read"])
async def test_effects_that_are_none_leave_a_tool_out_and_break_nothing(effects):
    provider = Provider().offer("demo.bad", echo, effects=effects).offer("demo.good", echo)
    catalog = await CatalogStore().add_foreign(provider)
    assert set(catalog.tools) == {"demo.good"}
    assert "its effects must be objects" in catalog.dropped[0].reason


async def test_the_catalog_holds_one_risk_for_the_door_the_contract_and_the_choice():
    writes = {"effects": {"path": "fs.write"}}
    one = Provider("a_plain").offer("demo.look", echo, **writes)
    other = Provider("b_plain").offer("demo.look", echo, capability_level="L2", risk="guarded")
    store = CatalogStore()
    catalog = await store.add_foreign(one)
    declared, held = one.metas[0], catalog.meta_of("demo.look")
    assert (declared.risk, held.risk) == ("safe", "guarded")
    assert not ToolIdentity.of(declared).is_still(held)
    assert ToolIdentity.of(replace(declared, risk="guarded")).is_still(held)
    assert catalog.contracts["demo.look"] == held.contract_hash
    assert (await store.refresh()).revision == catalog.revision
    from clawhive_core.catalog.assembly import Preferences

    safest = CatalogStore(Preferences(conflict="safest"))
    catalog = await safest.add_foreign(other, one)
    assert "(guarded, L0)" in catalog.reasons["demo.look"]


@pytest.mark.parametrize("name", ["core", "sandbox", "agents", "skill_demo"])
async def test_clawhives_own_tools_and_those_that_skills_vouch_for_stay_as_declared(name):
    provider = Provider(name).offer("demo.work", echo, side_effects=True)
    catalog = await CatalogStore().add(provider)
    assert catalog.meta_of("demo.work").risk == "safe"


def test_a_users_own_function_is_held_to_what_it_declares():
    provider = Provider("local").offer("local.work", echo, side_effects=True)
    catalog = CatalogStore().put(provider, provider.metas)
    assert catalog.meta_of("local.work").risk == "guarded"


def skill(facts, *, trusted, permissions=()):
    place = Place("clawhive.yaml", 1, 1)
    tools = (ExportedTool("work", place, "Work.", {"type": "object"}, facts=facts),)
    return Skill(
        "demo", "1.0.0", Path(), "test", exports=Exports(tools=tools), trusted=trusted,
        permissions=permissions,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("facts", "risk"),
    [
        ({"side_effects": True}, "guarded"),
        ({"effects": {"path": "fs.write"}}, "guarded"),
        ({"level": "L1"}, "guarded"),
        ({"level": "L0"}, "safe"),
        ({}, "safe"),
    ],
)
def test_a_trusted_skills_handler_may_run_in_no_engine_and_is_held_too(facts, risk):
    trusted = skill(ToolFacts(risk="safe", **facts), trusted=True, permissions=("fs.write:**",))
    assert meta_of(trusted, trusted.exports.tools[0]).risk == risk
    fenced = replace(trusted, trusted=False)
    assert meta_of(fenced, fenced.exports.tools[0]).risk == "safe"
