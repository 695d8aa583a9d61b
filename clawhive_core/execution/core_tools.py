"""The core's own tools: `read`, `save` and `show`, `artifacts.write`; and their provider."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, cast

import anyio

from clawhive_core.errors import ToolError
from clawhive_core.execution.context import ToolContext
from clawhive_core.execution.scope import CORE as PROVIDER_ID
from clawhive_core.model.canonical import canonical_text
from clawhive_core.model.late import dataclass
from clawhive_core.model.patterns import pattern
from clawhive_core.model.tools import Artifact, ToolMeta, ToolResult
from clawhive_core.protocols.context import InvokeContext, Store


@dataclass(frozen=True, slots=True)
class CoreTool:
    """A definition, and what answers its structured value, or a whole result."""

    meta: ToolMeta
    run: Callable[[Mapping[str, Any], InvokeContext], Awaitable[Any]]


class CoreProvider:
    """The core tools that no sandbox is needed for (`clawhive_core.ToolProvider`)."""

    provider_id = PROVIDER_ID

    def __init__(self, tools: Sequence[CoreTool]) -> None:
        self._tools = {tool.meta.name: tool for tool in tools}

    async def list_tools(self) -> list[ToolMeta]:
        """Return the definitions."""
        return [tool.meta for tool in self._tools.values()]

    async def invoke(
        self, tool_name: str, input: Mapping[str, Any], ctx: InvokeContext
    ) -> ToolResult:
        """Execute one call.

        Raises:
            ToolError: With the code of what went wrong.
        """
        if tool_name not in self._tools:
            raise ToolError(f"the core has no tool `{tool_name}`", code="tool_not_found")
        value = await self._tools[tool_name].run(input, ctx)
        if isinstance(value, ToolResult):
            return value
        text = value if isinstance(value, str) else canonical_text(value)
        return ToolResult(ctx.tool_call_id, text, structured=value)

    async def close(self) -> None:
        """Nothing is open."""


_PATH = {
    "type": "string",
    "maxLength": 300,
    "description": "skills.SKILL.KEY: the skill's own id, then names joined by dots.",
}
_KEY = pattern(r"[\w-]+(?:\.[\w-]+)*")


def _place(ctx: InvokeContext, path: str) -> tuple[Store, str]:
    """Return the namespace of the skill that calls, and the key in it.

    Raises:
        ToolError: `denied` for everybody else and for every other namespace, `invalid_input`.
    """
    context = cast("ToolContext", ctx)  # the executor's own, which alone calls providers
    who = context.principal
    if who.kind != "skill":
        raise ToolError(
            f"`{who}` has nothing of its own to read or save: only the handlers of skills have",
            code="denied",
            fix="call a tool that the skill exports",
        )
    prefix = f"skills.{who.name}."
    if not path.startswith(prefix):
        raise ToolError(
            f"the skill `{who.name}` reads and saves below `{prefix}` only, not `{path}`",
            code="denied",
            place=path,
            fix=f"write `{prefix}KEY`; what another skill keeps, one of its tools answers",
        )
    key = path.removeprefix(prefix)
    if _KEY.fullmatch(key) is None:
        raise ToolError(
            f"`{path}` is no path",
            code="invalid_input",
            place=path,
            fix=f"write `{prefix}KEY`: letters, digits, `_` and `-`, joined by dots",
        )
    return context.services.store_for(context.scope, f"skill_{who.name}"), key


async def _read(input: Mapping[str, Any], ctx: InvokeContext) -> dict[str, Any]:
    store, key = _place(ctx, input["path"])
    return {"data": await store.get(key)}


async def _save(input: Mapping[str, Any], ctx: InvokeContext) -> dict[str, Any]:
    store, key = _place(ctx, input["path"])
    await store.put(key, input["data"])
    return {"path": input["path"]}


async def _show(input: Mapping[str, Any], ctx: InvokeContext) -> dict[str, Any]:
    cast("ToolContext", ctx).card(input)
    return {"shown": True}


READ = CoreTool(
    ToolMeta(
        name="read",
        description="Return what a skill saved under a path; null where it saved nothing.",
        input_schema={
            "type": "object",
            "additionalProperties": False,
            "required": ["path"],
            "properties": {"path": _PATH},
        },
        output_schema={"type": "object", "required": ["data"]},
        provider_id=PROVIDER_ID,
        risk="safe",
        always_load=True,
        category="own values",
    ),
    _read,
)

SAVE = CoreTool(
    ToolMeta(
        name="save",
        description="Keep a JSON value of at most 1 MiB under a path of the skill's own.",
        input_schema={
            "type": "object",
            "additionalProperties": False,
            "required": ["path", "data"],
            "properties": {"path": _PATH, "data": {"description": "Any JSON value."}},
        },
        provider_id=PROVIDER_ID,
        risk="safe",
        idempotent=True,
        always_load=True,
        category="own values",
    ),
    _save,
)

SHOW = CoreTool(
    ToolMeta(
        name="show",
        description="Show the user a card at once, such as one that offers a subscription.",
        input_schema={
            "type": "object",
            "additionalProperties": False,
            "required": ["type", "card_type"],
            "properties": {
                "type": {"const": "card"},
                "card_type": {"type": "string", "pattern": r"^[A-Za-z0-9_-]{1,64}$"},
                "data": {"type": "object", "description": "What the card says."},
            },
        },
        provider_id=PROVIDER_ID,
        risk="safe",
        always_load=True,
        category="own values",
    ),
    _show,
)


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
        _check_path(path)
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


def _check_path(path: str) -> None:
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

WRITE_ARTIFACTS = CoreTool(
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

TOOLS = (READ, SAVE, SHOW, WRITE_ARTIFACTS)
"""The core tools that need no more than their call; `skill_open` is made over a library."""
