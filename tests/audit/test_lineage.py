"""Whose sub-agent a run was: in every form in which the log is read."""

import json

import pytest

from clawhive_core.audit.export import lines
from clawhive_core.audit.query import find_ids, query
from clawhive_core.errors import UnknownId
from clawhive_core.hive.hive import RunOptions
from clawhive_core.protocols.ledger import EventsWhere
from clawhive_core.runs.record.page import page
from clawhive_core.runs.record.view import list_runs
from clawhive_core.testing import ScriptedModel, calling, memory_hive
from tests.runs.conftest import Tools

SETTINGS = {"agents.helper.description": "Helps.", "agents.helper.model": "child:x"}


@pytest.fixture
async def family():
    """A run, the run of its sub-agent that asks a model and calls a tool, and a stranger's."""
    tools = Tools().add("test.echo", lambda given, ctx: dict(given))
    parent = ScriptedModel([calling("agent.helper", {"task": "look"}), "done", "alone"])
    child = ScriptedModel([calling("test.echo", {"n": 1}), "seen"], name="child")
    opening = memory_hive(providers=[tools], adapters=[parent, child], settings=SETTINGS)
    async with opening as hive:
        options = RunOptions(model="scripted:x", grants=("agent.spawn:helper",))
        run = await hive.run("go", options=options)
        await hive.run("alone", model="scripted:x")
        yield hive, run, run["children"][0]["run_id"]


def exported(hive, form, **wanted):
    return [json.loads(line) for line in lines(hive.log, form, EventsWhere(**wanted))]


@pytest.mark.promise("P-198")
async def test_events_are_found_by_their_parents_run_and_by_the_trace_of_the_tree(family):
    hive, run, child = family
    given = {"parent_run_id": run["run_id"][:12]}
    found = query(hive.log, EventsWhere(**find_ids(hive.log, given)))
    assert {each.event.run_id for each in found.events} == {child}
    assert len(found.events) == sum(1 for _ in hive.log.events(run_id=child))
    of_trace = query(hive.log, EventsWhere(trace_id=run["trace_id"]), 1000)
    assert {each.event.run_id for each in of_trace.events} == {run["run_id"], child}
    assert query(hive.log, EventsWhere(parent_run_id=child)).events == ()
    with pytest.raises(UnknownId):
        find_ids(hive.log, {"parent_run_id": "nothing"})


@pytest.mark.promise("P-198")
async def test_every_span_and_every_security_event_tells_trace_and_parent(family):
    hive, run, child = family
    trace, parent = run["trace_id"], run["run_id"]
    spans = [
        {each["key"]: each["value"]["stringValue"] for each in span["attributes"] if is_text(each)}
        for line in exported(hive, "otel", trace_id=trace)
        for scope in line["resourceSpans"][0]["scopeSpans"]
        for span in scope["spans"]
    ]
    assert len([each for each in spans if each["clawhive.run.id"] == child]) == 4
    assert {each["clawhive.trace.id"] for each in spans} == {trace}
    for each in spans:
        expected = parent if each["clawhive.run.id"] == child else None
        assert each.get("clawhive.parent_run.id") == expected
    events = [each["unmapped"]["clawhive"] for each in exported(hive, "ocsf", trace_id=trace)]
    assert {each["run_id"] for each in events} == {parent, child}
    for each in events:
        assert each["trace_id"] == trace
        assert each.get("parent_run_id") == (parent if each["run_id"] == child else None)
    only = exported(hive, "jsonl", run_id=child)
    assert {each["trace_id"] for each in only} == {trace}


def is_text(attribute):
    return "stringValue" in attribute["value"]


async def test_lists_pages_and_views_tell_it_too(family):
    hive, run, child = family
    rows = {each["run_id"]: each for each in list_runs(hive.log)}
    assert rows[child]["parent_run_id"] == run["run_id"]
    assert rows[child]["trace_id"] == rows[run["run_id"]]["trace_id"]
    assert f"<dt>started by</dt><dd>{run['run_id']}" in page(hive.log, child)
    for view in ("v_invocations", "v_steps", "events"):
        sql = f"SELECT DISTINCT r.parent_run_id FROM {view} AS v JOIN v_runs AS r USING (run_id)"
        found = hive.log.read(f"{sql} WHERE v.run_id = ?", (child,))
        assert [row[0] for row in found] == [run["run_id"]]
