"""The tools `file.read` and `file.list`: the project's files, as far as they were granted."""

from __future__ import annotations

from typing import Any

from clawhive_core import Entry, InvokeContext, ToolError, ToolResult, tool

MAX_FILE = 32 * 1024 * 1024
"""Bytes of the largest file that is read."""
MAX_LINES = 10_000
MAX_CHARACTERS = 256 * 1024
"""Characters that one call of `file.read` answers at most."""
MAX_ENTRIES = 2_000

_TEXT: dict[str, Any] = {"type": "string"}
_COUNT: dict[str, Any] = {"type": "integer", "minimum": 0}
_FLAG: dict[str, Any] = {"type": "boolean"}


def closed_object(properties: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of an object with exactly these properties."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def between(name: str, value: int, low: int, high: int) -> int:
    """Return an argument that lies within its bounds.

    Raises:
        ToolError: `invalid_input`.
    """
    if not low <= value <= high:
        raise ToolError(
            f"`{name}` is {value}",
            code="invalid_input",
            place=f"/{name}",
            fix=f"give a number from {low} to {high}",
        )
    return value


@tool(
    name="file.read",
    level="L0",
    risk="safe",
    effects={"path": "fs.read"},
    aliases=("file_read",),
    idempotent=True,
    category="files",
    keywords=("open", "show", "cat", "text", "content", "lines"),
    examples=({"path": "README.md"}, {"path": "src/app.py", "offset": 100, "limit": 50}),
    output_schema=closed_object(
        {"path": _TEXT, "text": _TEXT, "offset": _COUNT, "lines": _COUNT, "truncated": _FLAG}
    ),
)
def file_read(path: str, ctx: InvokeContext, offset: int = 1, limit: int = 2000) -> ToolResult:
    """Read a UTF-8 text file of the project, whole or some of its lines.

    Args:
        path: The file, relative to the project's folder.
        ctx: The call.
        offset: The first line to read, from 1.
        limit: How many lines to read at most.
    """
    first = between("offset", offset, 1, 2**31) - 1
    count = between("limit", limit, 1, MAX_LINES)
    lines = ctx.workspace.read_text(path, limit=MAX_FILE).splitlines(keepends=True)
    if first and first >= len(lines):
        raise ToolError(
            f"{path} has {len(lines)} lines",
            code="invalid_input",
            place="/offset",
            fix=f"give an offset from 1 to {max(1, len(lines))}",
        )
    text = "".join(lines[first : first + count])
    cut = first + count < len(lines) or len(text) > MAX_CHARACTERS
    text = text[:MAX_CHARACTERS]
    shown = len(text.splitlines())
    note = f"\n[lines {offset} to {first + shown} of {len(lines)}]" if cut else ""
    structured = {
        "path": path,
        "text": text,
        "offset": offset,
        "lines": len(lines),
        "truncated": cut,
    }
    return ToolResult(ctx.tool_call_id, text + note, structured=structured)


@tool(
    name="file.list",
    level="L0",
    risk="safe",
    effects={"path": "fs.read:{}/**"},
    aliases=("file_list",),
    idempotent=True,
    category="files",
    keywords=("directory", "folder", "ls", "find", "tree", "names"),
    examples=({"path": "."}, {"path": "src", "recursive": True}),
    output_schema=closed_object(
        {
            "path": _TEXT,
            "entries": {
                "type": "array",
                "items": closed_object(
                    {
                        "path": _TEXT,
                        "kind": {"enum": ["file", "directory", "link", "other"]},
                        "bytes": _COUNT,
                    }
                ),
            },
            "truncated": _FLAG,
        }
    ),
)
def file_list(ctx: InvokeContext, path: str = ".", recursive: bool = False) -> ToolResult:
    """List a folder of the project: names, kinds and sizes, sorted by name.

    Args:
        ctx: The call.
        path: The folder, relative to the project's folder.
        recursive: Whether to list what its folders hold too.
    """
    found = ctx.workspace.walk(path) if recursive else iter(ctx.workspace.list(path))
    entries: list[dict[str, Any]] = []
    truncated = False
    for entry in found:
        if len(entries) == MAX_ENTRIES:
            truncated = True
            break
        entries.append({"path": readable(entry.path), "kind": entry.kind, "bytes": entry.bytes})
        if len(entries) % 200 == 0:
            ctx.progress(len(entries), text=f"{len(entries)} entries")
    text = "\n".join(map(_line, entries)) or f"{path} is empty"
    if truncated:
        text += f"\n[cut: {path} holds more than {MAX_ENTRIES} entries]"
    structured = {"path": path, "entries": entries, "truncated": truncated}
    return ToolResult(ctx.tool_call_id, text, structured=structured)


def _line(entry: dict[str, Any]) -> str:
    match entry["kind"]:
        case "directory":
            return f"{entry['path']}/"
        case "file":
            return f"{entry['path']}  {entry['bytes']} bytes"
        case kind:
            return f"{entry['path']}  ({kind})"


def readable(path: str) -> str:
    """Return a path as text, bytes that are no UTF-8 escaped."""
    return path.encode("utf-8", "backslashreplace").decode("utf-8")


def is_searchable(entry: Entry) -> bool:
    """Return whether an entry is a file whose content can be searched."""
    return entry.kind == "file" and 0 < entry.bytes <= MAX_FILE
