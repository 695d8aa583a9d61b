"""`clawhive approvals`, `runs resume`, `runs cancel`, `run --approve`: across processes."""

import json
import os
import pty
import re
import sys

import pytest

TEXT = "one\ntwo\nthree\n"
EDIT = ("run", "--task", "edit_docs", "--input", "path=a.md", "--input", "find=two")
EDIT += ("--input", "replace=2")


@pytest.fixture
def file(clawhive):
    path = clawhive.root / "a.md"
    path.write_text(TEXT, "utf-8")
    return path


@pytest.mark.promise("P-051")
def test_an_approved_change_is_written_once_exactly_as_shown(clawhive, file):
    parked = clawhive(*EDIT)
    assert parked.code == 3
    assert "clawhive approvals approve last" in parked.err
    assert "edit.apply" in clawhive("approvals", "list").out
    shown = clawhive("approvals", "show", "last").out
    assert "-two\n+2\n" in shown
    assert f"fs.write:{file}" in shown
    assert file.read_text("utf-8") == TEXT
    assert clawhive("approvals", "approve", "last").code == 0
    assert file.read_text("utf-8") == TEXT
    assert clawhive("runs", "resume", "last").code == 0
    assert file.read_text("utf-8") == "one\n2\nthree\n"
    again = clawhive("runs", "resume", "last")
    assert again.code == 1
    assert "not_resumable" in again.err
    assert clawhive("runs", "replay", "last").code == 0
    assert clawhive("audit", "verify").code == 0


def test_a_patch_is_an_edit_too(clawhive, file):
    patch = "--- a/a.md\n+++ b/a.md\n@@ -2 +2 @@\n-two\n+2\n"
    assert clawhive(*EDIT[:5], "--input", f"patch={patch}").code == 3
    clawhive("approvals", "approve", "last")
    assert clawhive("runs", "resume", "last").code == 0
    assert file.read_text("utf-8") == "one\n2\nthree\n"
    assert clawhive(*EDIT, "--input", f"patch={patch}").code == 2
    assert clawhive(*EDIT[:5]).code == 2


def test_a_call_without_a_diff_is_shown_whole(clawhive):
    script = clawhive.root / "script.json"
    text = "\n".join(f"line {number}" for number in range(100))
    call = {"name": "file.write", "input": {"path": "new.md", "text": text}}
    script.write_text(json.dumps([{"tool_calls": [call]}, "done"]), "utf-8")
    assert clawhive("run", "write it", "--model", f"scripted:{script}").code == 3
    shown = clawhive("approvals", "show", "last").out
    assert 'input    path = "new.md"' in shown
    assert all(f"  | line {number}\n" in shown for number in range(100))
    clawhive("approvals", "approve", "last")
    assert clawhive("runs", "resume", "last").out == "done\n"
    assert (clawhive.root / "new.md").read_text("utf-8") == text


def test_a_denied_change_leaves_the_file_and_says_why(clawhive, file):
    clawhive(*EDIT)
    assert clawhive("approvals", "deny", "last", "--reason", "wrong file").code == 0
    done = clawhive("runs", "resume", "last")
    assert done.code == 1
    assert "wrong file" in done.err
    assert file.read_text("utf-8") == TEXT


@pytest.mark.promise("P-052")
def test_a_file_that_changed_meanwhile_is_left_and_the_reason_told(clawhive, file):
    clawhive(*EDIT)
    clawhive("approvals", "approve", "last")
    file.write_text("another\n", "utf-8")
    done = clawhive("runs", "resume", "last")
    assert done.code == 1
    assert "changed after" in done.err
    assert file.read_text("utf-8") == "another\n"
    (row,) = clawhive("approvals", "list", "--all", "--json").json["approvals"]
    assert row["state"] == "drifted"


def test_with_deny_the_call_is_refused_with_the_grant_that_allows_it(clawhive, file):
    done = clawhive(*EDIT, "--approve", "deny", "--json")
    assert (done.code, done.json["error"]["code"]) == (1, "approval_required")
    grants = done.json["error"]["next"]["capabilities"]
    given = [word for each in grants for word in ("--grant", each)]
    assert clawhive(*EDIT, "--approve", "deny", *given).code == 0
    assert file.read_text("utf-8") == "one\n2\nthree\n"


def test_a_run_that_still_waits_exits_with_3_again(clawhive, file):
    clawhive(*EDIT)
    assert clawhive("runs", "resume", "last", "--json").json["status"] == "waiting_approval"
    assert clawhive("runs", "resume", "last").code == 3
    assert clawhive("runs", "resume", "last", "--approve", "deny").code == 1
    assert file.read_text("utf-8") == TEXT


