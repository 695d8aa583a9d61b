"""Whatever a tool's context gives access to is decided by the policy, and on record.

A new member of the context fails the suite until its row says how it is refused and what it leaves.
"""

import json

import pytest

from clawhive_core import Hive, InvokeContext, LlmResponse, TextBlock, ToolMeta
from clawhive_core.errors import ClawHiveError
from clawhive_core.model.embeddings import Embeddings
from clawhive_core.model.messages import LlmMessage, LlmRequest
from clawhive_core.model.refusal import Refusal
from clawhive_core.plugins.contribution import Contribution
from clawhive_core.plugins.manager import PluginManager

OPEN = {"type": "object"}
PAGE = "http://127.0.0.1:49151/page"

FACTS = {
    *("trace_id", "task_id", "run_id", "step_id", "invocation_id", "tool_call_id"),
    *("conversation_id", "principal", "user_id", "skill_id", "profile", "idempotency_key"),
    *("remaining", "progress", "output"),
    "ask",  # it gives what a person types, who sees who asks; `question.answered` names it
    "artifacts",  # the run's own empty folder: what is written there goes by the workspace
}
"""The members that give access to nothing."""


async def page(ctx):
    await ctx.http.request("GET", PAGE)


async def ask(ctx):
    await ctx.complete(LlmRequest("near:any", (LlmMessage("user", (TextBlock("Hello"),)),)))


async def workspace(ctx):
    ctx.workspace.read_text("a.txt", limit=9)


async def call(ctx):
    answer = await ctx.call("local.other", {})
    if isinstance(answer, dict) and "error" in answer:
        raise ClawHiveError(answer["message"], code=answer["error"])


async def secret(ctx):
    ctx.secret("TOKEN")


ACCESS = {
    "workspace": (workspace, "fs.read:**", ("invocation.start", "fs.read:")),
    "store": (lambda ctx: ctx.store.put("k", 1), "mem.write:**", ("store.put", '"k"')),
    "http": (page, "net.http:**", ("invocation.start", "net.http:")),
    "call": (call, "tool.call:local.other", ("invocation.start", "local.other")),
    "read": (lambda ctx: ctx.read("x"), "tool.call:read", ("invocation.start", "read")),
    "save": (lambda ctx: ctx.save("x", 1), "tool.call:save", ("invocation.start", "save")),
    "show": (lambda ctx: ctx.show("card"), "tool.call:show", ("invocation.start", "show")),
    "complete": (ask, "model.call:**", ("model.start", "near:any")),
    "embed": (
        lambda ctx: ctx.embed(["a"], "near:any"),
        "model.call:**",
        ("embedding.start", "near"),
    ),
    "require": (
        lambda ctx: ctx.require("env.read:LANG"),
        "env.read:**",
        ("invocation.start", "LANG"),
    ),
    "secret": (secret, "secret.use:TOKEN", ("secret.used", "TOKEN")),
}
"""How each other member is used, the rule that denies it, and the event that names what it gave."""


NOT_HERE = {"http": ["connection_failed"], "read": ["denied"], "save": ["denied"]}
"""What an allowed use fails with here: nobody serves the page, and the tool is no skill's."""


class Near:
    """A model and embedder in this process."""

    name, host, default_host, supports_tools, default_model = "near", None, None, False, "any"

    async def chat(self, request):
        return LlmResponse((TextBlock("Hello."),))

    async def embed(self, texts, model):
        return Embeddings("near:any", ((1.0,),) * len(texts))

    async def close(self):
        pass


def opened(folder, *denied):
    def load(config, env):
        found = {"clawhive_llm_adapters": Near(), "clawhive_embedders": Near()}

        class Plugins(PluginManager):
            def contributions(self, hook):
                return [Contribution("here", "here", found[hook])] if hook in found else []

        return Plugins([])

    env = {"HOME": str(folder), "XDG_CONFIG_HOME": str(folder / "config"), "TOKEN": "open-sesame"}
    allow = (
        "secret.use:TOKEN",
        "env.read:LANG",
        f"net.http:{PAGE}",
        "net.connect:127.0.0.1:49151",
        "tool.call:**",
    )
    flags = {"policy.allow": allow, "policy.deny": denied}
    return Hive.open(folder, env=env, flags=flags, plugins=load)


async def used(folder, member, *denied):
    """Use a member in a call; return the code of what went wrong, and the events as text."""
    codes = []

    async def use(ctx):
        try:
            await ACCESS[member][0](ctx)
        except ClawHiveError as error:
            codes.append(error.code)
        return "used"

    async def other(ctx):
        return "done"

    (folder / "a.txt").write_text("text", "utf-8")
    async with opened(folder, *denied) as hive:
        effects = {"": "secret.use:TOKEN"} if member == "secret" else {}
        effects = {"": "fs.read:${workspace}/a.txt"} if member == "workspace" else effects
        for name, function in (("local.use", use), ("local.other", other)):
            mine = effects if function is use else {}
            hive.tools.add(
                ToolMeta(name, "A tool.", OPEN, "local", risk="safe", effects=mine), function
            )
        _, outcome = await hive.call("local.use", {})
        await hive.log.flush()
        events = [
            (each.event.kind, json.dumps([each.event.tool, each.event.body], default=str))
            for each in hive.log.events()
        ]
    if isinstance(outcome, Refusal):
        codes.append(outcome.error)
    return codes, events


def test_each_member_of_the_context_is_a_fact_or_has_a_row():
    members = {name for name in vars(InvokeContext) if not name.startswith("_")}
    assert members == FACTS | set(ACCESS)
    assert not FACTS & set(ACCESS)


@pytest.mark.parametrize("member", sorted(ACCESS))
async def test_a_denied_access_is_refused_and_an_allowed_one_is_on_record(tmp_path, member):
    _, rule, (kind, named) = ACCESS[member]
    for folder in ("allowed", "denied"):
        tmp_path.joinpath(folder).mkdir()
    codes, events = await used(tmp_path / "allowed", member)
    assert codes == NOT_HERE.get(member, [])
    assert any(kind == each and named in text for each, text in events)
    codes, events = await used(tmp_path / "denied", member, rule)
    assert codes == ["denied"], events
    assert not any(kind == each and named in text for each, text in events)
