import sys

import anyio
import pytest

from clawhive_core import ToolError

GREET = """
from clawhive_core import tool

@tool
def greet(name: str) -> str:
    "Greet someone."
    return f"Hello, {name}!"
"""
CLOCK = """
from clawhive_core import ToolMeta, ToolResult, hookimpl

SCHEMA = {"type": "object", "additionalProperties": False}
RISK = "safe"

class Clock:
    provider_id = "clock"
    closed = 0
    async def list_tools(self):
        return [ToolMeta("clock.zone", "Name the zone.", SCHEMA, "clock", risk=RISK)]
    async def invoke(self, tool_name, input, ctx):
        return ToolResult(ctx.tool_call_id, "UTC")
    async def close(self):
        Clock.closed += 1

@hookimpl
def clawhive_tool_providers(ctx):
    return [Clock()]
"""


async def refused(provider, tool, ctx, **arguments):
    with pytest.raises(ToolError) as caught:
        await provider.invoke(tool, arguments, ctx)
    return caught.value


def only(manager):
    (provider,) = manager.providers()
    return provider


async def test_the_first_call_imports_the_plugin_and_answers(site, ctx):
    site.plugin("hello", synced=True)
    provider = only(site.manager())
    (meta,) = await provider.list_tools()
    assert (meta.name, meta.provider_id, provider.provider_id) == ("hello.greet", "hello", "hello")
    assert "plug_hello" not in sys.modules
    result = await provider.invoke("hello.greet", {"name": "you"}, ctx)
    assert (result.tool_call_id, result.output) == ("call-1", "Hello, you!")
    await provider.close()


async def test_many_first_calls_at_once_import_the_plugin_once(site, ctx):
    counter = site.folder / "counter"
    site.plugin(
        "hello", GREET + f"with open({str(counter)!r}, 'a') as f: f.write('x')\n", synced=True
    )
    counter.unlink()
    provider = only(site.manager())
    outputs = []

    async def call():
        outputs.append((await provider.invoke("hello.greet", {"name": "x"}, ctx)).output)

    async with anyio.create_task_group() as group:
        for _ in range(20):
            group.start_soon(call)
    assert outputs == ["Hello, x!"] * 20
    assert counter.read_text() == "x"


CHANGES = {
    "schema": (("name: str", "name: int"), "input_schema"),
    "level": (("@tool", '@tool(level="L2")'), "capability_level"),
    "risk": (("@tool", '@tool(risk="unsafe")'), "risk"),
    "effect": (("@tool", '@tool(effects={"name": "fs.read"})'), "effects"),
    "sink": (("@tool", '@tool(sinks=["name"])'), "sinks"),
    "idempotent": (("@tool", "@tool(idempotent=True)"), "idempotent"),
    "output": (("-> str", "-> dict[str, str]"), "output_schema"),
    "name": (("def greet", "def wave"), "hello.wave is in the code and not listed"),
    "more": (("# end", "@tool\ndef more() -> str: ..."), "hello.more"),
}


@pytest.mark.parametrize(("change", "words"), CHANGES.values(), ids=CHANGES)
async def test_code_that_differs_from_its_contract_is_withdrawn(site, ctx, change, words):
    folder = site.plugin("hello", synced=True)
    folder.joinpath("__init__.py").write_text((GREET + "# end").replace(*change))
    manager = site.manager()
    provider = only(manager)
    error = await refused(provider, "hello.greet", ctx, name="you")
    assert error.code == "tool_changed"
    assert words in error.message
    assert "clawhive plugins sync hello" in error.fix
    assert await provider.list_tools() == []
    assert manager.manifest_tools() == []
    (found,) = manager.records()
    assert (found.status, found.error.code) == ("failed", "manifest_differs")
    assert (await refused(provider, "hello.greet", ctx, name="you")).code == "tool_changed"


async def test_a_difference_of_text_is_a_note(site, ctx):
    folder = site.plugin("hello", synced=True)
    folder.joinpath("__init__.py").write_text(GREET.replace("Greet someone", "Say hello"))
    manager = site.manager()
    provider = only(manager)
    assert (await provider.invoke("hello.greet", {"name": "you"}, ctx)).output == "Hello, you!"
    (found,) = manager.records()
    assert found.status == "ok"
    assert "hello.greet differs in description" in found.notes[0]
    assert "clawhive plugins sync" in found.notes[0]
    assert (await provider.list_tools())[0].description == "Greet someone."


