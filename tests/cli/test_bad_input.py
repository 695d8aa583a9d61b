"""Bad input: a code, the place, the fix, the right exit code, and nothing half-done."""

import json

import pytest


def test_malformed_toml_is_reported_at_its_line(clawhive):
    clawhive.root.joinpath("clawhive.toml").write_text('[model]\ndefault = "x\n')
    done = clawhive("runs", "list")
    assert done.code == 2
    assert "error[invalid_config]" in done.err
    assert "clawhive.toml:2" in done.err
    assert "Traceback" not in done.err


def test_malformed_toml_does_not_stop_help_version_or_explain(clawhive):
    clawhive.root.joinpath("clawhive.toml").write_text("[")
    for words in (("--help",), ("--version",), ("run", "--help"), ("explain", "denied")):
        assert clawhive(*words).code == 0, words
    assert clawhive("doctor").code == 1


@pytest.mark.promise("P-045")
def test_an_unknown_key_is_a_finding_with_its_place_and_not_an_error(clawhive):
    clawhive.root.joinpath("clawhive.toml").write_text("[loop]\nmax_tool_round = 3\n")
    done = clawhive("config", "show", "loop")
    assert done.code == 0
    assert "clawhive.toml:2" in done.err
    assert "max_tool_rounds" in done.err


