"""The tools that skills may require: of an opened project, or as installed manifests say."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clawhive_core.catalog.listing import problem_of_tool
from clawhive_core.config.config import Config
from clawhive_core.plugins.manager import PluginManager
from clawhive_core.skills.required import KnownTools

if TYPE_CHECKING:
    from clawhive_core.catalog.catalog import Catalog

CORE_TOOLS = (
    *("read", "save", "show", "artifacts.write", "skill_open"),
    *("sandbox.write_files", "sandbox_write_files", "sandbox.exec", "sandbox_exec"),
    *("sandbox.collect_outputs", "sandbox_collect_outputs"),
)
"""The tools that ClawHive brings itself, and their aliases: their modules take long to import."""


def tools_of(catalog: Catalog) -> KnownTools:
    """Return the tools of a catalog."""
    names, tools = frozenset({*catalog.tools, *catalog.aliases}), catalog.tools.values()
    of_skills = {tool.meta.name for tool in tools if tool.meta.provider_id.startswith("skill_")}
    return KnownTools(names, of_skills=frozenset(of_skills))


def listed_tools(config: Config, plugins: PluginManager) -> KnownTools:
    """Return the tools that can be known without importing anything."""
    metas = [meta for meta in plugins.manifest_tools() if problem_of_tool(meta) is None]
    names = {*CORE_TOOLS, *(name for meta in metas for name in (meta.name, *meta.aliases))}
    names |= {str(table.get("name")) for table in config.get("tools")}
    names |= _agents(config)
    names |= {alias for alias, name in config.get("tools.alias").items() if name in names}
    return KnownTools(frozenset(names), complete=not plugins.has_unlisted_tools())


def _agents(config: Config) -> set[str]:
    """Return the tools that start the agents of a configuration."""
    if not config.section("agents"):
        return set()
    from clawhive_core.runs.agents import agents_of

    return {each.tool for each in agents_of(config)}
