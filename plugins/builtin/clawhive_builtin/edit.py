"""The tools `edit.propose`, `edit.apply` and `file.write`: changes that a person saw before."""

from __future__ import annotations

import hashlib
import re
from typing import Any

from clawhive_builtin.files import closed_object
from clawhive_core import InvokeContext, ToolError, ToolResult, tool

MAX_BYTES = 4 * 1024 * 1024
"""Bytes of the largest file that is edited or written."""

_TEXT: dict[str, Any] = {"type": "string"}
_SHA: dict[str, Any] = {"type": "string", "description": "SHA-256, hexadecimal, or `absent`."}
PROPOSAL = closed_object(
    {
        "path": _TEXT,
        "base_sha256": _SHA,
        "sha256": _SHA,
        "content": _TEXT,
        "diff": _TEXT,
    }
)
_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_NO_NEWLINE = "\\ No newline at end of file\n"
_HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+\d+(?:,(\d+))? @@")


@tool(
    name="edit.propose",
    level="L0",
    risk="safe",
    effects={"path": "fs.read"},
    idempotent=True,
    category="files",
    keywords=("change", "replace", "patch", "diff", "modify"),
    examples=({"path": "README.md", "find": "colour", "replace": "color"},),
    output_schema=PROPOSAL,
)
def edit_propose(
    path: str,
    ctx: InvokeContext,
    find: str | None = None,
    replace: str | None = None,
    patch: str | None = None,
    content: str | None = None,
) -> ToolResult:
    """Propose a change of a text file; nothing is written.

    Args:
        path: The file, relative to the project's folder.
        ctx: The call.
        find: The text to replace; it must occur exactly once.
        replace: What stands there afterwards.
        patch: A unified diff of this file, instead of find and replace.
        content: The whole new text, instead of find and replace.
    """
    before = ctx.workspace.read_text(path, limit=MAX_BYTES)
    ways = (find is not None or replace is not None, patch is not None, content is not None)
    if sum(ways) != 1 or (ways[0] and (not find or replace is None)):
        raise ToolError(
            "give find and replace, or patch, or content",
            code="invalid_input",
            place="/find",
            fix='{"path": "...", "find": "...", "replace": "..."}',
        )
    if patch is not None:
        after = _patched(before, patch, path)
    elif content is not None:
        after = _bounded(content, path)
    else:
        after = _replaced(before, str(find), str(replace), path)
    if after == before:
        raise ToolError(f"the change leaves {path} as it is", code="nothing_to_do", place=path)
    diff = _diff(path, before, after)
    proposal = {
        "path": path,
        "base_sha256": _sha(before),
        "sha256": _sha(after),
        "content": after,
        "diff": diff,
    }
    return ToolResult(ctx.tool_call_id, diff, structured=proposal)


@tool(
    name="edit.apply",
    level="L1",
    risk="guarded",
    effects={"path": ("fs.read", "fs.write")},
    sinks=("path",),
    confirms="edit.propose",
    side_effects=True,
    requires_confirm=True,
    idempotent=True,
    category="files",
    keywords=("apply", "write", "confirm"),
    output_schema=closed_object({"path": _TEXT, "sha256": _SHA, "bytes": {"type": "integer"}}),
)
def edit_apply(path: str, proposal: dict[str, Any], ctx: InvokeContext) -> ToolResult:
    """Do exactly what a proposal of edit.propose showed.

    Args:
        path: The file of the proposal.
        proposal: What edit.propose answered.
        ctx: The call.
    """
    content = _confirmed(path, proposal)
    data = content.encode("utf-8")
    before = ctx.workspace.read_text(path, limit=MAX_BYTES)
    if before != content:
        if _sha(before) != proposal["base_sha256"]:
            raise ToolError(
                f"{path} changed after the change was proposed; nothing was written",
                code="drifted",
                place=path,
                fix="propose the change again",
            )
        if _diff(path, before, content) != proposal.get("diff"):
            raise ToolError(
                "the proposal's diff is not what its content would change",
                code="invalid_input",
                place="/proposal",
                fix="pass on what edit.propose answered, unchanged",
            )
        ctx.workspace.write_bytes(path, data)
    facts = {"path": path, "sha256": proposal["sha256"], "bytes": len(data)}
    return ToolResult(ctx.tool_call_id, f"wrote {path}", structured=facts)


