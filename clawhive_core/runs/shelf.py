"""The tools that skills may bring to one agent, and why the others are left out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from clawhive_core.capabilities import parse
from clawhive_core.catalog.catalog import Catalog
from clawhive_core.diagnostics.nearest import nearest
from clawhive_core.execution.allow_list import AllowList
from clawhive_core.execution.effects import is_shut
from clawhive_core.execution.scope import CORE
from clawhive_core.execution.skill_library import SkillLibrary
from clawhive_core.model.tools import ToolDef, ToolMeta
from clawhive_core.runs.agents import Agent
from clawhive_core.runs.enabling import Brought, SkillTools
from clawhive_core.runs.offered import STUB, offered, polling
from clawhive_core.runs.skill_prompt import skill_prompt
from clawhive_core.skills.skill import Skill


@dataclass(frozen=True, slots=True)
class Shelf:
    """The tools of a catalog and the skills of a library, as one agent may have them."""

    catalog: Catalog
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
        base = offered(self.catalog, self.allow, AllowList.read(agent.name, agent.tools))
        skills = SkillTools(
            tuple(active),
            tuple(filter(self.library.has, opened)),
            self._brings(frozenset(tool.name for tool in base)),
            bounded=agent.tools is not None,
        )
        tools = skills.at_start(base)
        return {
            "tools": tools,
            "skills": skills,
            "polling": polling(self.catalog, (*tools, *skills.brought)),
            "instructions": skill_prompt(self.library, skills, tools) if tools else "",
        }

    def _brings(self, offered: frozenset[str]) -> dict[str, Brought]:
        skills = [each for each in self.library.skills().loaded if each.requires.tools]
        found = {skill.id: self._brought(skill, offered) for skill in skills}
        return {name: brought for name, brought in found.items() if brought != Brought()}

    def _brought(self, skill: Skill, offered: frozenset[str]) -> Brought:
        tools: dict[str, ToolDef] = {}
        left_out: list[tuple[str, str]] = []
        for name in skill.requires.tools:
            meta = self.catalog.meta_of(name)
            if meta is not None and meta.name in offered:
                continue
            if (why := self._problem(name, meta)) is not None:
                left_out.append((name, why))
            elif meta is not None:
                tools[meta.name] = meta.to_def()
        return Brought(tuple(tools.values()), tuple(left_out))

    def _problem(self, name: str, meta: ToolMeta | None) -> str | None:
        """Return why a tool is not offered, None where it may be."""
        if meta is None:
            close = nearest(name, self.catalog.tools)
            return f"there is no such tool; did you mean `{close}`?" if close else "no such tool"
        if meta.provider_id == STUB:
            return "only a stub offers it"
        if self.allow is not None and meta.provider_id != CORE and not self.allow.has(meta):
            return "the agent's list of tools does not have it"
        if is_shut(meta, [parse(deny) for deny in self.denies], self.variables):
            return "policy denies it"
        return None
