import json
import os
import tracemalloc

import pytest

from clawhive_core.audit.export import lines, write_file
from clawhive_core.errors import UsageError
from clawhive_core.model.events import Blob, Event
from clawhive_core.protocols.ledger import EventsWhere
from clawhive_core.storage.sqlite.log import EventLog
from clawhive_core.testing import ScriptedModel, memory_hive
from clawhive_core.testing.scripted import calling

ANY = EventsWhere()
REQUIRED = {
    *("activity_id", "actor", "api", "category_uid", "class_uid", "metadata", "severity_id"),
    *("src_endpoint", "time", "type_uid"),
}
"""What OCSF 1.3.0 requires of API Activity."""


@pytest.fixture
def log(tmp_path):
    log = EventLog.open(tmp_path / "hive.db")
    yield log
    log.close()


def export(log, form, wanted=ANY, **more):
    return [json.loads(line) for line in lines(log, form, wanted, **more)]


async def recorded(form, check=lambda hive: None, **more):
    """Return the export of a run that reads a file, and is refused another one."""
    script = [
        calling("file.read", {"path": "a.txt"}),
        calling("file.read", {"path": "/etc/passwd"}),
        "done",
    ]
    settings = {"plugins.enabled": ["builtin"]}
    async with memory_hive(adapters=[ScriptedModel(script)], settings=settings) as hive:
        (hive.root / "a.txt").write_text("text\n" * 300, "utf-8")
        await hive.run("Look", model="scripted:any")
        await hive.log.flush()
        check(hive)
        return export(hive.log, form, **more)


def test_events_are_exported_as_they_stand_and_resolved_on_request(log):
    body = {
        "long": Blob("x" * 1000),
        "deep": [{"n": Blob({"$blob": "no reference"})}],
        "raw": Blob(b"\x00\xff"),
        "big": Blob([2**60, "y" * 600]),
    }
    log.append_now(Event("a", body))
    (row,) = export(log, "jsonl")
    assert row["schema"] == "event/1"
    assert set(row["body"]["long"]) == {"$blob", "bytes", "type"}
    (row,) = export(log, "jsonl", bodies=True)
    assert row["body"] == {
        "long": "x" * 1000,
        "deep": [{"n": {"$blob": "no reference"}}],
        "raw": {"$bytes": "AP8="},
        "big": [{"$int": str(2**60)}, "y" * 600],
    }


def test_a_pruned_body_is_said_to_be(log):
    log.append_now(Event("a", {"o": Blob("x" * 1000)}))
    log.append_now(effect=lambda c: c.execute("UPDATE blobs SET data = NULL") and None)
    (row,) = export(log, "jsonl", bodies=True)
    assert row["body"]["o"]["pruned"] is True
    assert len(row["body"]["o"]["$blob"]) == 64


def test_only_what_is_wanted_and_there_at_the_start_is_exported(log):
    log.append_now(Event("a", {}, run_id="run_1"), Event("b", {}, run_id="run_2"))
    found = lines(log, "jsonl", EventsWhere(run_id="run_1"))
    assert [json.loads(line)["kind"] for line in found] == ["a"]
    found = lines(log, "jsonl", ANY)
    assert json.loads(next(found))["kind"] == "a"
    log.append_now(Event("late", {}))
    assert [json.loads(line)["kind"] for line in found] == ["b"]


@pytest.mark.promise("P-087")
async def test_a_run_is_spans_of_the_conventions_for_generative_ai():
    (line,) = await recorded("otel")
    (resource,) = line["resourceSpans"]
    (scope,) = resource["scopeSpans"]
    spans = scope["spans"]
    names = [span["name"] for span in spans]
    assert names.count("chat any") == 3
    assert names.count("execute_tool file.read") == 2
    assert names[-1] == "invoke_agent default"
    assert [span["status"].get("code") for span in spans if "execute" in span["name"]] == [None, 2]
    assert {span.get("parentSpanId") for span in spans[:-1]} == {spans[-1]["spanId"]}
    refused = next(span for span in spans if span["status"])
    attributes = {each["key"]: each["value"] for each in refused["attributes"]}
    assert attributes["clawhive.policy.decision"] == {"stringValue": "deny"}
    assert attributes["error.type"] == {"stringValue": "denied"}
    assert attributes["clawhive.approval.required"] == {"boolValue": False}


async def test_bodies_are_in_spans_on_request_only():
    silent, telling = await recorded("otel"), await recorded("otel", bodies=True)
    assert "text\\ntext" not in json.dumps(silent)
    assert "gen_ai.tool.call.arguments" not in json.dumps(silent)
    assert "text\\\\ntext" in json.dumps(telling)
    assert "gen_ai.tool.call.arguments" in json.dumps(telling)