@tool(
    name="file.write",
    level="L1",
    risk="guarded",
    effects={"path": "fs.write"},
    sinks=("path",),
    side_effects=True,
    requires_confirm=True,
    idempotent=True,
    aliases=("file_write",),
    category="files",
    keywords=("save", "create", "overwrite"),
    output_schema=closed_object({"path": _TEXT, "sha256": _SHA, "bytes": {"type": "integer"}}),
)
def file_write(path: str, text: str, ctx: InvokeContext) -> ToolResult:
    """Write a text file, whole; an existing one is replaced.

    Args:
        path: The file, relative to the project's folder.
        text: Its new content.
        ctx: The call.
    """
    data = _bounded(text, path).encode("utf-8")
    ctx.workspace.write_bytes(path, data)
    facts = {"path": path, "sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)}
    return ToolResult(ctx.tool_call_id, f"wrote {path}", structured=facts)


def _bounded(text: str, path: str) -> str:
    size = len(text.encode("utf-8"))
    if size > MAX_BYTES:
        raise ToolError(
            f"{size} bytes are more than {MAX_BYTES}",
            code="too_large",
            place=path,
            fix="write less, or several files",
        )
    return text


def _confirmed(path: str, proposal: dict[str, Any]) -> str:
    """Return the proposed content, having checked that the proposal is whole and for this file."""
    content = proposal.get("content")
    if not isinstance(content, str) or proposal.get("path") != path:
        raise ToolError(
            "the proposal is not one of edit.propose for this path",
            code="invalid_input",
            place="/proposal",
            fix="pass on what edit.propose answered, unchanged",
        )
    if proposal.get("sha256") != _sha(content):
        raise ToolError(
            "the proposal's content is not what its hash says",
            code="invalid_input",
            place="/proposal",
            fix="pass on what edit.propose answered, unchanged",
        )
    return content


def _replaced(text: str, find: str, replace: str, path: str) -> str:
    count = text.count(find)
    if count != 1:
        where = "does not occur" if count == 0 else f"occurs {count} times"
        raise ToolError(
            f"the text to find {where} in {path}",
            code="not_unique" if count else "not_found",
            place="/find",
            fix="give a longer piece of the file, exactly as it stands there",
        )
    return text.replace(find, replace)


def _patched(text: str, patch: str, path: str) -> str:
    """Apply a unified diff; every context and removed line must be where it says."""
    lines, result, at = _LINE.findall(text), list[str](), 0
    for start, rows in _hunks(patch):
        if not at <= start <= len(lines):
            raise _misfit(path, start)
        result += lines[at:start]
        at = start
        for mark, body in rows:
            if mark == "+":
                result.append(body)
                continue
            if at >= len(lines) or lines[at] != body:
                raise _misfit(path, at)
            if mark == " ":
                result.append(body)
            at += 1
    return "".join(result + lines[at:])


def _hunks(patch: str) -> list[tuple[int, list[tuple[str, str]]]]:
    """Return each hunk of a patch: the line before which it begins, from 0, and its rows."""
    found: list[tuple[int, list[tuple[str, str]]]] = []
    left = (0, 0)
    for number, row in enumerate(_LINE.findall(patch), 1):
        mark, body = row[:1], row[1:]
        if mark == "\\" and found and found[-1][1]:
            last, text = found[-1][1][-1]
            found[-1][1][-1] = (last, text.removesuffix("\n"))
        elif left != (0, 0):
            left = _counted(left, mark, number)
            found[-1][1].append((mark, body if body.endswith("\n") else body + "\n"))
        elif (header := _HUNK.match(row)) is not None:
            start, old, new = (int(header[1]), int(header[2] or 1), int(header[3] or 1))
            found.append((start - 1 if old else start, []))
            left = (old, new)
    if not found or left != (0, 0):
        raise _unreadable("it ends within a hunk" if found else "it has no hunk `@@ -a,b +c,d @@`")
    return found


def _counted(left: tuple[int, int], mark: str, number: int) -> tuple[int, int]:
    """Return how many old and new lines a hunk still has after a row."""
    old, new = left
    taken = {" ": (old - 1, new - 1), "-": (old - 1, new), "+": (old, new - 1)}.get(mark)
    if taken is None or min(taken) < 0:
        raise _unreadable(f"its line {number} does not fit its hunk's header")
    return taken


def _unreadable(why: str) -> ToolError:
    return ToolError(
        f"the patch cannot be read: {why}",
        code="invalid_input",
        place="/patch",
        fix="give a unified diff of this file, as `diff -u` writes it",
    )


def _misfit(path: str, at: int) -> ToolError:
    return ToolError(
        f"line {at + 1} of {path} is not what the patch expects",
        code="patch_failed",
        place=f"{path}:{at + 1}",
        fix="make the patch against the file as it is now",
    )


def _diff(path: str, before: str, after: str) -> str:
    import json
    from difflib import unified_diff

    name = path if path.isprintable() else json.dumps(path)[1:-1]
    lines = unified_diff(_LINE.findall(before), _LINE.findall(after), f"a/{name}", f"b/{name}")
    return "".join(line if line.endswith("\n") else f"{line}\n{_NO_NEWLINE}" for line in lines)


def _sha(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8")).hexdigest()
