"""Spans that a real collector is sent, checked against the export of the same log."""

import json
import subprocess
import sys

import anyio
import anyio.lowlevel
import pytest

from clawhive_core import ClawHiveError
from clawhive_core.audit.export import lines
from clawhive_core.protocols.ledger import EventsWhere
from clawhive_core.testing import ScriptedModel, memory_hive
from clawhive_core.testing.scripted import calling
from clawhive_otel.settings import read_settings

SCRIPT = [
    calling("file.list", {"path": "."}),
    calling("file.list", {"path": "/etc"}),
    "done",
]
LEAVE = [calling("artifacts.write", {"files": {"a.txt": "text"}}), "done"]


def hive(endpoint, script=SCRIPT, **more):
    own = {"endpoint": endpoint, "timeout": 0.5, **more.pop("otel", {})}
    settings = {"plugins.enabled": ["builtin", "otel"], "plugins.otel": own, **more}
    return memory_hive(adapters=[ScriptedModel(script)], settings=settings)


async def until(holds):
    """Wait for what the pump does beside the test."""
    with anyio.fail_after(300):
        while not holds():
            await anyio.lowlevel.checkpoint()


def plain(value):
    """Return an attribute of a message as OTLP/JSON writes it."""
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return {"arrayValue": {"values": [plain(each) for each in value.array_value.values]}}
    name = kind.partition("_")[0] + "Value"
    inner = getattr(value, kind)
    return {name: str(inner) if kind == "int_value" else inner}


def from_message(span):
    status = {"code": span.status.code, "message": span.status.message}
    return {
        "traceId": span.trace_id.hex(),
        "spanId": span.span_id.hex(),
        "parentSpanId": span.parent_span_id.hex(),
        "name": span.name,
        "kind": span.kind,
        "startTimeUnixNano": str(span.start_time_unix_nano),
        "endTimeUnixNano": str(span.end_time_unix_nano),
        "attributes": {each.key: plain(each.value) for each in span.attributes},
        "status": status if span.status.code else {},
    }


def from_export(span):
    attributes = {each["key"]: each["value"] for each in span["attributes"]}
    return {"parentSpanId": "", **span, "attributes": attributes}


@pytest.mark.promise("P-091")
async def test_the_collector_gets_the_spans_that_the_export_of_the_log_has(collector):
    async with hive(collector.endpoint) as opened:
        run = await opened.run("Look", model="scripted:any")
        assert run["status"] == "succeeded"
        exported = [json.loads(line) for line in lines(opened.log, "otel", EventsWhere())]
    wanted = [
        from_export(span)
        for line in exported
        for span in line["resourceSpans"][0]["scopeSpans"][0]["spans"]
    ]
    assert [from_message(span) for span in collector.spans()] == wanted
    names = [span["name"] for span in wanted]
    assert names.count("chat any") == 3
    assert names.count("execute_tool file.list") == 2
    assert names[-1] == "invoke_agent default"
    resource = collector.requests[0].resource_spans[0].resource
    assert {each.key: each.value.string_value for each in resource.attributes}[
        "service.name"
    ] == "clawhive"


async def test_no_text_of_prompts_arguments_or_results_is_sent(collector):
    script = [calling("file.read", {"path": "secret-plan.txt"}), "the answer"]
    async with hive(collector.endpoint, script) as opened:
        (opened.root / "secret-plan.txt").write_text("the content", "utf-8")
        await opened.run("the prompt", model="scripted:any")
    sent = repr(collector.requests)
    assert "execute_tool" in sent
    assert not [text for text in ("the content", "the answer", "the prompt") if text in sent]


@pytest.mark.parametrize("how", ["refused", "down", "hangs"])
async def test_a_required_sink_that_cannot_deliver_stops_effects(collector, how):
    endpoint = "http://127.0.0.1:1/v1/traces" if how == "down" else collector.endpoint
    collector.status = 400 if how == "refused" else 200
    if how == "hangs":
        collector.hangs.clear()
    async with hive(endpoint, ["one", *LEAVE], otel={"required": True}) as opened:
        assert (await opened.run("Talk", model="scripted:any"))["status"] == "succeeded"
        await until(lambda: opened._sinks.failures)
        run = await opened.run("Leave it", model="scripted:any")
        calls = [step for step in run["steps"] if step["name"].startswith("tool.")]
        assert {call["error"]["code"] for call in calls} == {"sink_failed"}
        assert "required audit sink `otel` has not taken" in calls[0]["error"]["message"]
        assert opened._sinks.failures["otel"] >= 1


