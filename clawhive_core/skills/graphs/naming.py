"""The agents whose configuration names a skill or a tool."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from clawhive_core.capabilities import contains, parse
from clawhive_core.config.config import Config
from clawhive_core.errors import CapabilityError
from clawhive_core.model.late import dataclass
from clawhive_core.skills.graphs.users import Target

_LISTS = ("allow", "sub_agent.allowed_tools")


@dataclass(frozen=True, slots=True)
class Naming:
    """A key of an agent's configuration that names something."""

    agent: str
    key: str
    """Such as `agents.NAME.skills`."""

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON."""
        return {"agent": self.agent, "key": self.key}


def agents_naming(config: Config, target: Target, tools: Sequence[str]) -> Iterator[Naming]:
    """Yield the keys of agents that name a target, by agent.

    An agent without lists may use everything and names nothing, like the pattern `*`.

    Args:
        config: The configuration.
        target: A skill or a tool.
        tools: The canonical names of the target's tools and task types.
    """
    for agent in sorted(config.section("agents")):
        key = f"agents.{agent}"
        if target.skill is not None and target.skill in (config.get(f"{key}.skills") or ()):
            yield Naming(agent, f"{key}.skills")
        for name in _LISTS:
            if any(_covers(each, tools) for each in config.get(f"{key}.{name}") or ()):
                yield Naming(agent, f"{key}.{name}")
        if not {*tools}.isdisjoint(config.get(f"{key}.when") or ()):
            yield Naming(agent, f"{key}.when")


def _covers(pattern: str, tools: Sequence[str]) -> bool:
    if pattern.startswith("*"):
        return False
    try:
        wanted = parse(f"tool.call:{pattern}")
        return any(contains(wanted, parse(f"tool.call:{tool}")) for tool in tools)
    except CapabilityError:  # the run says so, where the agent is used
        return False
