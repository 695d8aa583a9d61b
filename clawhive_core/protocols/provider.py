"""The thing that lists and invokes tools."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from clawhive_core.model.tools import ToolMeta, ToolResult
from clawhive_core.protocols.context import InvokeContext


class ToolProvider(Protocol):
    """Lists tools and invokes them; one plugin may offer several.

    `invoke` answers a ToolResult, `is_error` for a failure that the caller may read; it raises
    ToolError to fail with a code. Cancellation passes through. Nothing else is needed: schema,
    rights, deadline and log are the executor's.
    """

    @property
    def provider_id(self) -> str:
        """The name by which order and log know the provider."""
        ...

    async def list_tools(self) -> list[ToolMeta]:
        """Return every tool, `provider_id` set to this provider's."""
        ...

    async def invoke(
        self, tool_name: str, input: Mapping[str, Any], ctx: InvokeContext
    ) -> ToolResult:
        """Execute one call whose input has passed the tool's schema."""
        ...

    async def close(self) -> None:
        """Release what the provider holds; called once, also after a failed call."""
        ...
