"""Each hook has a consumer: the example of its documentation shows in a running Hive.

A hook without a proof here fails the suite: it would be called by nothing.
"""

import contextlib
import io

import pytest

from clawhive_core import Hive, ToolMeta
from clawhive_core.cli import main
from clawhive_core.errors import ClawHiveError
from clawhive_core.hive.hive import RunOptions
from clawhive_core.plugins import reference
from clawhive_core.plugins.hookspecs import PROTOCOLS

OPEN = {"type": "object"}
EXPORTS = """
id: shop
exports:
  api_version: "1.0"
  tools: [{name: sell, input_schema: {type: object}, output_schema: {type: object}}]
  access: {requires_subscription: true}
"""


class Place:
    """A project with one plugin: the example of a hook's documentation."""

    def __init__(self, site, folder):
        self.site, self.root = site, folder / "project"
        self.root.mkdir()
        self.env = {"HOME": str(folder), "XDG_CONFIG_HOME": str(folder / "config")}

    def skill(self, folder, name, manifest=""):
        at = self.root / folder / name
        at.mkdir(parents=True)
        text = f"---\nname: {name}\ndescription: Sell things.\n---\nSell.\n"
        at.joinpath("SKILL.md").write_text(text, "utf-8")
        if manifest:
            at.joinpath("clawhive.yaml").write_text(manifest, "utf-8")
            at.joinpath("handlers.py").write_text("def sell(input, ctx):\n    return {}\n", "utf-8")

    def hive(self, flags=None, **settings):
        def load(config, env):
            options = {"root": str(config.root), "env": env, "settings": {"seam": settings}}
            return self.site.manager(**options)

        return Hive.open(self.root, flags=flags or {}, env=self.env, plugins=load)


@pytest.fixture
def place(site, tmp_path):
    return Place(site, tmp_path)


async def tool_providers(place):
    async with place.hive() as hive:
        _, outcome = await hive.call("clock.zone", {})
    return outcome.output == "UTC"


async def llm_adapters(place):
    async with place.hive() as hive:
        run = await hive.run("Say it.", model="echo:any")
    return run["output"] == "Say it."


async def policy_checks(place):
    async with place.hive() as hive:
        hive.tools.add(ToolMeta("local.say", "Say.", OPEN, "local", risk="safe"), say)
        long = await hive.explain("local.say", {"text": "x" * 10_001})
        short = await hive.explain("local.say", {"text": "x"})
    return (long["verdict"], short["verdict"]) == ("ask", "allow")


async def audit_sinks(place):
    async with place.hive() as hive:
        (sink,) = hive.plugins.contributions("clawhive_audit_sinks")
        await hive.call("no.tool", {})
    return sink.value.seen > 0


async def planners(place):
    async with place.hive() as hive:
        hive.tools.add(ToolMeta("a.first", "Be first.", OPEN, "local", risk="safe"), say)
        options = RunOptions(model="scripted:any", planner="first-tool")
        hive.models.adapters = lambda: {"scripted": None}
        run = await hive.run("Go.", options=options)
    return [step["name"] for step in run["steps"]][:1] == ["tool.a.first"]


async def sandboxes(place):
    given = {"language": "python", "code": "print(1)"}
    async with place.hive() as hive:
        run = await hive.run(task="run_code_snippet", input=given)
    return "refused" in str(run["steps"])


async def embedders(place):
    async def near(ctx):
        found = await ctx.embed(["short", "long" * 100])
        return found.vectors

    async with place.hive() as hive:
        hive.tools.add(ToolMeta("local.near", "Embed.", OPEN, "local", risk="safe"), near)
        _, outcome = await hive.call("local.near", {})
    return outcome.structured == [[0, 1], [1, 0]]


async def ledgers(place):
    async with place.hive(flags={"storage.url": "memory:"}) as hive:
        await hive.call("no.tool", {})
        return hive.log.place.startswith("memory:") and not (place.root / ".clawhive").exists()


async def skill_sources(place):
    place.skill("team-skills", "seller")
    async with place.hive() as hive:
        return "seller" in {skill.id for skill in hive.skills}


async def subscription_stores(place):
    place.skill("skills", "shop", EXPORTS)
    codes = []
    for staff in (["local"], []):
        async with place.hive(staff=staff) as hive:
            _, outcome = await hive.call("shop.sell", {})
            codes.append(getattr(outcome, "error", None) == "subscription_required")
    return codes == [False, True]


async def commands(place):
    place.site.sync("seam")
    out = io.StringIO()
    with (
        contextlib.chdir(place.root),
        contextlib.redirect_stdout(out),
        pytest.raises(SystemExit),
    ):
        main(["shout", "loud"])
    return out.getvalue() == "LOUD\n"


def say(text=""):
    return text


PROOFS = {
    f"clawhive_{proof.__name__}": proof
    for proof in (
        tool_providers,
        llm_adapters,
        policy_checks,
        audit_sinks,
        planners,
        sandboxes,
        embedders,
        ledgers,
        skill_sources,
        subscription_stores,
        commands,
    )
}
MANIFEST = '[plugin]\nid = "seam"\nhook_api = 1\nhooks = {}\n{}'


def test_every_hook_has_a_proof_and_every_proof_a_hook():
    assert PROOFS.keys() == PROTOCOLS.keys()


@pytest.mark.parametrize("hook", PROTOCOLS)
async def test_what_a_hook_returns_reaches_who_uses_it(hook, place):
    more = 'tools = "dynamic"\n' if hook == "clawhive_tool_providers" else ""
    manifest = MANIFEST.format([hook], more).replace("'", '"')
    place.site.plugin("seam", reference.example(hook), manifest=manifest)
    assert await PROOFS[hook](place)


@pytest.mark.parametrize("hook", PROTOCOLS)
async def test_without_the_plugin_nothing_of_it_is_seen(hook, place):
    place.site.plugin("seam", "", manifest=MANIFEST.format("[]", ""))
    try:
        seen = await PROOFS[hook](place)
    except (ClawHiveError, ValueError, AttributeError):
        seen = False
    assert not seen
