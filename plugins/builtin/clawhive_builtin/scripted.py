"""The model `scripted:NAME`: answers from a script, for demonstrations and tests without a key.

Many runs share one adapter, and a replay asks again what a run asked. So an answer follows from the
request alone, which says how many came before it, never from what this adapter was asked before.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

from clawhive_core import LlmMessage, LlmRequest, LlmResponse, ModelError, StreamEvent, ToolResult
from clawhive_core.testing.scripted import Answer, answer, calling, events_of, response_from_json

DEMO = "demo"
MAX_SCRIPT = 16 * 1024 * 1024
"""Bytes of the largest script that is read."""


class ScriptedAdapter:
    """Serves `scripted:demo` and `scripted:FILE.json` (`clawhive_core.LlmAdapter`).

    `demo` looks around and tries what the out-of-the-box policy denies; it starts anew with each
    prompt. A file is a JSON list of answers, used in order over the whole conversation.

    Args:
        root: The directory that a script's relative path starts from.
    """

    name = "scripted"
    host = None
    default_host = None
    supports_tools = True

    def __init__(self, root: str = ".") -> None:
        self._root = root

    async def chat(self, request: LlmRequest) -> LlmResponse:
        """Return the script's answer to this request.

        Raises:
            ModelError: `unknown_script`, `invalid_script`, or `script_exhausted`.
        """
        if request.model == DEMO:
            return answer(_DEMO, _answered(_since_prompt(request.messages)) + 1, request)
        script = _load(self._root, request.model)
        before = request.answered
        number = _answered(request.messages) if before is None else before
        return answer(script, number + 1, request)

    async def stream(self, request: LlmRequest) -> AsyncIterator[StreamEvent]:
        """Yield the answer's blocks, then the whole."""
        response = await self.chat(request)
        for event in events_of(response):
            yield event

    async def close(self) -> None:
        """Do nothing: there is nothing to release."""


def _answered(messages: Sequence[LlmMessage]) -> int:
    return sum(message.role == "assistant" for message in messages)


def _since_prompt(messages: Sequence[LlmMessage]) -> Sequence[LlmMessage]:
    """Return what follows the last message that a person wrote."""
    for index in range(len(messages) - 1, -1, -1):
        if messages[index].role == "user" and not _results(messages[index : index + 1]):
            return messages[index + 1 :]
    return messages


def _results(messages: Sequence[LlmMessage]) -> list[ToolResult]:
    return [
        block for message in messages for block in message.content if isinstance(block, ToolResult)
    ]


def _load(root: str, name: str) -> list[LlmResponse]:
    if not name.endswith(".json"):
        raise ModelError(
            f"there is no script `{name}`",
            code="unknown_script",
            fix=f"use `scripted:{DEMO}`, or `scripted:FILE.json` with a JSON list of answers",
            data={"known": [DEMO, "FILE.json"]},
        )
    path = Path(root, name)
    return [_response(value, path, number) for number, value in enumerate(_values(path), 1)]


def _values(path: Path) -> list[Any]:
    try:
        with path.open("rb") as script:
            text = script.read(MAX_SCRIPT + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise ModelError(
            f"the script {path} cannot be read: {reason}",
            code="unknown_script",
            place=str(path),
            fix=f"name a file that exists, or use `scripted:{DEMO}`",
            data={"known": [DEMO, "FILE.json"]},
        ) from error
    if len(text) > MAX_SCRIPT:
        raise _invalid(path, f"it is larger than {MAX_SCRIPT} bytes")
    try:
        values = json.loads(text)
    except (ValueError, RecursionError) as error:
        where = f":{error.lineno}:{error.colno}" if isinstance(error, json.JSONDecodeError) else ""
        raise _invalid(path, f"it is no JSON: {error}", where) from error
    if not isinstance(values, list):
        raise _invalid(path, "it is no list")
    return cast("list[Any]", values)


def _response(value: Any, path: Path, number: int) -> LlmResponse:
    try:
        return response_from_json(value)
    except ValueError as error:
        raise _invalid(path, f"answer {number}: {error}") from error


def _invalid(path: Path, problem: str, where: str = "") -> ModelError:
    return ModelError(
        f"the script {path} cannot be used: {problem}",
        code="invalid_script",
        place=f"{path}{where}",
        fix='write a JSON list such as ["Hello.", {"tool_calls": [{"name": "file.list"}]}]',
    )


def _summary(request: LlmRequest) -> str:
    """Say what the two calls found, from their results."""
    here, above = ([*_results(_since_prompt(request.messages)), None, None])[:2]
    return f"In the project's folder I found {_found(here)} {_beyond(above)}"


def _found(result: ToolResult | None) -> str:
    if result is None:
        return "nothing: the call was not answered."
    if result.is_error:
        return f"nothing, because the call was refused: {_reason(result)}"
    entries: list[dict[str, Any]] = _fields(result).get("entries", [])
    if not entries:
        return "no files."
    names = ", ".join(str(entry["path"]) for entry in entries[:8])
    more = f" and {len(entries) - 8} more" if len(entries) > 8 else ""  # noqa: PLR2004 - as above
    return f"{len(entries)} entries: {names}{more}."


def _beyond(result: ToolResult | None) -> str:
    if result is None:
        return "The folder above it was not answered."
    if result.is_error:
        return f"Looking at the folder above it was refused: {_reason(result)}"
    return f"Looking at the folder above it was allowed; there I found {_found(result)}"


def _reason(result: ToolResult) -> str:
    fields = _fields(result)
    code, message = fields.get("error"), fields.get("message")
    if isinstance(code, str) and isinstance(message, str):
        return f"{message.rstrip('.')} ({code})."
    return f"{result.output.strip().rstrip('.') or 'no reason was given'}."


def _fields(result: ToolResult) -> Mapping[str, Any]:
    """Return a result's JSON object, from its text where it has no other."""
    value = result.structured
    if value is None:
        with suppress(ValueError):
            value = json.loads(result.output)
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


_DEMO: tuple[Answer, ...] = (
    calling("file.list", {"path": "."}, "I will look at the project's folder."),
    calling("file.list", {"path": ".."}, "Now I will try the folder above it."),
    _summary,
)
