"""The tools that skills may require: of an opened project, or as installed manifests say."""

from __future__ import annotations

from collections.abc import Iterable

from clawhive_core.catalog.assembly import position
from clawhive_core.catalog.catalog import Catalog
from clawhive_core.catalog.listing import problem_of_tool
from clawhive_core.config.config import Config
from clawhive_core.execution import artifacts, own_values
from clawhive_core.execution.sandbox_tools import COLLECT_OUTPUTS, EXEC, WRITE_FILES
from clawhive_core.execution.skill_open import SKILL_OPEN
from clawhive_core.model.tools import ToolMeta
from clawhive_core.plugins.manager import PluginManager
from clawhive_core.runs.agents import agents_of
from clawhive_core.skills.required import KnownTools, Offer

CORE = (
    *(tool.meta for tool in (*own_values.TOOLS, *artifacts.TOOLS)),
    *(SKILL_OPEN, WRITE_FILES, EXEC, COLLECT_OUTPUTS),
)
"""The tools that ClawHive brings itself."""


def tools_of(catalog: Catalog) -> KnownTools:
    """Return the tools of a catalog."""
    names, tools = frozenset({*catalog.tools, *catalog.aliases}), catalog.tools.values()
    of_skills = {tool.meta.name for tool in tools if tool.meta.provider_id.startswith("skill_")}
    offers = _offers(tool.meta for tool in tools if tool.meta.name not in of_skills)
    return KnownTools(names, of_skills=frozenset(of_skills), offers=offers)


def listed_tools(config: Config, plugins: PluginManager) -> KnownTools:
    """Return the tools that can be known without importing anything."""
    metas = [meta for meta in plugins.manifest_tools() if problem_of_tool(meta) is None]
    names = {name for meta in (*CORE, *metas) for name in (meta.name, *meta.aliases)}
    names |= {str(table.get("name")) for table in config.get("tools")}
    names |= {each.tool for each in agents_of(config)}
    names |= {alias for alias, name in config.get("tools.alias").items() if name in names}
    order, pins = config.get("tools.preferred_provider_order"), config.get("tools.pin")
    ranked = sorted(
        (*CORE, *metas),
        key=lambda meta: (
            pins.get(meta.name) != meta.provider_id,
            position(meta.provider_id, order),
        ),
    )
    return KnownTools(
        frozenset(names),
        complete=not plugins.has_unlisted_tools(),
        offers=_offers(ranked),
        providers=frozenset(meta.provider_id for meta in ranked),
    )


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
