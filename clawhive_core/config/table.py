"""The closed table of configuration keys: type, default, meaning, and what a project may set."""

from __future__ import annotations

from typing import Literal

from clawhive_core.config.setting import Kind, Setting

_MILLISECONDS = (1, 86_400_000)


def _joined(key: str, text: str) -> Setting:
    """A list that every layer may add to, and that makes things stricter."""
    return Setting(key, "texts", (), text, project="tighten", tighter="adds", union=True)


_ROUTING = (
    Setting(
        "routing.mode",
        "text",
        "search",
        "Whether a model sees every tool (`full`) or searches and enables them (`search`); "
        "`legacy` and `v2` are other words for the two.",
        env=("DYN_TOOL_ROUTING_MODE",),
        project="tighten",
        tighter="later",
        choices=("full", "search"),
        words={"legacy": "full", "v2": "search"},
    ),
    Setting(
        "routing.router_model",
        "text",
        "",
        "The small model that ranks candidates; empty means rules only.",
        env=("DYN_TOOL_ROUTER_MODEL",),
        project="name",
    ),
    Setting(
        "routing.router_provider",
        "text",
        "openai_compatible",
        "The adapter that serves the small model.",
        env=("DYN_TOOL_ROUTER_PROVIDER",),
        project="name",
    ),
    Setting(
        "routing.router_base_url",
        "text",
        None,
        "Where the small model is served; unset means the adapter's own default.",
        env=("DYN_TOOL_ROUTER_BASE_URL",),
    ),
    Setting(
        "routing.router_api_key",
        "text",
        "",
        "The key for the small model; may be empty for a local one.",
        env=("DYN_TOOL_ROUTER_API_KEY",),
        project="never",
        secret=True,
    ),
    Setting(
        "routing.router_timeout_sec",
        "number",
        8,
        "Seconds after which the small model is not waited for.",
        env=("DYN_TOOL_ROUTER_TIMEOUT_SEC",),
        project="tighten",
        tighter="lower",
        bounds=(0, 3600),
    ),
    Setting(
        "routing.enable_default_ttl_turns",
        "integer",
        3,
        "For how many turns `tool_enable` enables a tool when it names none.",
        env=("DYN_TOOL_ENABLE_DEFAULT_TTL_TURNS",),
        project="tighten",
        tighter="lower",
        bounds=(1, 1_000_000),
    ),
    Setting(
        "routing.router_confidence_threshold",
        "number",
        0.65,
        "Below this confidence of the small model the lexical order stands.",
        env=("DYN_TOOL_ROUTER_CONFIDENCE_THRESHOLD",),
        project="order",
        bounds=(0, 1),
    ),
    Setting(
        "routing.policy_strict",
        "flag",
        default=True,
        text="Whether tools of low risk must be enabled too before they are called.",
        env=("DYN_TOOL_POLICY_STRICT",),
        project="tighten",
        tighter="true",
    ),
    Setting("routing.always", "texts", (), "Tools that every conversation starts with."),
    Setting(
        "routing.always_threshold",
        "number",
        None,
        "Share of conversations from which a tool of low risk is always injected; unset: never.",
        bounds=(0, 1),
    ),
    Setting(
        "routing.renew_on_use",
        "flag",
        default=False,
        text="Whether a call renews the turns of an enabled tool.",
        project="tighten",
        tighter="false",
    ),
    Setting(
        "routing.learning",
        "text",
        "shadow",
        "Whether ranking learns from use: `shadow` only logs what it would have ranked.",
        project="order",
        choices=("off", "shadow", "on"),
    ),
)

_DECLARED: tuple[tuple[str, Kind, object, str, tuple[str, ...]], ...] = (
    (
        "definition",
        "text",
        "",
        "The hash of the definition that was declared; `clawhive tools declare` writes it.",
        (),
    ),
    (
        "risk",
        "text",
        "unknown",
        "How its calls are decided, where no plugin declares it.",
        ("safe", "guarded", "unknown", "unsafe"),
    ),
    ("level", "text", None, "Its reach; unset: what its effects amount to.", ("L0", "L1", "L2")),
    ("side_effects", "flag", None, "Whether it changes anything; unset: unless it is safe.", ()),
    ("effects", "table", {}, "Its arguments to capabilities, as in a plugin's manifest.", ()),
    ("sinks", "texts", (), "Its arguments that say where data or money goes.", ()),
    ("records", "texts", (), "Fields of its output that are your own records.", ()),
)

