"""The tools of a session: what its caller may use, what of it is enabled, and until when."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any

from clawhive_core.capabilities import parse, verb_of
from clawhive_core.catalog.store import CatalogStore
from clawhive_core.diagnostics.suggestions import nearest_words
from clawhive_core.execution.effects import is_denied_always
from clawhive_core.execution.scope import CORE, Enabled, RunScope
from clawhive_core.model.late import dataclass
from clawhive_core.model.tools import ToolMeta

if TYPE_CHECKING:
    from clawhive_core.catalog.catalog import Catalog
    from clawhive_core.catalog.search import Found

TTL_TURNS = 5
"""The searches after which an enabled tool lapses, where nobody says otherwise."""
LEAST_SECONDS = 30 * 60.0
"""The time for which a tool stays enabled however much is searched."""
ENABLE = "tool_enable"
_HANDLERS_OWN = frozenset(("read", "save", "show"))
"""The core's tools that nobody but the handlers of skills can use."""


@dataclass(frozen=True, slots=True)
class Enabling:
    """The tools that were enabled, and those that were not."""

    tools: tuple[ToolMeta, ...] = ()
    expires_after_turns: int | None = None
    """None where all that may be used is enabled."""
    rejected: tuple[Mapping[str, Any], ...] = field(default=())
    """For each of the others `name`, `reason` and `next`."""

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON."""
        expiry = self.expires_after_turns
        return {
            "enabled": [{"name": each.name, "expires_after_turns": expiry} for each in self.tools],
            "rejected": [dict(each) for each in self.rejected],
        }


@dataclass(slots=True)
class _Expiry:
    """The end of a tool's enablement."""

    turn: int
    at: float
    """The earliest moment, on the monotonic clock."""


class SessionTools:
    """The tools that a session's caller may use, and those of them that are enabled.

    All are, unless they are more than `most`: then those that are always loaded, and those that
    were enabled by name and have not lapsed.
    """

    def __init__(self, catalog: CatalogStore, run: RunScope) -> None:
        self._catalog = catalog
        self._run = run
        self.most: int | None = None
        """The number of tools up to which all are enabled; None: whatever there are."""
        self._turn = 0
        self._enabled: dict[str, _Expiry] = {}
        self._known: tuple[Catalog, dict[str, ToolMeta]] | None = None

    def usable(self) -> Mapping[str, ToolMeta]:
        """Return by name the tools that are there for the caller, and not denied whatever is sent.

        The same object as long as the catalog is the same.
        """
        now = self._catalog.current
        if self._known is None or self._known[0] is not now:
            denies = [parse(each) for each in self._run.rules.denies]
            variables = self._run.variables
            found = {
                tool.meta.name: tool.meta
                for tool in now
                if tool.meta.provider_id != "stub"
                and not (tool.meta.provider_id == CORE and tool.meta.name in _HANDLERS_OWN)
                and not is_denied_always(tool.meta, denies, variables)
            }
            self._known = now, found
        return self._known[1]

    @property
    def are_all_enabled(self) -> bool:
        """Whether nothing need be enabled by name."""
        return self.most is None or len(self.usable()) <= self.most

    def enabled(self) -> Mapping[str, ToolMeta]:
        """Return by name the tools that may be called now."""
        usable = self.usable()
        if self.are_all_enabled:
            return usable
        self._expire()
        chosen = self._enabled
        return {name: meta for name, meta in usable.items() if meta.always_load or name in chosen}

    def bounds(self) -> Enabled | None:
        """Return what the executor holds a call against; None where all is enabled."""
        return None if self.are_all_enabled else Enabled(set(self.enabled()), by=ENABLE)

    def only_reads(self, name: str) -> bool:
        """Whether calls of a tool read this project and do nothing else, as far as is declared."""
        meta = self.usable().get(name)
        if (
            meta is None
            or meta.risk != "safe"
            or meta.side_effects
            or meta.capability_level != "L0"
        ):
            return False
        effects = ((each,) if isinstance(each, str) else each for each in meta.effects.values())
        verbs = (verb_of(text.partition(":")[0]) for each in effects for text in each)
        return all(verb is not None and verb.reads_here for verb in verbs)

    def search(self, query: str, top_k: int) -> Found:
        """Return the usable tools that fit a query; each search is a turn of the session."""
        from clawhive_core.catalog.search import search_tools

        self._turn += 1
        enabled = self.enabled()
        return search_tools(self.usable().values(), query, top_k, enabled.__contains__)

    def enable(self, names: Sequence[str], ttl_turns: int | None) -> Enabling:
        """Enable tools by name or alias, as `Session.enable` does."""
        usable, catalog = self.usable(), self._catalog.current
        turns = TTL_TURNS if ttl_turns is None else max(1, ttl_turns)
        until = _Expiry(self._turn + turns, time.monotonic() + LEAST_SECONDS)
        done: dict[str, ToolMeta] = {}
        rejected: list[Mapping[str, Any]] = []
        for name in dict.fromkeys(names):
            meta = usable.get(catalog.aliases.get(name, name))
            if meta is None:
                rejected.append(_unknown(name, usable))
            else:
                done[meta.name] = meta
                self._enabled[meta.name] = until
        expiry = None if self.are_all_enabled else turns
        return Enabling(tuple(done.values()), expiry, tuple(rejected))

    def _expire(self) -> None:
        now = time.monotonic()
        for name, end in [*self._enabled.items()]:
            if end.turn <= self._turn and end.at <= now:
                del self._enabled[name]


def _unknown(name: str, usable: Mapping[str, ToolMeta]) -> dict[str, Any]:
    close = nearest_words(name, usable)
    return {
        "name": name,
        "reason": f"there is no tool `{name}`",
        "next": {"action": "search", "suggestions": close},
    }
