"""The providers of a project's catalog beside those of its plugins."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from clawhive_core.catalog.store import RESERVED, CatalogStore
from clawhive_core.config.config import Config
from clawhive_core.execution.core_tools import artifacts, own_values
from clawhive_core.execution.core_tools.provider import CoreProvider
from clawhive_core.execution.core_tools.skill_library import SkillLibrary
from clawhive_core.execution.core_tools.skill_open import skill_open
from clawhive_core.execution.handlers.handlers import skill_providers
from clawhive_core.execution.sandbox.broker import SandboxProvider
from clawhive_core.hive.boxes import Engines, handler_boxes, sandbox_broker
from clawhive_core.plugins.manager import PluginManager
from clawhive_core.protocols.provider import ToolProvider
from clawhive_core.runs.offering.agents import known_skills
from clawhive_core.runs.plans.task_tools import task_providers
from clawhive_core.skills.contracts.skill import Skill


def own_providers(config: Config, engines: Engines, library: SkillLibrary) -> list[ToolProvider]:
    """Return the providers of ClawHive's own tools: those of sandboxes, those of the core."""
    opening = skill_open(library, partial(known_skills, config))
    core = CoreProvider((*own_values.TOOLS, *artifacts.TOOLS, opening))
    return [SandboxProvider(sandbox_broker(config, engines)), core]


async def offer_skills(
    config: Config,
    engines: Engines,
    skills: Sequence[Skill],
    catalog: CatalogStore,
    plugins: PluginManager,
) -> Sequence[str]:
    """Offer what skills export, and their tasks; none takes a known name. Return notes."""
    names = {name.partition(".")[0] for name in catalog.current.tools}
    taken = RESERVED | names | {record.id for record in plugins.records()}
    found, notes = skill_providers(skills, handler_boxes(config, engines), taken)
    await catalog.add(*found)
    await catalog.add(*task_providers(skills, catalog))
    return notes
