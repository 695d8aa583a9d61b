"""The tools that skills may bring to one agent, and why the others are left out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from clawhive_core.capabilities import parse
from clawhive_core.catalog.catalog import Catalog
from clawhive_core.diagnostics.suggestions import nearest
from clawhive_core.execution.core_tools.skill_library import SkillLibrary
from clawhive_core.execution.effects import is_shut
from clawhive_core.execution.handlers.handlers import reach_of
from clawhive_core.execution.scope import CORE, AllowList
from clawhive_core.model.late import dataclass
from clawhive_core.model.tools import ToolDef, ToolMeta
from clawhive_core.runs.offering.agents import Agent
from clawhive_core.runs.offering.enabling import Brought, SkillTools
from clawhive_core.runs.offering.offered import STUB, Offers, polling
from clawhive_core.runs.offering.skill_prompt import skill_prompt
from clawhive_core.skills.contracts.skill import Skill

ToolsOf = Callable[[Skill], Mapping[str, str | None]]
"""Names of tools that a skill is about, with the provider that must serve each, None for any."""


@dataclass(frozen=True, slots=True)
class Shelf:
    """The tools of a catalog and the skills of a library, as one agent may have them."""

    catalog: Catalog
    offers: Offers
    library: SkillLibrary
    """The skills that it knows."""
    allow: AllowList | None
    """The tools that it sees, None for all."""
    denies: Sequence[str]
    """The canonical patterns of `[policy] deny`."""
    variables: Mapping[str, str]

    def offer(self, agent: Agent, active: Sequence[str], opened: Sequence[str]) -> dict[str, Any]:
        """Return what an agent's model is told and offered, as fields of a request.

        Args:
            agent: The agent.
            active: The skills that the user named for the run.
            opened: Those that were active in the conversation before.

        Raises:
            CapabilityError: A name of the agent's list cannot be one.
            UsageError: An active skill is unknown, not loaded, or its text is not trusted.
        """
        if agent.form != "full":
            return {}
        base = self.offers.of(self.catalog, self.allow, AllowList.read(agent.name, agent.tools))
        bounded = agent.tools is not None
        names = frozenset(tool.name for tool in base)
        brings = self._brings(names, _every if bounded else _required)
        opened = tuple(filter(self.library.has, opened))
        skills = SkillTools(tuple(active), opened, brings, bounded=bounded)
        tools = skills.at_start(base)
        return {
            "tools": tools,
            "skills": skills,
            "polling": polling(self.catalog, (*tools, *skills.brought)),
            "instructions": skill_prompt(self.library, skills, tools) if tools else "",
        }

    def named(self, names: Sequence[str]) -> Brought:
        """Return the tools of these names, and why the others are left out."""
        return self._brought(dict.fromkeys(names), frozenset())

    def _brings(self, offered: frozenset[str], tools_of: ToolsOf) -> dict[str, Brought]:
        found = (
            (skill.id, self._brought(tools_of(skill), offered))
            for skill in self.library.skills().loaded
        )
        return {name: brought for name, brought in found if brought != Brought()}

    def _brought(self, names: Mapping[str, str | None], offered: frozenset[str]) -> Brought:
        tools: dict[str, ToolDef] = {}
        left_out: list[tuple[str, str]] = []
        for name, provider in names.items():
            meta = self.catalog.meta_of(name)
            if meta is not None and meta.name in offered:
                continue
            if (why := self._problem(name, provider, meta)) is not None:
                left_out.append((name, why))
            elif meta is not None:
                tools[meta.name] = meta.to_def()
        return Brought(tuple(tools.values()), tuple(left_out))

    def _problem(self, name: str, provider: str | None, meta: ToolMeta | None) -> str | None:
        """Return why a tool is not offered, None where it may be."""
        if meta is None:
            close = nearest(name, self.catalog.tools)
            return f"there is no such tool; did you mean `{close}`?" if close else "no such tool"
        if provider not in {None, meta.provider_id}:
            return f"`{meta.provider_id}` offers another tool of that name"
        if meta.provider_id == STUB:
            return "only a stub offers it"
        if self.allow is not None and meta.provider_id != CORE and not self.allow.has(meta):
            return "the agent's list of tools does not have it"
        if is_shut(meta, [parse(deny) for deny in self.denies], self.variables):
            return "policy denies it"
        return None


def _every(skill: Skill) -> Mapping[str, str | None]:
    """Return what a skill works with: its model has the tools that its handlers may call."""
    return reach_of(skill).tools


def _required(skill: Skill) -> Mapping[str, str | None]:
    return dict.fromkeys(skill.requires.tools)
