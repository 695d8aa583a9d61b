import pytest

from clawhive_core.audit.spans import SpanFold, nanoseconds
from clawhive_core.model.events import Event, StoredEvent

RUN = "run_1"
CALL = {
    "step": {"name": "tool.file.read", "label": "read", "ordinal": 0},
    "tool_call": {"id": "call_1", "name": "file.read", "input": {"$value": {"path": "x"}}},
    "capability_level": "L0",
    "risk": "safe",
    "requested_capabilities": ["fs.read:/x"],
    "granted_capabilities": [{"capability": "fs.read:/**", "grant_id": "g"}],
    "decision": "allow",
    "rules": ["allow:g"],
    "approval_required": False,
    "approval_result": None,
    "parent_invocation_id": None,
}
USAGE = {"input_tokens": 5, "output_tokens": 7, "cost": 0.5}


class Tape:
    """Makes stored events, one a second."""

    def __init__(self, load=None):
        self.fold = SpanFold(load)
        self.seq = 0
        self.spans = []

    def __call__(self, kind, body=None, status=None, **ids):
        self.seq += 1
        ids = {"run_id": RUN, "trace_id": "trace_1", "principal": "agent:default", **ids}
        event = Event(kind, body or {}, status=status, tool="file.read", **ids)
        ts = f"2026-01-01T00:00:{self.seq:02}.000001Z"
        found = self.fold.take(StoredEvent(self.seq, ts, event, "p", f"h{self.seq}"))
        self.spans += found
        return found

    def start(self, **body):
        facts = {"task": {"task_type": None}, "model": "demo:m", "parent_run_id": None, **body}
        return self("run.start", facts, "running")

    def call(self, name="inv_1", step="step_1", kind="invocation.start", status="intended", **body):
        ids = {"invocation_id": name, "step_id": step}
        return self(kind, {**CALL, **body}, status, **ids)

    def ended(self, name="inv_1", status="succeeded", error=None):
        body = {"error": error, "output": {"$value": "result"}}
        return self("invocation.end", body, status, invocation_id=name)

    def end(self, status="succeeded", error=None):
        return self("run.end", {"usage": USAGE, "error": error}, status)

    def names(self):
        return [span.name for span in self.spans]


def test_a_run_its_model_requests_and_its_calls_are_spans_below_each_other():
    tape = Tape()
    tape.start()
    tape("model.start", {"model": "demo:m", "max_tokens": 10}, step_id="r0")
    tape("model.end", {"usage": USAGE, "stop_reason": "tool_use", "error": None}, step_id="r0")
    tape.call()
    tape.ended()
    tape.end()
    chat, call, run = tape.spans
    assert tape.names() == ["chat m", "execute_tool file.read", "invoke_agent default"]
    assert {span.trace_id for span in tape.spans} == {run.trace_id}
    assert (chat.parent_id, call.parent_id, run.parent_id) == (run.span_id, run.span_id, None)
    assert (chat.kind, call.kind, run.kind) == ("client", "internal", "internal")
    assert call.end - call.start == 1_000_000_000
    assert run.start == nanoseconds("2026-01-01T00:00:01.000001Z")
    assert chat.attributes["gen_ai.provider.name"] == "demo"
    assert chat.attributes["gen_ai.usage.output_tokens"] == 7
    assert chat.attributes["gen_ai.response.finish_reasons"] == ("tool_use",)
    assert run.attributes["gen_ai.operation.name"] == "invoke_agent"
    assert [span.error for span in tape.spans] == [None, None, None]
    assert len(run.trace_id), len(run.span_id) == (32, 16)


def test_a_call_tells_what_policy_decided_and_where_the_evidence_is():
    tape = Tape()
    tape.call()
    (span,) = tape.ended()
    expected = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "file.read",
        "gen_ai.tool.call.id": "call_1",
        "clawhive.policy.decision": "allow",
        "clawhive.policy.rules": ("allow:g",),
        "clawhive.policy.requested_capabilities": ("fs.read:/x",),
        "clawhive.policy.granted_capabilities": ("fs.read:/**",),
        "clawhive.approval.required": False,
        "clawhive.status": "succeeded",
        "clawhive.event.seq": 2,
        "clawhive.event.hash": "h2",
    }
    assert expected.items() <= span.attributes.items()


