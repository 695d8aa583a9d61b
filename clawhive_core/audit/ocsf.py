"""Events as OCSF events of the class API Activity (6003), for security data lakes.

Source: the Open Cybersecurity Schema Framework 1.3.0, class `api_activity` with the profile
`security_control`. What it has no field for stands under `unmapped`, by our own names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from clawhive_core.audit.spans import nanoseconds
from clawhive_core.model.events import Event, StoredEvent
from clawhive_core.model.version import VERSION

SCHEMA = "1.3.0"
_CLASS, _CATEGORY = 6003, 6
_UNKNOWN, _CREATE, _READ, _UPDATE, _DELETE, _OTHER = 0, 1, 2, 3, 4, 99
_ACTIVITIES = {
    _UNKNOWN: "Unknown",
    _CREATE: "Create",
    _READ: "Read",
    _UPDATE: "Update",
    _DELETE: "Delete",
    _OTHER: "Other",
}
_BY_KIND = {
    "grant.issued": _CREATE,
    "grant.revoked": _DELETE,
    "bodies.pruned": _DELETE,
    "tables.rebuilt": _UPDATE,
    "approval.resolved": _UPDATE,
}
_BY_VERB = {"fs.delete": _DELETE, "fs.write": _UPDATE, "fs.read": _READ}
_SUCCESS, _FAILURE = {"status_id": 1, "status": "Success"}, {"status_id": 2, "status": "Failure"}
_FAILED = frozenset({"failed", "refused", "denied", "cancelled", "abandoned", "expired", "drifted"})
_DONE = frozenset({"succeeded", "approved", "consumed"})
_ALLOWED = {"action_id": 1, "action": "Allowed", "disposition_id": 1, "disposition": "Allowed"}
_DENIED = {"action_id": 2, "action": "Denied", "disposition_id": 2, "disposition": "Blocked"}
_POLICY = (
    *("capability_level", "risk", "requested_capabilities", "granted_capabilities", "decision"),
    *("rules", "approval_required", "approval_result", "approval_id", "parent_invocation_id"),
)


def api_activity(
    stored: StoredEvent, intent: StoredEvent | None = None, parent_run_id: str | None = None
) -> dict[str, Any]:
    """Return an event as one of OCSF.

    Args:
        stored: The event.
        intent: The start of the call that `stored` ends: its facts of policy count for both.
        parent_run_id: The run that started its run.
    """
    event = stored.event
    body = {**({} if intent is None else _facts(intent.event)), **_facts(event)}
    activity = _activity(event, body)
    problem: Mapping[str, Any] = event.body.get("refusal") or event.body.get("error") or {}
    return {
        "class_uid": _CLASS,
        "class_name": "API Activity",
        "category_uid": _CATEGORY,
        "category_name": "Application Activity",
        "activity_id": activity,
        "activity_name": _ACTIVITIES[activity],
        "type_uid": _CLASS * 100 + activity,
        "type_name": f"API Activity: {_ACTIVITIES[activity]}",
        **_severity(event),
        "time": _milliseconds(stored),
        **({} if intent is None else {"start_time": _milliseconds(intent)}),
        **_status(event, problem),
        **_control(event, body),
        "message": " ".join(filter(None, (event.kind, event.tool, event.status))),
        "metadata": _metadata(stored),
        "actor": {"user": {"name": str(event.principal or "clawhive"), "uid": event.principal}},
        "api": _api(event, problem),
        "src_endpoint": {"name": "clawhive", "type": "Other", "type_id": _OTHER},
        "unmapped": {"clawhive": {"kind": event.kind, **_ids(event, parent_run_id), **body}},
    }


def _facts(event: Event) -> dict[str, Any]:
    return {name: event.body[name] for name in _POLICY if event.body.get(name) is not None}


def _ids(event: Event, parent_run_id: str | None) -> dict[str, Any]:
    names = ("trace_id", "run_id", "task_id", "step_id", "invocation_id", "conversation_id")
    found = {name: getattr(event, name) for name in names}
    found["parent_run_id"] = parent_run_id
    return {name: value for name, value in found.items() if value is not None}


def _activity(event: Event, body: Mapping[str, Any]) -> int:
    """Return what a call does, as its capabilities say; the strongest counts."""
    verbs = {str(each).partition(":")[0] for each in body.get("requested_capabilities", ())}
    for verb, activity in _BY_VERB.items():
        if verb in verbs and verbs <= {*_BY_VERB}:
            return activity
    return _BY_KIND.get(event.kind, _OTHER)


def _severity(event: Event) -> dict[str, Any]:
    if event.status in {"refused", "denied"}:
        return {"severity_id": 3, "severity": "Medium"}
    if event.status in _FAILED or event.kind in {"tables.rebuilt", "bodies.pruned"}:
        return {"severity_id": 2, "severity": "Low"}
    return {"severity_id": 1, "severity": "Informational"}


def _status(event: Event, problem: Mapping[str, Any]) -> dict[str, Any]:
    known = _FAILURE if event.status in _FAILED else _SUCCESS if event.status in _DONE else None
    found: dict[str, Any] = dict(known or {"status_id": _OTHER, "status": event.status or "Other"})
    code = problem.get("error") or problem.get("code")
    if code is not None:
        found |= {"status_code": str(code), "status_detail": str(problem.get("message"))}
    return found


def _control(event: Event, body: Mapping[str, Any]) -> dict[str, Any]:
    """Return what policy did about a call; nothing for what was not decided."""
    if event.status in {"refused", "denied"} or body.get("decision") == "deny":
        return _DENIED
    started = event.kind in {"invocation.start", "invocation.end"}
    return _ALLOWED if started or event.status == "approved" else {}


def _api(event: Event, problem: Mapping[str, Any]) -> dict[str, Any]:
    uid = event.invocation_id or event.step_id or event.run_id or event.kind
    api: dict[str, Any] = {
        "operation": event.tool or event.kind,
        "request": {"uid": uid},
        "service": {"name": event.provider_id or "clawhive"},
    }
    if problem:
        code = str(problem.get("error") or problem.get("code"))
        api["response"] = {"error": code, "error_message": str(problem.get("message"))}
    return api


def _metadata(stored: StoredEvent) -> dict[str, Any]:
    """Return where the event comes from: its number and hash lead back to the evidence."""
    profiles: Sequence[str] = ("security_control",)
    return {
        "version": SCHEMA,
        "product": {"name": "ClawHive", "vendor_name": "ClawHive", "version": VERSION},
        "profiles": list(profiles),
        "uid": stored.hash,
        "sequence": stored.seq,
        "event_code": stored.event.kind,
        "correlation_uid": stored.event.trace_id or "",
        "original_time": stored.ts,
        "log_name": "events",
    }


def _milliseconds(stored: StoredEvent) -> int:
    return nanoseconds(stored.ts) // 1_000_000
