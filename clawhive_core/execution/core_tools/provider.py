"""The core's own tools, as one provider: each is a definition and a function."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from clawhive_core.errors import ToolError
from clawhive_core.execution.scope import CORE as PROVIDER_ID
from clawhive_core.model.canonical import canonical_text
from clawhive_core.model.late import dataclass
from clawhive_core.model.tools import ToolMeta, ToolResult
from clawhive_core.protocols.context import InvokeContext


@dataclass(frozen=True, slots=True)
class CoreTool:
    """A definition, and what answers its structured value, or a whole result."""

    meta: ToolMeta
    run: Callable[[Mapping[str, Any], InvokeContext], Awaitable[Any]]


class CoreProvider:
    """The core tools that no sandbox is needed for (`clawhive_core.ToolProvider`)."""

    provider_id = PROVIDER_ID

    def __init__(self, tools: Sequence[CoreTool]) -> None:
        self._tools = {tool.meta.name: tool for tool in tools}

    async def list_tools(self) -> list[ToolMeta]:
        """Return the definitions."""
        return [tool.meta for tool in self._tools.values()]

    async def invoke(
        self, tool_name: str, input: Mapping[str, Any], ctx: InvokeContext
    ) -> ToolResult:
        """Execute one call.

        Raises:
            ToolError: With the code of what went wrong.
        """
        if tool_name not in self._tools:
            raise ToolError(f"the core has no tool `{tool_name}`", code="tool_not_found")
        value = await self._tools[tool_name].run(input, ctx)
        if isinstance(value, ToolResult):
            return value
        text = value if isinstance(value, str) else canonical_text(value)
        return ToolResult(ctx.tool_call_id, text, structured=value)

    async def close(self) -> None:
        """Nothing is open."""
