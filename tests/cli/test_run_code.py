"""`run --task run_code_snippet`: the first thing that a user tries."""

from pathlib import Path

import pytest

PROGRAM = """\
from pathlib import Path
Path("squares.txt").write_text("1 4 9")
print("hello", 6 * 7)
"""


def test_the_programs_output_is_all_that_is_on_stdout(clawhive):
    done = clawhive.snippet("print('one')\nprint('two')")
    assert (done.code, done.out) == (0, "one\ntwo\n")
    assert "policy: " in done.err
    assert "succeeded: clawhive runs show " in done.err


def test_code_comes_from_a_file_after_an_at_sign(clawhive):
    clawhive.root.joinpath("prog.py").write_text("print('from a file')")
    assert clawhive.snippet("@prog.py").out == "from a file\n"


def test_an_at_sign_twice_is_text_that_starts_with_one(clawhive):
    clawhive.root.joinpath("x").write_text("print('no')")
    done = clawhive.snippet("@@x")
    assert done.code == 1
    assert "no\n" not in done.out


def test_output_and_written_files_are_left_at_the_printed_place(clawhive):
    done = clawhive.snippet(PROGRAM)
    assert (done.code, done.out) == (0, "hello 42\n")
    folder = next(line for line in done.err.splitlines() if line.startswith("files: "))
    path = Path(folder.removeprefix("files: "))
    assert path.is_relative_to(clawhive.root / "clawhive-out")
    assert (path / "stdout.txt").read_text() == "hello 42\n"
    assert (path / "stderr.txt").read_text() == ""
    assert (path / "squares.txt").read_text() == "1 4 9"
    for name in ("stdout.txt", "stderr.txt", "squares.txt"):
        assert name in done.err


def test_the_out_option_names_the_folder(clawhive):
    done = clawhive.snippet(PROGRAM, "--out", "results")
    assert (clawhive.root / "results" / "squares.txt").read_text() == "1 4 9"
    assert f"files: {clawhive.root / 'results'}" in done.err


@pytest.mark.promise("P-002")
def test_artifacts_in_json_have_the_size_and_digest_of_what_is_there(clawhive):
    import hashlib

    run = clawhive.snippet(PROGRAM, "--json").json
    assert {artifact["path"] for artifact in run["artifacts"]} == {
        "stdout.txt",
        "stderr.txt",
        "squares.txt",
    }
    for artifact in run["artifacts"]:
        data = Path(run["artifacts_dir"], artifact["path"]).read_bytes()
        assert artifact["bytes"] == len(data)
        assert artifact["sha256"] == hashlib.sha256(data).hexdigest()


def test_files_are_written_beside_the_program(clawhive):
    files = '{"data/in.txt": "abc"}'
    code = "print(open('data/in.txt').read().upper())"
    assert clawhive.snippet(code, "--input", f"files={files}").out == "ABC\n"


@pytest.mark.promise("P-004")
def test_a_program_that_raises_fails_the_run_after_its_outputs_are_collected(clawhive):
    done = clawhive.snippet("print('before')\nraise ValueError('no')")
    assert (done.code, done.out) == (1, "before\n")
    assert "error[program_failed]" in done.err
    assert "ValueError: no" in done.err
    assert "stdout.txt" in done.err
    run = clawhive("runs", "show", "last", "--json").json
    assert [step["status"] for step in run["steps"]] == ["succeeded", "failed", "succeeded"]
    stderr = Path(run["artifacts_dir"], "stderr.txt").read_text()
    assert "ValueError" in stderr


@pytest.mark.parametrize(
    ("code", "line"),
    [
        ("x = 1\n\ndef f():\n    yield x\n", 4),
        ("class A(int):\n    pass\n", 1),
    ],
)
def test_what_the_engine_cannot_run_is_answered_with_the_line_and_an_engine(clawhive, code, line):
    done = clawhive.snippet(code, "--no-plugins=sandbox")
    assert done.code == 1
    assert "error[sandbox_unavailable]" in done.err
    assert f"line {line}: the engine `monty` cannot run" in done.err
    assert "an engine that runs all of python" in done.err
    assert "Traceback" not in done.err + done.out


@pytest.mark.parametrize("language", ["node", "javascript"])
def test_a_language_without_an_engine_is_answered_with_what_can_be_done(clawhive, language):
    done = clawhive(
        *("run", "--task", "run_code_snippet", "--input", f"language={language}"),
        *("--input", "code=console.log(1)", "--no-plugins=sandbox"),
    )
    assert done.code == 1
    assert "error[sandbox_unavailable]" in done.err
    assert "no engine here runs node: write it in python" in done.err


