"""The tools that skills may require: of an opened project, or as installed manifests say."""

from __future__ import annotations

from clawhive_core.catalog.catalog import Catalog
from clawhive_core.catalog.listing import problem_of_tool
from clawhive_core.config.config import Config
from clawhive_core.execution import artifacts, own_values
from clawhive_core.execution.sandbox_tools import COLLECT_OUTPUTS, EXEC, WRITE_FILES
from clawhive_core.execution.skill_open import SKILL_OPEN
from clawhive_core.plugins.manager import PluginManager
from clawhive_core.runs.agents import agents_of
from clawhive_core.skills.required import KnownTools

CORE = (
    *(tool.meta for tool in (*own_values.TOOLS, *artifacts.TOOLS)),
    *(SKILL_OPEN, WRITE_FILES, EXEC, COLLECT_OUTPUTS),
)
"""The tools that ClawHive brings itself."""


def tools_of(catalog: Catalog) -> KnownTools:
    """Return the tools of a catalog."""
    names, tools = frozenset({*catalog.tools, *catalog.aliases}), catalog.tools.values()
    of_skills = {tool.meta.name for tool in tools if tool.meta.provider_id.startswith("skill_")}
    return KnownTools(names, of_skills=frozenset(of_skills))


def listed_tools(config: Config, plugins: PluginManager) -> KnownTools:
    """Return the tools that can be known without importing anything."""
    metas = [meta for meta in plugins.manifest_tools() if problem_of_tool(meta) is None]
    names = {name for meta in (*CORE, *metas) for name in (meta.name, *meta.aliases)}
    names |= {str(table.get("name")) for table in config.get("tools")}
    names |= {each.tool for each in agents_of(config)}
    names |= {alias for alias, name in config.get("tools.alias").items() if name in names}
    return KnownTools(frozenset(names), complete=not plugins.has_unlisted_tools())
