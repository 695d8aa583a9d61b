"""Answers of servers as results: blocks of content, structured values, files, errors."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import mimetypes
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from clawhive_core import Artifact, InvokeContext, ToolError, ToolResult
from clawhive_mcp.errors import MCPToolNotFoundError, printable

if TYPE_CHECKING:
    from mcp import MCPError
    from mcp_types import CallToolResult, ContentBlock

MAX_TEXT = 1024 * 1024
_MAX_BLOCKS = 1_000
_UNKNOWN = re.compile(r"(?i)\b(unknown|no such|not found|does not exist|not exist)\b")


def result_of(answer: CallToolResult, tool: str, ctx: InvokeContext) -> ToolResult:
    """Return a server's answer as a result; images, sounds and files go to the run's artifacts.

    Raises:
        MCPToolNotFoundError: The answer is that there is no such tool.
    """
    texts: list[str] = []
    artifacts: list[Artifact] = []
    for number, block in enumerate(answer.content[:_MAX_BLOCKS]):
        texts.append(_text(block, number, ctx, artifacts))
    if len(answer.content) > _MAX_BLOCKS:
        texts.append(f"[cut: {len(answer.content) - _MAX_BLOCKS} more blocks]")
    text, structured = "\n".join(texts), answer.structured_content
    if answer.is_error and len(answer.content) == 1 and _denies(text, tool):
        raise _unknown(tool, text)
    if not text and structured is not None:
        text = json.dumps(structured, ensure_ascii=False)
    if len(text) > MAX_TEXT:
        text = f"{text[:MAX_TEXT]}\n[cut: {len(text) - MAX_TEXT} more characters]"
    return ToolResult(ctx.tool_call_id, text, answer.is_error, structured, tuple(artifacts))


def error_of(error: MCPError, tool: str) -> ToolError:
    """Return the error of a server that answered one."""
    if _denies(error.message, tool):
        return _unknown(tool, error.message)
    return ToolError(
        f"the server answered the error {error.code}: {error.message}",
        fix="read what it says; a server's error is not ClawHive's",
        data={"mcp_code": error.code},
    )


def _unknown(tool: str, said: str) -> MCPToolNotFoundError:
    return MCPToolNotFoundError(
        f"the server does not know the tool `{tool}`: {printable(said, 300)}",
        fix="clawhive tools list shows what it lists",
    )


def _denies(text: str, tool: str) -> bool:
    """Whether a short text says that there is no tool of that name, and nothing else."""
    said = text.strip()
    if len(said) > len(tool) + 60 or _UNKNOWN.search(said) is None:
        return False
    return "tool" in said.lower() and tool in said


def _text(block: ContentBlock, number: int, ctx: InvokeContext, artifacts: list[Artifact]) -> str:
    """Return a block as text, its bytes written beside it."""
    from mcp_types import (
        AudioContent,
        ImageContent,
        ResourceLink,
        TextContent,
        TextResourceContents,
    )

    if isinstance(block, TextContent):
        return block.text
    if isinstance(block, ResourceLink):
        return f"[resource {block.uri}: {block.name}]"
    if isinstance(block, ImageContent | AudioContent):
        return _saved(block.data, block.mime_type, "", number, ctx, artifacts)
    resource = block.resource
    if isinstance(resource, TextResourceContents):
        return f"[resource {resource.uri}]\n{resource.text}"
    kind = resource.mime_type or "application/octet-stream"
    return _saved(resource.blob, kind, f" {resource.uri}", number, ctx, artifacts)


def _saved(
    data: str, kind: str, of: str, number: int, ctx: InvokeContext, artifacts: list[Artifact]
) -> str:
    try:
        content = base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        return f"[{printable(kind, 60)}{of}: its bytes cannot be decoded]"
    artifact = _written(content, kind, number, ctx)
    artifacts.append(artifact)
    return f"[{printable(kind, 60)}{of}, {len(content)} bytes: {artifact.path}]"


def _written(content: bytes, kind: str, number: int, ctx: InvokeContext) -> Artifact:
    """Write bytes to a new file of the run."""
    call = re.sub(r"[^A-Za-z0-9_-]", "_", ctx.invocation_id)[:60]
    name = f"mcp-{call}-{number}{mimetypes.guess_extension(kind) or '.bin'}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    with os.fdopen(os.open(Path(ctx.artifacts, name), flags, 0o644), "wb") as file:
        file.write(content)
    return Artifact(name, kind, len(content), hashlib.sha256(content).hexdigest())
