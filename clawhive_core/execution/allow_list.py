"""An agent's list of tools: what it is shown, what it finds, and what it may call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from clawhive_core.capabilities import Capability, contains, parse
from clawhive_core.model.tools import ToolMeta


@dataclass(frozen=True, slots=True)
class AllowList:
    """Patterns of tools' names, such as `web.*` and `file.read`."""

    agent: str
    patterns: tuple[Capability, ...]

    @classmethod
    def read(cls, agent: str, names: Sequence[str]) -> AllowList:
        """Return the list of `[agents.NAME] allow`.

        Raises:
            CapabilityError: A name cannot be one.
        """
        return cls(agent, tuple(parse(f"tool.call:{name}") for name in names))

    def has(self, meta: ToolMeta) -> bool:
        """Whether a tool is in the list, by its name or by another spelling of it."""
        return any(
            contains(pattern, parse(f"tool.call:{name}"))
            for pattern in self.patterns
            for name in (meta.name, *meta.aliases)
        )
