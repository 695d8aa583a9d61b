"""The thing that lists and invokes tools."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol, runtime_checkable

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


@runtime_checkable
class ChangingProvider(Protocol):
    """A tool provider whose tools come and go while it runs, such as a server's."""

    def subscribe(self, changed: Callable[[], None]) -> None:
        """Keep what is to be called when `list_tools` would answer otherwise.

        It may be called from any thread and at any time; the tools are listed again soon after, and
        running agents are offered the new ones at their next turn.
        """
        ...
