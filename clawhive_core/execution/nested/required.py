"""Rights that a tool asks for midway, because nothing showed them before it was begun."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast

from clawhive_core.capabilities import parse, verb_of
from clawhive_core.catalog.catalog import Catalog, Tool
from clawhive_core.execution.scope import CORE, CallScope
from clawhive_core.model.tools import ToolCall, ToolMeta, ToolResult
from clawhive_core.protocols.context import InvokeContext

if TYPE_CHECKING:
    from clawhive_core.execution.context import ToolContext

REQUIRE = "require"
"""The name of such a call in the log; nobody can call it by that name."""


class _Granting:
    """Answers a right that was decided: there is nothing to do."""

    provider_id = CORE

    async def list_tools(self) -> list[ToolMeta]:
        """Return nothing: it is in no catalog."""
        return []

    async def invoke(
        self, tool_name: str, input: Mapping[str, Any], ctx: InvokeContext
    ) -> ToolResult:
        """Return the capabilities that were decided about."""
        del tool_name, input
        granted = list(cast("ToolContext", ctx).granted)  # the executor's own
        return ToolResult(ctx.tool_call_id, "allowed", structured={"granted": granted})

    async def close(self) -> None:
        """Nothing is open."""


_GRANTING = _Granting()


def required_input(tool: str, capability: str) -> dict[str, str]:
    """Return a capability as the input of a call that asks for it.

    Raises:
        CapabilityError: Its verb is unknown.
    """
    verb, _, resource = capability.partition(":")
    if verb_of(verb) is None:
        parse(f"{verb}:**")
    return {"for": tool, "verb": verb, "resource": resource}


def tool_of(catalog: Catalog, call: ToolCall, scope: CallScope) -> Tool | None:
    """Return the tool of a call: of the catalog, or what stands for a right asked for midway."""
    if scope.midway is None:
        return catalog.find(call.name)
    return _requiring(str(call.input.get("verb")))


@lru_cache(maxsize=256)
def _requiring(verb: str) -> Tool:
    known = verb_of(verb)
    meta = ToolMeta(
        REQUIRE,
        "Ask for a right in the middle of a call.",
        {
            "type": "object",
            "required": ["for", "verb", "resource"],
            "properties": {name: {"type": "string"} for name in ("for", "verb", "resource")},
        },
        CORE,
        capability_level="L2" if known is None else known.level,
        risk="safe",
        effects={"resource": verb},
        idempotent=True,
    )
    return Tool(meta, _GRANTING)
