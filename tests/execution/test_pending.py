"""The rows of a call, which their maker checked: they are written as any other's."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from clawhive_core.catalog.catalog import Tool
from clawhive_core.events.redaction import Redactor
from clawhive_core.events.rows import encode
from clawhive_core.execution.pending import PendingCall, recordable
from clawhive_core.execution.scope import CallScope, RunScope
from clawhive_core.model.principal import DEFAULT_AGENT
from clawhive_core.model.tools import ToolCall, ToolResult
from clawhive_core.policy.rules import Rules
from tests.harness import tool_meta

TS = "2026-01-01T00:00:00.000000Z"
texts = st.text() | st.text(st.characters(categories=["Cs", "Lu", "So"]))
odd = texts | st.none() | st.integers() | st.floats(allow_nan=False) | st.booleans()
inputs = st.dictionaries(texts, odd | st.lists(odd), max_size=3)


def same_either_way(event):
    direct = encode(event, TS, Redactor())
    looked_at = encode(replace(event, prechecked=False), TS, Redactor())
    # In which order blobs are set aside means nothing: each is a row of its own.
    return (direct.columns, direct.inner, set(direct.blobs)) == (
        looked_at.columns,
        looked_at.inner,
        set(looked_at.blobs),
    )


calls = st.builds(ToolCall, odd, odd, inputs, odd)


@given(calls, odd, st.booleans(), texts | st.just("x" * 600))
def test_the_rows_of_a_call_are_canonical_whoever_made_up_its_parts(call, label, known, output):
    run = RunScope("trace_1", "task_1", "run_1", "conv_1", "local", "/w", "/w/out", Rules(()))
    pending = PendingCall(recordable(call), CallScope(run, DEFAULT_AGENT, "run_1/s1", label=label))
    if known:
        pending.tool = Tool(tool_meta("demo.echo", risk=label, capability_level=label), None)
    assert same_either_way(pending.started())
    assert same_either_way(pending.ended("succeeded", ToolResult("c", output), None))


def test_a_short_name_is_recorded_to_the_character_beside_an_id_that_is_cut():
    call = recordable(ToolCall("x" * 300, "a  b\n", {}))
    assert (len(call.id), call.name) == (200, "a  b\n")
