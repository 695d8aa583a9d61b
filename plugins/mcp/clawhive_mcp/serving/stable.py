"""The five tools that are always served, as clients are shown them."""

from __future__ import annotations

from typing import Any

from mcp_types import Tool, ToolAnnotations

INSTRUCTIONS = (
    "ClawHive serves the tools of this project and of its MCP servers. Find them with tool_search, "
    "enable them with tool_enable, and call them by their own name or with tool_call. Each call is "
    "checked by the user's policy. Where the answer is approval_required, tell the user the "
    "command that it names; once they have approved, make exactly the same call again."
)
_TEXT = {"type": "string"}
_CALL = {
    "name": {**_TEXT, "description": "The tool's name, as tool_search gives it."},
    "args": {"type": "object", "description": "Its arguments, as its input_schema wants them."},
}


def _object(required: list[str], properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": required}


_TOOLS: tuple[tuple[str, str, dict[str, Any], bool], ...] = (
    (
        "tool_search",
        (
            "Find tools by what they are needed for. Returns names, descriptions, risk, and "
            "whether each is enabled."
        ),
        _object(
            ["query"],
            {
                "query": {**_TEXT, "description": "What the tool is to do, in a few words."},
                "top_k": {"type": "integer", "minimum": 1, "maximum": 50, "default": 5},
            },
        ),
        True,
    ),
    (
        "tool_enable",
        (
            "Enable tools by name. Returns for each its input_schema and the name under which "
            "it can be called directly; tool_call works too."
        ),
        _object(
            ["names"],
            {
                "names": {"type": "array", "items": _TEXT, "minItems": 1, "maxItems": 50},
                "ttl_turns": {
                    "type": "integer",
                    "minimum": 1,
                    "description": "The searches after which they lapse.",
                },
            },
        ),
        True,
    ),
    (
        "tool_read",
        "Call an enabled tool that only reads. Others are refused: tool_call calls them.",
        _object(["name"], _CALL),
        True,
    ),
    (
        "tool_call",
        "Call any enabled tool by its name. The user's policy decides about each call.",
        _object(["name"], _CALL),
        False,
    ),
    (
        "tool_more",
        "Read on where a result was cut, or read an artifact, by its `ref`.",
        _object(["ref"], {"ref": _TEXT, "offset": {"type": "integer", "minimum": 0, "default": 0}}),
        True,
    ),
)


def stable_tools() -> list[Tool]:
    """Return their definitions, with what we decided about each."""
    return [
        Tool(
            name=name,
            description=text,
            input_schema=schema,
            annotations=ToolAnnotations(
                read_only_hint=reads, destructive_hint=False, open_world_hint=False
            ),
        )
        for name, text, schema, reads in _TOOLS
    ]
