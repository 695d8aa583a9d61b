import json

import pytest

from clawhive_core.events import kinds
from clawhive_core.events.kinds import KINDS
from clawhive_core.model.events import Event


def started(name="inv_1", run_id="run_1", step="step_1", parent=None, **extra):
    body = {
        "step": {"name": "tool.file.read", "label": "read", "ordinal": 2},
        "tool_call": {"id": "call_1", "name": "file.read", "input": {}, "catalog_revision": "r"},
        "input_preview": "in",
        "capability_level": "L0",
        "risk": "safe",
        "contract_hash": "c",
        "requested_capabilities": ["fs.read:/a"],
        "granted_capabilities": [{"capability": "fs.read:/**", "grant_id": "g"}],
        "decision": "allow",
        "rules": [],
        "approval_required": False,
        "approval_result": None,
        "idempotency_key": "k",
        "parent_invocation_id": parent,
    }
    kind, status = extra.pop("kind", kinds.INVOCATION_START), extra.pop("status", "intended")
    return Event(
        kind,
        {**body, **extra},
        trace_id="trace_1",
        run_id=run_id,
        step_id=step,
        invocation_id=name,
        principal="agent:default",
        tool="file.read",
        provider_id="builtin",
        status=status,
    )


def ended(name="inv_1", status="succeeded", error=None, run_id="run_1"):
    body = {"output": None, "output_preview": "out", "error": error, "is_error": error is not None}
    return Event(kinds.INVOCATION_END, body, run_id=run_id, invocation_id=name, status=status)


def one(log, view, **where):
    rows = [dict(row) for row in log.read(f"SELECT * FROM {view}")]
    (found,) = [row for row in rows if where.items() <= row.items()]
    return found


def test_an_invocation_is_one_row_from_its_start_and_end(log):
    log.append_now(started(), ended())
    times = [stored.ts for stored in log.events()]
    row = one(log, "v_invocations")
    assert {key: row[key] for key in list(row)[:20]} == {
        "invocation_id": "inv_1",
        "run_id": "run_1",
        "step_id": "step_1",
        "trace_id": "trace_1",
        "tool": "file.read",
        "provider_id": "builtin",
        "principal": "agent:default",
        "capability_level": "L0",
        "risk": "safe",
        "requested_capabilities": '["fs.read:/a"]',
        "granted_capabilities": '[{"capability":"fs.read:/**","grant_id":"g"}]',
        "decision": "allow",
        "approval_required": 0,
        "approval_result": None,
        "start_at": times[0],
        "end_at": times[1],
        "status": "succeeded",
        "error": None,
        "input_preview": "in",
        "output_preview": "out",
    }


def test_a_failed_invocation_shows_its_error(log):
    error = {"code": "timeout", "message": "too slow"}
    log.append_now(started(), ended(status="failed", error=error))
    row = one(log, "v_invocations")
    assert (row["status"], json.loads(row["error"])) == ("failed", error)


def test_a_refused_invocation_shows_the_refusal(log):
    refusal = {"error": "denied", "message": "not allowed", "reason": "rights", "next": {}}
    log.append_now(started(kind=kinds.INVOCATION_REFUSED, status="refused", refusal=refusal))
    row = one(log, "v_invocations")
    assert row["status"] == "refused"
    assert json.loads(row["error"]) == {"code": "denied", "message": "not allowed"}
    assert row["start_at"] == row["end_at"] is not None
    step = one(log, "v_steps")
    assert step["status"] == "failed"


def test_an_invocation_without_an_end_is_running_while_its_run_lives(log):
    log.append_now(started(), Event(kinds.RUN_STATUS, {}, run_id="run_1", status="running"))
    log.append_now(Event(kinds.RUN_END, {}, run_id="run_2", status="succeeded"))
    row = one(log, "v_invocations")
    assert (row["status"], row["end_at"]) == ("running", None)


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        (kinds.RUN_STATUS, "interrupted"),
        (kinds.RUN_END, "succeeded"),
        (kinds.RUN_END, "failed"),
        (kinds.RUN_END, "cancelled"),
    ],
)
def test_an_invocation_without_an_end_is_unknown_after_its_run(log, kind, status):
    log.append_now(started(), Event(kind, {}, run_id="run_1", status=status))
    assert one(log, "v_invocations")["status"] == "unknown"
    assert one(log, "v_steps")["status"] == "unknown"


def test_a_resumed_run_does_not_bring_an_unknown_invocation_back_to_life(log):
    log.append_now(started("inv_1", step="step_1"))
    for status in ("interrupted", "running"):
        log.append_now(Event(kinds.RUN_STATUS, {}, run_id="run_1", status=status))
    log.append_now(started("inv_2", step="step_2"))
    assert one(log, "v_invocations", invocation_id="inv_1")["status"] == "unknown"
    assert one(log, "v_invocations", invocation_id="inv_2")["status"] == "running"


def test_a_step_shows_its_latest_invocation(log):
    log.append_now(started("inv_1"), ended("inv_1", "failed", {"code": "x", "message": "y"}))
    log.append_now(started("inv_2"), ended("inv_2"))
    assert one(log, "v_steps") == {
        "step_id": "step_1",
        "run_id": "run_1",
        "name": "tool.file.read",
        "label": "read",
        "ordinal": 2,
        "action": "tool_call",
        "status": "succeeded",
        "error": None,
        "trace_id": "trace_1",
        "provider_id": "builtin",
        "capability_level": "L0",
        "input_preview": "in",
        "output_preview": "out",
    }


def test_a_nested_invocation_does_not_hide_its_parent(log):
    log.append_now(started("outer"), started("inner", parent="outer"))
    log.append_now(ended("inner"), ended("outer", "failed", {"code": "x", "message": "y"}))
    assert one(log, "v_steps")["status"] == "failed"


def test_a_step_without_a_tool_is_shown_from_its_end(log):
    body = {
        "name": "respond",
        "label": "answer",
        "ordinal": 3,
        "action": "respond",
        "output_preview": "Hello",
        "error": None,
    }
    log.append_now(
        Event(kinds.STEP_END, body, run_id="run_1", step_id="step_9", status="succeeded")
    )
    row = one(log, "v_steps")
    assert (row["action"], row["status"], row["output_preview"]) == (
        "respond",
        "succeeded",
        "Hello",
    )


def test_steps_of_equal_ids_in_different_runs_are_different_steps(log):
    log.append_now(started("inv_1", "run_1"), started("inv_2", "run_2"))
    assert len(log.read("SELECT * FROM v_steps")) == 2


def test_every_kind_says_its_version_and_its_fields():
    constants = {
        value
        for name, value in vars(kinds).items()
        if name.isupper() and "." in value
        if isinstance(value, str)
    }
    assert constants == set(KINDS)
    assert all(kind.name == name and kind.version >= 1 for name, kind in KINDS.items())
    assert all(kind.fields and kind.meaning for kind in KINDS.values())
