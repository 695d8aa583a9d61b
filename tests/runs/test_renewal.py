"""What a running model is offered: the catalog's changes, and what core tools enable."""

import pytest

from clawhive_core.execution import core_tools
from clawhive_core.execution.core_tools import PROVIDER_ID, CoreTool
from clawhive_core.model.tools import Enablement, ToolMeta, ToolResult
from clawhive_core.testing import ScriptedModel, calling, memory_hive

MODEL = "scripted:any"


def names(request):
    return {tool.name for tool in request.tools}


async def test_a_running_loop_sees_another_catalog_at_its_next_turn(tools):
    async def grow(given, ctx):
        hive.tools.add(ToolMeta("late.tool", "Late.", {"type": "object"}, "local"), lambda: "late")
        hive.tools.remove("early.tool")
        return "grown"

    tools.add("test.grow", grow)
    model = ScriptedModel([calling("test.grow", {}), calling("test.echo", {}), "done"])
    async with memory_hive(providers=[tools], adapters=[model]) as hive:
        early = ToolMeta("early.tool", "Early.", {"type": "object"}, "local")
        hive.tools.add(early, lambda: "early")
        run = await hive.run("go", model=MODEL)
        report = await hive.replay(run["run_id"])
        changed = [e.event for e in hive.log.events() if e.event.kind == "tools.changed"]
    first, second, third = (names(request) for request in model.requests[:3])
    assert "early.tool" in first
    assert "late.tool" not in first
    assert second == third == (first | {"late.tool"}) - {"early.tool"}
    assert [event.step_id for event in changed] == [f"{run['run_id']}/r1"]
    assert (report.difference, report.complete) == (None, True)


async def test_a_revision_that_offers_the_same_leaves_no_event(tools):
    async def touch(given, ctx):
        hive.catalog.put(hive.tools._provider, [])
        meta = ToolMeta("web.hidden", "Hidden.", {"type": "object"}, "stub")
        await hive.catalog.add(Stub(meta))
        return "touched"

    class Stub:
        provider_id = "stub"

        def __init__(self, meta):
            self.meta = meta

        async def list_tools(self):
            return [self.meta]

        async def close(self):
            pass

    tools.add("test.touch", touch)
    model = ScriptedModel([calling("test.touch", {}), "done"])
    async with memory_hive(providers=[tools], adapters=[model]) as hive:
        before = hive.catalog.current.revision
        run = await hive.run("go", model=MODEL)
        assert hive.catalog.current.revision != before
        kinds = {stored.event.kind for stored in hive.log.events()}
    assert run["status"] == "succeeded"
    assert "tools.changed" not in kinds


def enabling(*enabled, expires_at_turn=None):
    async def run(given, ctx):
        until = expires_at_turn and ctx.scope.turn + expires_at_turn
        return ToolResult("", "enabled", enables=Enablement(enabled, until))

    meta = ToolMeta("intend", "Enable.", {"type": "object"}, PROVIDER_ID, risk="safe")
    return CoreTool(meta, run)


BOUND = {"agents.default.tools": ["test.echo"]}


@pytest.fixture
def core(monkeypatch):
    """Add a core tool to those that every hive has."""
    return lambda tool: monkeypatch.setattr(core_tools, "TOOLS", (*core_tools.TOOLS, tool))


async def test_any_core_tool_enables_and_a_turn_ends_it(tools, core):
    tools.add("test.more", lambda given, ctx: "more")
    core(enabling("test.more", "no.tool", expires_at_turn=2))
    script = [calling(each, {}) for each in ("intend", "test.more", "test.more")]
    model = ScriptedModel([*script, "done"])
    async with memory_hive(providers=[tools], adapters=[model], settings=BOUND) as hive:
        run = await hive.run("go", model=MODEL)
        report = await hive.replay(run["run_id"])
        said = [e.event.body for e in hive.log.events() if e.event.kind == "tools.enabled"]
    offered = ["test.more" in names(request) for request in model.requests]
    assert offered == [False, True, False, False]
    codes = [(step["error"] or {}).get("code") for step in run["steps"]]
    assert codes[:3] == [None, None, "tool_not_enabled"]
    (body,) = said
    assert (body["tools"], body["left_out"]) == (["test.more"], [["no.tool", "no such tool"]])
    assert body["expires_at_turn"] == 2
    assert report.difference is None


async def test_a_plugins_result_enables_nothing(tools):
    async def cheat(given, ctx):
        return ToolResult("", "ok", enables=Enablement(("test.echo",)))

    tools.add("test.cheat", cheat)
    settings = {"agents.default.tools": ["test.cheat"]}
    model = ScriptedModel([calling("test.cheat", {}), calling("test.echo", {}), "done"])
    async with memory_hive(providers=[tools], adapters=[model], settings=settings) as hive:
        run = await hive.run("go", model=MODEL)
        kinds = {stored.event.kind for stored in hive.log.events()}
    assert run["steps"][1]["error"]["code"] == "tool_not_enabled"
    assert "tools.enabled" not in kinds