async def test_a_sink_that_is_not_required_loses_spans_and_stops_nothing(collector):
    collector.status = 400
    async with hive(collector.endpoint) as opened:
        run = await opened.run("Look", model="scripted:any")
        assert run["status"] == "succeeded"
        await until(lambda: opened._sinks.failures)
        assert opened._sinks.acknowledge is None


async def test_the_configuration_can_require_it(collector):
    collector.status = 400
    more = {"audit.required_sinks": ["otel"]}
    async with hive(collector.endpoint, ["one"], **more) as opened:
        await opened.run("Talk", model="scripted:any")
        await until(lambda: opened._sinks.failures)
        with pytest.raises(ClawHiveError, match="required audit sink `otel` has not taken"):
            await opened._sinks.acknowledge(0)


async def test_a_required_sink_that_is_not_there_stops_effects():
    settings = {"plugins.enabled": ["builtin"], "audit.required_sinks": ["otel"]}
    async with memory_hive(settings=settings) as opened:
        _, outcome = await opened.call("artifacts.write", {"files": {"a.txt": "text"}})
        assert outcome.error == "sink_failed"
        assert "`otel` is not there" in outcome.message


def test_settings_come_from_the_table_or_the_environment():
    assert read_settings({}, {}) is None
    env = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318/",
        "OTEL_EXPORTER_OTLP_HEADERS": "Api-Key=a%20b,x=1",
    }
    found = read_settings({}, env)
    assert found.endpoint == "http://c:4318/v1/traces"
    assert found.headers == {"api-key": "a b", "x": "1"}
    env["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"] = "https://t/x"
    assert read_settings({}, env).endpoint == "https://t/x"
    assert read_settings({"endpoint": "http://own"}, env).endpoint == "http://own"
    assert read_settings({"required": True}, env).required


@pytest.mark.parametrize(
    "given",
    [
        {"endpoint": "localhost:4318"},
        {"endpoint": 4318},
        {"endpoint": "http://x", "required": "yes"},
        {"endpoint": "http://x", "timeout": 0},
        {"endpoint": "http://x", "timeout": True},
        {"endpont": "http://x"},
    ],
    ids=str,
)
def test_a_wrong_setting_is_named_with_what_is_right(given):
    with pytest.raises(ClawHiveError) as wrong:
        read_settings(given, {})
    assert wrong.value.code == "invalid_config"
    assert wrong.value.place.startswith("plugins.otel.")
    assert wrong.value.fix


def test_the_sdk_is_imported_when_the_first_span_ends_and_not_before():
    code = (
        "import sys, clawhive_otel; from clawhive_otel.settings import Settings;"
        "clawhive_otel.OtlpSink(Settings('http://x'));"
        "print([n for n in sys.modules if n.startswith(('opentelemetry', 'requests'))])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_headers_of_the_environment_reach_the_collector(collector, monkeypatch):
    from clawhive_core import Event, StoredEvent
    from clawhive_otel import OtlpSink

    env = {"OTEL_EXPORTER_OTLP_HEADERS": "x-team=bees"}
    sink = OtlpSink(read_settings({"endpoint": collector.endpoint}, env))
    body = {"task": {"task_type": None}, "model": None, "parent_run_id": None}
    start = Event("run.start", body, run_id="r", trace_id="t", principal="agent:x")
    end = Event("run.end", {"usage": None, "error": None}, run_id="r", status="succeeded")
    at = "2026-01-01T00:00:00.000000Z"

    async def send():
        await sink.write([StoredEvent(1, at, start, "p", "h"), StoredEvent(2, at, end, "p", "h")])
        await sink.close()

    anyio.run(send)
    assert collector.headers[0]["x-team"] == "bees"
    assert [span.name for span in collector.spans()] == ["invoke_agent x"]
