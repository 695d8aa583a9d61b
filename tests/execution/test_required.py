"""A right that a tool asks for midway: decided as the call is, recorded, answered once."""

import pytest

from clawhive_core.errors import ToolError
from clawhive_core.model.refusal import Refusal
from clawhive_core.protocols.check import CheckResult

PAGE = "net.http:https://example.com/page"


def requiring(*capabilities, then=None):
    async def invoke(given, ctx):
        from clawhive_core.model.tools import ToolResult

        for capability in capabilities:
            await ctx.require(capability)
        value = None if then is None else then(ctx)
        return ToolResult(ctx.tool_call_id, "done", structured=value)

    return invoke


async def test_what_is_allowed_goes_on_and_leaves_an_event(house):
    house.give(PAGE)
    await house.offer("demo.fetch", requiring(PAGE)).ready()
    result = await house.call("demo.fetch")
    assert (result.output, result.is_error) == ("done", False)
    asked = next(row for row in await house.rows() if row["tool"] == "require")
    assert asked["requested_capabilities"] == ["net.http:https://example.com/page"]
    assert asked["status"] == "succeeded"
    assert asked["parent_invocation_id"] == "step_1#1"


@pytest.mark.parametrize(
    ("capability", "error"),
    [
        ("secret.use:TOKEN", "denied"),
        (PAGE, "approval_required"),
        ("fs.write:.env", "denied"),
        ("fs.read:/etc/passwd", "denied"),
    ],
)
async def test_what_is_refused_ends_the_call_with_what_would_allow_it(house, capability, error):
    await house.offer("demo.fetch", requiring(capability)).ready()
    result = await house.call("demo.fetch")
    assert (result.is_error, result.structured["error"]) == (True, error)
    refused = next(row for row in await house.rows() if row["tool"] == "require")
    assert refused["status"] == "refused"


async def test_the_refusal_names_the_grant(house):
    await house.offer("demo.fetch", requiring("secret.use:TOKEN")).ready()
    result = await house.call("demo.fetch")
    step = result.structured["next"]
    assert (step["action"], step["capabilities"]) == ("grant", ["secret.use:TOKEN"])
    assert step["command"] == "clawhive run --grant secret.use:TOKEN"


async def test_a_tool_may_take_a_refusal_and_go_another_way(house):
    codes = []

    async def invoke(given, ctx):
        try:
            await ctx.require("secret.use:TOKEN")
        except ToolError as error:
            codes.append(error.code)
        return await requiring()(given, ctx)

    await house.offer("demo.fetch", invoke).ready()
    assert (await house.call("demo.fetch")).output == "done"
    assert codes == ["denied"]


async def test_a_policy_check_is_asked_about_it(house):
    class NoPages:
        name = "no-pages"

        async def check(self, request):
            if any(each.startswith("net.http") for each in request.capabilities):
                return CheckResult("deny", "no pages")
            return None

    house.checks = [NoPages()]
    house.give(PAGE)
    await house.offer("demo.fetch", requiring(PAGE)).ready()
    assert (await house.call("demo.fetch")).structured["error"] == "denied"


async def test_a_constrained_right_counts_by_the_arguments_of_the_call(house):
    house.give("secret.use:TOKEN?method=GET")
    await house.offer("demo.fetch", requiring("secret.use:TOKEN")).ready()
    assert not (await house.call("demo.fetch", {"method": "GET"})).is_error
    assert (await house.call("demo.fetch", {"method": "PUT"})).is_error


async def test_the_call_has_the_right_from_then_on(house):
    house.root.joinpath("a.txt").write_text("hello")
    house.secrets["TOKEN"] = "sesame-open-now"
    house.give("secret.use:TOKEN")

    def use(ctx):
        return [ctx.workspace.read_text("a.txt", limit=9), len(ctx.secret("TOKEN"))]

    tool = requiring("fs.read:a.txt", "secret.use:TOKEN", then=use)
    await house.offer("demo.use", tool).ready()
    assert (await house.call("demo.use")).structured == ["hello", 15]


async def test_a_secret_needs_the_right_and_its_use_is_on_record(house):
    house.secrets["TOKEN"] = "sesame-open-now"
    house.give("secret.use:TOKEN")
    await house.offer("demo.plain", requiring(then=lambda ctx: ctx.secret("TOKEN"))).ready()
    refused = await house.call("demo.plain")
    assert refused.structured["error"] == "denied"
    assert "ctx.require" in refused.structured["next"]["hint"]
    house.denies = house.canonical("secret.use:**")
    effects = {"": "secret.use:TOKEN"}
    tool = requiring(then=lambda ctx: len(ctx.secret("TOKEN")))
    await house.offer("demo.declared", tool, effects=effects).ready()
    denied = await house.call("demo.declared")
    assert isinstance(denied, Refusal)
    house.denies = ()
    assert (await house.call("demo.declared")).structured == 15
    await house.log.flush()
    used = [each.event.body for each in house.log.events() if each.event.kind == "secret.used"]
    assert used == [{"name": "TOKEN", "tool": "demo.declared"}]


@pytest.mark.parametrize("capability", ["net.htp:https://x.test", "", "net.http:", "net.http:**"])
async def test_what_names_no_right_fails_the_call_with_a_code(house, capability):
    await house.offer("demo.fetch", requiring(capability)).ready()
    result = await house.call("demo.fetch")
    assert result.structured["error"] in {"invalid_capability", "invalid_input", "denied"}


async def test_nobody_calls_it_by_its_name(house):
    given = {"for": "demo.fetch", "verb": "fs.read", "resource": "a.txt"}
    await house.offer("demo.fetch", requiring()).ready()
    assert (await house.call("require", given)).error == "tool_not_found"
