"""An agent's list of tools: what it is shown, what it finds, and what it may call."""

from __future__ import annotations

from collections.abc import Sequence

from clawhive_core.capabilities import Capability, contains, parse
from clawhive_core.model.late import dataclass
from clawhive_core.model.tools import ToolMeta

_SKILL = "skill_"


@dataclass(frozen=True, slots=True)
class AllowList:
    """Patterns of tools' names, such as `web.*` and `file.read`, and the skills that it knows."""

    agent: str
    patterns: tuple[Capability, ...] | None = None
    """None for every name."""
    skills: frozenset[str] | None = None
    """The only skills whose tools are in the list; None for all."""
    above: AllowList | None = None
    """The list of the agent that started this one, which bounds it."""

    @classmethod
    def read(
        cls,
        agent: str,
        names: Sequence[str] | None,
        skills: Sequence[str] | None = None,
        above: AllowList | None = None,
    ) -> AllowList | None:
        """Return the list of `[agents.NAME]`, None where nothing bounds it.

        Args:
            agent: The agent.
            names: Its `allow`, None for all.
            skills: Its `skills`, None for all.
            above: What bounds it further.

        Raises:
            CapabilityError: A name cannot be one.
        """
        if names is None and skills is None:
            return above
        patterns = None if names is None else tuple(parse(f"tool.call:{name}") for name in names)
        return cls(agent, patterns, None if skills is None else frozenset(skills), above)

    def has(self, meta: ToolMeta) -> bool:
        """Whether a tool is in the list, by its name or by another spelling of it."""
        if self.above is not None and not self.above.has(meta):
            return False
        return self._knows_provider(meta.provider_id) and self._names(meta)

    def _knows_provider(self, provider_id: str) -> bool:
        if self.skills is None or not provider_id.startswith(_SKILL):
            return True
        return provider_id.removeprefix(_SKILL) in self.skills

    def _names(self, meta: ToolMeta) -> bool:
        return self.patterns is None or any(
            contains(pattern, parse(f"tool.call:{name}"))
            for pattern in self.patterns
            for name in (meta.name, *meta.aliases)
        )
