"""`run "PROMPT" --model scripted:demo`: rounds, a refusal with its next step, and what lifts it."""

import json
import shlex


def test_the_demo_reads_is_refused_and_says_so(clawhive):
    done = clawhive("run", "look around", "--model", "scripted:demo")
    assert done.code == 0
    assert "refused" in done.out
    assert "refused: file.list" in done.err


def test_one_line_sums_up_the_policy(clawhive):
    done = clawhive("run", "look around", "--model", "scripted:demo")
    (line,) = [line for line in done.err.splitlines() if line.startswith("policy: ")]
    words = line.replace(",", "").split()
    assert words[2::2] == ["allowed", "ask", "denied"]
    assert all(word.isdigit() for word in words[1::2])


def test_the_command_in_the_refusal_lifts_it(clawhive):
    done = clawhive("run", "look around", "--model", "scripted:demo")
    (line,) = [line for line in done.err.splitlines() if line.strip().startswith("fix: clawhive ")]
    words = shlex.split(line.strip().removeprefix("fix: "))
    assert words[0] == "clawhive"
    again = clawhive(*words[1:])
    assert again.code == 0
    assert "was allowed" in again.out
    assert "refused: " not in again.err


def test_the_steps_are_the_calls_and_the_answer(clawhive):
    run = clawhive("run", "look", "--model", "scripted:demo", "--json").json
    assert [(step["name"], step["action"]) for step in run["steps"]] == [
        ("tool.file.list", "tool_call"),
        ("tool.file.list", "tool_call"),
        ("respond", "respond"),
    ]
    assert run["steps"][1]["error"]["next"]["action"] == "grant"
    assert clawhive("runs", "replay", "last").code == 0


def test_a_script_from_a_file_drives_the_loop(clawhive):
    script = [{"tool_calls": [{"name": "file.read", "input": {"path": "a.txt"}}]}, "Read it."]
    clawhive.root.joinpath("s.json").write_text(json.dumps(script))
    clawhive.root.joinpath("a.txt").write_text("hello")
    run = clawhive("run", "go", "--model", "scripted:s.json", "--json").json
    assert run["output"] == "Read it."
    assert "hello" in run["steps"][0]["output_preview"]


def test_the_rounds_are_bounded(clawhive):
    call = {"tool_calls": [{"name": "file.list", "input": {"path": "."}}]}
    clawhive.root.joinpath("s.json").write_text(json.dumps([call] * 4))
    done = clawhive("run", "go", "--model", "scripted:s.json", "--max-tool-rounds", "2")
    assert done.code == 1
    assert "error[max_tool_rounds]" in done.err
    assert clawhive("run", "go", "--max-tool-rounds", "0").code == 2


def test_an_answer_of_no_use_fails_and_a_doubtful_one_is_said_on_stderr(clawhive):
    def answers(*script):
        clawhive.root.joinpath("s.json").write_text(json.dumps(script))
        return clawhive("run", "go", "--model", "scripted:s.json")

    done = answers(*[{"text": "half", "stop_reason": "malformed_call"}] * 9)
    assert (done.code, done.out) == (1, "")
    assert "error[model_malformed_call]" in done.err
    assert "fix: " in done.err
    done = answers(*[""] * 9)
    assert (done.code, done.out) == (1, "")
    assert "error[model_no_answer]" in done.err
    done = answers({"text": "half", "stop_reason": "other"})
    assert (done.code, done.out) == (0, "half\n")
    assert "warning[unknown_stop_reason]" in done.err
    (warning,) = clawhive("runs", "show", "last", "--json").json["warnings"]
    shown = clawhive("runs", "show", "last").out.splitlines()
    assert f"warning  unknown_stop_reason: {warning['message']}" in shown


def test_a_default_model_of_the_users_configuration_is_used(clawhive):
    folder = clawhive.home / ".config" / "clawhive"
    folder.mkdir(parents=True)
    folder.joinpath("clawhive.toml").write_text('[model]\ndefault = "scripted:demo"\n')
    folder.joinpath("config.toml").write_text('[model]\ndefault = "scripted:demo"\n')
    assert clawhive("run", "look").code == 0


def test_a_prompt_may_look_like_an_option_after_two_dashes(clawhive):
    done = clawhive("run", "--model", "scripted:demo", "--", "--json")
    assert done.code == 0
    assert not done.out.startswith("{")
    assert clawhive("runs", "list", "--json").json["runs"][0]["title"] == "--json"