async def test_code_that_cannot_be_imported_or_described_answers_with_the_reason(site, ctx):
    folder = site.plugin("hello", synced=True)
    folder.joinpath("__init__.py").write_text("1 / 0")
    error = await refused(only(site.manager()), "hello.greet", ctx)
    assert error.code == "provider_error"
    assert "ZeroDivisionError" in error.message
    assert error.data["plugin"] == "hello"
    site.forget()
    folder.joinpath("__init__.py").write_text(GREET.replace("name: str", "name: object.__call__"))
    error = await refused(only(site.manager()), "hello.greet", ctx)
    assert error.code == "provider_error"
    assert error.data["reason_code"] == "invalid_tool"


async def test_an_unknown_tool_and_a_wrong_argument_are_refused(site, ctx):
    site.plugin("hello", synced=True)
    provider = only(site.manager())
    assert (await refused(provider, "hello.other", ctx)).code == "tool_not_found"
    error = await refused(provider, "hello.greet", ctx, nam="you")
    assert (error.code, error.place) == ("invalid_input", "/name")


async def test_tools_of_another_package_are_not_the_plugins_own(site, ctx):
    site.package("shared_tools", GREET)
    site.plugin("hello", "from shared_tools import greet", synced=True)
    assert site.manager().manifest_tools() == []


async def test_a_provider_of_a_hook_is_listed_from_the_manifest_and_made_at_the_first_call(
    site, ctx
):
    site.plugin("time", CLOCK + GREET, synced=True)
    manager = site.manager()
    first, second = manager.providers()
    assert (first.provider_id, second.provider_id) == ("clock", "time")
    assert [meta.name for meta in await first.list_tools()] == ["clock.zone"]
    assert "plug_time" not in sys.modules
    await first.close()
    assert (await first.invoke("clock.zone", {}, ctx)).output == "UTC"
    assert (await refused(first, "clock.other", ctx)).code == "tool_not_found"
    await first.close()
    await first.close()
    assert sys.modules["plug_time"].Clock.closed == 1


async def test_a_provider_whose_tools_changed_is_withdrawn_with_its_plugin(site, ctx):
    folder = site.plugin("time", CLOCK + GREET, synced=True)
    folder.joinpath("__init__.py").write_text(
        (CLOCK + GREET).replace('RISK = "safe"', 'RISK = "unsafe"')
    )
    manager = site.manager()
    clock, own = manager.providers()
    assert (await refused(clock, "clock.zone", ctx)).code == "tool_changed"
    assert (await refused(clock, "clock.zone", ctx)).code == "tool_changed"
    assert (await refused(own, "time.greet", ctx, name="x")).code == "tool_changed"
    assert await own.list_tools() == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("return [Clock()]", "return []"),
        ('provider_id = "clock"', 'provider_id = "watch"'),
        ("        return [ToolMeta", "        1 / 0\n        return [ToolMeta"),
        ('    provider_id = "clock"', "    @property\n    def provider_id(self): return 1 / 0"),
    ],
)
async def test_a_provider_that_is_not_what_was_listed_is_an_error(site, ctx, old, new):
    folder = site.plugin("time", CLOCK, synced=True)
    folder.joinpath("__init__.py").write_text(CLOCK.replace(old, new))
    error = await refused(only(site.manager()), "clock.zone", ctx)
    assert error.code == "provider_error"
    assert error.fix


async def test_a_dynamic_plugin_is_imported_to_list_its_tools(site, ctx):
    manifest = '[plugin]\nid = "time"\nhook_api = 1\nhooks = []\ntools = "dynamic"\n'
    site.plugin("time", CLOCK + GREET, manifest=manifest, synced=True)
    manager = site.manager()
    own, clock = manager.providers()
    assert (own.provider_id, clock.provider_id) == ("time", "clock")
    assert type(clock).__name__ == "Clock"
    assert [meta.name for meta in manager.manifest_tools()] == ["time.greet"]


async def test_a_dynamic_plugin_that_fails_is_left_out(site):
    manifest = (
        '[plugin]\nid = "time"\nhook_api = 1\nhooks = ["clawhive_tool_providers"]\n'
        'tools = "dynamic"\n'
    )
    site.plugin("time", "1 / 0", manifest=manifest)
    site.plugin("hello", synced=True)
    manager = site.manager()
    assert [provider.provider_id for provider in manager.providers()] == ["hello"]
    assert {item.id: item.status for item in manager.records()} == {"hello": "ok", "time": "failed"}