def test_javascript_runs_in_webassembly_and_is_replayed(clawhive):
    done = clawhive(
        *("run", "--task", "run_code_snippet", "--input", "language=javascript"),
        *("--input", "code=console.log([1, 2].map(n => n * 2), new Map([['a', 1]]))"),
    )
    assert (done.code, done.out) == (0, "[ 2, 4 ] Map(1) { 'a' => 1 }\n")
    assert clawhive("runs", "replay", "last").code == 0


@pytest.mark.slow
def test_python_that_monty_lacks_runs_in_webassembly_at_the_first_try(clawhive):
    code = "class A:\n    def f(self):\n        yield 1\nprint(list(A().f()))\n"
    done = clawhive.snippet(code)
    assert (done.code, done.out) == (0, "[1]\n"), done.err
    assert clawhive("runs", "replay", "last").code == 0


def test_a_language_that_nobody_listed_is_answered_with_those_that_may_run(clawhive):
    done = clawhive(
        *("run", "--task", "run_code_snippet", "--input", "language=cobol"),
        *("--input", "code=x"),
    )
    assert done.code == 1
    assert "python" in done.err


@pytest.mark.promise("P-006")
def test_a_limit_that_is_met_fails_the_run(clawhive):
    done = clawhive.snippet("while True: pass", "--input", "timeout_ms=200")
    assert done.code == 1
    assert "error[limit_reached]" in done.err


def test_the_run_is_shown_step_by_step(clawhive):
    clawhive.snippet(PROGRAM)
    shown = clawhive("runs", "show", "last")
    assert shown.code == 0
    for text in (
        "tool.sandbox.write_files (write_files)",
        "tool.sandbox.exec (exec)",
        "tool.sandbox.collect_outputs (collect_outputs)",
        "sandbox.exec:python -> allow",
        "squares.txt",
    ):
        assert text in shown.out


def test_runs_are_listed_newest_first_and_found_by_prefix(clawhive):
    clawhive.snippet("print(1)")
    clawhive.snippet("raise SystemExit(3)")
    runs = clawhive("runs", "list", "--json").json["runs"]
    assert [run["status"] for run in runs] == ["failed", "succeeded"]
    table = clawhive("runs", "list").out.splitlines()
    assert table[0].split() == ["RUN", "STATUS", "STARTED", "TITLE"]
    prefix = table[2].split()[0]
    assert clawhive("runs", "show", prefix, "--json").json["run_id"] == runs[1]["run_id"]
    assert len(clawhive("runs", "list", "--limit", "1", "--json").json["runs"]) == 1


@pytest.mark.promise("P-026")
def test_a_replay_finds_no_difference_also_of_a_failed_run(clawhive):
    for code in ("print(1)", "raise ValueError(1)"):
        clawhive.snippet(code)
        done = clawhive("runs", "replay", "last")
        assert done.code == 0
        assert "no difference in 8 events" in done.out


@pytest.mark.promise("P-027")
def test_a_replay_after_a_change_of_the_planner_fails_and_names_the_event(clawhive, monkeypatch):
    import inspect
    import types

    from clawhive_core.runs.plans import planners

    clawhive.snippet("print(1)")
    made = types.ModuleType("changed")
    source = inspect.getsource(planners).replace("steps[-1].name", "steps[-0].name")
    exec(compile(source, "changed", "exec"), made.__dict__)
    monkeypatch.setattr("clawhive_core.runs.plans.planners.ProcedurePlanner", made.ProcedurePlanner)
    done = clawhive("runs", "replay", "last")
    assert done.code == 1
    assert "event 3 (plan.made) differs" in done.out
    report = clawhive("runs", "replay", "last", "--json").json
    assert (report["ok"], report["difference"]["seq"]) == (False, 3)


def test_two_runs_of_one_session_share_the_sandbox_folder(clawhive):
    clawhive.snippet("open('kept.txt', 'w').write('x')", "--session", "conv_mine")
    done = clawhive.snippet("print(open('kept.txt').read())", "--session", "conv_mine")
    assert done.out == "x\n"


def test_a_programs_own_stderr_is_shown_as_it_is_written(clawhive):
    done = clawhive.snippet("import sys\nprint('careful', file=sys.stderr)\nprint('out')")
    assert done.out == "out\n"
    assert "careful" in done.err
