"""The hooks: what a plugin may add to ClawHive, each with who implements it and an example.

A plugin implements a hook by a function of the hook's name, marked with `hookimpl`, in the module
(or on the object) that its entry point names. Hooks are synchronous: they return objects of
`clawhive_core.protocols`, whose methods may be async. Each gets one frozen argument, so that it can
grow without breaking a plugin, and returns a list, empty where it has nothing to add. Nothing
should connect, read keys or do other slow work in a hook: do that at the first call.
"""

# A hookspec is a signature and a docstring; it has no body.
# pyright: reportReturnType=false
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any

import pluggy

from clawhive_core.model.late import dataclass
from clawhive_core.protocols.adapter import LlmAdapter
from clawhive_core.protocols.check import PolicyCheck
from clawhive_core.protocols.embedder import Embedder
from clawhive_core.protocols.ledger import LedgerOpener
from clawhive_core.protocols.planner import Planner
from clawhive_core.protocols.provider import ToolProvider
from clawhive_core.protocols.sandbox import SandboxEngine
from clawhive_core.protocols.sink import AuditSink
from clawhive_core.protocols.stores import SkillSource, SubscriptionStore

if TYPE_CHECKING:
    import click

HOOK_API = 1
"""The version of these hooks; a manifest's `hook_api` must name one of `SUPPORTED_HOOK_APIS`."""

SUPPORTED_HOOK_APIS: tuple[int, ...] = (1,)

hookspec = pluggy.HookspecMarker("clawhive")
hookimpl = pluggy.HookimplMarker("clawhive")


@dataclass(frozen=True, slots=True)
class HookContext:
    """The context of a hook."""

    plugin_id: str
    """The entry point's name."""
    settings: Mapping[str, Any]
    """The plugin's own table of the configuration, `[plugins.ID]`."""
    root: str
    """The absolute path of the project root."""
    env: Mapping[str, str]
    """The environment; read keys from here at the first call, not in the hook. What is read from a
    variable named like a secret is redacted from then on."""
    config: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The table `[ID]` of the configuration with its defaults, where ClawHive itself has one of the
    plugin's name, such as `[mcp]`; else empty."""
    user_dir: str = ""
    """The absolute path of the user's own directory; it need not exist."""


@hookspec
def clawhive_tool_providers(ctx: HookContext) -> list[ToolProvider]:
    """Return providers of tools that are no `@tool` functions.

    For plugins whose tools come from elsewhere: a server, a catalogue, generated code. Fixed tools
    are listed in the manifest by `clawhive plugins sync`, and the hook runs at the first call of
    one; a plugin whose tools are only known at run time says `tools = "dynamic"` there, and its
    hook runs when the catalog is assembled.

    Example:
        from clawhive_core import ToolMeta, ToolResult, hookimpl

        class Clock:
            provider_id = "clock"

            async def list_tools(self):
                schema = {"type": "object", "additionalProperties": False}
                return [ToolMeta("clock.zone", "Name the time zone.", schema, "clock", risk="safe")]

            async def invoke(self, tool_name, input, ctx):
                return ToolResult(ctx.tool_call_id, "UTC")

            async def close(self):
                pass

        @hookimpl
        def clawhive_tool_providers(ctx):
            return [Clock()]
    """


@hookspec
def clawhive_llm_adapters(ctx: HookContext) -> list[LlmAdapter]:
    """Return adapters of model providers; `name` is what stands before the colon in `--model`.

    For plugins that speak to a model's API. An adapter converts requests and responses; retries,
    budgets, rights and the log are the core's. A key that is missing is an error of the first call.

    Example:
        from clawhive_core import LlmResponse, StreamEvent, TextBlock, hookimpl

        class Echo:
            name = "echo"
            host = None
            default_host = None
            supports_tools = False

            async def chat(self, request):
                block = request.messages[-1].content[-1]
                return LlmResponse((TextBlock(getattr(block, "text", "")),))

            async def stream(self, request):
                response = await self.chat(request)
                yield StreamEvent("text", response.text)
                yield StreamEvent("done", response=response)

            async def close(self):
                pass

        @hookimpl
        def clawhive_llm_adapters(ctx):
            return [Echo()]
    """