_TOOLS = (
    Setting(
        "tools",
        "tables",
        (),
        'Run-time tools, one `[[tools]]` each: `name`, `function = "module:attr"` of an installed '
        "module, and what `@tool` may be told.",
    ),
    Setting(
        "tools.preferred_provider_order",
        "texts",
        ("builtin", "web", "sandbox", "mcp_*", "stub"),
        "Which provider serves a name that several offer; one that is not listed stands just "
        "before `stub`.",
        project="order",
    ),
    Setting(
        "tools.conflict",
        "text",
        "prefer",
        "How equal names are settled: by the preferred order, or by the lower risk, then level.",
        project="tighten",
        tighter="later",
        choices=("prefer", "safest"),
    ),
    Setting("tools.alias", "names", {}, "Further names of tools: alias to name.", project="name"),
    Setting("tools.pin", "names", {}, "Tools to the provider that serves them.", project="order"),
    *(
        Setting(
            f"tools.declared.NAME.{name}", kind, default, text, project="never", choices=choices
        )
        for name, kind, default, text, choices in _DECLARED
    ),
)

_PLUGINS = (
    Setting("plugins.enabled", "texts", None, "The only plugins to use; unset: all installed."),
    Setting(
        "plugins.disabled",
        "texts",
        (),
        "Plugins that are not imported.",
        project="tighten",
        tighter="adds",
        union=True,
        flag="--no-plugins",
    ),
    Setting("plugins.order", "texts", (), "Plugins to load first, in order.", project="order"),
    Setting(
        "plugins.strict",
        "flag",
        default=False,
        text="Whether a plugin that fails is an error.",
        project="tighten",
        tighter="true",
        flag="--strict",
    ),
    Setting("plugins.ID", "table", {}, "What the plugin ID is given as its settings."),
)

_POLICY = (
    Setting(
        "policy.allow",
        "texts",
        (),
        "Capabilities that need no question.",
        union=True,
        flag="--grant",
    ),
    _joined("policy.ask", "Capabilities that a person is asked about."),
    _joined("policy.deny", "Capabilities that nothing allows."),
    _joined("policy.checks", "Policy checks without which no effect happens."),
    _joined("audit.required_sinks", "Audit sinks without which no effect happens."),
    Setting(
        "audit.sink_seconds",
        "number",
        5.0,
        "How long a required audit sink may take for a batch of events.",
        bounds=(0.1, 600.0),
    ),
)

_RUNS = (
    Setting(
        "loop.max_tool_rounds",
        "integer",
        25,
        "After how many rounds of tool calls a loop ends.",
        project="tighten",
        tighter="lower",
        bounds=(0, 1_000_000),
        flag="--max-tool-rounds",
    ),
    Setting(
        "loop.compact_at_tokens",
        "integer",
        150_000,
        "How long a conversation may be, in tokens, before long old results are cleared from it.",
        project="tighten",
        tighter="lower",
        bounds=(1, 2**53 - 1),
    ),
    Setting(
        "run.out",
        "text",
        "clawhive-out",
        "The folder of runs' artifacts, relative to the project root.",
        flag="--out",
    ),
    Setting(
        "run.approve",
        "text",
        None,
        "What happens when a person must approve; unset: `ask` on a terminal, else `park`.",
        project="tighten",
        tighter="later",
        choices=("ask", "park", "deny"),
        flag="--approve",
    ),
    Setting(
        "limits.call_depth",
        "integer",
        8,
        "How deep tool calls may be nested.",
        project="tighten",
        tighter="lower",
        bounds=(1, 64),
    ),
    Setting(
        "limits.agents_at_once",
        "integer",
        8,
        "How many sub-agents one run may have at work at the same time.",
        project="tighten",
        tighter="lower",
        bounds=(1, 64),
    ),
    Setting(
        "limits.agents_total",
        "integer",
        64,
        "How many sub-agents one task may start, with all that these start.",
        project="tighten",
        tighter="lower",
        bounds=(0, 100_000),
    ),
    Setting(
        "limits.call_timeout_ms",
        "integer",
        30_000,
        "Milliseconds that a call may take where its tool says nothing.",
        project="tighten",
        tighter="lower",
        bounds=_MILLISECONDS,
    ),
    Setting(
        "limits.blocked_sec",
        "number",
        20,
        "Seconds that code of a plugin may hold up everything else before that is told; after as "
        "long again a command ends.",
        project="tighten",
        tighter="lower",
        bounds=(1, 3600),
    ),
    Setting(
        "limits.response_bytes",
        "integer",
        32 * 1024 * 1024,
        "Bytes that one answer of a model may hold.",
        project="tighten",
        tighter="lower",
        bounds=(1, 2**40),
    ),
    Setting(
        "limits.response_events",
        "integer",
        1_000_000,
        "Events that one streamed answer of a model may have.",
        project="tighten",
        tighter="lower",
        bounds=(1, 2**40),
    ),
    Setting(
        "limits.response_sec",
        "number",
        1_800,
        "Seconds that one answer of a model may take in all, with every attempt and wait.",
        project="tighten",
        tighter="lower",
        bounds=(0, 86_400),
    ),
)


