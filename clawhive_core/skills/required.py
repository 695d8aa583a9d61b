"""The check of `requires.tools` against the tools that there are."""

from __future__ import annotations

from collections.abc import Iterator

from clawhive_core.diagnostics.finding import Finding
from clawhive_core.diagnostics.nearest import nearest
from clawhive_core.model.late import dataclass
from clawhive_core.skills.skill import Skill


@dataclass(frozen=True, slots=True)
class KnownTools:
    """The tools that skills may require, without those of skills."""

    names: frozenset[str]
    """Canonical names and aliases."""
    complete: bool = True
    """Whether there are no others; False where a plugin lists some only when it runs."""


def missing_tools(skill: Skill, known: KnownTools, exported: frozenset[str]) -> Iterator[Finding]:
    """Yield a finding for each tool that a skill requires and that nothing offers.

    Args:
        skill: The skill.
        known: The tools of providers.
        exported: `SKILL.TOOL` of the skills that are loaded.
    """
    requires = skill.requires
    for name, place in zip(requires.tools, requires.tool_places, strict=True):
        if name in known.names or name in exported:
            continue
        message = f"`{skill.id}` requires the tool `{name}`, which nothing here offers"
        close = nearest(name, known.names | exported)
        fix = f"did you mean `{close}`?" if close else "install what offers it: clawhive plugins"
        if known.complete:
            yield place.finding("CH0611", "error", message, fix)
        else:
            message = f"{message}, unless a plugin that lists its tools only when it runs does"
            yield place.finding("CH0611", "note", message, fix)
