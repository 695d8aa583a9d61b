"""The sources that a skill's contract lets its own calls take destinations from: `grounds`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from clawhive_core.model.late import dataclass
from clawhive_core.model.tools import ToolMeta
from clawhive_core.skills.contracts.skill import Skill


@dataclass(frozen=True, slots=True)
class SkillGrounds:
    """Places in the outputs of a skill's own calls that its further calls may name."""

    skill_id: str
    places: Mapping[str, tuple[str, ...]]
    """A tool's canonical name or alias to places of its output."""

    def of(self, tool: ToolMeta) -> tuple[str, ...]:
        """Return the places of a tool's output."""
        names = (tool.name, *tool.aliases)
        return next((self.places[name] for name in names if name in self.places), ())

    def to_dict(self, tool: ToolMeta) -> dict[str, Any]:
        """Return what holds for a call of a tool, as its row keeps it."""
        return {"skill": self.skill_id, "places": list(self.of(tool))}


def skill_grounds(skill: Skill) -> SkillGrounds | None:
    """Return what a skill's contract grounds; None where it grounds nothing or nobody trusts it."""
    return SkillGrounds(skill.id, skill.grounds) if skill.trusted and skill.grounds else None
