"""Agents by name: `[agents.NAME]` of the configuration."""

from __future__ import annotations

from dataclasses import fields

from clawhive_core.config.config import Config
from clawhive_core.errors import UsageError
from clawhive_core.execution.allow_list import AllowList
from clawhive_core.model.principal import DEFAULT_AGENT, Principal
from clawhive_core.runs.budget import BudgetLimits


def agent_of(config: Config, name: str | None) -> Principal:
    """Return the principal of an agent; without a name the default one.

    Raises:
        UsageError: The configuration has no such agent.
    """
    known = config.section("agents")
    if name is None or name == DEFAULT_AGENT.name:
        return DEFAULT_AGENT
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
    names = [each.name for each in fields(BudgetLimits)]
    general = BudgetLimits(**{name: config.get(f"budget.{name}") for name in names})
    if principal.kind != "agent" or principal.name not in config.section("agents"):
        return general
    own = {name: config.get(f"agents.{principal.name}.budget.{name}") for name in names}
    return general.within(BudgetLimits(**own))


def allow_list(config: Config, principal: Principal) -> AllowList | None:
    """Return the tools that an agent sees, None for all.

    Raises:
        CapabilityError: A name of its list cannot be one.
    """
    if principal.kind != "agent" or principal.name not in config.section("agents"):
        return None
    names = config.get(f"agents.{principal.name}.allow")
    return None if names is None else AllowList.read(principal.name, names)
