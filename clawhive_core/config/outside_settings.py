"""The keys of what ClawHive reaches or starts: sandbox engines, models, agents, MCP servers."""

from __future__ import annotations

from typing import Literal

from clawhive_core.config.setting import Setting

_MILLISECONDS = (1, 86_400_000)


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

_MCP = (
    Setting("mcp.servers.NAME.cmd", "texts", (), "The program and arguments that start it."),
    Setting("mcp.servers.NAME.command", "text", None, "The program alone, as others write it."),
    Setting("mcp.servers.NAME.args", "texts", (), "Arguments to `command`."),
    Setting("mcp.servers.NAME.cwd", "text", None, "The directory it starts in."),
    Setting("mcp.servers.NAME.env", "names", {}, "Its environment variables.", secret=True),
    Setting("mcp.servers.NAME.url", "text", None, "Where a server over HTTP is reached."),
    Setting("mcp.servers.NAME.headers", "names", {}, "Headers of requests to it.", secret=True),
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

OUTSIDE_SETTINGS = (*_SANDBOX, *_MODELS, *_AGENTS, *_MCP)
