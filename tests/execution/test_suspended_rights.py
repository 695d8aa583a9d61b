"""A right that is suspended for a tool opens nothing to it on the way either."""

from dataclasses import replace

from clawhive_core.model.identity import ToolIdentity
from clawhive_core.model.refusal import Refusal
from tests.harness import echo, text


async def listed(input, ctx):
    return text(" ".join(entry.path for entry in ctx.workspace.list(".")))


async def changed(house, meta):
    """Let a tool be another from now on, with the same name and function."""
    function = house.provider.functions.pop(meta.name)
    house.provider.metas.clear()
    house.offer(meta.name, function, effects=meta.effects, sinks=meta.sinks, idempotent=True)
    await house.ready()


def bind(house, meta, pattern):
    """Give a right as an approval of this tool's call gives it."""
    house.give(pattern, issuer="approval")
    house.grants[-1] = replace(house.grants[-1], tool=ToolIdentity.of(meta).text)


async def test_a_name_that_only_a_suspended_right_opens_is_left_out(house):
    for name in ("a.txt", ".env"):
        (house.root / name).write_text(name, encoding="utf-8")
    await house.offer(
        "demo.tool", listed, risk="safe", effects={"": "fs.read:${workspace}/**"}
    ).ready()
    meta = house.catalog.current.meta_of("demo.tool")
    bind(house, meta, "fs.read:${workspace}/.env")
    assert (await house.call("demo.tool")).output == ".env a.txt"
    await changed(house, meta)
    assert (await house.call("demo.tool", step="step_2")).output == "a.txt"


async def test_a_place_outside_that_only_a_suspended_right_names_is_not_the_users(house):
    outside = house.root.parent / "outside"
    fields = {"risk": "safe", "effects": {"path": "fs.read"}, "sinks": ("path:path",)}
    await house.offer("demo.tool", echo, **fields).ready()
    meta = house.catalog.current.meta_of("demo.tool")
    house.give(f"fs.read:{outside}/**", issuer="starter")
    bind(house, meta, f"fs.read:{outside}/**")
    call = {"path": str(outside / "a.txt")}
    assert (await house.call("demo.tool", call)).output == "done"
    await changed(house, meta)
    refusal = await house.call("demo.tool", call, step="step_2")
    assert isinstance(refusal, Refusal)
    assert refusal.error == "tool_suspended"


async def test_a_call_that_only_a_suspended_right_allowed_names_what_lets_it_be_made_again(house):
    outside = house.root.parent / "outside"
    await house.offer("demo.tool", echo, risk="safe", effects={"path": "fs.read"}).ready()
    meta = house.catalog.current.meta_of("demo.tool")
    bind(house, meta, f"fs.read:{outside}/**")
    call = {"path": str(outside / "a.txt")}
    assert (await house.call("demo.tool", call)).output == "done"
    await changed(house, meta)
    refusal = await house.call("demo.tool", call, step="step_2")
    assert refusal.error == "tool_suspended"
    assert refusal.next["renew"] == [f"clawhive grants resume {house.grants[-1].grant_id}"]
    assert refusal.next["command"] == "clawhive tools show demo.tool"
    house.grants.pop()
    assert (await house.call("demo.tool", call, step="step_3")).error == "denied"