async def test_every_event_is_one_of_ocsf_that_has_what_the_schema_requires():
    rows = []
    found = await recorded("ocsf", lambda hive: rows.extend(hive.log.events()))
    assert [each["metadata"]["sequence"] for each in found] == [row.seq for row in rows]
    for each, row in zip(found, rows, strict=True):
        assert set(each) >= REQUIRED
        assert (each["class_uid"], each["category_uid"]) == (6003, 6)
        assert each["type_uid"] == 600300 + each["activity_id"]
        assert each["activity_id"] in {1, 2, 3, 4, 99}
        assert each["severity_id"] in {1, 2, 3}
        assert each["status_id"] in {1, 2, 99}
        assert set(each["metadata"]) >= {"version", "product"}
        assert each["metadata"]["product"]["vendor_name"]
        assert each["api"]["operation"]
        assert each["api"]["request"]["uid"]
        assert each["actor"]["user"]["name"]
        assert each["src_endpoint"]["name"]
        assert isinstance(each["time"], int)
        assert each["metadata"]["uid"] == row.hash


async def test_an_ocsf_event_tells_what_was_done_allowed_and_refused():
    found = await recorded("ocsf")
    by_kind = {each["unmapped"]["clawhive"]["kind"]: each for each in found}
    end, refused = by_kind["invocation.end"], by_kind["invocation.refused"]
    assert (end["activity_name"], end["status"], end["action"]) == ("Read", "Success", "Allowed")
    assert end["api"]["operation"] == "file.read"
    assert end["unmapped"]["clawhive"]["decision"] == "allow"
    assert end["start_time"] <= end["time"]
    assert (refused["status"], refused["action"]) == ("Failure", "Denied")
    assert (refused["status_code"], refused["severity"]) == ("denied", "Medium")
    assert refused["api"]["response"]["error"] == "denied"


def test_a_long_run_is_several_lines(log, monkeypatch):
    monkeypatch.setattr("clawhive_core.audit.export._SPANS", 2)
    facts = {"task": {"task_type": None}, "model": None, "parent_run_id": None}
    log.append_now(Event("run.start", facts, run_id="run_1", trace_id="t", principal="agent:x"))
    for number in range(5):
        step = {"run_id": "run_1", "trace_id": "t", "step_id": f"r{number}"}
        log.append_now(Event("model.start", {"model": "a:b"}, **step))
        body = {"usage": None, "stop_reason": None, "error": None}
        log.append_now(Event("model.end", body, status="succeeded", **step))
    found = export(log, "otel")
    counts = [len(line["resourceSpans"][0]["scopeSpans"][0]["spans"]) for line in found]
    assert counts == [2, 2, 2]


@pytest.mark.parametrize("form", ["jsonl", "otel", "ocsf"])
def test_what_is_held_in_memory_does_not_grow_with_the_log(log, form):
    def write(runs):
        for number in range(runs):
            ids = {"run_id": f"run_{number}", "trace_id": "t", "principal": "agent:x"}
            facts = {"task": {"task_type": None}, "model": None, "parent_run_id": None}
            log.append_now(
                Event("run.start", {**facts, "more": "x" * 2000}, **ids),
                *(Event("noise", {"more": "x" * 2000}, **ids) for _ in range(20)),
                Event("run.end", {"usage": None, "error": None}, status="succeeded", **ids),
            )

    def peak():
        tracemalloc.start()
        count = sum(len(line) for line in lines(log, form, ANY))
        used = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return used, count

    write(60)
    small, little = peak()
    for start in range(3):
        del start
        log.append_now(*(Event("noise", {"more": "x" * 2000}) for _ in range(500)))
    large, much = peak()
    assert much > little * 1.5 or form == "otel"
    assert large < small * 1.5


def test_a_file_appears_whole_or_not_at_all(tmp_path):
    path = tmp_path / "out.jsonl"
    path.write_text("before", "utf-8")

    def failing():
        yield "one"
        assert [each.name for each in tmp_path.iterdir()] == ["out.jsonl"]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_file(path, failing())
    assert path.read_text("utf-8") == "before"
    assert write_file(path, iter(["one", "two"])) == 2
    assert path.read_text("utf-8") == "one\ntwo\n"
    assert [each.name for each in tmp_path.iterdir()] == ["out.jsonl"]
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_file_system_without_nameless_files_is_served_too(tmp_path, monkeypatch):
    real = os.open

    def old(path, flags, *more, **named):
        if flags & os.O_TMPFILE == os.O_TMPFILE:
            raise OSError(95, "not supported")
        return real(path, flags, *more, **named)

    monkeypatch.setattr(os, "open", old)
    path = tmp_path / "out.jsonl"

    def failing():
        yield "one"
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_file(path, failing())
    assert list(tmp_path.iterdir()) == []
    assert write_file(path, iter(["one"])) == 1
    assert path.read_text("utf-8") == "one\n"
    assert [each.name for each in tmp_path.iterdir()] == ["out.jsonl"]


def test_a_link_is_followed_and_stays(tmp_path):
    (tmp_path / "real").write_text("before", "utf-8")
    (tmp_path / "link").symlink_to("real")
    write_file(tmp_path / "link", iter(["one"]))
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text("utf-8") == "one\n"


@pytest.mark.parametrize("name", ["none/out", ".", "/dev/null", "/dev/stdout", "fifo"])
def test_what_is_no_place_for_a_file_is_refused_with_what_to_do(tmp_path, name):
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(UsageError) as refused:
        write_file(tmp_path / name, iter(["one"]))
    assert "--output" in refused.value.fix
    assert [each.name for each in tmp_path.iterdir()] == ["fifo"]
