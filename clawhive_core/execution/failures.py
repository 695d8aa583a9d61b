"""Errors for callers, made of a tool's exceptions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from clawhive_core.errors import ClawHiveError, InvalidInput
from clawhive_core.execution.refusals import RefusedMidway
from clawhive_core.model.json_values import json_copy
from clawhive_core.model.refusal import Refusal
from clawhive_core.model.tools import ToolMeta

_MAX_MESSAGE = 10_000
_MAX_CODE = 100
_MAX_DATA = 64 * 1024


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


def stopped(meta: ToolMeta, seconds: float, *, cut: bool) -> Refusal:
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
