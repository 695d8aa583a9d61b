"""Tools of a server as ClawHive's: names, risk, and what a trusted server says of them."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

from clawhive_core import ToolMeta
from clawhive_mcp.errors import log, printable
from clawhive_mcp.findings import Definition, findings_of, visible
from clawhive_mcp.servers import Server

_MAX_NAME = 120
_HASH = 8
_MAX_DESCRIPTION = 20_000
_MARGIN_MS = 2_000
"""Milliseconds that the executor waits longer than the call to the server, to hear how it ended."""
_HINTS = ("title", "readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")


@dataclass(frozen=True, slots=True)
class ServerTool:
    """One tool: what ClawHive knows of it, and the name that the server knows it by."""

    meta: ToolMeta
    original: str


def tools_of(
    server: Server, definitions: Iterable[Definition], words: str = ""
) -> dict[str, ServerTool]:
    """Return a server's tools by their canonical names; of two with one name, the first.

    Args:
        server: The server.
        definitions: Its tools.
        words: The digest of what else it says, which each tool's text is pinned with.
    """
    definitions = list(definitions)
    suspicious = frozenset[str]()
    if server.trusts_annotations:
        told = findings_of({server.name: definitions})
        suspicious = frozenset(str(each.tool) for each in told if each.severity == "warning")
    found: dict[str, ServerTool] = {}
    for definition in definitions:
        trusts = server.trusts_annotations and printable(definition["name"], 100) not in suspicious
        tool = _tool(server, definition, words, trusts=trusts)
        first = found.setdefault(tool.meta.name, tool)
        if first is not tool:
            log.warning(
                "mcp.tool.clash server=%s: `%s` and `%s` are both `%s`; the first stays",
                server.name,
                printable(first.original, 100),
                printable(tool.original, 100),
                tool.meta.name,
            )
    return found


def canonical_name(server: str, original: str) -> str:
    """Return `mcp.<server>.<tool>`: what is no part of a segment becomes `_`."""
    tool = re.sub(r"[^A-Za-z0-9_-]", "_", original) or "_"
    if len(tool) > _MAX_NAME:
        tool = f"{tool[: _MAX_NAME - _HASH - 1]}_{_digest(original)[:_HASH]}"
    return f"mcp.{server}.{tool}"


def changes(before: Mapping[str, ServerTool], after: Mapping[str, ServerTool]) -> str:
    """Return what is new, gone and changed, for a log; empty where nothing is."""
    parts = {
        "added": sorted(after.keys() - before.keys()),
        "removed": sorted(before.keys() - after.keys()),
        "changed": sorted(
            name for name in before.keys() & after.keys() if not is_same(before[name], after[name])
        ),
    }
    return " ".join(f"{what}={','.join(names)}" for what, names in parts.items() if names)


def is_same(one: ServerTool, other: ServerTool) -> bool:
    """Whether a tool is what it was, to the letter of its description."""
    return (one.original, one.meta.contract_hash, one.meta.text_hash) == (
        other.original,
        other.meta.contract_hash,
        other.meta.text_hash,
    )


def _tool(server: Server, definition: Definition, words: str, *, trusts: bool) -> ServerTool:
    original = str(definition["name"])
    hints = _hints(definition)
    if words:
        hints["server_words"] = words
    description = _description(definition, original)
    if (shown := visible(description)) != description:
        # What nobody sees is not told to a model; the digest keeps a change of it a change.
        hints["hidden"] = _digest(description)
    meta = ToolMeta(
        name=canonical_name(server.name, original),
        description=shown,
        input_schema=_shown_schema(definition["inputSchema"]),
        output_schema=definition.get("outputSchema"),
        provider_id=server.provider_id,
        capability_level="L0",
        risk="unknown",
        side_effects=True,
        requires_confirm=True,
        timeout_ms=server.timeout_ms + server.connect_timeout_ms + _MARGIN_MS,
        category="mcp",
        keywords=(server.name,),
        annotations={**hints, "mcp_name": original},
        text_counts=True,
    )
    return ServerTool(_as_annotated(meta, hints) if trusts else meta, original)


def _as_annotated(meta: ToolMeta, hints: Mapping[str, Any]) -> ToolMeta:
    """Return a tool with what the annotations of a trusted server say of it.

    One that only reads, and only of what belongs to the server, is safe; nothing else is.
    """
    reads = hints.get("readOnlyHint") is True
    closed = hints.get("openWorldHint") is False
    return replace(
        meta,
        risk="safe" if reads and closed else "guarded",
        side_effects=not reads,
        requires_confirm=not reads,
        idempotent=reads or hints.get("idempotentHint") is True,
    )


def _hints(definition: Definition) -> dict[str, Any]:
    given: Any = definition.get("annotations")
    table = cast("dict[str, Any]", given) if isinstance(given, dict) else dict[str, Any]()
    found = {name: table[name] for name in _HINTS if isinstance(table.get(name), bool | str)}
    title = definition.get("title")
    return {**found, "title": title} if isinstance(title, str) else found


def _description(definition: Definition, original: str) -> str:
    """Return the words of the server; the model must be told something where it has none."""
    given = definition.get("description")
    if not isinstance(given, str) or not given.strip():
        return (
            f"The tool `{printable(original, 100)}` of an MCP server, which does not describe it."
        )
    if len(given) <= _MAX_DESCRIPTION:
        return given
    # The hash of the whole keeps a change in what is not shown a change.
    return f"{given[:_MAX_DESCRIPTION]}\n[cut; sha256 {_digest(given)}]"


def _shown_schema(schema: Any) -> Any:
    """Return a schema whose titles and descriptions hold nothing hidden; its values stay."""
    if isinstance(schema, list):
        return [_shown_schema(each) for each in cast("list[Any]", schema)]
    if not isinstance(schema, Mapping):
        return schema
    return {
        key: visible(each)
        if key in {"description", "title"} and isinstance(each, str)
        else _shown_schema(each)
        for key, each in cast("Mapping[str, Any]", schema).items()
    }


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
