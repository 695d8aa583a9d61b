"""The refusal: what a caller gets instead of a result, with what to do next."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any, Literal

from clawhive_core.model.late import dataclass

Reason = Literal["not_enabled", "arguments", "precondition", "approval", "rights", "quota"]
"""The class of a refusal, as the model may see it; rules and grants stay in the log."""

CODES: Mapping[str, Reason | None] = {
    "unknown_task_type": None,
    "tool_not_found": None,
    "tool_not_enabled": "not_enabled",
    "tool_not_imported": "rights",
    "tool_changed": None,
    "tool_suspended": "approval",
    "skill_disabled": None,
    "skill_not_loaded": None,
    "precondition_failed": "precondition",
    "subscription_required": "rights",
    "rate_limited": "quota",
    "denied": "rights",
    "right_revoked": "rights",
    "approval_required": "approval",
    "approval_denied": "approval",
    "invalid_input": "arguments",
    "invalid_output": None,
    "timeout": None,
    "cancelled": None,
    "sandbox_unavailable": None,
    "provider_error": None,
    "budget_exceeded": "quota",
    "repeated_call": None,
    "call_depth_exceeded": None,
    "unknown_outcome": None,
    "untrusted_project": "rights",
    "untrusted_skill": "rights",
    "run_busy": None,
    "not_replayable": None,
    "sink_failed": None,
}
"""Every refusal code of the executor and the class of its reason."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A call that was not done: `{error, message, reason, next, ...}`."""

    error: str
    message: str
    next: Mapping[str, Any]
    """The next step: `{"action": ..., ...}`."""
    extra: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Further top-level keys, such as `retry_after`."""

    @property
    def reason(self) -> Reason | None:
        """The class of the reason, None where no class fits."""
        return CODES.get(self.error)

    def to_dict(self) -> dict[str, Any]:
        """Return the refusal as the JSON object that callers get."""
        return {
            "error": self.error,
            "message": self.message,
            "reason": self.reason,
            "next": dict(self.next),
            **self.extra,
        }
