"""Assembly: from what providers list to one table, in preferred provider order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from fnmatch import fnmatchcase
from typing import Literal

from clawhive_core.catalog.catalog import Catalog, Dropped, Shadow, Tool
from clawhive_core.catalog.listing import problem_of, problem_of_tool
from clawhive_core.config.config import Config
from clawhive_core.model.late import dataclass
from clawhive_core.model.tools import ToolMeta

DEFAULT_ORDER = ("builtin", "web", "sandbox", "mcp_*", "stub")
_LAST = "stub"
_RISKS = ("safe", "guarded", "unknown", "unsafe")


@dataclass(frozen=True, slots=True)
class Preferences:
    """The choice of provider for a name that several offer."""

    order: Sequence[str] = DEFAULT_ORDER
    """Provider ids, `*` at the end of one matches a family; one that is not named stands, by id,
    just before `stub`."""
    conflict: Literal["prefer", "safest"] = "prefer"
    pins: Mapping[str, str] = field(default_factory=dict[str, str])
    """Tool name to provider id, over everything else."""
    aliases: Mapping[str, str] = field(default_factory=dict[str, str])
    """The user's other names for tools."""

    @classmethod
    def of(cls, config: Config) -> Preferences:
        """Return what the configuration says."""
        return cls(
            tuple(config.get("tools.preferred_provider_order")),
            config.get("tools.conflict"),
            config.get("tools.pin"),
            config.get("tools.alias"),
        )


def assemble(
    tools: Iterable[Tool],
    preferences: Preferences | None = None,
    problem_of: Callable[[ToolMeta], str | None] = problem_of_tool,
) -> Catalog:
    """Return the catalog of these tools; the order in which they come does not matter.

    Args:
        tools: What providers list.
        preferences: Who serves a contested name.
        problem_of: Says why a tool cannot be in it, or None.
    """
    chosen = preferences or Preferences()
    dropped: list[Dropped] = []
    offers: dict[str, list[Tool]] = {}
    for tool in tools:
        problem = problem_of(tool.meta)
        if problem is None:
            offers.setdefault(tool.meta.name, []).append(tool)
        else:
            dropped.append(Dropped(str(tool.meta.name), tool.meta.provider_id, problem))
    table: dict[str, Tool] = {}
    shadowed: list[Shadow] = []
    reasons: dict[str, str] = {}
    for name in sorted(offers):
        rivals = offers[name]
        if len(rivals) > 1:
            rivals.sort(key=lambda tool: _rank(tool, chosen))
        winner = table[name] = rivals[0]
        for loser in rivals[1:]:
            reason = _why(winner, loser, chosen)
            reasons.setdefault(name, reason)
            shadowed.append(Shadow(name, loser.meta.provider_id, winner.meta.provider_id, reason))
    dropped.sort(key=lambda each: (each.name, each.provider_id, each.reason))
    return Catalog(table, _aliases(table, chosen), tuple(shadowed), tuple(dropped), reasons)


def position(provider_id: str, order: Sequence[str]) -> tuple[int, str]:
    """Return where a provider stands in the preferred order, and its id as the tie-break."""
    for index, pattern in enumerate(order):
        if fnmatchcase(provider_id, pattern):
            return (2 * index, provider_id)
    last = order.index(_LAST) if _LAST in order else len(order)
    return (2 * last - (provider_id != _LAST), provider_id)


def _rank(tool: Tool, preferences: Preferences) -> tuple[object, ...]:
    meta = tool.meta
    skill = _is_of_skill(meta)
    unpinned = preferences.pins.get(meta.name) != meta.provider_id
    place = position(meta.provider_id, preferences.order)
    # One provider may list a name twice: then its content decides, never the order of listing.
    content = (meta.contract_hash, meta.text_hash, repr(meta))
    if preferences.conflict == "safest":
        return (skill, unpinned, _RISKS.index(meta.risk), meta.capability_level, place, content)
    return (skill, unpinned, place, content)


def _is_of_skill(meta: ToolMeta) -> bool:
    """Whether a skill offers a tool: it never takes another provider's."""
    return meta.provider_id.startswith("skill_")


def _why(winner: Tool, loser: Tool, preferences: Preferences) -> str:
    mine, other = winner.meta, loser.meta
    if mine.provider_id == other.provider_id:
        return f"`{mine.provider_id}` offers the name twice"
    if _is_of_skill(other) and not _is_of_skill(mine):
        return f"a skill never takes a provider's tool, and `{mine.provider_id}` offers it"
    if preferences.pins.get(mine.name) == mine.provider_id:
        return f"pinned to `{mine.provider_id}`"
    if preferences.conflict == "safest" and (mine.risk, mine.capability_level) != (
        other.risk,
        other.capability_level,
    ):
        return (
            f"`{mine.provider_id}` is safer ({mine.risk}, {mine.capability_level}) than "
            f"`{other.provider_id}` ({other.risk}, {other.capability_level})"
        )
    return f"`{mine.provider_id}` stands before `{other.provider_id}` in the preferred order"


def _aliases(table: Mapping[str, Tool], chosen: Preferences) -> dict[str, str]:
    """Collect other spellings; a real name always wins, then the user's, then the order's."""

    def rank(name: str) -> tuple[object, ...]:
        return (position(table[name].meta.provider_id, chosen.order), name)

    aliases = {
        alias: name
        for name in sorted(table, key=rank, reverse=True)
        for alias in table[name].meta.aliases
        if alias not in table and problem_of(alias, "core") is None
    }
    aliases.update({alias: name for alias, name in chosen.aliases.items() if name in table})
    return aliases
