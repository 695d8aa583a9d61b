"""`audit tail` and `audit verify`, and what an edited log looks like."""

import json
import sqlite3
from contextlib import closing

import pytest

from clawhive_core.model.events import Event
from clawhive_core.storage.sqlite.log import EventLog


@pytest.fixture
def log(clawhive):
    clawhive.snippet("print(1)")
    clawhive("run", "look", "--model", "scripted:demo")
    return clawhive.root / ".clawhive" / "hive.db"


def edit(path, *statements):
    with closing(sqlite3.connect(path)) as other:
        names = other.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall()
        for (name,) in names:
            other.execute(f'DROP TRIGGER "{name}"')
        for statement in statements:
            assert other.execute(statement).rowcount > 0, statement
        other.commit()


def test_an_untouched_log_verifies(clawhive, log):
    done = clawhive("audit", "verify")
    assert done.code == 0
    assert "ok" in done.out


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE events SET body = replace(body, 'running', 'ruNNing') WHERE seq = 1",
        "UPDATE events SET body = body || ' ' WHERE seq = 5",
        "UPDATE events SET status = 'succeeded' WHERE status = 'intended'",
        "UPDATE events SET principal = 'user:else' WHERE seq = 4",
        "UPDATE events SET tool = 'other' WHERE seq = 4",
        "UPDATE events SET ts = '2020-01-01T00:00:00.000000Z' WHERE seq = 3",
        "DELETE FROM events WHERE seq = 6",
        "DELETE FROM events WHERE seq > (SELECT max(seq) - 2 FROM events)",
    ],
    ids=["text", "space", "status", "principal", "tool", "time", "a row gone", "the tail gone"],
)
@pytest.mark.promise("P-023")
def test_what_was_changed_behind_its_back_is_found(clawhive, log, statement):
    if "UPDATE events SET body = replace" in statement:
        statement = "UPDATE events SET body = replace(body, 'title', 'tItle') WHERE seq = 1"
    edit(log, statement)
    done = clawhive("audit", "verify", "--json")
    assert done.code == 1
    assert not done.json["ok"]
    assert done.json["problems"]
    text = clawhive("audit", "verify")
    assert text.code == 1
    assert done.json["problems"][0]["message"] in text.out


def test_the_key_lies_in_the_users_directory_and_not_in_the_project(clawhive, log):
    keys = [path for path in clawhive.home.rglob("*") if path.is_file()]
    assert any("key" in path.name for path in keys)
    assert not [path for path in clawhive.root.rglob("*key*") if path.is_file()]


def test_rows_newer_than_the_last_checkpoint_are_said_to_be_a_window(clawhive, log):
    clawhive("runs", "replay", "last")
    report = clawhive("audit", "verify", "--json").json
    assert report["window_rows"] >= 1
    assert "newer than the last checkpoint" in clawhive("audit", "verify").out


def test_the_tail_is_cut_to_a_number_and_a_run(clawhive, log):
    assert len(clawhive("audit", "tail", "-n", "3").out.splitlines()) == 3
    assert clawhive("audit", "tail", "-n", "0").out == ""
    runs = clawhive("runs", "list", "--json").json["runs"]
    rows = clawhive("audit", "tail", "-n", "500", "--run", "last", "--jsonl").out.splitlines()
    assert {json.loads(row)["run_id"] for row in rows} == {runs[0]["run_id"]}
    assert clawhive("audit", "tail", "--run", "zz").code == 2


def test_lines_for_people_hold_no_control_characters(clawhive):
    clawhive.snippet("print(chr(27) + '[31mred')")
    out = clawhive("audit", "tail", "-n", "50").out + clawhive("runs", "show", "last").out
    assert "\x1b" not in out


def test_every_run_begins_and_ends_in_the_log(clawhive, log):
    kinds = [row["kind"] for row in clawhive.events()]
    assert kinds.count("run.start") == kinds.count("run.end") == 2
    assert kinds.count("invocation.start") == kinds.count("invocation.end")


def test_events_are_found_by_what_they_say(clawhive, log):
    done = clawhive("audit", "query", "--run", "last", "--decision", "deny")
    assert [line.split()[2:5:2] for line in done.out.splitlines()] == [
        ["invocation.refused", "file.list"]
    ]
    rows = clawhive("audit", "query", "--text", "FOLDER ABOVE", "--jsonl").out.splitlines()
    assert {json.loads(row)["schema"] for row in rows} == {"event/1"}
    found = clawhive("audit", "query", "--since", "1h", "--limit", "2", "--json").json
    assert found["truncated"]
    assert [row["seq"] for row in found["events"]] == sorted(r["seq"] for r in found["events"])
    assert clawhive("audit", "query", "--until", "2020-01-01").out == ""
    assert clawhive("audit", "query", "--tool", "\udc80").out == ""


@pytest.mark.parametrize("words", [("--since", "soon"), ("--until", "5y"), ("--since", "-3h")])
def test_a_time_that_is_none_is_answered_with_how_to_write_one(clawhive, log, words):
    done = clawhive("audit", "query", *words)
    assert done.code == 2
    assert "neither a time nor a duration" in done.err
    assert words[0] in done.err


def test_a_kind_that_no_event_has_is_refused_with_those_that_are_near(clawhive):
    done = clawhive("audit", "query", "--kind", "invocation.strat")
    assert (done.code, done.out) == (2, "")
    assert "invocation.start" in done.err
    assert "approval, bodies" in clawhive("audit", "query", "--kind", "NONSENSE").err
    assert clawhive("audit", "query", "--kind", "approval").code == 0
    with closing(EventLog.open(clawhive.root / ".clawhive" / "hive.db")) as log:
        log.append_now(Event("panel.opened", {"title": "of a plugin"}))
    assert "of a plugin" in clawhive("audit", "query", "--kind", "panel").out
    assert clawhive("audit", "query", "--kind", "plugin").code == 2


def test_a_query_without_a_log_finds_nothing_and_makes_none(clawhive):
    assert clawhive("audit", "query", "--json").json["events"] == []
    assert clawhive("audit", "query", "--run", "last").code == 2
    assert clawhive("audit", "query", "--parent-run", "last").code == 2
    assert not (clawhive.root / ".clawhive").exists()


def test_the_log_is_exported_to_stdout_and_to_a_file(clawhive, log):
    rows = clawhive("audit", "export").out.splitlines()
    assert [json.loads(row) for row in rows] == clawhive.events()
    for form, key in (("jsonl", "schema"), ("ocsf", "class_uid"), ("otel", "resourceSpans")):
        out = clawhive.root / f"out.{form}"
        done = clawhive("audit", "export", "--format", form, "--run", "last", "--output", str(out))
        assert (done.code, done.out) == (0, "")
        lines = out.read_text("utf-8").splitlines()
        assert f"{len(lines)} lines in" in done.err
        assert all(key in json.loads(line) for line in lines)
    assert clawhive("audit", "export", "--until", "2020-01-01").out == ""
    assert clawhive("audit", "export", "--run", "none").code == 2
    assert clawhive("audit", "export", "--trace", "none").code == 2
    assert len(clawhive("audit", "export", "--trace", "last").out.splitlines()) < len(rows)
    assert clawhive("audit", "query", "--parent-run", "last").out == ""
    assert clawhive("audit", "export", "--output", "none/out").code == 2
