"""The core tool `artifacts.write`: files that a call leaves in the run's own folder."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import anyio

from clawhive_core.errors import ToolError
from clawhive_core.execution.core_tools.provider import PROVIDER_ID, CoreTool
from clawhive_core.model.tools import Artifact, ToolMeta, ToolResult
from clawhive_core.protocols.context import InvokeContext

MAX_FILES = 1_000
MAX_BYTES = 8 * 1024 * 1024
"""All files of one call, together."""


async def _write(input: Mapping[str, Any], ctx: InvokeContext) -> ToolResult:
    """Write the files; a file already there is replaced.

    Raises:
        ToolError: `invalid_input` for a path that leaves the folder, `too_large`, or as
            `Workspace.write_bytes`.
    """
    texts: Mapping[str, str] = input["files"]
    for path in texts:
        _check(path)
    files = {path: text.encode("utf-8", "replace") for path, text in texts.items()}
    size = sum(map(len, files.values()))
    if size > MAX_BYTES:
        raise ToolError(
            f"{size} bytes are more than the {MAX_BYTES} that one call may leave",
            code="too_large",
            place="/files",
            fix="leave less, or make several calls",
        )
    await anyio.to_thread.run_sync(_write_all, files, ctx)
    left = tuple(_artifact(path, data) for path, data in files.items())
    lines = [f"{artifact.path} ({artifact.bytes} bytes)" for artifact in left]
    structured = {"files": [artifact.to_dict() for artifact in left]}
    return ToolResult(ctx.tool_call_id, "\n".join(lines), structured=structured, artifacts=left)


def _write_all(files: Mapping[str, bytes], ctx: InvokeContext) -> None:
    folder = ctx.artifacts
    for path, data in files.items():
        ctx.workspace.write_bytes(f"{folder}/{path}", data)


def _check(path: str) -> None:
    if "\0" in path or any(name in {"", ".", ".."} for name in path.split("/")):
        raise ToolError(
            f"{path[:200]!r} is no path inside the run's folder",
            code="invalid_input",
            place="/files",
            fix="give a relative path without `..`, such as `report.md`",
        )


def _artifact(path: str, data: bytes) -> Artifact:
    import mimetypes

    media_type = mimetypes.guess_type(path)[0] or "application/octet-stream"
    return Artifact(path, media_type, len(data), hashlib.sha256(data).hexdigest())


_COUNT = {"type": "integer", "minimum": 0}
_TEXT = {"type": "string"}
_FILE = {
    "type": "object",
    "properties": {"path": _TEXT, "media_type": _TEXT, "bytes": _COUNT, "sha256": _TEXT},
}

WRITE = CoreTool(
    ToolMeta(
        name="artifacts.write",
        description=(
            "Leave text files as artifacts in the run's own folder, where the user finds them."
            " Nothing of the project is touched."
        ),
        input_schema={
            "type": "object",
            "properties": {
                "files": {
                    "type": "object",
                    "description": "Texts by path, relative to the run's folder.",
                    "additionalProperties": _TEXT,
                    "minProperties": 1,
                    "maxProperties": MAX_FILES,
                }
            },
            "required": ["files"],
            "additionalProperties": False,
        },
        output_schema={
            "type": "object",
            "properties": {"files": {"type": "array", "items": _FILE}},
            "required": ["files"],
        },
        provider_id=PROVIDER_ID,
        capability_level="L1",
        risk="safe",
        effects={"files": "fs.write:${run}/{}"},
        idempotent=True,
        category="files",
        keywords=("artifact", "report", "result", "save", "output"),
        examples=({"files": {"report.md": "# Report\n"}},),
    ),
    _write,
)

TOOLS = (WRITE,)