def test_an_approved_call_begins_when_it_is_made_and_tells_who_approved_it():
    tape = Tape()
    tape.start()
    ask = {"approval_id": "appr_1", "decision": "ask", "approval_required": True}
    tape.call(kind="approval.requested", status="parked", **ask)
    tape("approval.resolved", {"approval_id": "appr_1", "by": "user:ana"}, "approved")
    tape("approval.resolved", {"approval_id": "appr_1", "by": "clawhive"}, "consumed")
    tape.call(decision="ask", approval_required=True, approval_result="approved")
    (span,) = tape.ended()
    assert span.start == nanoseconds("2026-01-01T00:00:05.000001Z")
    assert span.attributes["clawhive.approval.id"] == "appr_1"
    assert span.attributes["clawhive.approval.by"] == "user:ana"
    assert span.attributes["clawhive.approval.result"] == "approved"
    assert span.attributes["clawhive.approval.requested_at"] == "2026-01-01T00:00:02.000001Z"


def test_a_refused_call_is_an_error_with_its_code():
    refusal = {"error": "denied", "message": "no right"}
    (span,) = Tape().call(kind="invocation.refused", status="refused", refusal=refusal)
    assert (span.error, span.attributes["error.type"]) == ("no right", "denied")
    assert span.start == span.end


@pytest.mark.parametrize("status", ["failed", "abandoned", "unknown"])
def test_a_call_that_failed_is_an_error(status):
    tape = Tape()
    tape.call()
    (span,) = tape.ended(status=status, error={"code": "timeout", "message": "too slow"})
    assert (span.error, span.attributes["error.type"]) == ("too slow", "timeout")


def test_nested_calls_and_requests_of_a_tool_hang_below_the_call():
    tape = Tape()
    tape.start()
    tape.call("outer", "step_1")
    tape("model.start", {"model": "demo:m"}, step_id="step_1")
    (chat,) = tape(
        "model.end", {"usage": None, "stop_reason": None, "error": None}, step_id="step_1"
    )
    tape.call("inner", "step_1/n", parent_invocation_id="outer")
    (inner,) = tape.ended("inner")
    (outer,) = tape.ended("outer")
    assert chat.parent_id == inner.parent_id == outer.span_id


def test_a_sub_agents_run_hangs_below_its_parent():
    tape = Tape()
    tape.start()
    (parent,) = tape.end()
    child = Tape()
    child.start(parent_run_id=RUN)
    (span,) = child.end()
    assert span.parent_id == parent.span_id


def test_what_a_dead_process_left_is_unknown_and_what_waits_is_not():
    tape = Tape()
    tape.start()
    tape.call("broken")
    tape("model.start", {"model": "demo:m"}, step_id="r1")
    tape.call("waits", kind="approval.requested", status="parked", approval_id="appr_1")
    found = tape("run.status", {"reason": "x"}, "interrupted")
    assert [(s.name, s.attributes["clawhive.status"]) for s in found] == [
        ("execute_tool file.read", "unknown"),
        ("chat m", "unknown"),
    ]
    found = tape.end("cancelled")
    assert [s.attributes["clawhive.status"] for s in found] == ["refused", "cancelled"]


def test_texts_are_there_only_where_they_are_asked_for():
    silent, telling = Tape(), Tape(lambda ref: ref["$value"])
    for tape in (silent, telling):
        tape.call()
        tape.ended()
    assert not [name for name in silent.spans[0].attributes if "arguments" in name]
    assert "result" not in repr(silent.spans)
    attributes = telling.spans[0].attributes
    assert attributes["gen_ai.tool.call.arguments"] == '{"path":"x"}'
    assert attributes["gen_ai.tool.call.result"] == '"result"'


def test_ids_are_the_same_at_every_export():
    one, two = Tape(), Tape()
    for tape in (one, two):
        tape.start()
        tape.call()
        tape.ended()
        tape.end()
    assert one.spans == two.spans


def test_an_event_whose_beginning_was_not_seen_breaks_nothing():
    tape = Tape()
    assert tape.ended() == []
    assert tape("model.end", {"error": None}, step_id="r0") == []
    assert tape("approval.resolved", {"approval_id": "x", "by": "y"}, "denied") == []
    assert tape("grant.issued", {"grants": []}, run_id=None) == []
    (run,) = tape.end()
    assert run.name == "invoke_agent default"


def test_nothing_is_kept_of_what_has_ended():
    tape = Tape()
    for number in range(3):
        tape.start()
        tape.call(f"i{number}")
        tape.call(f"p{number}", kind="approval.requested", status="parked", approval_id=f"{number}")
        tape("model.start", {"model": "demo:m"}, step_id="r1")
        tape.end()
    tape("replay.end", {"mode": "exact"})
    fold = tape.fold
    assert [fold._runs, fold._calls, fold._requests, fold._approvals] == [{}] * 4
    assert fold.finish() == []


def test_what_never_ended_is_given_at_the_end():
    tape = Tape()
    tape.start()
    tape.call()
    spans = tape.fold.finish()
    assert [s.attributes["clawhive.status"] for s in spans] == ["unfinished", "unfinished"]
    assert [s.error for s in spans] == [None, None]
