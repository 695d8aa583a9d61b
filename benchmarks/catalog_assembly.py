"""What assembling a catalog costs beside building a dict of the same tools.

Run `python benchmarks/catalog_assembly.py [--smoke]`. 1,000 tools of 20 providers, of which 5 %
carry a name that another provider offers too. Assembly resolves the conflicts, hashes each contract
and text, and derives the revision. The floor puts the same definitions into a dict by name, with
one SHA-256 over `json.dumps` of each schema. Definitions are new in each round, as after a start.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import anyio
from measure import (
    CannotRun,
    Sample,
    alternate,
    arguments,
    clock,
    costs,
    finish,
    millis,
    start,
)

from clawhive_core.catalog.assembly import assemble
from clawhive_core.catalog.catalog import Tool
from clawhive_core.catalog.store import CatalogStore
from clawhive_core.model.tools import ToolMeta, ToolResult
from clawhive_core.protocols.context import InvokeContext

PROVIDERS = 20
TOOLS_EACH = 50
CONFLICTS_EACH_HUNDRED = 5


def schema(number: int) -> dict[str, Any]:
    """Return an input schema of the usual size."""
    return {
        "type": "object",
        "properties": {
            "query": {"type": "string", "description": f"What to look for, case {number}."},
            "limit": {"type": "integer", "minimum": 1, "maximum": 100, "default": 10},
            "language": {"type": "string", "enum": ["en", "de", "fr", "zh"]},
            "filters": {"type": "array", "items": {"type": "string"}, "maxItems": 20},
        },
        "required": ["query"],
        "additionalProperties": False,
    }


def is_contested(number: int) -> bool:
    """Return whether a tool of this number carries another provider's name."""
    return number % 100 < CONFLICTS_EACH_HUNDRED


class Shelf:
    """A provider of 50 tools."""

    def __init__(self, place: int) -> None:
        self.place = place
        self.provider_id = f"shelf{place:02}"

    def metas(self) -> list[ToolMeta]:
        """Return new definitions, nothing of them hashed."""
        first = self.place * TOOLS_EACH
        return [self.meta(number) for number in range(first, first + TOOLS_EACH)]

    def meta(self, number: int) -> ToolMeta:
        """Return one definition; a contested one takes the name of the next provider's."""
        owner = number + TOOLS_EACH if is_contested(number) else number
        name = f"shelf.tool{owner}"
        text = f"Look something up in collection {number} and return what was found there."
        return ToolMeta(name, text, schema(number), self.provider_id, risk="safe")

    async def list_tools(self) -> list[ToolMeta]:
        """Return the definitions."""
        return self.metas()

    async def invoke(
        self, tool_name: str, input: Mapping[str, Any], ctx: InvokeContext
    ) -> ToolResult:
        """Answer nothing: no tool is called here."""
        del tool_name, input
        return ToolResult(ctx.tool_call_id, "")

    async def close(self) -> None:
        """Nothing is held."""


def tools(shelves: Sequence[Shelf]) -> list[Tool]:
    """Return every provider's new definitions."""
    return [Tool(meta, shelf) for shelf in shelves for meta in shelf.metas()]


def floor(shelves: Sequence[Shelf]) -> Sample:
    """Build a dict of the tools, each with the hash of its schema."""
    given = tools(shelves)

    def work() -> dict[str, tuple[Tool, str]]:
        table: dict[str, tuple[Tool, str]] = {}
        for tool in given:
            text = json.dumps(tool.meta.input_schema)
            table[tool.meta.name] = (tool, hashlib.sha256(text.encode()).hexdigest())
        return table

    return clock(work)


def assembled(shelves: Sequence[Shelf]) -> Sample:
    """Resolve the conflicts, hash and derive the revision."""
    given = tools(shelves)
    return clock(lambda: assemble(given).revision)


def stored(shelves: Sequence[Shelf]) -> Sample:
    """Register the providers with a store, which lists them, assembles and keeps the revision."""

    async def work() -> None:
        notes: list[str] = []
        catalog = await CatalogStore(note=notes.append).add(*shelves)
        if notes or catalog.dropped:
            raise CannotRun(f"not all tools were listed: {notes or catalog.dropped[:3]}")

    return clock(lambda: anyio.run(work))


def listed(shelves: Sequence[Shelf]) -> Sample:
    """Make the definitions and an event loop, which `store` pays as well."""

    async def work() -> None:
        for shelf in shelves:
            await shelf.list_tools()

    return clock(lambda: anyio.run(work))


def main() -> None:
    """Measure and print."""
    rounds = 5 if arguments(__doc__).smoke else 31
    shelves = [Shelf(place) for place in range(PROVIDERS)]
    catalog = assemble(tools(shelves))
    count = PROVIDERS * TOOLS_EACH
    print(f"{count} tools of {PROVIDERS} providers, {len(catalog.shadowed)} of them shadowed")
    cases = {
        "floor: dict and one hash a schema": partial(floor, shelves),
        "assemble and revision": partial(assembled, shelves),
        "store: list, assemble, keep": partial(stored, shelves),
        "(definitions and event loop alone)": partial(listed, shelves),
    }
    found = alternate(cases, rounds)
    base, *_ = found.values()
    costs(found.values(), base, millis, "ms")
    ratios = {name: round(series.ratio(base), 2) for name, series in found.items()}
    finish("catalog_assembly", {"tools": count, "cpu_ratio_to_floor": ratios})


if __name__ == "__main__":
    start(main)