_SKILLS = (
    Setting(
        "skills.paths",
        "texts",
        (),
        "Further folders of skills, relative to the project root.",
        project="name",
        tighter="inside",
        flag="--skills",
    ),
    _joined("skills.disabled", "Skills that are not loaded."),
    Setting(
        "skills.profile",
        "text",
        "lenient",
        "How strictly skills are checked.",
        project="tighten",
        tighter="later",
        choices=("lenient", "strict", "portable"),
        flag="--profile",
    ),
    Setting(
        "contracts.phase",
        "text",
        "enforce",
        "How strict contracts are: `compat` only warns of code imports and "
        "undeclared calls, `enforce` refuses them, `final` refuses old keys too.",
        project="tighten",
        tighter="later",
        choices=("compat", "enforce", "final"),
    ),
    Setting(
        "user.id", "text", "local", "Who the user is, for subscriptions and quotas.", flag="--user"
    ),
    Setting("user.profile", "table", {}, "What tools may know of the user."),
    Setting(
        "web.search_backend",
        "text",
        "stub",
        "What serves `web.search`.",
        env=("WEB_SEARCH_BACKEND",),
        project="name",
    ),
)


# The defaults are those of `SandboxLimits`; a test compares them, since importing the engines'
# types costs every command its start.
def _limit(name: str, default: int, text: str, minimum: int = 0) -> Setting:
    return Setting(
        f"sandbox.{name}",
        "integer",
        default,
        text,
        project="tighten",
        tighter="lower",
        bounds=(minimum, 2**53 - 1),
    )


_SANDBOX = (
    Setting(
        "sandbox.workspace",
        "text",
        "./sandbox_workspace",
        "Where each conversation's sandbox directory lies, relative to the project root.",
    ),
    Setting("sandbox.commands", "texts", ("python -c", "node -e"), "What `sandbox.exec` may run."),
    Setting(
        "sandbox.order",
        "texts",
        (),
        "Engines to try first, by name; the others follow, the plugin `builtin`'s before those of "
        "other plugins.",
        project="order",
    ),
    Setting(
        "sandbox.minimum",
        "text",
        "jail",
        "The weakest isolation in which programs run: `landlock` (fewer system calls), `jail` "
        "(namespaces of their own, or a container), `guest` (no system calls).",
        project="tighten",
        tighter="later",
        choices=("landlock", "jail", "guest"),
    ),
    Setting(
        "sandbox.environment",
        "text",
        None,
        "A Python environment whose packages `python -c` has in the jail, read-only: the path of "
        "what `python3 -m venv` made.",
    ),
    Setting(
        "sandbox.unfenced",
        "text",
        "run",
        "Where this machine cannot fence the processes of trusted skills' handlers completely "
        "(`clawhive doctor` tells): `run` them all the same, or `refuse`.",
        project="tighten",
        tighter="later",
        choices=("run", "refuse"),
    ),
    _limit("wall_ms", 5_000, "Milliseconds of one execution.", 1),
    _limit("memory_bytes", 256 * 1024 * 1024, "Memory of one execution.", 1),
    _limit("stdout_bytes", 1024 * 1024, "Output kept of one execution."),
    _limit("stderr_bytes", 1024 * 1024, "Error output kept of one execution."),
    _limit("files", 1_000, "Files that one execution may write."),
    _limit("file_bytes", 32 * 1024 * 1024, "Bytes of all files that one execution writes."),
    _limit("processes", 32, "Processes of one execution.", 1),
    _limit("tool_calls", 100, "Tool calls from within one execution."),
)

