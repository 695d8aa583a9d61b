"""Calls of tools that the responses API knows and the client runs, and what they are answered by.

Such a call is one of the tool `openai.KIND` (`openai.shell`); whoever offers a tool of that name
runs it, else the executor's refusal is its answer: nothing is approved that no tool has said `true`
of, and a search finds the list that a tool's value is. Source: OpenAI's OpenAPI description, as the
SDK's `ResponseOutputItem` and `ResponseInputItemParam` have it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from clawhive_core import ToolCall, ToolResult, WireTable
from clawhive_openai.values import Json, listed, mapping, short_id, text

MAX_ID = 64
"""Characters of a call's id that the API takes."""
_INPUTS: dict[str, tuple[str, ...]] = {
    "apply_patch_call": ("operation",),
    "computer_call": ("action", "actions", "pending_safety_checks"),
    "local_shell_call": ("action",),
    "mcp_approval_request": ("name", "server_label", "arguments"),
    "shell_call": ("action",),
    "tool_search_call": ("arguments",),
}
"""The fields that hold a call's arguments; a single object is the input itself."""
_BLANK = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR42mP4"
    "DwABAQEAHLCMmQAAAABJRU5ErkJggg=="
)
"""One empty pixel, since a computer's call is answered by a picture only."""


def is_ours(item: Json) -> bool:
    """Return whether an item is a call that waits for its client; what is hosted runs by itself."""
    if item.get("type") == "tool_search_call":
        return item.get("execution") == "client"
    hosted = mapping(item.get("environment")).get("type") == "container_reference"
    return item.get("type") in _INPUTS and not hosted


def read_call(item: Json, table: WireTable[Json], name: str) -> list[ToolCall]:
    """Return the call that an item is; none where the answer was cut within it.

    Args:
        item: One for which `is_ours` holds, with an id of its own.
        table: The tools that were offered.
        name: The server's.
    """
    kind = text(item.get("type"))
    given = {key: item[key] for key in _INPUTS[kind] if item.get(key)}
    if item.get("status") == "incomplete" or not given:
        return []
    value = mapping(given.popitem()[1]) if len(_INPUTS[kind]) == 1 else given
    call_id = item["id" if kind == "mcp_approval_request" else "call_id"]
    native = {name: {"item": item}}
    tool = table.canonical(f"openai.{kind.removesuffix('_call').removesuffix('_request')}")
    return [ToolCall(call_id, tool, dict(value), native=native)]


def result_items(result: ToolResult, call: Json) -> Iterator[Json]:
    """Yield what answers a call.

    Args:
        result: The result.
        call: The item that was called by; empty where another provider's model called.
    """
    call_id = short_id(result.tool_call_id, MAX_ID)
    match call.get("type"):
        case "custom_tool_call":
            yield _output("custom_tool_call", call_id, result.output)
        case "apply_patch_call":
            status = "failed" if result.is_error else "completed"
            yield {**_output("apply_patch_call", call_id, result.output), "status": status}
        case "local_shell_call":
            yield {"type": "local_shell_call_output", "id": call_id, "output": result.output}
        case "shell_call":
            yield _shell_output(result, call, call_id)
        case "mcp_approval_request":
            approve = not result.is_error and result.structured is True
            given = {"approval_request_id": call_id, "approve": approve}
            yield {"type": "mcp_approval_response", **given}
        case "tool_search_call":
            found = {"execution": "client", "status": "completed"}
            tools = listed(result.structured)
            yield {"type": "tool_search_output", "call_id": call_id, "tools": tools, **found}
        case "computer_call":
            yield from _screenshot(result, call, call_id)
        case _:
            yield _output("function_call", call_id, result.output)


def _output(kind: str, call_id: str, output: Any) -> dict[str, Any]:
    return {"type": f"{kind}_output", "call_id": call_id, "output": output}


def _shell_output(result: ToolResult, call: Json, call_id: str) -> Json:
    said = mapping(result.structured)
    code = said.get("exit_code")
    if "stdout" not in said and "stderr" not in said:
        said = {"stderr" if result.is_error else "stdout": result.output}
    outcome = {
        "type": "exit",
        "exit_code": code if isinstance(code, int) else int(result.is_error),
    }
    streams = {name: text(said.get(name)) for name in ("stdout", "stderr")}
    most = mapping(call.get("action")).get("max_output_length")
    limit = {} if most is None else {"max_output_length": most}
    return {**_output("shell_call", call_id, [{**streams, "outcome": outcome}]), **limit}


def _screenshot(result: ToolResult, call: Json, call_id: str) -> Iterator[Json]:
    """Yield the picture that a tool's value names (`image_url` or `file_id`), else words beside."""
    value = mapping(result.structured)
    shown = {key: value[key] for key in ("image_url", "file_id") if text(value.get(key))}
    picture = {"type": "computer_screenshot", **(shown or {"image_url": _BLANK})}
    checks: Sequence[Any] = () if result.is_error else listed(call.get("pending_safety_checks"))
    known = {"acknowledged_safety_checks": checks} if checks else {}
    yield {**_output("computer_call", call_id, picture), **known}
    if not shown:
        yield {"role": "user", "content": result.output or "There is no screenshot."}
