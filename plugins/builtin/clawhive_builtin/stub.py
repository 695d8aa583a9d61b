"""A stand-in for a search engine: the same made-up answers each time, marked as such."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote_plus

from clawhive_core import InvokeContext, ToolError, ToolMeta, ToolResult

PROVIDER_ID = "stub"
RESULTS = 3

_TEXT: dict[str, Any] = {"type": "string"}

SEARCH = ToolMeta(
    name="web.search",
    description=(
        "Stand in for a web search: answers made-up results that look like a search engine's and"
        " are marked `stub`. For demonstrations and tests; nothing leaves this machine."
    ),
    input_schema={
        "type": "object",
        "properties": {
            "query": {"type": "string", "description": "What to search for.", "minLength": 1},
            "limit": {
                "type": "integer",
                "description": "How many results to answer at most.",
                "minimum": 1,
                "maximum": 20,
                "default": RESULTS,
            },
        },
        "required": ["query"],
        "additionalProperties": False,
    },
    output_schema={
        "type": "object",
        "properties": {
            "items": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {
                        "title": _TEXT,
                        "url": {"type": "string", "pattern": "^https?://"},
                        "snippet": _TEXT,
                        "provider": _TEXT,
                    },
                    "required": ["title", "url", "snippet", "provider"],
                    "additionalProperties": False,
                },
            }
        },
        "required": ["items"],
        "additionalProperties": False,
    },
    provider_id=PROVIDER_ID,
    capability_level="L0",
    risk="safe",
    idempotent=True,
    category="web",
    keywords=("search", "find", "internet", "query"),
    aliases=("web_search",),
    examples=({"query": "structured logging"},),
)


class StubProvider:
    """Offers `web.search` without a web (`clawhive_core.ToolProvider`)."""

    provider_id = PROVIDER_ID

    async def list_tools(self) -> list[ToolMeta]:
        """Return the one tool."""
        return [SEARCH]

    async def invoke(
        self, tool_name: str, input: Mapping[str, Any], ctx: InvokeContext
    ) -> ToolResult:
        """Answer made-up results, the same for the same query.

        Raises:
            ToolError: `tool_not_found` for any other tool.
        """
        if tool_name != SEARCH.name:
            raise ToolError(f"the stub has no tool `{tool_name}`", code="tool_not_found")
        count = min(RESULTS, input.get("limit", RESULTS))
        items = [_item(input["query"], number) for number in range(1, count + 1)]
        lines = [f"{item['title']}\n{item['url']}\n{item['snippet']}" for item in items]
        return ToolResult(ctx.tool_call_id, "\n\n".join(lines), structured={"items": items})

    async def close(self) -> None:
        """Do nothing: there is nothing to release."""


def _item(query: str, number: int) -> dict[str, str]:
    words = query.encode("utf-8", "replace").decode()
    return {
        "title": f"[stub] {words} ({number})",
        "url": f"https://example.com/stub/{number}?q={quote_plus(words)}",
        "snippet": "[stub] This result was made up; no search was done.",
        "provider": PROVIDER_ID,
    }
