"""The exported tools of skills in a project's catalog."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from clawhive_core.catalog.store import RESERVED, CatalogStore
from clawhive_core.execution.boxes import HandlerBoxes
from clawhive_core.execution.handlers import skill_providers
from clawhive_core.skills.skill import Skill


async def add_skills(
    catalog: CatalogStore, skills: Sequence[Skill], boxes: HandlerBoxes, plugins: Iterable[str]
) -> list[str]:
    """Add the exported tools of skills; none takes the name of what is there.

    Args:
        catalog: Where they are added.
        skills: The loaded skills.
        boxes: What runs their handlers.
        plugins: The ids of the plugins.

    Returns:
        A sentence for each skill whose tools are left out.
    """
    names = {name.partition(".")[0] for name in catalog.current.tools}
    providers, notes = skill_providers(skills, boxes, RESERVED | names | set(plugins))
    await catalog.add(*providers)
    return notes
