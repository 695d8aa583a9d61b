"""A run as people and scripts read it, folded from its events."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from clawhive_core.errors import ClawHiveError, UnknownId
from clawhive_core.events.rows import body_of
from clawhive_core.model.canonical import canonical_text, preview
from clawhive_core.model.runs import ENDED
from clawhive_core.protocols.ledger import Ledger, RunsWhere, Window
from clawhive_core.runs.record.lineage import descendants_json

_LISTED = (
    "run_id",
    "trace_id",
    "task_id",
    "parent_run_id",
    "task_type",
    "title",
    "status",
    "started_at",
    "ended_at",
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


class _Fact(NamedTuple):
    """The columns of one event that are shown, read in half of the time that all would take."""

    seq: int
    ts: str
    kind: str
    trace_id: str
    step_id: str
    invocation_id: str
    principal: str
    tool: str
    provider_id: str
    status: str
    body: str


def list_runs(log: Ledger, limit: int = 50) -> list[dict[str, Any]]:
    """Return the newest runs, newest first."""
    page = log.find(RunsWhere(), Window(limit))
    return [{name: getattr(run, name) for name in _LISTED} for run in page]


def find_run(log: Ledger, text: str) -> str:
    """Return the id of a run from its id, a unique prefix, or `last`, which is no sub-agent's.

    Raises:
        UnknownId: It names no run, or several.
    """
    if text == "last":
        for newest in log.find(RunsWhere(top_level=True), Window(1)):
            return newest.run_id
        raise UnknownId("no run is recorded here", place="last", fix="clawhive run --help")
    wanted = text if text.startswith("run_") else f"run_{text}"
    found = log.find(RunsWhere(prefix=wanted), Window(2)).items
    if len(found) == 1:
        return found[0].run_id
    what = "names no run" if not found else "names several runs; write more of it"
    raise UnknownId(f"`{text}` {what}", place=text, fix="clawhive runs list")


def run_json(log: Ledger, run_id: str) -> dict[str, Any]:
    """Return a run as the JSON object of `run/1`."""
    (run,) = log.find(RunsWhere(run_id=run_id))
    fold = _Fold(log)
    for facts in log.rows(_Fact._fields, run_id, kinds=_SHOWN):
        fold.take(_Fact._make(facts))
    end = fold.end
    status = run.status
    output, is_pruned = _output(log, end)
    return {
        "schema": "run/1",
        "run_id": run_id,
        "trace_id": run.trace_id,
        "task_id": run.task_id,
        "parent_run_id": run.parent_run_id,
        "conversation_id": run.conversation_id,
        "task_type": run.task_type,
        "title": run.title,
        "status": status,
        "started_at": run.started_at,
        "ended_at": run.ended_at,
        "output": output,
        **({"output_pruned": True} if is_pruned else {}),
        "children": descendants_json(log, run_id),
        "artifacts_dir": run.artifacts,
        "artifacts": [] if end is None else end["artifacts"],
        "steps": fold.finished_steps(status),
        "usage": _NO_USAGE if end is None else end["usage"],
        "error": None if end is None else end["error"],
        **({"warnings": fold.warnings} if fold.warnings else {}),
    }


def _output(log: Ledger, end: Mapping[str, Any] | None) -> tuple[Any, bool]:
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


_BEGUN = {"parked": "waiting_approval", "refused": "failed"}
_ENDED = {"succeeded": "succeeded", "unknown": "unknown", "parked": "waiting_approval"}
"""From the status of an invocation's event to that of its step."""


class _Fold:
    """Collects a run's steps and invocations in the order of their first event."""

    def __init__(self, log: Ledger) -> None:
        self._log = log
        self.steps: dict[str, dict[str, Any]] = {}
        self.invocations: dict[str, dict[str, Any]] = {}
        self.end: Mapping[str, Any] | None = None
        self.warnings: Sequence[Mapping[str, Any]] = ()
        """Of the run's last stop."""

    def take(self, fact: _Fact) -> None:
        """Take one event."""
        kind, body = fact.kind, body_of(fact.body)
        if kind == "invocation.end":
            self._invocation_end(fact, body)
        elif kind == "step.end":
            self._step_end(fact, body)
        elif kind == "run.end":
            self.end, self.warnings = body, body.get("warnings", ())
        elif kind == "run.status":
            self.warnings = body.get("warnings", ())
            if fact.status == "interrupted":
                self._broken_off()
        else:
            self._invocation(fact, body)

    def _invocation(self, fact: _Fact, body: Mapping[str, Any]) -> None:
        refusal, error = body.get("refusal"), None
        if refusal is not None:
            error = {
                "code": refusal["error"],
                "message": refusal["message"],
                "next": refusal["next"],
            }
        invocation = {
            "invocation_id": fact.invocation_id,
            "tool": fact.tool,
            "provider_id": fact.provider_id,
            "principal": fact.principal,
            "capability_level": body["capability_level"],
            "risk": body["risk"],
            "requested_capabilities": body["requested_capabilities"],
            "granted_capabilities": body["granted_capabilities"],
            "decision": body["decision"],
            "approval_required": body["approval_required"],
            "approval_result": body["approval_result"],
            "start_at": fact.ts,
            "end_at": None if refusal is None else fact.ts,
            "status": "running" if fact.status == "intended" else fact.status,
            "error": error,
            "input_preview": body["input_preview"],
            "asked_input_preview": self._asked(body) if "asked_input" in body else None,
            "output_preview": "",
        }
        before = self.invocations.get(fact.invocation_id)
        self.invocations[fact.invocation_id] = invocation
        if (step := self.steps.get(fact.step_id)) is None:
            step = self.steps[fact.step_id] = _called_step(fact, body)
        if before is not None:
            step["invocations"].remove(before)  # it was asked for first
        step["invocations"].append(invocation)
        # What an attempt before it came to is not said of this one.
        step["status"] = _BEGUN.get(fact.status, "running")
        step["error"], step["output_preview"] = error, ""

    def _asked(self, body: Mapping[str, Any]) -> str:
        """Return the input before a person edited it."""
        return preview(canonical_text(self._log.load(body["asked_input"])))

    def _invocation_end(self, fact: _Fact, body: Mapping[str, Any]) -> None:
        error, shown = _code_and_message(body["error"]), body["output_preview"]
        invocation, step = self.invocations[fact.invocation_id], self.steps[fact.step_id]
        invocation["status"], invocation["end_at"] = fact.status, fact.ts
        step["status"] = _ENDED.get(fact.status, "failed")
        for each in (invocation, step):
            each["error"], each["output_preview"] = error, shown

    def _step_end(self, fact: _Fact, body: Mapping[str, Any]) -> None:
        self.steps[fact.step_id] = {
            "step_id": fact.step_id,
            "name": body["name"],
            "label": body["label"],
            "action": body["action"],
            "status": fact.status,
            "error": body["error"],
            "trace_id": fact.trace_id,
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


def _called_step(fact: _Fact, body: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "step_id": fact.step_id,
        "name": body["step"]["name"],
        "label": body["step"]["label"],
        "action": "tool_call",
        "status": "running",
        "error": None,
        "trace_id": fact.trace_id,
        "provider_id": fact.provider_id,
        "capability_level": body["capability_level"],
        "input_preview": body["input_preview"],
        "output_preview": "",
        "invocations": [],
    }


def _code_and_message(error: Mapping[str, Any] | None) -> dict[str, Any] | None:
    return None if error is None else {"code": error["code"], "message": error["message"]}
