"""A run as people and scripts read it, folded from its events."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from clawhive_core.errors import ClawHiveError, UnknownId
from clawhive_core.events.log import EventLog
from clawhive_core.model.canonical import canonical_text, preview
from clawhive_core.model.events import Event, StoredEvent
from clawhive_core.model.runs import ENDED
from clawhive_core.runs.record.lineage import tree_below

_LIST = (
    "SELECT run_id, trace_id, task_id, parent_run_id, task_type, title, status, started_at,"
    " ended_at FROM runs ORDER BY started_seq DESC LIMIT ?"
)

_RUN = (
    "SELECT *, EXISTS (SELECT 1 FROM runs AS below WHERE below.parent_run_id = runs.run_id)"
    " AS has_children FROM runs WHERE run_id = ?"
)

_SHOWN = (
    "approval.requested",
    "invocation.start",
    "invocation.refused",
    "invocation.end",
    "step.end",
    "run.end",
    "run.status",
)
"""The kinds of events of which a run's steps are made; what models said is most of the rest."""


def list_runs(log: EventLog, limit: int = 50) -> list[dict[str, Any]]:
    """Return the newest runs, newest first."""
    return [dict(row) for row in log.read(_LIST, (limit,))]


def find_run(log: EventLog, text: str) -> str:
    """Return the id of a run from its id, a unique prefix, or `last`, which is no sub-agent's.

    Raises:
        UnknownId: It names no run, or several.
    """
    if text == "last":
        rows = log.read(
            "SELECT run_id FROM runs WHERE parent_run_id IS NULL ORDER BY started_seq DESC LIMIT 1"
        )
        if not rows:
            raise UnknownId("no run is recorded here", place="last", fix="clawhive run --help")
        return str(rows[0][0])
    wanted = text if text.startswith("run_") else f"run_{text}"
    rows = log.read(
        "SELECT run_id FROM runs WHERE substr(run_id, 1, ?) = ? ORDER BY started_seq DESC LIMIT 3",
        (len(wanted), wanted),
    )
    if len(rows) == 1:
        return str(rows[0][0])
    what = "names no run" if not rows else "names several runs; write more of it"
    raise UnknownId(f"`{text}` {what}", place=text, fix="clawhive runs list")


def run_json(log: EventLog, run_id: str) -> dict[str, Any]:
    """Return a run as the JSON object of `run/1`."""
    row = log.read(_RUN, (run_id,))[0]
    fold = _Fold(log)
    for stored in log.events(run_id=run_id, kinds=_SHOWN):
        fold.take(stored)
    end = fold.end
    status = row["status"]
    output, is_pruned = _output(log, end)
    return {
        "schema": "run/1",
        "run_id": run_id,
        "trace_id": row["trace_id"],
        "task_id": row["task_id"],
        "parent_run_id": row["parent_run_id"],
        "conversation_id": row["conversation_id"],
        "task_type": row["task_type"],
        "title": row["title"],
        "status": status,
        "started_at": row["started_at"],
        "ended_at": row["ended_at"],
        "output": output,
        **({"output_pruned": True} if is_pruned else {}),
        "children": tree_below(log, run_id) if row["has_children"] else [],
        "artifacts_dir": row["artifacts"],
        "artifacts": [] if end is None else end["artifacts"],
        "steps": fold.finished_steps(status),
        "usage": _NO_USAGE if end is None else end["usage"],
        "error": None if end is None else end["error"],
        **({"warnings": fold.warnings} if fold.warnings else {}),
    }


def _output(log: EventLog, end: Mapping[str, Any] | None) -> tuple[Any, bool]:
    """Return a run's output, and whether `audit prune` removed it."""
    try:
        return None if end is None else log.load(end["output"]), False
    except ClawHiveError as error:
        if error.code != "pruned":
            raise
        return None, True


_NO_USAGE = {
    "input_tokens": None,
    "output_tokens": None,
    "cache_read_tokens": None,
    "cache_write_tokens": None,
    "cost": None,
}


