"""The outcomes of a call: results in one shape, checked and cut; failures; refusals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, cast

from clawhive_core.catalog.validation import Validators, describe
from clawhive_core.catalog.well_known import CONTRACTS
from clawhive_core.errors import ClawHiveError, InvalidInput, NeedHumanApproval, ToolError
from clawhive_core.execution.scope import CORE, CallScope
from clawhive_core.model.canonical import canonical_text, preview
from clawhive_core.model.json_values import MAX_STRUCTURED, json_copy
from clawhive_core.model.refusal import Refusal
from clawhive_core.model.texts import well_formed
from clawhive_core.model.tools import Artifact, ToolCall, ToolMeta, ToolResult

MAX_TEXT = 1024 * 1024
"""Characters of text that a result may hold; more is cut, and the cut is marked."""

_MAX_MESSAGE = 10_000
_MAX_CODE = 100
_MAX_DATA = 64 * 1024
_LISTS = (list, tuple)


Outcome = ToolResult | Refusal
"""The end of a call: a result (perhaps an error result), or a refusal with its next step."""


class Invoker(Protocol):
    """Runs a tool call, or answers it from a record."""

    async def invoke(self, call: ToolCall, scope: CallScope) -> Outcome:
        """Answer one call; raises only where it is cancelled or parked."""
        ...


class Refused(Exception):
    """A stage refuses the call."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.error)
        self.refusal = refusal


class RefusedMidway(ToolError):
    """A right that a tool asked for midway was refused; uncaught, so is the tool's call."""

    def __init__(self, refusal: Refusal) -> None:
        fix = refusal.next.get("command") or refusal.next.get("hint")
        super().__init__(refusal.message, code=refusal.error, fix=fix)
        self.refusal = refusal


def checked_result(
    result: Any,
    meta: ToolMeta,
    call_id: str,
    validators: Validators,
    nested: Sequence[Artifact] = (),
) -> tuple[ToolResult | Refusal, bool]:
    """Return a provider's answer as a ToolResult, or why it is none; and whether it is portable.

    A structured value is copied, so that nobody else can change it.

    Args:
        result: What the provider answered.
        meta: The tool.
        call_id: The call that is answered.
        validators: What its output schema is checked with.
        nested: The artifacts of nested calls, which belong to the result.
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
    more = len(result.output) - MAX_TEXT
    text = well_formed(result.output[:MAX_TEXT])  # cut first: a copy of all of it may be too much
    notice = ""
    if not result.is_error:
        value = text if structured is None else structured
        structured, notice, problem = _held(value, structured, meta, validators)
        if problem:
            return _invalid(meta, problem)
    if more > 0:
        text = f"{text}\n[cut: {more} more characters]"
    text += notice
    artifacts = tuple(result.artifacts)
    if nested:
        artifacts += tuple(nested)
    enables = result.enables if meta.provider_id == CORE and not result.is_error else None
    finished = ToolResult(call_id, text, result.is_error, structured, artifacts, enables=enables)
    return finished, portable


def _held(
    value: Any, structured: Any, meta: ToolMeta, validators: Validators
) -> tuple[Any, str, str]:
    """Hold an answer to its own schema, and to the contract of a well-known name.

    Returns:
        The structured answer, of a well-known name in today's shape; a notice where an older one
        was turned over; and what is wrong.
    """
    if meta.output_schema is not None:
        key = f"{meta.contract_hash}:output"
        problems = validators.problems(key, meta.output_schema, value)
        if problems:
            return structured, "", f"answered what its output schema refuses: {describe(problems)}"
    contract = CONTRACTS.get(meta.name)
    if contract is None:
        return structured, "", ""
    turned = contract.turn_over(structured, meta.provider_id)
    problems = validators.problems(f"{meta.name}:contract", contract.schema, turned)
    problem = f"answered what no `{meta.name}` may: {describe(problems)}" if problems else ""
    return turned, "" if turned is structured else f"\n{contract.notice}", problem


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


def failure_of(error: ClawHiveError) -> Refusal:
    """Return the error of a tool that failed on purpose, with its own code."""
    if isinstance(error, RefusedMidway):
        return error.refusal
    next_step = {"action": "read_error"}
    if error.fix is not None:
        next_step = {"action": "fix", "hint": _cut(error.fix, _MAX_MESSAGE)}
    code = _cut(error.code, _MAX_CODE) or "tool_failed"
    return Refusal(code, _cut(error.message, _MAX_MESSAGE), next_step, _data(error.data))


def crash_of(meta: ToolMeta, error: BaseException) -> Refusal:
    """Return the error of a tool that raised anything else."""
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 - the exception is a tool's too, and so is its text
        text = "an error without a text"
    message = f"`{meta.name}` raised {type(error).__name__}: {text}"
    next_step = {"action": "report", "provider_id": meta.provider_id}
    return Refusal("tool_failed", _cut(message, _MAX_MESSAGE), next_step)


def interrupted(meta: ToolMeta, seconds: float, *, cut: bool) -> Refusal:
    """Return the error of a tool whose time was up, or that was cut as its rights were revoked."""
    if cut:
        return Refusal(
            "right_revoked",
            f"`{meta.name}` was stopped: a right that it was begun with was revoked",
            {"action": "ask_user"},
        )
    return Refusal(
        "timeout",
        f"`{meta.name}` did not end within {seconds:g} s",
        {"action": "retry_smaller", "hint": "ask for less at once"},
    )


def cancelled(meta: ToolMeta) -> Refusal:
    """Return the error of a call whose caller was cancelled."""
    return Refusal("cancelled", f"`{meta.name}` was cancelled", {"action": "none"})


def _data(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return a tool's further facts, as far as they are JSON and no key of a refusal."""
    try:
        copy, _ = json_copy(data, _MAX_DATA)
    except InvalidInput:
        return {}
    reserved = {"error", "message", "reason", "next"}
    return {key: value for key, value in copy.items() if key not in reserved}


def _cut(value: Any, limit: int) -> str:
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= limit else text[: limit - 1] + "…"