def test_a_model_whose_plugin_is_wrongly_configured_says_what_is_wrong(clawhive, site):
    source = """
from clawhive_core import ClawHiveError, hookimpl

@hookimpl
def clawhive_llm_adapters(ctx):
    raise ClawHiveError("`plugins.far.url` is no address", place="plugins.far.url", fix="mend it")
"""
    manifest = '[plugin]\nid = "far"\nhook_api = 1\nhooks = ["clawhive_llm_adapters"]\n'
    site.plugin("far", source, manifest=manifest)
    done = clawhive("run", "x", "--model", "far:some")
    assert done.code == 1
    assert "`plugins.far.url` is no address" in done.err
    assert "fix: mend it" in done.err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("run", "--task", "run_code_snipet"), "did you mean `run_code_snippet`?"),
        (("run", "x"), "scripted:demo"),
        (("run", "x", "--model", "scripte:demo"), "did you mean `scripted:demo`?"),
        (("run", "x", "--model", "demo"), "scripted:NAME"),
        (("run", "x", "--model", "scripted:demo", "--grant", "fs.raed:/x"), "fs.read"),
        (("run", "x", "--model", "scripted:demo", "--grant", ""), "error["),
        (("run", "x", "--model", "scripted:demo", "--out", ".clawhive/x"), "--out"),
        (("run", "x", "--task", "y"), "PROMPT or --task"),
        (("run", " ", "--model", "scripted:demo"), "is empty"),
        (("run", "--task", "run_code_snippet", "--input", "language"), "KEY=VALUE"),
        (("run", "--task", "run_code_snippet", "--input", "=x"), "KEY=VALUE"),
        (("run", "--task", "run_code_snippet", "--input", "code=@none"), "cannot be read"),
        (("run", "--task", "run_code_snippet", "--input", "@none"), "cannot be read"),
        (("run", "--task", "run_code_snippet", "--input", "code=@."), "cannot be read"),
        (("run", "--task", "run_code_snippet", "--input", "files=x"), "takes JSON"),
        (("tools", "show", "fil.read"), "did you mean `file.read`?"),
        (("tools", "call", "file.read", "--args", "["), "--args"),
        (("tools", "call", "file.read", "--args", "[]"), "no JSON object"),
        (("config", "show", "routin"), "did you mean `routing`?"),
        (("explain", "denid"), "did you mean `denied`?"),
        (("schema", "runz"), "did you mean `run`?"),
        (("runs", "show", "last"), "no run is recorded here"),
        (("runs", "replay", "last"), "no run is recorded here"),
        (("runs", "replay", "last", "--mode", "sideways"), "--mode"),
        (("audit", "tail", "-n", "-1"), "-n"),
        (("rnus",), "rnus"),
        (("--root", "none", "runs", "list"), "--root"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_wrong_usage_says_what_would_be_right(clawhive, words, says):
    done = clawhive(*words)
    assert done.code == 2
    assert says in done.err
    assert done.out == ""
    assert "Traceback" not in done.err


@pytest.mark.parametrize(
    ("inputs", "place"),
    [
        (("language=python",), "/code"),
        (("language=python", "code=x", "timeout_ms=0"), "/timeout_ms"),
        (("language=python", "code=x", 'timeout_ms="5"'), "/timeout_ms"),
        (("language=python", "code=x", "files=[]"), "/files"),
        (("language=python", "code=x", 'files={"a": 1}'), "/files/a"),
        (("language=python", "code=x", "cod=y"), "/cod"),
        (("language=", "code=x"), "/language"),
    ],
)
@pytest.mark.promise("P-042")
def test_an_input_that_fails_its_schema_shows_the_arguments_path(clawhive, inputs, place):
    words = [word for each in inputs for word in ("--input", each)]
    done = clawhive("run", "--task", "run_code_snippet", *words)
    assert done.code == 2
    assert "error[invalid_input]" in done.err
    assert f"at:  {place}\n" in done.err
    as_json = clawhive("run", "--task", "run_code_snippet", *words, "--json").json
    assert as_json["place"] == place
    assert clawhive("runs", "list", "--json").json["runs"] == []


def test_whole_inputs_come_from_a_json_file_and_later_words_win(clawhive):
    clawhive.root.joinpath("in.json").write_text('{"language": "python", "code": "print(1)"}')
    done = clawhive("run", "--task", "run_code_snippet", "--input", "@in.json")
    assert done.out == "1\n"
    more = ("--input", "code=print(2)")
    assert clawhive("run", "--task", "run_code_snippet", "--input", "@in.json", *more).out == "2\n"


@pytest.mark.parametrize("text", ["[1]", "{", "\0", "nul"])
def test_an_input_file_that_is_no_json_object_is_refused(clawhive, text):
    clawhive.root.joinpath("in.json").write_text(text)
    done = clawhive("run", "--task", "run_code_snippet", "--input", "@in.json")
    assert done.code == 2
    assert "in.json holds no JSON" in done.err


def test_a_file_that_is_no_utf8_text_is_refused(clawhive):
    clawhive.root.joinpath("x.py").write_bytes(b"\xff\xfe")
    done = clawhive.snippet("@x.py")
    assert done.code == 2
    assert "no UTF-8 text" in done.err


@pytest.mark.parametrize(
    ("tool", "code", "says"),
    [
        ("bad.hang", "timeout", "0.05 s"),
        ("bad.crash", "tool_failed", "boom"),
        ("bad.wrong", "invalid_output", "required"),
        ("bad.odd", "invalid_output", ""),
    ],
)
@pytest.mark.promise("P-037")
def test_a_tool_that_misbehaves_is_a_failed_call_with_a_code(clawhive, bad_tools, tool, code, says):
    done = clawhive("tools", "call", tool)
    assert done.code == 1
    assert f"error[{code}]" in done.err
    assert says in done.err
    value = clawhive("tools", "call", tool, "--json").json
    assert (value["schema"], value["structured"]["error"]) == ("tool-result/1", code)
    assert clawhive("audit", "verify").code == 0


@pytest.mark.promise("P-016")
def test_a_guarded_tool_needs_a_persons_grant_and_says_which(clawhive, bad_tools):
    words = ("tools", "call", "bad.keep", "--args", '{"path": "x"}')
    refused = clawhive(*words, "--json")
    assert refused.code == 1
    assert refused.json["error"] == "approval_required"
    (capability,) = refused.json["next"]["capabilities"]
    allowed = clawhive(*words, "--grant", capability)
    assert (allowed.code, allowed.out) == (0, "kept x\n")


@pytest.mark.promise("P-015")
def test_no_grant_waives_the_question_of_an_unsafe_tool(clawhive, bad_tools):
    done = clawhive("tools", "call", "bad.wipe", "--grant", "tool.call:bad.wipe", "--json")
    assert done.code == 1
    assert done.json["error"] == "approval_required"
    assert done.json["next"]["action"] == "ask_user"


def test_a_refused_argument_is_shown_with_its_path(clawhive):
    done = clawhive("tools", "call", "file.read", "--args", '{"path": 1}')
    assert done.code == 2
    assert "error[invalid_input]" in done.err
    assert "at:  /path" in done.err


@pytest.mark.parametrize("words", [("file.raed",), ("file.read", "--args", '{"path": 1}')])
def test_a_call_of_no_tool_or_with_bad_input_is_wrong_usage_and_no_run(clawhive, words):
    done = clawhive("tools", "call", *words, "--json")
    assert (done.code, "run_id" in done.json) == (2, False)
    assert clawhive("runs", "list", "--json").json["runs"] == []


def test_two_inputs_that_are_missing_are_named_each_once(clawhive):
    done = clawhive("run", "--task", "edit_docs", "--json")
    assert done.code == 2
    paths = done.json["data"]["paths"] if "data" in done.json else done.json["paths"]
    assert len(paths) == len(set(paths)) >= 2


def test_without_a_database_there_is_nothing_to_set_aside(clawhive):
    done = clawhive("trust", "--fresh")
    assert (done.code, done.err) == (0, "")
    assert "there is no database to set aside" in done.out


def test_a_tools_own_failure_reads_as_an_error_with_its_fix(clawhive):
    done = clawhive("tools", "call", "file.read", "--args", '{"path": "none.txt"}')
    assert done.code == 1
    assert done.err.startswith("error[not_found]: none.txt does not exist")
    assert "fix: " in done.err


def test_an_out_folder_that_is_a_file_is_refused_before_anything_runs(clawhive):
    clawhive.root.joinpath("taken").write_text("")
    done = clawhive.snippet("print(1)", "--out", "taken")
    assert (done.code, done.out) == (2, "")
    assert "at:  --out" in done.err


def test_a_session_id_never_leads_out_of_the_sandbox_folder(clawhive):
    done = clawhive.snippet("open('x', 'w').write('1')", "--session", "../../up")
    assert not (clawhive.root.parent / "up").exists()
    assert not (clawhive.root.parent.parent / "up").exists()
    assert done.code in {0, 1, 2}


def test_words_that_are_no_utf8_are_taken_without_a_crash(clawhive):
    done = clawhive("run", "bad \udcff byte", "--model", "scripted:demo", "--json")
    assert done.code == 0
    assert clawhive("audit", "verify").code == 0
    assert clawhive("runs", "replay", "last").code == 0


def test_state_that_is_a_file_is_an_error_with_the_place(clawhive):
    clawhive.root.joinpath(".clawhive").write_text("")
    done = clawhive.snippet("print(1)")
    assert done.code == 1
    assert "error[storage_failed]" in done.err
    assert ".clawhive" in done.err
    assert "fix: " in done.err


def test_a_database_that_is_none_is_an_error_with_a_fix(clawhive):
    clawhive.root.joinpath(".clawhive").mkdir()
    clawhive.root.joinpath(".clawhive", "hive.db").write_bytes(b"no database " * 1000)
    for words in (("runs", "list"), ("audit", "tail"), ("audit", "verify"), ("runs", "show", "x")):
        done = clawhive(*words)
        assert done.code == 1, words
        assert "not an SQLite database" in done.err
        assert "fix: " in done.err


@pytest.mark.promise("P-047")
def test_a_newer_database_names_the_version_to_install(clawhive):
    import sqlite3
    from contextlib import closing

    clawhive.snippet("print(1)")
    with closing(sqlite3.connect(clawhive.root / ".clawhive" / "hive.db")) as other:
        other.execute("UPDATE rooms SET version = 999, written_by = '9.9.9' WHERE room = 'runs'")
        other.commit()
    done = clawhive("runs", "list", "--json")
    assert done.code == 1
    assert done.json["error"] == "database_too_new"
    assert "9.9.9" in json.dumps(done.json)


@pytest.mark.promise("P-046")
def test_reading_commands_leave_no_state_behind(clawhive):
    for words in (
        ("--help",),
        ("plugins",),
        ("runs", "list"),
        ("runs", "show", "last"),
        ("audit", "tail"),
        ("audit", "verify"),
        ("config", "show"),
        ("doctor",),
        ("explain", "denied"),
    ):
        clawhive(*words)
        assert list(clawhive.root.iterdir()) == [], words
