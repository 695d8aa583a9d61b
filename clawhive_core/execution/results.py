"""The answer of a tool: checked, cut, and in one shape."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from clawhive_core.catalog.validation import Validators, describe
from clawhive_core.errors import InvalidInput, NeedHumanApproval
from clawhive_core.execution.scope import CORE
from clawhive_core.model.canonical import canonical_text, preview
from clawhive_core.model.json_values import json_copy
from clawhive_core.model.refusal import Refusal
from clawhive_core.model.texts import well_formed
from clawhive_core.model.tools import Artifact, ToolMeta, ToolResult

MAX_TEXT = 1024 * 1024
"""Characters of text that a result may hold; more is cut, and the cut is marked."""
MAX_STRUCTURED = 8 * 1024 * 1024
"""About the bytes of JSON that a structured value may be; a larger one is refused."""

_LISTS = (list, tuple)


def finish(
    result: Any,
    meta: ToolMeta,
    call_id: str,
    validators: Validators,
    left: Sequence[Artifact] = (),
) -> tuple[ToolResult | Refusal, bool]:
    """Return a provider's answer as a ToolResult, or why it is none; and whether it is portable.

    A structured value is copied, so that nobody else can change it.

    Args:
        result: What the provider answered.
        meta: The tool.
        call_id: The call that is answered.
        validators: What its output schema is checked with.
        left: What nested calls left behind: it belongs to the result.
    """
    if not isinstance(result, ToolResult):
        return _invalid(meta, f"answered {type(result).__name__} instead of a ToolResult")
    if (problem := _problem_of(result)) is not None:
        return _invalid(meta, problem)
    structured, portable = result.structured, True
    if structured is not None:
        try:
            structured, portable = json_copy(structured, MAX_STRUCTURED)
        except InvalidInput as error:
            where = f" at {error.place}" if error.place else ""
            return _invalid(meta, f"answered a value that is not JSON{where}: {error.message}")
    text = well_formed(result.output)
    if meta.output_schema is not None and not result.is_error:
        value = text if structured is None else structured
        problems = validators.problems(f"{meta.contract_hash}:output", meta.output_schema, value)
        if problems:
            return _invalid(meta, f"answered what its output schema refuses: {describe(problems)}")
    if len(text) > MAX_TEXT:
        text = f"{text[:MAX_TEXT]}\n[cut: {len(text) - MAX_TEXT} more characters]"
    artifacts = tuple(result.artifacts)
    if left:
        artifacts += tuple(left)
    enables = result.enables if meta.provider_id == CORE and not result.is_error else None
    finished = ToolResult(call_id, text, result.is_error, structured, artifacts, enables=enables)
    return finished, portable


def _problem_of(result: ToolResult) -> str | None:
    """Return what a provider put into a result that does not belong there."""
    given: Any = result
    if not isinstance(given.output, str):
        return f"answered an output of {type(given.output).__name__} instead of text"
    if not isinstance(given.is_error, bool):
        return "answered an `is_error` that is neither true nor false"
    if not isinstance(given.artifacts, _LISTS):
        return "answered artifacts that are no list"
    artifacts = cast("list[Any]", given.artifacts)
    if artifacts and not all(map(_is_artifact, artifacts)):
        return "answered an artifact without path, media_type, bytes and sha256"
    return None


def _is_artifact(value: Any) -> bool:
    if not isinstance(value, Artifact) or type(value.bytes) is not int:
        return False
    texts: tuple[Any, ...] = (value.path, value.media_type, value.sha256)
    return all(isinstance(text, str) for text in texts)


def error_of(result: ToolResult) -> dict[str, Any] | None:
    """Return the error of an error result as `{code, message, ...}`, None where it is none."""
    if not result.is_error:
        return None
    value = result.structured
    facts: Mapping[str, Any] = {}
    if isinstance(value, Mapping):
        facts = cast("Mapping[str, Any]", value)
    error: Any = facts.get("error")
    if isinstance(error, Mapping):
        facts = cast("Mapping[str, Any]", error)
        error = facts.get("code")
    if not isinstance(error, str):
        return {"code": "tool_failed", "message": preview(result.output)}
    return {**facts, "code": error, "message": str(facts.get("message", ""))}


def parked_result(
    call_id: str, asked: NeedHumanApproval, partial: Mapping[str, bytearray]
) -> ToolResult:
    """Return what a tool came to before it was parked: what it waits for, and its output so far."""
    value = {**asked.data, **_texts(partial)}
    return ToolResult(call_id, asked.message, structured=value)


def partial_result(call_id: str, refusal: Refusal, partial: Mapping[str, bytearray]) -> ToolResult:
    """Return a failed execution as an error result, with the output that there was."""
    value = {**refusal.to_dict(), **_texts(partial)}
    return ToolResult(call_id, canonical_text(value), is_error=True, structured=value)


def _texts(partial: Mapping[str, bytearray]) -> dict[str, str]:
    return {stream: bytes(data).decode("utf-8", "replace") for stream, data in partial.items()}


def _invalid(meta: ToolMeta, what: str) -> tuple[Refusal, bool]:
    fix = {"action": "report", "provider_id": meta.provider_id}
    return Refusal("invalid_output", f"`{meta.name}` {what}", fix), False
