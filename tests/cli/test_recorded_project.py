"""A project as an older release left it, written by `tests/data/record_project.py`.

Every command must find what was recorded after however many migrations.
"""

import fcntl
import json
import shutil
import sqlite3
import tarfile
from contextlib import closing
from pathlib import Path

import pytest

from clawhive_core.policy import approvals
from tests.data.record_project import TOP

ARCHIVE = Path(__file__).parents[1] / "data" / "project.tar.gz"


def unpacked(clawhive, top, monkeypatch):
    """Put what was recorded below a folder, in the place of the test's own project and home."""
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(top, filter="data")
    clawhive.root, clawhive.home = top / "project", top / "home"
    # The approval that waits in it was good for a day: nobody answers it later than that here.
    monkeypatch.setattr(approvals, "now", lambda: "2026-11-23T06:00:00.000000Z")
    clawhive.said = json.loads(top.joinpath("said.json").read_text("utf-8"))
    monkeypatch.chdir(clawhive.root)
    monkeypatch.setenv("HOME", str(clawhive.home))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(clawhive.home / ".config"))
    return clawhive


@pytest.fixture
def moved(clawhive, tmp_path, monkeypatch):
    return unpacked(clawhive, tmp_path / "recorded", monkeypatch)


@pytest.fixture
def recorded(clawhive, monkeypatch):
    """Put it where it was recorded; one test at a time has that folder."""
    with Path(f"{TOP}.lock").open("w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        shutil.rmtree(TOP, ignore_errors=True)
        yield unpacked(clawhive, TOP, monkeypatch)
        shutil.rmtree(TOP)


def rows_of(project):
    with closing(sqlite3.connect(project.root / ".clawhive" / "hive.db")) as database:
        return database.execute("SELECT seq, kind, body, hash FROM events ORDER BY seq").fetchall()


@pytest.mark.parametrize("name", ["approvals", "grants", "subscriptions"])
def test_what_was_recorded_is_listed_as_it_was(moved, name):
    words = [] if name == "subscriptions" else ["--all"]
    listed = moved(name, "list", *words, "--json").json[name]
    killed = [row for row in listed if row not in moved.said[name]]
    assert [row for row in listed if row not in killed] == moved.said[name] != []
    assert {row["scope"] for row in killed} <= {"task"}  # it is a task's own that goes on


def test_runs_are_listed_as_they_were_and_the_killed_one_as_interrupted(moved):
    killed, *others = moved("runs", "list", "--json").json["runs"]
    assert others == moved.said["runs"]
    assert (killed["title"], killed["status"]) == ("think", "interrupted")


def test_the_log_verifies_before_and_after_it_is_worked_with(moved):
    before = rows_of(moved)
    assert moved("audit", "verify").code == 0
    assert moved("run", "look around", "--model", "scripted:demo").code == 0
    assert moved("audit", "verify").code == 0
    assert moved("audit", "rebuild", "--check").code == 0
    assert rows_of(moved)[: len(before)] == before


def test_a_run_that_waited_is_approved_and_goes_on(recorded):
    (run,) = [each for each in recorded.said["runs"] if each["status"] == "waiting_approval"]
    assert recorded("runs", "resume", run["run_id"]).code == 3
    assert recorded("approvals", "approve", "last").code == 0
    done = recorded("runs", "resume", run["run_id"])
    assert (done.code, done.out) == (0, "to bob\n")
    assert recorded("runs", "replay", run["run_id"]).code == 0
    assert recorded("audit", "verify").code == 0


def test_a_run_that_was_killed_is_gone_on_with(recorded):
    (killed,) = recorded("runs", "list", "--limit", "1", "--json").json["runs"]
    recorded.root.joinpath("hanging.json").write_text('["done", "done"]')
    # It was killed after the last signed row of a database of before there were keys.
    assert "error[foreign_database]" in recorded("runs", "resume", killed["run_id"]).err
    name = recorded("audit", "verify", "--json").json["database_id"]
    assert recorded("trust", "--database", name, "--yes").code == 0
    done = recorded("runs", "resume", killed["run_id"])
    assert (done.code, done.out) == (0, "done\n")
    assert recorded("audit", "verify").code == 0


def test_a_right_has_the_uses_that_were_left(recorded):
    script = recorded.root / "note.json"
    note = {"name": "file.write", "input": {"path": "docs/a.md", "text": "again"}}
    calls = [{"tool_calls": [note]}, "noted"]
    script.write_text(json.dumps([*calls, *calls, *calls, *calls]))
    words = ("run", "note", "--model", f"scripted:{script}", "--session", "notes")
    assert [recorded(*words).code for _ in range(3)] == [0, 0, 3]
    assert recorded("audit", "rebuild", "--check").code == 0


def test_a_session_goes_on_with_what_was_said_in_it(recorded):
    messages = []
    for session in ("mine", "new"):
        recorded("run", "And now?", "--model", "scripted:demo", "--session", session)
        run = recorded("runs", "list", "--limit", "1", "--json").json["runs"][0]["run_id"]
        sent = [
            event["body"]["history"]["count"]
            for event in recorded.events()
            if event["kind"] == "model.start" and event["run_id"] == run
        ]
        messages.append(sent[0])
    assert messages[0] > messages[1]