def test_a_waiting_run_that_is_cancelled_ends_with_its_approval(clawhive, file):
    clawhive(*EDIT)
    assert clawhive("runs", "cancel", "last", "--json").json["status"] == "cancelled"
    assert clawhive("approvals", "approve", "last").code == 1
    assert clawhive("runs", "cancel", "last").code == 1
    assert clawhive("approvals", "list", "--json").json["approvals"] == []
    assert file.read_text("utf-8") == TEXT


@pytest.mark.promise("P-054")
@pytest.mark.parametrize("answer", ["approve", "deny"])
def test_nothing_is_answered_inside_a_run(clawhive, file, monkeypatch, answer):
    clawhive(*EDIT)
    monkeypatch.setenv("CLAWHIVE_RUN", "run_1")
    done = clawhive("approvals", answer, "last")
    assert done.code == 2
    assert "inside_run" in done.err
    assert clawhive("approvals", "list", "--json").json["approvals"][0]["state"] == "pending"


def test_an_approval_is_answered_once(clawhive, file):
    clawhive(*EDIT)
    clawhive("approvals", "deny", "last")
    done = clawhive("approvals", "approve", "last", "--json")
    assert (done.code, done.json["error"]) == (1, "already_resolved")


@pytest.mark.parametrize("command", ["show", "approve", "deny"])
def test_an_unknown_approval_is_told(clawhive, file, command):
    clawhive(*EDIT)
    done = clawhive("approvals", command, "none", "--json")
    assert (done.code, done.json["error"]) == (2, "unknown_id")


def test_listing_where_nothing_ever_ran_leaves_nothing_behind(clawhive):
    assert clawhive("approvals", "list", "--json").json["approvals"] == []
    assert not (clawhive.root / ".clawhive").exists()


def test_nobody_is_asked_without_a_terminal(clawhive, file):
    done = clawhive(*EDIT, "--approve", "ask")
    assert done.code == 2
    assert "--approve park" in done.err


def test_what_a_tool_shows_cannot_steer_the_terminal(clawhive, file):
    file.write_text("one\n\x1b[2Jtwo\n\u202ethree\n", "utf-8")
    clawhive(*EDIT)
    shown = clawhive("approvals", "show", "last").out
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    assert "\\x1b[2J" in shown


@pytest.mark.parametrize("words", [("list", "--all"), ("show", "last"), ("approve", "last")])
def test_the_json_is_what_its_schema_says(clawhive, file, words):
    import jsonschema_rs

    clawhive(*EDIT)
    value = clawhive("approvals", *words, "--json").json
    schema = json.loads(clawhive("schema", "approvals").out)
    assert list(jsonschema_rs.validator_for(schema).iter_errors(value)) == []
    assert len(value["approvals"]) == 1


def test_a_parked_run_is_what_its_schema_says(clawhive, file):
    import jsonschema_rs

    schema = json.loads(clawhive("schema", "run").out)
    for value in (clawhive(*EDIT, "--json").json, clawhive("runs", "show", "last", "--json").json):
        assert list(jsonschema_rs.validator_for(schema).iter_errors(value)) == []
        assert value["steps"][1]["status"] == "waiting_approval"


def on_a_terminal(clawhive, typed):
    """Run the edit with a terminal, type an answer at the question, return code and output."""
    process, terminal = pty.fork()
    if process == 0:
        os.chdir(clawhive.root)
        environ = {**os.environ, "HOME": str(clawhive.home), "NO_COLOR": "1"}
        environ["XDG_CONFIG_HOME"] = str(clawhive.home / ".config")
        code = "from clawhive_core.cli import main; main()"
        os.execve(sys.executable, [sys.executable, "-c", code, *EDIT], environ)
    shown = b""
    answers = list(typed)
    while True:
        try:
            part = os.read(terminal, 4096)
        except OSError:
            break
        if not part:
            break
        shown += part
        if answers and shown.rstrip(b"\r\n").endswith(b"n no > "):
            os.write(terminal, answers.pop(0).encode())
            shown += b"\n"
    status = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    os.close(terminal)
    return status, re.sub(r"\r\n", "\n", shown.decode())


@pytest.mark.parametrize(
    ("typed", "code", "text"),
    [
        (["y\n"], 0, "one\n2\nthree\n"),
        (["t\n"], 0, "one\n2\nthree\n"),
        (["what\n", "n\n"], 1, TEXT),
        (["\x04"], 3, TEXT),
    ],
)
@pytest.mark.slow
def test_on_a_terminal_the_person_is_asked_at_once(clawhive, file, typed, code, text):
    status, shown = on_a_terminal(clawhive, typed)
    assert (status, file.read_text("utf-8")) == (code, text)
    assert "-two\n+2\n" in shown
    assert f"fs.write:{file}" in shown
