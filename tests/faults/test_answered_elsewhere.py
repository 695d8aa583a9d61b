"""A run that asks on its terminal hears what is said in another process."""

import json

import pytest

pytestmark = pytest.mark.slow

TEXT = "one\ntwo\nthree\n"
EDIT = ("run", "--task", "edit_docs", "--input", "path=a.md", "--input", "find=two")
EDIT += ("--input", "replace=2")


@pytest.fixture
def file(processes):
    path = processes.root / "a.md"
    path.write_text(TEXT, "utf-8")
    return path


@pytest.fixture
def asking(processes, file):
    terminal = processes.on_terminal(*EDIT)
    terminal.until("n no > ")
    yield terminal
    terminal.close()


def test_an_approval_from_another_process_lets_it_go_on(processes, asking, file):
    assert processes("approvals", "approve", "last").code == 0
    asking.until("succeeded")
    assert asking.process.wait(300) == 0
    assert file.read_text("utf-8") == "one\n2\nthree\n"
    assert processes("audit", "verify").code == 0


def test_a_denial_from_another_process_ends_it(processes, asking, file):
    assert processes("approvals", "deny", "last", "--reason", "not now").code == 0
    asking.until("not now")
    assert asking.process.wait(300) == 1
    assert file.read_text("utf-8") == TEXT


def test_an_edit_from_another_process_is_what_it_does(processes, asking, file):
    rows = processes("audit", "tail", "-n", "99", "--jsonl").out.splitlines()
    (asked,) = [row for row in map(json.loads, rows) if row["kind"] == "approval.requested"]
    given = asked["body"]["tool_call"]["input"]["$value"]
    given["proposal"]["content"] = "mine\n"
    (processes.root / "mine.json").write_text(json.dumps(given), "utf-8")
    done = processes("approvals", "approve", "last", "--edit-json", "mine.json")
    assert done.code == 0, done.err
    assert asking.process.wait(300) == 0
    assert file.read_text("utf-8") == "mine\n"
    assert processes("runs", "replay", "last").code == 0


def test_a_cancellation_from_another_process_ends_it_with_its_question(processes, asking, file):
    done = processes("runs", "cancel", "last")
    assert "its process was told" in done.out
    assert asking.process.wait(300) == 1
    assert processes("runs", "show", "last", "--json").json["status"] == "cancelled"
    (approval,) = processes("approvals", "list", "--all", "--json").json["approvals"]
    assert approval["state"] == "expired"
    assert file.read_text("utf-8") == TEXT
    verified = processes("audit", "verify", "--json").json
    assert (verified["ok"], verified["window_rows"]) == (True, 0)


def test_a_cancellation_from_another_process_ends_a_running_program(processes):
    process = processes.snippet("import sys\nprint('on', file=sys.stderr)\nwhile True:\n    pass\n")
    while b"on\n" not in process.stderr.readline():
        assert process.poll() is None
    assert processes("runs", "cancel", "last").code == 0
    assert processes.end(process).code == 1
    assert processes("runs", "show", "last", "--json").json["status"] == "cancelled"
    verified = processes("audit", "verify", "--json").json
    assert (verified["ok"], verified["window_rows"]) == (True, 0)