class _Fold:
    """Collects a run's steps and invocations in the order of their first event."""

    def __init__(self, log: EventLog) -> None:
        self._log = log
        self.steps: dict[str, dict[str, Any]] = {}
        self.invocations: dict[str, dict[str, Any]] = {}
        self.end: Mapping[str, Any] | None = None
        self.warnings: Sequence[Mapping[str, Any]] = ()
        """Of the run's last stop."""

    def take(self, stored: StoredEvent) -> None:
        """Take one event."""
        event = stored.event
        if event.kind in {"approval.requested", "invocation.start", "invocation.refused"}:
            self._invocation(stored)
        elif event.kind == "invocation.end":
            self._invocation_end(stored)
        elif event.kind == "step.end":
            self._step_end(stored)
        elif event.kind == "run.end":
            self.end, self.warnings = event.body, event.body.get("warnings", ())
        elif event.kind == "run.status":
            self.warnings = event.body.get("warnings", ())
            if event.status == "interrupted":
                self._broken_off()

    def _invocation(self, stored: StoredEvent) -> None:
        event, body = stored.event, stored.event.body
        refusal = body.get("refusal")
        error = None
        if refusal is not None:
            error = {
                "code": refusal["error"],
                "message": refusal["message"],
                "next": refusal["next"],
            }
        invocation = {
            "invocation_id": event.invocation_id,
            "tool": event.tool,
            "provider_id": event.provider_id,
            "principal": event.principal,
            "capability_level": body["capability_level"],
            "risk": body["risk"],
            "requested_capabilities": body["requested_capabilities"],
            "granted_capabilities": body["granted_capabilities"],
            "decision": body["decision"],
            "approval_required": body["approval_required"],
            "approval_result": body["approval_result"],
            "start_at": stored.ts,
            "end_at": None if refusal is None else stored.ts,
            "status": "running" if event.status == "intended" else event.status,
            "error": error,
            "input_preview": body["input_preview"],
            "asked_input_preview": self._asked(body),
            "output_preview": "",
        }
        before = self.invocations.get(str(event.invocation_id))
        self.invocations[str(event.invocation_id)] = invocation
        step = self.steps.setdefault(str(event.step_id), _called_step(event))
        if before is not None:
            step["invocations"].remove(before)  # it was asked for first
        step["invocations"].append(invocation)
        status = {"parked": "waiting_approval", "refused": "failed"}
        state = status.get(str(event.status), "running")
        step.update(status=state, error=error, output_preview="")  # not what an attempt before said

    def _asked(self, body: Mapping[str, Any]) -> str | None:
        """Return the input before a person edited it, None where nobody did."""
        if "asked_input" not in body:
            return None
        return preview(canonical_text(self._log.load(body["asked_input"])))

    def _invocation_end(self, stored: StoredEvent) -> None:
        event, body = stored.event, stored.event.body
        facts = {
            "status": event.status,
            "error": _code_and_message(body["error"]),
            "output_preview": body["output_preview"],
        }
        self.invocations[str(event.invocation_id)].update(facts, end_at=stored.ts)
        known = {
            "succeeded": "succeeded",
            "unknown": "unknown",
            "parked": "waiting_approval",
        }
        step_status = known.get(str(event.status), "failed")
        self.steps[str(event.step_id)].update(facts, status=step_status)

    def _step_end(self, stored: StoredEvent) -> None:
        event, body = stored.event, stored.event.body
        self.steps[str(event.step_id)] = {
            "step_id": event.step_id,
            "name": body["name"],
            "label": body["label"],
            "action": body["action"],
            "status": event.status,
            "error": body["error"],
            "trace_id": event.trace_id,
            "provider_id": None,
            "capability_level": None,
            "input_preview": "",
            "output_preview": body["output_preview"],
            "invocations": [],
        }

    def finished_steps(self, run_status: str) -> list[dict[str, Any]]:
        """Return the steps; an intent without an end in a run that is over is unknown.

        A call that still waited when the run ended was not done; a tool that was parked for one of
        its own calls stays parked in that attempt.
        """
        if run_status not in {"pending", "running", "waiting_approval"}:
            self._broken_off()
        if run_status in ENDED:
            for step in self.steps.values():
                if step["status"] == "waiting_approval":
                    step["status"] = "cancelled"
            for invocation in self.invocations.values():
                if invocation["status"] == "parked" and invocation["end_at"] is None:
                    invocation["status"] = "refused"
        return list(self.steps.values())

    def _broken_off(self) -> None:
        for item in (*self.steps.values(), *self.invocations.values()):
            if item["status"] == "running":
                item["status"] = "unknown"


def _called_step(event: Event) -> dict[str, Any]:
    body = event.body
    return {
        "step_id": event.step_id,
        "name": body["step"]["name"],
        "label": body["step"]["label"],
        "action": "tool_call",
        "status": "running",
        "error": None,
        "trace_id": event.trace_id,
        "provider_id": event.provider_id,
        "capability_level": body["capability_level"],
        "input_preview": body["input_preview"],
        "output_preview": "",
        "invocations": [],
    }


def _code_and_message(error: Mapping[str, Any] | None) -> dict[str, Any] | None:
    return None if error is None else {"code": error["code"], "message": error["message"]}
