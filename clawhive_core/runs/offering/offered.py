"""The tools of the catalog that a model is offered."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field

from clawhive_core.catalog.catalog import Catalog
from clawhive_core.execution.scope import CORE, AllowList
from clawhive_core.model.late import dataclass
from clawhive_core.model.tools import ToolDef
from clawhive_core.runs.offering.agents import AGENTS

STUB = "stub"

Lists = dict[tuple[AllowList | None, ...], tuple[ToolDef, ...]]
"""An agent's lists, None for every tool, to what its model is offered."""


def offered(catalog: Catalog, *lists: AllowList | None) -> tuple[ToolDef, ...]:
    """Return what an agent's model is offered: what each of its lists has, but the stub's tools.

    An agent that says nothing of when to delegate to it is not offered either.
    """
    return tuple(
        tool.meta.to_def()
        for tool in catalog
        if tool.meta.provider_id != STUB
        and (tool.meta.description or tool.meta.provider_id != AGENTS)
        and (
            tool.meta.provider_id == CORE
            or all(each is None or each.has(tool.meta) for each in lists)
        )
    )


@dataclass(slots=True)
class Offers:
    """The tools that models are offered, for each revision of the catalog and each agent's lists.

    What is derived from a list of tools (its encoding for the log, its names on the wire) is kept
    by the list's identity, and so is made once too.
    """

    _catalog: Catalog | None = None
    _lists: Lists = field(default_factory=Lists)

    def of(self, catalog: Catalog, *lists: AllowList | None) -> tuple[ToolDef, ...]:
        """Return what `offered` does, the same object for the same revision and lists."""
        if catalog is not self._catalog:
            self._catalog, self._lists = catalog, {}
        if (known := self._lists.get(lists)) is None:
            known = self._lists[lists] = offered(catalog, *lists)
        return known


def polling(catalog: Catalog, tools: Iterable[ToolDef]) -> frozenset[str]:
    """Return those of some tools that may well answer the same call differently."""
    return frozenset(tool.name for tool in tools if catalog.tools[tool.name].meta.polling)