@hookspec
def clawhive_policy_checks(ctx: HookContext) -> list[PolicyCheck]:
    """Return checks that may tighten a decision to `ask` or `deny`, never loosen it.

    For organisations with rules that grants cannot say. A check that cannot be loaded, raises or
    times out denies: a plugin that offers one and fails stops every effect.

    Example:
        from clawhive_core import CheckResult, hookimpl

        class NoLongInputs:
            name = "no-long-inputs"

            async def check(self, request):
                if sum(len(str(value)) for value in request.input.values()) > 10_000:
                    return CheckResult("ask", "input longer than 10,000 characters")
                return None

        @hookimpl
        def clawhive_policy_checks(ctx):
            return [NoLongInputs()]
    """


@hookspec
def clawhive_audit_sinks(ctx: HookContext) -> list[AuditSink]:
    """Return places that committed events are also sent to.

    For plugins that feed another log. Events arrive redacted, in order, after they are committed.
    An effect, and a request to a model's host, waits until each sink whose `required` is true has
    taken its record (`audit.sink_seconds` a batch). One that fails stops effects in every process
    until it has taken all events since then, some of them twice: `seq` tells. Failures of others
    are counted.

    Example:
        from clawhive_core import hookimpl

        class Counter:
            name = "counter"
            required = False

            def __init__(self):
                self.seen = 0

            async def write(self, events):
                self.seen += len(events)

            async def close(self):
                pass

        @hookimpl
        def clawhive_audit_sinks(ctx):
            return [Counter()]
    """


@hookspec
def clawhive_planners(ctx: HookContext) -> list[Planner]:
    """Return planners, which turn a task into steps and execute nothing.

    For plugins with their own way to decompose a task. The configuration chooses one by `name`.

    Example:
        from clawhive_core import Plan, PlannedStep, hookimpl

        class FirstTool:
            name = "first-tool"
            replans = False

            async def plan(self, task, ctx):
                return Plan(self.name, (PlannedStep("only", ctx.tools[0].name, dict(task.input)),))

        @hookimpl
        def clawhive_planners(ctx):
            return [FirstTool()]
    """


@hookspec
def clawhive_sandboxes(ctx: HookContext) -> list[SandboxEngine]:
    """Return engines that run code which nobody trusts.

    For plugins that bring a jail, a virtual machine or an interpreter. Engines are asked in order,
    and the first that can run a command opens an instance for it. One that also has `run_handler`
    (`HandlerEngine`) runs the handlers of skills.

    Example:
        from clawhive_core import SandboxOutcome, hookimpl

        class Refuser:
            name = "refuser"
            version = "1"
            isolation = "guest"
            programs = frozenset({"python -c"})
            aliases = {"py": "python"}
            deterministic = True

            def unsupported(self, command):
                return None

            async def open(self, spec):
                return self

            async def run(self, command, output):
                output("stderr", b"refused")
                return SandboxOutcome(1, b"", b"refused")

            async def close(self):
                pass

        @hookimpl
        def clawhive_sandboxes(ctx):
            return [Refuser()]
    """


@hookspec
def clawhive_embedders(ctx: HookContext) -> list[Embedder]:
    """Return embedders; `name` is what stands before the colon in `model.embedding`.

    For plugins with an embedding model in this process or behind an API. A tool reaches them by
    `await ctx.embed(texts)`; retries, budgets, rights and the log are the core's.

    Example:
        from clawhive_core import Embeddings, hookimpl

        class Lengths:
            name = "lengths"
            host = None
            default_host = None
            default_model = "two"

            async def embed(self, texts, model):
                vectors = [(1.0, 0.0) if len(text) > 100 else (0.0, 1.0) for text in texts]
                return Embeddings(model, tuple(vectors))

            async def close(self):
                pass

        @hookimpl
        def clawhive_embedders(ctx):
            return [Lengths()]
    """


