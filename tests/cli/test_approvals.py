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


def test_a_wider_scope_says_what_it_gives_and_how_to_end_it(clawhive, file):
    clawhive(*EDIT)
    shown = clawhive("approvals", "show", "last").out
    assert "--scope step, task, session or always also gives" in shown
    done = clawhive("approvals", "approve", "last", "--scope", "always", "--expires", "2h")
    assert f"granted: fs.write:{file} to agent:default, always, until 20" in done.out
    assert "clawhive grants revoke" in done.err
    assert clawhive("runs", "resume", "last").code == 0
    listed = clawhive("grants", "list", "--json").json["grants"]
    assert {(each["capability"], each["scope"]) for each in listed} == {
        (f"fs.read:{file}", "persistent"),
        (f"fs.write:{file}", "persistent"),
    }
    file.write_text(TEXT, "utf-8")
    assert clawhive(*EDIT).code == 0
    while clawhive("grants", "list", "--json").json["grants"]:
        assert clawhive("grants", "revoke", "last").code == 0
    file.write_text(TEXT, "utf-8")
    assert clawhive(*EDIT).code == 3


def test_less_rights_than_the_call_needs_can_be_given(clawhive, file):
    clawhive(*EDIT)
    less = ("--scope", "session", "--grant", "fs.read:${workspace}/a.md")
    (row,) = clawhive("approvals", "approve", "last", *less, "--json").json["approvals"]
    assert [each["capability"] for each in row["grants"]] == [f"fs.read:{file}"]
    assert (row["scope"], row["edited"]) == ("session", False)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--scope", "task", "--grant", "fs.write:${workspace}/**"), "more than this call"),
        (("--scope", "task", "--grant", "fs.write"), "invalid_capability"),
        (("--grant", "fs.write:${workspace}/a.md"), "gives no right"),
        (("--expires", "2h"), "gives no right"),
        (("--scope", "task", "--expires", "soon"), "no duration"),
        (("--scope", "ever"), "'ever'"),
        (("--edit",), "--edit-json FILE"),
        (("--edit", "--edit-json", "x"), "both edit"),
        (("--edit-json", "none.json"), "cannot be read"),
        (("--edit-json", "."), "cannot be read"),
        (("--edit-json", "bad.json"), "bad.json:2:1"),
        (("--edit-json", "list.json"), "one JSON object"),
        (("--edit-json", "deep.json"), "nested"),
        (("--edit-json", "bytes.json"), "no UTF-8"),
        (("--edit-json", "other.json"), "proposal"),
    ],
)
def test_what_cannot_be_approved_so_is_told_and_still_waits(clawhive, file, words, said):
    texts = {"bad": '{"path":\n', "list": "[]", "deep": "[" * 200_000, "other": '{"path": "a.md"}'}
    for name, text in texts.items():
        (clawhive.root / f"{name}.json").write_text(text, "utf-8")
    (clawhive.root / "bytes.json").write_bytes(b"\xff\xfe")
    clawhive(*EDIT)
    done = clawhive("approvals", "approve", "last", *words)
    assert done.code == 2
    assert said in done.err
    assert "Traceback" not in done.err
    assert clawhive("approvals", "list", "--json").json["approvals"][0]["state"] == "pending"


def test_an_unsafe_tool_is_approved_call_by_call(clawhive, bad_tools):
    script = clawhive.root / "script.json"
    script.write_text(json.dumps([{"tool_calls": [{"name": "bad.wipe", "input": {}}]}, "done"]))
    assert clawhive("run", "wipe", "--model", f"scripted:{script}").code == 3
    assert "wider    none" in clawhive("approvals", "show", "last").out
    done = clawhive("approvals", "approve", "last", "--scope", "always")
    assert done.code == 2
    assert "unsafe" in done.err
    assert "leave --scope out" in done.err
    assert clawhive("approvals", "approve", "last").code == 0
    assert clawhive("runs", "resume", "last").out == "done\n"


def edited(clawhive, text):
    """Return the arguments of the waiting edit with another text for the file."""
    (event,) = [each for each in clawhive.events() if each["kind"] == "approval.requested"]
    proposal = event["body"]["tool_call"]["input"]["$value"]["proposal"]
    return json.dumps({"path": "a.md", "proposal": {**proposal, "content": text}})


def test_an_edited_change_is_shown_and_written_as_edited(clawhive, file):
    clawhive(*EDIT)
    (clawhive.root / "mine.json").write_text(edited(clawhive, "one\nZWEI\nthree\n"), "utf-8")
    done = clawhive("approvals", "approve", "last", "--edit-json", "mine.json")
    assert done.code == 0, done.err
    assert "-two\n+ZWEI\n" in done.out
    shown = clawhive("approvals", "show", "last").out
    assert "edited   A person edited the input" in shown
    assert "+ZWEI" in shown
    assert file.read_text("utf-8") == TEXT
    assert clawhive("runs", "resume", "last").code == 0
    assert file.read_text("utf-8") == "one\nZWEI\nthree\n"
    assert "(a person edited it)" in clawhive("runs", "show", "last").out
    assert clawhive("runs", "replay", "last").code == 0
    assert clawhive("audit", "verify").code == 0


def test_arguments_can_come_from_a_pipe(clawhive, file, monkeypatch):
    import io

    clawhive(*EDIT)
    given = edited(clawhive, "all new\n")
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(given.encode())))
    done = clawhive("approvals", "approve", "last", "--edit-json", "-", "--json")
    assert done.json["approvals"][0]["edited"] is True
    clawhive("runs", "resume", "last")
    assert file.read_text("utf-8") == "all new\n"


def test_an_edited_approval_and_run_are_what_their_schemas_say(clawhive, file):
    import jsonschema_rs

    clawhive(*EDIT)
    (clawhive.root / "mine.json").write_text(edited(clawhive, "new\n"), "utf-8")
    words = ("--edit-json", "mine.json", "--scope", "task", "--json")
    approvals = clawhive("approvals", "approve", "last", *words).json
    clawhive("runs", "resume", "last")
    for name, value in (
        ("approvals", approvals),
        ("run", clawhive("runs", "show", "last", "--json").json),
    ):
        schema = json.loads(clawhive("schema", name).out)
        assert list(jsonschema_rs.validator_for(schema).iter_errors(value)) == []


def test_nothing_is_edited_inside_a_run(clawhive, file, monkeypatch):
    clawhive(*EDIT)
    (clawhive.root / "mine.json").write_text("{}", "utf-8")
    monkeypatch.setenv("CLAWHIVE_RUN", "run_1")
    done = clawhive("approvals", "approve", "last", "--edit-json", "mine.json")
    assert (done.code, "inside_run" in done.err) == (2, True)


def test_a_cancelled_run_that_nobody_executed_is_in_a_checkpoint(clawhive, file):
    clawhive(*EDIT)
    clawhive("runs", "cancel", "last")
    verified = clawhive("audit", "verify", "--json").json
    assert (verified["ok"], verified["window_rows"]) == (True, 0)


def on_a_terminal(clawhive, typed, *words, editor=None):
    """Run a command on a terminal, type an answer at each question; return code and output."""
    process, terminal = pty.fork()
    if process == 0:
        os.chdir(clawhive.root)
        environ = {**os.environ, "HOME": str(clawhive.home), "NO_COLOR": "1"}
        environ["XDG_CONFIG_HOME"] = str(clawhive.home / ".config")
        environ["VISUAL"] = environ["EDITOR"] = editor or "false"
        code = "from clawhive_core.cli import main; main()"
        os.execve(sys.executable, [sys.executable, "-c", code, *(words or EDIT)], environ)
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
        if answers and re.search(rb"(no|back) > $|\[Y/n\]: $", shown):
            os.write(terminal, answers.pop(0).encode())
            shown += b"\n"
    status = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    os.close(terminal)
    return status, re.sub(r"\r\n", "\n", shown.decode())


@pytest.mark.parametrize(
    ("typed", "code", "text"),
    [
        (["y\n"], 0, "one\n2\nthree\n"),
        (["t\n", "\n"], 0, "one\n2\nthree\n"),
        (["s\n", "b\n", "c\n", "1 9\n", "a\n", "2\n"], 0, "one\n2\nthree\n"),
        (["t\n", "nonsense\n", "n\n"], 1, TEXT),
        (["what\n", "n\n"], 1, TEXT),
        (["t\n", "\x04", "\x04"], 3, TEXT),
        (["\x04"], 3, TEXT),
    ],
)
@pytest.mark.slow
def test_on_a_terminal_the_person_is_asked_at_once(clawhive, file, typed, code, text):
    status, shown = on_a_terminal(clawhive, typed)
    assert (status, file.read_text("utf-8")) == (code, text), shown
    assert "-two\n+2\n" in shown
    assert f"fs.write:{file}" in shown


@pytest.mark.slow
def test_on_a_terminal_rights_are_shown_and_taken_by_number(clawhive, file):
    status, shown = on_a_terminal(clawhive, ["a\n", "2\n"])
    assert status == 0
    assert f"  2  fs.write:{file}\n" in shown
    (grant,) = clawhive("grants", "list", "--json").json["grants"]
    assert grant["capability"] == f"fs.write:{file}"


@pytest.fixture
def editor(clawhive):
    """Return an editor that replaces a text in the file it is given, another one each time."""

    def make(*pairs):
        script = clawhive.home / "editor.py"
        script.write_text(
            "import sys, pathlib\n"
            f"count = pathlib.Path({str(clawhive.home / 'times')!r})\n"
            "times = len(count.read_text()) if count.exists() else 0\n"
            "count.write_text('x' * (times + 1))\n"
            f"old, new = {list(pairs)!r}[times]\n"
            "file = pathlib.Path(sys.argv[1])\n"
            "text = file.read_text('utf-8')\n"
            "assert old in text, text\n"
            "new is None or file.write_text(text.replace(old, new), 'utf-8')\n"
        )
        return f"{sys.executable} {script}"

    return make


@pytest.mark.slow
def test_on_a_terminal_the_call_is_edited_and_shown_again(clawhive, file, editor):
    there, back = ("one\\n2", "one\\nZWEI"), ("one\\nZWEI", "one\\n2")
    command = editor(there, back, there)
    status, shown = on_a_terminal(clawhive, ["e\n", "e\n", "e\n", "y\n"], editor=command)
    assert status == 0, shown
    assert re.findall("Approve, as (edited|asked)", shown) == ["edited", "asked", "edited"]
    assert "-two\n+ZWEI\n" in shown
    assert file.read_text("utf-8") == "one\nZWEI\nthree\n"


@pytest.mark.slow
def test_an_edit_that_cannot_be_used_is_edited_again_from_where_it_was(clawhive, file, editor):
    clawhive(*EDIT)
    command = editor(
        ('"path": "a.md",', '"path": "a.md"'), ('"path": "a.md"\n', '"path": "a.md",\n')
    )
    words = ("approvals", "approve", "last", "--edit")
    status, shown = on_a_terminal(clawhive, ["y\n"], *words, editor=command)
    assert status == 0, shown
    assert "this is no JSON" in shown
    assert "approved: edit.apply" in shown


@pytest.mark.slow
@pytest.mark.parametrize(
    ("pairs", "typed", "said"),
    [
        ([("two", None)], [], "without saving"),
        ([('"path"', "path")], ["n\n"], "nothing was answered"),
    ],
)
def test_who_gives_the_edit_up_has_answered_nothing(clawhive, file, editor, pairs, typed, said):
    clawhive(*EDIT)
    words = ("approvals", "approve", "last", "--edit")
    status, shown = on_a_terminal(clawhive, typed, *words, editor=editor(*pairs))
    assert status == 2, shown
    assert said in shown
    assert clawhive("approvals", "list", "--json").json["approvals"][0]["state"] == "pending"


@pytest.mark.slow
def test_an_editor_that_fails_or_is_closed_leaves_the_question_open(clawhive, file, editor):
    status, shown = on_a_terminal(clawhive, ["e\n", "y\n"], editor="false")
    assert (status, file.read_text("utf-8")) == (0, "one\n2\nthree\n"), shown
    file.write_text(TEXT, "utf-8")
    command = editor(("two", None))
    status, shown = on_a_terminal(clawhive, ["e\n", "n\n"], editor=command)
    assert (status, file.read_text("utf-8")) == (1, TEXT), shown


@pytest.mark.slow
def test_with_json_nothing_prompts_even_on_a_terminal(clawhive, file):
    status, shown = on_a_terminal(clawhive, [], *EDIT, "--json")
    assert status == 3
    assert "waiting_approval" in shown