_BUDGETS: tuple[tuple[str, Literal["integer", "number"], str], ...] = (
    ("tokens", "integer", "Input and output tokens that a run and its sub-agents may use."),
    ("cost", "number", "US dollars that its model calls may cost, where prices are known."),
    ("seconds", "number", "Seconds after which it asks no model any more."),
)


def _budget(key: str, kind: Literal["integer", "number"], text: str) -> Setting:
    return Setting(
        key, kind, None, text, project="tighten", tighter="lower", bounds=(0, 1_000_000_000_000)
    )


_MODELS = (
    Setting(
        "model.default",
        "text",
        None,
        "The model of agents that name none: `PROVIDER:NAME`.",
        project="name",
        flag="--model",
    ),
    Setting(
        "model.planner",
        "text",
        "react",
        "What decides on the steps of a prompt: `react` goes from turn to turn, `llm` plans ahead; "
        "plugins may add others.",
        flag="--planner",
    ),
    Setting(
        "model.embedding",
        "text",
        None,
        "What turns texts into vectors: `PROVIDER:NAME`; unset: the first embedder that sends "
        "nothing out of this process.",
    ),
    Setting(
        "model.max_tokens",
        "integer",
        8192,
        "The longest answer that a model is asked for, in tokens.",
        project="tighten",
        tighter="lower",
        bounds=(1, 10_000_000),
    ),
    *(_budget(f"budget.{name}", kind, text) for name, kind, text in _BUDGETS),
    Setting(
        "models.PROVIDER.timeout_sec",
        "number",
        None,
        "Seconds to wait for an answer; unset means the adapter's own.",
        project="tighten",
        tighter="lower",
        bounds=(0, 86_400),
    ),
    Setting(
        "models.PROVIDER.max_retries",
        "integer",
        2,
        "How often a failed request is tried again.",
        project="tighten",
        tighter="lower",
        bounds=(0, 100),
    ),
)

_AGENTS = (
    Setting("agents.NAME.model", "text", None, "The agent's model.", project="name"),
    Setting("agents.NAME.persona", "text", "", "What the agent's system prompt begins with."),
    Setting(
        "agents.NAME.description",
        "text",
        "",
        "When to delegate to it; with it the agent is offered to models as the tool `agent.NAME`.",
    ),
    Setting(
        "agents.NAME.form",
        "text",
        "full",
        "What it does as a sub-agent: a loop of its own with tools, or one model call without any.",
        project="tighten",
        tighter="later",
        choices=("full", "call"),
    ),
    Setting(
        "agents.NAME.planner",
        "text",
        None,
        "What decides on its steps; unset: `model.planner`.",
    ),
    Setting(
        "agents.NAME.skills",
        "texts",
        None,
        "The only skills it knows, and whose tools and tasks it may use; unset: all.",
        project="tighten",
        tighter="subset",
    ),
    Setting(
        "agents.NAME.allow",
        "texts",
        None,
        "The only tools it sees and may call; unset: all.",
        project="tighten",
        tighter="subset",
    ),
    Setting(
        "agents.NAME.tools",
        "texts",
        None,
        "The only tools its model is offered before a skill that requires others is active; unset: "
        "all it sees.",
        project="tighten",
        tighter="subset",
    ),
    Setting(
        "agents.NAME.sub_agent.allowed_tools",
        "texts",
        None,
        "The only tools its sub-agents see and may call; unset: its own.",
        project="tighten",
        tighter="subset",
    ),
    Setting(
        "agents.NAME.max_depth",
        "integer",
        3,
        "How deep it may start sub-agents below it.",
        project="tighten",
        tighter="lower",
        bounds=(0, 64),
    ),
    *(_budget(f"agents.NAME.budget.{name}", kind, text) for name, kind, text in _BUDGETS),
    Setting("agents.NAME.when", "texts", (), "Task types or words that start it as a sub-agent."),
)

_STORAGE = (
    Setting(
        "storage.url",
        "text",
        "sqlite:",
        "Where the event log is kept: `sqlite:` in the project's `.clawhive`, `sqlite:PATH`, or an "
        "address that a plugin opens.",
    ),
    Setting(
        "storage.lease_seconds",
        "number",
        15.0,
        "How long a process that says nothing keeps its runs, before others may take them up.",
        bounds=(0.1, 3600.0),
    ),
)

