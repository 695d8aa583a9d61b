"""The tools that skills may require: of an opened project, or as installed manifests say."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING

from clawhive_core.catalog.assembly import position
from clawhive_core.catalog.listing import problem_of_tool
from clawhive_core.config.config import Config
from clawhive_core.model.tools import ToolMeta
from clawhive_core.plugins.manager import PluginManager
from clawhive_core.skills.checks.required import KnownTools, Offer

if TYPE_CHECKING:
    from clawhive_core.catalog.catalog import Catalog

CORE_TOOLS = (
    *("read", "save", "show", "artifacts.write", "skill_open", "run_program"),
    *("sandbox.write_files", "sandbox_write_files", "sandbox.exec", "sandbox_exec"),
    *("sandbox.run_python", "sandbox_run_python", "sandbox.run_javascript"),
    *("sandbox_run_javascript", "sandbox.open", "sandbox_open", "sandbox.eval", "sandbox_eval"),
    *("shell.exec", "shell_exec"),
    *("sandbox.close", "sandbox_close", "sandbox.collect_outputs", "sandbox_collect_outputs"),
)
"""The tools that ClawHive brings itself, and their aliases: their modules take long to import."""

CORE_PROVIDERS = ("core", "sandbox")
"""The ids of the providers of these."""


def tools_of(catalog: Catalog) -> KnownTools:
    """Return the tools of a catalog."""
    names, tools = frozenset({*catalog.tools, *catalog.aliases}), catalog.tools.values()
    of_skills = {tool.meta.name for tool in tools if tool.meta.provider_id.startswith("skill_")}
    offers = _offers(tool.meta for tool in tools if tool.meta.name not in of_skills)
    return KnownTools(names, of_skills=frozenset(of_skills), offering=lambda: offers)


def listed_tools(config: Config, plugins: PluginManager) -> KnownTools:
    """Return the tools that can be known without importing anything."""
    metas = [meta for meta in plugins.manifest_tools() if problem_of_tool(meta) is None]
    names = {*CORE_TOOLS, *(name for meta in metas for name in (meta.name, *meta.aliases))}
    names |= {str(table.get("name")) for table in config.get("tools")}
    names |= _agents(config)
    names |= {alias for alias, name in config.get("tools.alias").items() if name in names}
    return KnownTools(
        frozenset(names),
        complete=not plugins.has_unlisted_tools(),
        offering=cache(partial(_ranked_offers, config, metas)),
        providers=frozenset({*CORE_PROVIDERS, *(meta.provider_id for meta in metas)}),
    )


def _ranked_offers(config: Config, metas: Sequence[ToolMeta]) -> dict[str, Offer]:
    """Return who would offer each tool, as a catalog decides between several of one name."""
    from clawhive_core.execution import core_tools
    from clawhive_core.execution.sandbox import tools as sandbox_tools
    from clawhive_core.execution.skill_library import SKILL_OPEN

    core = [tool.meta for tool in core_tools.TOOLS]
    core += [SKILL_OPEN, *sandbox_tools.TOOLS]
    order, pins = config.get("tools.preferred_provider_order"), config.get("tools.pin")
    ranked = sorted(
        (*core, *metas),
        key=lambda meta: (
            pins.get(meta.name) != meta.provider_id,
            position(meta.provider_id, order),
        ),
    )
    return _offers(ranked)


def _agents(config: Config) -> set[str]:
    """Return the tools that start the agents of a configuration."""
    if not config.section("agents"):
        return set()
    from clawhive_core.runs.agents import agents_of

    return {each.tool for each in agents_of(config)}


def _offers(metas: Iterable[ToolMeta]) -> dict[str, Offer]:
    """Return who offers tools, by their names and aliases; the first of one name counts."""
    found: dict[str, Offer] = {}
    for meta in metas:
        verbs = {
            effect.partition(":")[0] for each in meta.effects.values() for effect in _each(each)
        }
        offer = Offer(meta.provider_id, meta.capability_level, meta.risk, tuple(sorted(verbs)))
        for name in (meta.name, *meta.aliases):
            found.setdefault(name, offer)
    return found


def _each(effects: str | tuple[str, ...]) -> tuple[str, ...]:
    return (effects,) if isinstance(effects, str) else effects
