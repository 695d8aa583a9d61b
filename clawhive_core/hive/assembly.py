"""The parts of a hive that its configuration decides: bounds, sandboxes, tools of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from clawhive_core.catalog.store import RESERVED, CatalogStore
from clawhive_core.config.config import Config
from clawhive_core.execution import core_tools
from clawhive_core.execution.core_tools import CoreProvider
from clawhive_core.execution.executor import ExecutorLimits
from clawhive_core.execution.handlers.handlers import HandlerRunner, skill_providers
from clawhive_core.execution.sandbox.broker import SandboxBroker, SandboxProvider, in_order
from clawhive_core.execution.sandbox.program import program_tool
from clawhive_core.execution.skill_library import SkillLibrary, skill_open
from clawhive_core.hive.running import Running
from clawhive_core.plugins.manager import PluginManager
from clawhive_core.policy.approvals import ApprovalBook
from clawhive_core.protocols.provider import ToolProvider
from clawhive_core.protocols.sandbox import SandboxEngine, SandboxLimits
from clawhive_core.runs.agents import agents_of, known_skills
from clawhive_core.runs.models import MODEL_SECONDS, RequestLimits
from clawhive_core.runs.plans.task_tools import task_providers
from clawhive_core.runs.responses import ResponseLimits
from clawhive_core.runs.sub_agents import AgentProvider, SubAgentRequests, SubAgents, is_nameable
from clawhive_core.skills.contracts.skill import Skill

Engines = Callable[[], Sequence[SandboxEngine]]


def executor_limits(config: Config) -> ExecutorLimits:
    """Return the bounds of every call."""
    return ExecutorLimits(call_depth=config.get("limits.call_depth"))


def request_limits(config: Config, provider: str) -> RequestLimits:
    """Return how long a model provider is waited for, how often, and for how much."""
    seconds = config.get(f"models.{provider}.timeout_sec")
    limits = ResponseLimits(
        config.get("limits.response_bytes"),
        config.get("limits.response_events"),
        config.get("limits.response_sec"),
    )
    retries = config.get(f"models.{provider}.max_retries")
    return RequestLimits(seconds or MODEL_SECONDS, retries, limits)


def sandbox_broker(config: Config, engines: Engines, env: Mapping[str, str]) -> SandboxBroker:
    """Return what runs programs in the sandbox engines."""
    return SandboxBroker(
        ordered(config, engines),
        config.get("sandbox.commands"),
        _sandbox_limits(config),
        config.root / config.get("sandbox.workspace"),
        config.get("sandbox.minimum"),
        env,
    )


def own_providers(
    config: Config,
    broker: SandboxBroker,
    engines: Engines,
    library: SkillLibrary,
    catalog: CatalogStore,
) -> list[ToolProvider]:
    """Return the providers of ClawHive's own tools: those of sandboxes, those of the core."""
    limits, minimum = _sandbox_limits(config), config.get("sandbox.minimum")
    opening = skill_open(library, partial(known_skills, config))
    program = program_tool(ordered(config, engines), limits, minimum, lambda: catalog.current)
    core = CoreProvider((*core_tools.TOOLS, opening, program))
    return [SandboxProvider(broker), core]


def ordered(config: Config, engines: Engines) -> Engines:
    """Return what gives the engines in the configured order."""
    names = config.get("sandbox.order")
    return lambda: in_order(engines(), names)


def agent_provider(config: Config, running: Running, book: ApprovalBook) -> AgentProvider:
    """Return the provider of `agent.NAME`; what cannot be a tool's name is noted."""
    agents = agents_of(config)
    for agent in agents:
        if not is_nameable(agent):
            running.note(f"the agent `{agent.name}` is no tool: rename it to letters and digits")
    sub_agents = SubAgents(
        running.live.log,
        book,
        lambda: SubAgentRequests(config, running.live.log, running.requests()),
        running,
        config.get("limits.agents_at_once"),
    )
    return AgentProvider(agents, sub_agents)


async def offer_skills(
    config: Config,
    engines: Engines,
    skills: Sequence[Skill],
    catalog: CatalogStore,
    plugins: PluginManager,
) -> Sequence[str]:
    """Offer what skills export, and their tasks; none takes a known name. Return notes."""
    names = {name.partition(".")[0] for name in catalog.current.tools}
    taken = RESERVED | names | {record.id for record in plugins.records()}
    runner = HandlerRunner(
        ordered(config, engines),
        _sandbox_limits(config),
        (config.user_dir,),
        minimum=config.get("sandbox.minimum"),
        must_be_fenced=config.get("sandbox.unfenced") == "refuse",
    )
    found, notes = skill_providers(skills, runner, taken)
    await catalog.add(*found)
    await catalog.add(*task_providers(skills, catalog))
    return notes


def _sandbox_limits(config: Config) -> SandboxLimits:
    """Return the most that one program in a sandbox may use."""
    return SandboxLimits(
        wall_ms=config.get("sandbox.wall_ms"),
        memory_bytes=config.get("sandbox.memory_bytes"),
        stdout_bytes=config.get("sandbox.stdout_bytes"),
        stderr_bytes=config.get("sandbox.stderr_bytes"),
        files=config.get("sandbox.files"),
        file_bytes=config.get("sandbox.file_bytes"),
        processes=config.get("sandbox.processes"),
        tool_calls=config.get("sandbox.tool_calls"),
    )
