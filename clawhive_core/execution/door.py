"""The one way to run a tool, as its callers see it."""

from __future__ import annotations

from typing import Protocol

from clawhive_core.execution.scope import CallScope
from clawhive_core.model.refusal import Refusal
from clawhive_core.model.tools import ToolCall, ToolResult

Outcome = ToolResult | Refusal
"""What a call comes to: a result (perhaps an error result), or a refusal with its next step."""


class Door(Protocol):
    """Runs a tool call, or answers it from a record."""

    async def invoke(self, call: ToolCall, scope: CallScope) -> Outcome:
        """Answer one call; raises only for cancellation and parking."""
        ...