_HTTP = (
    Setting(
        "http.proxy",
        "text",
        None,
        "`http://[user:password@]host:port`: what tools' requests by `ctx.http` go through; the "
        "proxies that the environment names do not count.",
        project="never",
        secret=True,
    ),
)

_MCP = (
    Setting("mcp.servers.NAME.cmd", "texts", (), "The program and arguments that start it."),
    Setting("mcp.servers.NAME.command", "text", None, "The program alone, as others write it."),
    Setting("mcp.servers.NAME.args", "texts", (), "Arguments to `command`."),
    Setting("mcp.servers.NAME.cwd", "text", None, "The directory it starts in."),
    Setting("mcp.servers.NAME.env", "names", {}, "Its environment variables.", secret=True),
    Setting("mcp.servers.NAME.url", "text", None, "Where a server over HTTP is reached."),
    Setting("mcp.servers.NAME.headers", "names", {}, "Headers of requests to it.", secret=True),
    Setting(
        "mcp.servers.NAME.disabled",
        "flag",
        default=False,
        text="Whether it is left alone, so that its tools are not there.",
        project="tighten",
        tighter="true",
    ),
    Setting(
        "mcp.servers.NAME.protocol",
        "text",
        "auto",
        "The protocol that it speaks: found out, or one of the two eras.",
        choices=("auto", "legacy", "2026-07-28"),
    ),
    Setting(
        "mcp.servers.NAME.trust",
        "text",
        "nothing",
        "Whether the server's own annotations of its tools count, such as `readOnlyHint`.",
        choices=("annotations", "nothing"),
        project="never",
    ),
    Setting(
        "mcp.servers.NAME.sampling",
        "text",
        None,
        "The model that the server may ask, as `PROVIDER:NAME`; unset: none.",
        project="never",
    ),
    Setting(
        "mcp.servers.NAME.sandbox",
        "flag",
        default=False,
        text="Whether it runs in a jail.",
        project="tighten",
        tighter="true",
    ),
    Setting(
        "mcp.servers.NAME.timeout_ms",
        "integer",
        None,
        "Milliseconds that its calls may take; unset: `mcp.timeout_ms`.",
        project="tighten",
        tighter="lower",
        bounds=_MILLISECONDS,
    ),
    Setting(
        "mcp.clients.NAME.attended",
        "flag",
        default=False,
        text="Whether a person sits at this client of `serve mcp`, who may approve what it shows.",
        project="never",
    ),
    Setting(
        "mcp.clients.NAME.hold_sec",
        "number",
        default=0.0,
        text="Seconds for which a call of this client is held open until a person answers.",
        project="never",
        bounds=(0, 3600),
    ),
    Setting(
        "mcp.timeout_ms",
        "integer",
        30_000,
        "Milliseconds that a call to a server may take.",
        env=("MCP_TIMEOUT_MS",),
        project="tighten",
        tighter="lower",
        bounds=_MILLISECONDS,
    ),
    Setting(
        "mcp.connect_timeout_ms",
        "integer",
        10_000,
        "Milliseconds that a server may take to start and list its tools.",
        project="tighten",
        tighter="lower",
        bounds=_MILLISECONDS,
    ),
    Setting(
        "mcp.servers_json",
        "text",
        None,
        "Servers as a JSON array of `{name, cmd, cwd}`; wins over the single server below.",
        env=("MCP_SERVERS_JSON",),
        secret=True,
    ),
    Setting(
        "mcp.server_name", "text", None, "The name of a single server.", env=("MCP_SERVER_NAME",)
    ),
    Setting("mcp.server_cmd", "text", None, "The program of it.", env=("MCP_SERVER_CMD",)),
    Setting(
        "mcp.server_args_json",
        "text",
        None,
        "Its arguments as a JSON array; wins over `mcp.server_args`.",
        env=("MCP_SERVER_ARGS_JSON",),
    ),
    Setting(
        "mcp.server_args",
        "text",
        None,
        "Its arguments, split as by a shell.",
        env=("MCP_SERVER_ARGS",),
    ),
    Setting("mcp.server_cwd", "text", None, "Its directory.", env=("MCP_SERVER_CWD",)),
)

TABLE = (
    *_ROUTING,
    *_TOOLS,
    *_PLUGINS,
    *_POLICY,
    *_RUNS,
    *_SKILLS,
    *_SANDBOX,
    *_MODELS,
    *_AGENTS,
    *_STORAGE,
    *_HTTP,
    *_MCP,
)
