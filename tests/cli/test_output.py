"""What reaches stdout and stderr: no terminal is steered, no secret told, no text lost."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from clawhive_core.cli import output

ODD = "a\x1b]0;title\x07b\x9b31mc\u202ed\x00e\x7ff\rg\nh"
_STEERS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
TOKEN = "ghp_" + "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0eF3hI6"
MAIN = "from clawhive_core.cli import main; main()"

TOOLS = """
from clawhive_core import tool

@tool
def echo(text: str) -> str:
    "Say it."
    return text

@tool
def tell(text: str) -> dict:
    "Say it in a field."
    return {"told": text}
"""


@pytest.mark.promise("P-249")
@pytest.mark.parametrize(
    "words",
    [
        ("runs", "list"),
        ("runs", "show", "last"),
        ("runs", "show", "last", "--json"),
        ("runs", "diff", "last", "FIRST"),
        ("audit", "tail"),
        ("audit", "query"),
        ("audit", "query", "--json"),
    ],
)
def test_what_is_told_of_a_run_cannot_steer_the_terminal(clawhive, words):
    first = clawhive("run", "go", "--model", "scripted:demo", "--json").json["run_id"]
    clawhive("run", f"look {ODD}", "--model", "scripted:demo")
    done = clawhive(*(first if word == "FIRST" else word for word in words))
    assert "look a" in done.out or "diff" in words
    assert not _STEERS.search(done.out.replace("\n", ""))


@pytest.mark.promise("P-249")
@pytest.mark.parametrize("tool", ["bad.echo", "bad.tell", "bad.crash"])
def test_what_a_tool_answers_cannot_steer_a_terminal(clawhive, site, tool, monkeypatch):
    crash = '\n@tool\ndef crash(text: str) -> str:\n    "Raise."\n    raise ValueError(text)\n'
    site.plugin("bad", TOOLS + crash)
    words = ("tools", "call", tool, "--args", json.dumps({"text": ODD}))
    monkeypatch.setattr(output, "is_terminal", lambda *_: True)
    done = clawhive(*words)
    assert "\\x1b]0;title\\x07b\\x9b31mc\\u202ed" in (done.out + done.err).replace("\\u00", "\\x")
    assert not _STEERS.search(re.sub(r"\n|\x1b\[\d+m", "", done.out + done.err))
    told = clawhive(*words, "--json")
    assert not _STEERS.search(told.out.replace("\n", ""))
    assert told.json["run_id"]


def test_an_answer_goes_to_a_file_as_it_is_and_to_a_terminal_with_its_lines(clawhive, monkeypatch):
    code = "print('one\\ttwo\\r\\nthree\\x07')"
    assert clawhive.snippet(code).out == "one\ttwo\r\nthree\x07\n"
    monkeypatch.setattr(output, "is_terminal", lambda *_: True)
    assert clawhive.snippet(code).out == "one\ttwo\\r\nthree\\x07\n"


def test_a_line_of_a_table_is_one_line_whoever_wrote_its_cells(capsys):
    output.say(*output.table([("a\nb", "c\u3000d")], ("X", "Y")), "x\ny")
    assert capsys.readouterr().out == "X     Y\na\\nb  c\u3000d\nx\\ny\n"


@pytest.mark.promise("P-250")
def test_a_call_prints_what_the_log_holds_and_no_secret(clawhive, site):
    crash = '\n@tool\ndef crash(text: str) -> str:\n    "Raise."\n    raise ValueError(text)\n'
    site.plugin("bad", TOOLS + crash)
    for tool in ("bad.echo", "bad.tell", "bad.crash"):
        words = ("tools", "call", tool, "--args", json.dumps({"text": f"key {TOKEN}"}))
        for more in ((), ("--json",)):
            done = clawhive(*words, *more)
            assert TOKEN not in done.out + done.err
            assert "key [redacted]" in done.out + done.err
    refused = clawhive("tools", "call", "file.read", "--args", json.dumps({"path": f"/{TOKEN}"}))
    assert refused.code == 1
    assert TOKEN not in refused.out + refused.err


@pytest.mark.promise("P-251")
def test_half_a_character_is_printed_as_its_code(clawhive, site):
    site.plugin("bad", TOOLS)
    words = ("tools", "call", "bad.echo", "--args", '{"text": "a\\udc80b"}')
    done = clawhive(*words)
    assert (done.code, done.out) == (0, "a\\udc80b\n")
    assert clawhive(*words, "--json").json["output"] == "a\\udc80b"


@pytest.mark.promise("P-251")
def test_an_answer_with_half_a_character_is_printed(clawhive):
    clawhive.root.joinpath("s.json").write_text('["long \\ud83d answer"]', "utf-8")
    done = clawhive("run", "go", "--model", "scripted:s.json")
    assert done.code == 0
    assert "internal_error" not in done.err
    assert done.out == "long \\ud83d answer\n"


def process(clawhive, *words, **streams):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.run(
        [sys.executable, "-c", MAIN, *words],
        cwd=clawhive.root,
        env=environment,
        text=True,
        check=False,
        stderr=subprocess.PIPE,
        **streams,
    )


@pytest.mark.promise("P-252")
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a full device")
@pytest.mark.parametrize(
    "words",
    [("runs", "list", "--json"), ("runs", "list"), ("--help",), ("runs", "show", "no", "--json")],
)
def test_a_full_output_is_one_error_on_stderr(clawhive, words):
    with Path("/dev/full").open("w") as full:
        done = process(clawhive, *words, stdout=full)
    assert done.returncode != 0
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr
    if "show" in words:
        assert done.stderr.startswith("error[unknown_id]")
    else:
        assert done.stderr.startswith("error[output_failed]: ")
        assert "  at:  stdout\n  fix: " in done.stderr


@pytest.mark.promise("P-252")
def test_a_closed_output_is_refused_before_anything_is_done(clawhive):
    words = ("run", "x", "--model", "scripted:demo")
    done = process(clawhive, *words, preexec_fn=lambda: os.close(1))
    assert done.returncode == 1
    assert done.stderr.startswith("error[output_failed]: ")
    assert done.stderr.count("error[") == 1
    assert not clawhive.root.joinpath(".clawhive", "hive.db").exists()


@pytest.mark.promise("P-252")
def test_a_closed_stderr_and_stdin_take_nothing_from_a_run(clawhive):
    def close():
        os.close(0)
        os.close(2)

    words = ("run", "x", "--model", "scripted:demo")
    done = process(clawhive, *words, preexec_fn=close, stdout=subprocess.PIPE)
    assert done.returncode == 0
    assert done.stdout


def test_a_replay_whose_model_fails_says_why(clawhive):
    script = clawhive.root / "s.json"
    script.write_text('["fine"]', "utf-8")
    clawhive("run", "go", "--model", "scripted:s.json")
    script.write_text("[]", "utf-8")
    done = clawhive("runs", "replay", "last", "--mode", "model")
    assert done.code == 1
    assert "differs: recorded succeeded" in done.out
    assert "error[script_exhausted]: " in done.err