@hookspec
def clawhive_ledgers(ctx: HookContext) -> list[LedgerOpener]:
    """Return what opens logs of another kind of store, by the scheme of `[storage] url`.

    For plugins that keep the event log elsewhere than in a file: in a database server, for many
    machines. `clawhive_core.testing.check_ledger` holds a ledger to all that it must do.

    Example:
        from clawhive_core import hookimpl
        from clawhive_core.testing import MemoryLedger, MemoryStore

        class Forgetful:
            scheme = "memory"

            def __init__(self):
                self.store = MemoryStore()

            def open(self, url, *, root, redactor, lease_seconds):
                return MemoryLedger(self.store, redactor, lease_seconds)

            def inspect(self, url, *, root):
                return MemoryLedger(self.store).inspect()

            def is_made(self, url, *, root):
                return bool(self.store.rows)

        @hookimpl
        def clawhive_ledgers(ctx):
            return [Forgetful()]
    """


@hookspec
def clawhive_skill_sources(ctx: HookContext) -> list[SkillSource]:
    """Return further places of skills: absolute paths of folders that hold them.

    For plugins that ship skills or keep a checkout of them. Skills of plugins come after the
    project's and the user's, and before those that ClawHive ships.

    Example:
        from pathlib import PurePath

        from clawhive_core import hookimpl

        class Team:
            name = "team"

            def __init__(self, root):
                self.root = root

            def folders(self):
                return [str(PurePath(self.root) / "team-skills")]

        @hookimpl
        def clawhive_skill_sources(ctx):
            return [Team(ctx.root)]
    """


@hookspec
def clawhive_subscription_stores(ctx: HookContext) -> list[SubscriptionStore]:
    """Return a store of subscriptions, which takes the place of the project's own.

    For plugins over a shop or an account server. It is asked at each call of a tool that is for
    subscribers; where it raises, the call is denied. Of several stores the first plugin's counts.

    Example:
        from clawhive_core import Subscription, hookimpl

        class Staff:
            def __init__(self, names):
                self.names = names

            async def has(self, user_id, skill_id):
                return user_id in self.names

            async def add(self, user_id, skill_id):
                raise PermissionError("the list of the staff is kept elsewhere")

            async def remove(self, user_id, skill_id):
                raise PermissionError("the list of the staff is kept elsewhere")

            async def list(self, user_id=None, skill_id=None):
                asked = self.names if user_id is None else [user_id]
                since, skill = "2026-01-01T00:00:00Z", skill_id or "*"
                return [Subscription(each, skill, since) for each in asked if each in self.names]

        @hookimpl
        def clawhive_subscription_stores(ctx):
            return [Staff(ctx.settings.get("staff", ["local"]))]
    """


@hookspec
def clawhive_commands(ctx: HookContext) -> list[click.Command]:
    """Return click commands, which become `clawhive NAME`.

    For plugins with something to do from a terminal. Names and one-line helps also stand in the
    manifest, so that `clawhive --help` imports nothing; a name of the core is not replaced.

    Example:
        import click

        from clawhive_core import hookimpl

        @click.command("shout")
        @click.argument("words")
        def shout(words):
            "Print WORDS in capitals."
            click.echo(words.upper())

        @hookimpl
        def clawhive_commands(ctx):
            return [shout]
    """


PROTOCOLS: dict[str, type | None] = {
    "clawhive_tool_providers": ToolProvider,
    "clawhive_llm_adapters": LlmAdapter,
    "clawhive_policy_checks": PolicyCheck,
    "clawhive_audit_sinks": AuditSink,
    "clawhive_planners": Planner,
    "clawhive_sandboxes": SandboxEngine,
    "clawhive_embedders": Embedder,
    "clawhive_ledgers": LedgerOpener,
    "clawhive_skill_sources": SkillSource,
    "clawhive_subscription_stores": SubscriptionStore,
    "clawhive_commands": None,
}
"""Each hook and the protocol of what it returns; None where it is click's Command."""
