"""The whole of what scripts read, as one object: a change of it is seen here first."""

import json
import re

from inline_snapshot import snapshot

from clawhive_core.model.canonical import canonical_text

_MASKS = (
    (re.compile(r"(run|trace|task|conv|grant|inv)_[0-9a-f]{16}"), r"\1_ID"),
    (re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z"), "TIME"),
    (re.compile(r'"duration_ms":\d+'), '"duration_ms":0'),
    (re.compile(r'(\\"duration_ms\\":)\d+'), r"\g<1>0"),
)


def masked(text, project):
    text = canonical_text(json.loads(text)).replace(str(project), "PROJECT")
    for pattern, mask in _MASKS:
        text = pattern.sub(mask, text)
    return json.loads(text)


def test_a_run_of_a_tool_call_is_this_object(clawhive):
    (clawhive.root / "a.txt").write_text("one\n", encoding="utf-8")
    clawhive("tools", "call", "file.read", "--args", '{"path": "a.txt"}', "--json")
    shown = clawhive("runs", "show", "last", "--json")
    assert masked(shown.out, clawhive.root) == snapshot(
        {
            "artifacts": [],
            "artifacts_dir": "PROJECT/clawhive-out/run_ID",
            "children": [],
            "conversation_id": "conv_ID",
            "ended_at": "TIME",
            "error": None,
            "output": {
                "lines": 1,
                "offset": 1,
                "path": "a.txt",
                "text": "one\n",
                "truncated": False,
            },
            "parent_run_id": None,
            "run_id": "run_ID",
            "schema": "run/1",
            "started_at": "TIME",
            "status": "succeeded",
            "steps": [
                {
                    "action": "tool_call",
                    "capability_level": "L0",
                    "error": None,
                    "input_preview": '{"path":"a.txt"}',
                    "invocations": [
                        {
                            "approval_required": False,
                            "asked_input_preview": None,
                            "approval_result": None,
                            "capability_level": "L0",
                            "decision": "allow",
                            "end_at": "TIME",
                            "error": None,
                            "granted_capabilities": [
                                {"capability": "fs.read:PROJECT/a.txt", "grant_id": "grant_ID"}
                            ],
                            "input_preview": '{"path":"a.txt"}',
                            "invocation_id": "run_ID/c0#1",
                            "output_preview": "one",
                            "principal": "user:local",
                            "provider_id": "builtin",
                            "requested_capabilities": ["fs.read:PROJECT/a.txt"],
                            "risk": "safe",
                            "start_at": "TIME",
                            "status": "succeeded",
                            "tool": "file.read",
                        }
                    ],
                    "label": "",
                    "name": "tool.file.read",
                    "output_preview": "one",
                    "provider_id": "builtin",
                    "status": "succeeded",
                    "step_id": "run_ID/c0",
                    "trace_id": "trace_ID",
                }
            ],
            "task_id": "task_ID",
            "task_type": None,
            "title": "file.read",
            "trace_id": "trace_ID",
            "usage": {
                "cache_read_tokens": None,
                "cache_write_tokens": None,
                "cost": None,
                "input_tokens": None,
                "output_tokens": None,
            },
        }
    )


def test_a_refusal_is_this_object(clawhive):
    refused = clawhive("tools", "call", "file.read", "--args", '{"path": "/etc/passwd"}', "--json")
    assert masked(refused.out, clawhive.root) == snapshot(
        {
            "error": "denied",
            "message": "`file.read` needs rights that this task does not have: fs.read:/etc/passwd",
            "next": {
                "action": "grant",
                "capabilities": ["fs.read:/etc/passwd"],
                "command": 'clawhive tools call file.read --args \'{"path":"/etc/passwd"}\' --grant fs.read:/etc/passwd',
            },
            "reason": "rights",
            "run_id": "run_ID",
            "schema": "refusal/1",
        }
    )
