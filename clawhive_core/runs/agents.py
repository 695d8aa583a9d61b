"""Agents by name: `[agents.NAME]` of the configuration."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Literal

from clawhive_core.config.config import Config
from clawhive_core.errors import UsageError
from clawhive_core.execution.scope import AllowList
from clawhive_core.model.late import dataclass
from clawhive_core.model.principal import DEFAULT_AGENT, Principal
from clawhive_core.runs.budget import BudgetLimits

AGENTS = "agents"
"""The provider of the tools that start agents."""

MAX_DEPTH = 3
"""The depth to which an agent may start sub-agents below it, where it says nothing."""


@dataclass(frozen=True, slots=True)
class Agent:
    """One agent as the configuration has it."""

    name: str
    model: str | None = None
    persona: str = ""
    description: str = ""
    """The occasion to delegate to it; empty where no model is told of it."""
    form: Literal["full", "call"] = "full"
    planner: str | None = None
    skills: tuple[str, ...] | None = None
    when: tuple[str, ...] = ()
    """Task types or words that start it as a sub-agent."""
    max_depth: int = MAX_DEPTH
    tools: tuple[str, ...] | None = None
    """The tools that its model is offered from the start, within its `allow`; None for all."""

    @property
    def principal(self) -> Principal:
        """The principal."""
        return Principal("agent", self.name)

    @property
    def tool(self) -> str:
        """The canonical name of the tool that starts it."""
        return f"agent.{self.name}"

    @classmethod
    def read(cls, config: Config, principal: Principal) -> Agent:
        """Return an agent, or what a principal that is none has instead of one."""
        if not is_configured(config, principal):
            return cls(principal.name)

        def value(key: str) -> Any:
            return config.get(f"agents.{principal.name}.{key}")

        return cls(
            principal.name,
            model=value("model"),
            persona=value("persona"),
            description=value("description"),
            form=value("form"),
            planner=value("planner"),
            skills=value("skills"),
            when=value("when"),
            max_depth=value("max_depth"),
            tools=value("tools"),
        )


def is_configured(config: Config, principal: Principal) -> bool:
    """Whether a principal is an agent of which the configuration says something."""
    return principal.kind == "agent" and principal.name in config.names("agents")


def agents_of(config: Config) -> list[Agent]:
    """Return the agents of the configuration."""
    return [Agent.read(config, Principal("agent", name)) for name in config.names("agents")]


def known_skills(config: Config, principal: Principal) -> Sequence[str] | None:
    """Return the ids of the only skills that a principal knows, None for all."""
    return _said(config, principal, "skills")


def agent_of(config: Config, name: str | None) -> Principal:
    """Return the principal of an agent; without a name the default one.

    Raises:
        UsageError: The configuration has no such agent.
    """
    if name is None or name == DEFAULT_AGENT.name:
        return DEFAULT_AGENT
    known = config.names("agents")
    if name not in known:
        have = ", ".join(sorted(known)) or "none"
        raise UsageError(
            f"there is no agent `{name}`; the configuration has: {have}",
            place="--agent",
            fix=f"write a table [agents.{name}] into clawhive.toml",
        )
    return Principal("agent", name)


def budget_limits(config: Config, principal: Principal) -> BudgetLimits:
    """Return what a run of an agent may use: the lower of its own limits and everybody's."""
    general = _limits(config, "budget")
    if not is_configured(config, principal):
        return general
    return general.within(_limits(config, f"agents.{principal.name}.budget"))


def _limits(config: Config, table: str) -> BudgetLimits:
    return BudgetLimits(
        config.get(f"{table}.tokens"), config.get(f"{table}.cost"), config.get(f"{table}.seconds")
    )


def allow_list(config: Config, *line: Principal) -> AllowList | None:
    """Return the tools that an agent sees, None for all.

    Args:
        config: The configuration.
        *line: The agent, after those that started it, the first of all at the beginning.

    Raises:
        CapabilityError: A name of a list cannot be one.
    """
    found = _own_list(config, line[0], None)
    for starter, started in pairwise(line):
        names = _said(config, starter, "sub_agent.allowed_tools")
        below = AllowList.read(starter.name, names, above=found)
        found = _own_list(config, started, below)
    return found


def _own_list(config: Config, principal: Principal, above: AllowList | None) -> AllowList | None:
    names: Sequence[str] | None = _said(config, principal, "allow")
    skills: Sequence[str] | None = _said(config, principal, "skills")
    return AllowList.read(principal.name, names, skills, above)


def _said(config: Config, principal: Principal, key: str) -> Any:
    if not is_configured(config, principal):
        return None
    return config.get(f"agents.{principal.name}.{key}")
