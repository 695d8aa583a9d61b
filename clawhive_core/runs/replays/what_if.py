"""The decisions of today's policy on the calls of a recorded run; nothing is executed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from clawhive_core.catalog.catalog import Catalog
from clawhive_core.errors import ClawHiveError
from clawhive_core.execution.dry_run import Weigher, consider
from clawhive_core.execution.recorded import CALL_KINDS, RecordedCall, asked_call
from clawhive_core.execution.scope import CallScope
from clawhive_core.model.events import StoredEvent
from clawhive_core.model.principal import Principal
from clawhive_core.runs.grounds import remember_call
from clawhive_core.runs.replays.replay import Difference, Record, ReplayReport
from clawhive_core.runs.run import RunRequest

NOT_ENABLED = "tool_not_enabled"
"""The refusal of what a model was not offered, which policy had no part in."""


async def what_if(
    record: Record, request: RunRequest, catalog: Catalog, weigher: Weigher
) -> ReplayReport:
    """Take every recorded call through today's stages up to the decision.

    Args:
        record: The recorded run.
        request: The same task as it would be started now, with today's rights.
        catalog: Today's tools.
        weigher: The executor.
    """
    found: list[Difference] = []
    calls = recorded_calls(record)
    for call in calls:
        before = _decided(call.first)
        now, why = await _decision(record, call, request, weigher)
        if before not in {now, NOT_ENABLED}:
            event = call.first.event
            tool = str(event.tool or event.body["tool_call"]["name"])
            said = f"{now} ({why})" if why else now
            place = (call.first.seq, "decision", event.step_id)
            found.append(Difference(*place, f"{tool} {before}", said))
        remember_call(request.scope.grounds, call, record, catalog)
    first = found[0] if found else None
    return ReplayReport(
        record.run_id, "policy", len(calls), first, record.finished, differences=tuple(found)
    )


def recorded_calls(record: Record) -> list[RecordedCall]:
    """Return every call of a run in order, those that tools made too."""
    calls: dict[str | None, RecordedCall] = {}
    for stored in record.log.events(run_id=record.run_id):
        if stored.event.kind in CALL_KINDS:
            calls.setdefault(stored.event.step_id, RecordedCall(stored)).take(stored)
    return list(calls.values())


def _decided(stored: StoredEvent) -> str:
    """Return the recorded verdict; for what was never decided the code of its refusal."""
    body: Mapping[str, Any] = stored.event.body
    refusal = body.get("refusal")
    if refusal is not None and refusal["error"] not in {"denied", "approval_required"}:
        return str(refusal["error"])
    return str(body["decision"] or "deny")


async def _decision(
    record: Record, call: RecordedCall, request: RunRequest, weigher: Weigher
) -> tuple[str, str]:
    event = call.first.event
    step_id = f"{request.scope.run_id}{str(event.step_id)[len(record.run_id) :]}"
    scope = CallScope(request.scope, Principal.parse(str(event.principal)), step_id)
    try:
        weighed = await consider(asked_call(record.log, call.first), scope, weigher)
    except ClawHiveError as error:
        return _code(error), error.message
    return weighed["verdict"], "" if weighed["verdict"] == "allow" else weighed["message"]


def _code(error: ClawHiveError) -> str:
    return "tool_not_found" if error.code == "unknown_id" else error.code
