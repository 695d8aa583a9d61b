"""The agents of a project's configuration, as tools over its runs."""

from __future__ import annotations

from clawhive_core.config.config import Config
from clawhive_core.hive.running import Running
from clawhive_core.policy.approvals import ApprovalBook
from clawhive_core.runs.offering.agents import agents_of
from clawhive_core.runs.sub_agents.agent_tools import AgentProvider, SubAgents, is_nameable
from clawhive_core.runs.sub_agents.child import Nursery


def agent_provider(config: Config, running: Running, book: ApprovalBook) -> AgentProvider:
    """Return the provider of `agent.NAME`; what cannot be a tool's name is noted."""
    agents = agents_of(config)
    for agent in agents:
        if not is_nameable(agent):
            running.note(f"the agent `{agent.name}` is no tool: rename it to letters and digits")
    sub_agents = SubAgents(
        running.live.log,
        book,
        lambda: Nursery(config, running.live.log, running.requests()),
        running,
        config.get("limits.agents_at_once"),
    )
    return AgentProvider(agents, sub_agents)
