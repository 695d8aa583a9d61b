"""Agents on the command line: the tree of runs, planners, and what a project may say of them."""

import json

import pytest

CONFIG = """
[model]
default = "scripted:parent.json"

[agents.helper]
description = "Looks at things."
model = "scripted:child.json"
persona = "You look."
"""


@pytest.fixture
def project(clawhive):
    asked = {"tool_calls": [{"name": "agent.helper", "input": {"task": "look at a.txt"}}]}
    read = {"tool_calls": [{"name": "file.read", "input": {"path": "a.txt"}}]}
    files = {
        "clawhive.toml": CONFIG,
        "parent.json": json.dumps([asked, "It says hello."]),
        "child.json": json.dumps([read, "hello"]),
        "a.txt": "hello",
    }
    for name, text in files.items():
        clawhive.root.joinpath(name).write_text(text, "utf-8")
    return clawhive


@pytest.fixture
def trusted(project):
    assert project("trust", "--yes").code == 0
    return project


GRANT = ("--grant", "agent.spawn:helper")


@pytest.mark.promise("P-165")
def test_a_run_shows_the_sub_agents_that_it_started(trusted):
    done = trusted("run", "ask the helper", *GRANT)
    assert (done.code, done.out) == (0, "It says hello.\n")
    run = trusted("runs", "show", "last", "--json").json
    assert run["parent_run_id"] is None
    (child,) = run["children"]
    assert (child["principal"], child["status"]) == ("agent:helper", "succeeded")
    shown = trusted("runs", "show", run["run_id"]).out
    assert "succeeded  helper: look at a.txt" in shown
    below = trusted("runs", "show", child["run_id"]).out
    assert f"parent   {run['run_id']}" in below
    for each in (run["run_id"], child["run_id"]):
        assert trusted("runs", "replay", each).code == 0
    assert trusted("audit", "verify").code == 0


def test_without_the_right_the_run_waits_and_goes_on_after_the_answer(trusted):
    done = trusted("run", "ask the helper")
    assert done.code == 3
    assert "agent.helper" in done.err
    assert trusted("approvals", "approve", "last").code == 0
    assert trusted("runs", "resume", "last").out == "It says hello.\n"


def test_a_project_that_is_not_trusted_gives_no_agent_a_persona_or_a_description(project):
    tools = project("tools", "list", "--json").json["tools"]
    described = [tool["description"] for tool in tools if tool["name"] == "agent.helper"]
    assert described == [""]


def test_a_planner_that_is_not_there_is_refused_with_those_that_are(trusted):
    done = trusted("run", "x", "--planner", "guess")
    assert done.code == 2
    assert "there are: code, llm, procedure, react" in done.err
    done = trusted("run", "--task", "run_code_snippet", "--planner", "llm")
    assert (done.code, "--planner is for a PROMPT" in done.err) == (2, True)


def test_a_prompt_is_planned_by_a_model(trusted):
    plan = {"steps": [{"name": "read", "tool": "file.read", "input": {"path": "a.txt"}}]}
    script = [json.dumps(plan), "hello, it says"]
    trusted.root.joinpath("plan.json").write_text(json.dumps(script), "utf-8")
    run = trusted("run", "read it", "--planner", "llm", "--model", "scripted:plan.json", "--json")
    assert [step["label"] for step in run.json["steps"]] == ["read", "answer"]
    assert run.json["steps"][0]["output_preview"] == "hello"
    assert run.json["output"] == "hello, it says"


def test_after_the_answer_to_a_sub_agents_call_one_goes_on_with_the_run_that_one_started(trusted):
    write = {"tool_calls": [{"name": "file.write", "input": {"path": "b.txt", "text": "hi"}}]}
    trusted.root.joinpath("child.json").write_text(json.dumps([write, "written"]), "utf-8")
    done = trusted("run", "ask the helper", *GRANT)
    assert done.code == 3
    run = trusted("runs", "show", "last", "--json").json
    assert [child["status"] for child in run["children"]] == ["waiting_approval"]
    answered = trusted("approvals", "approve", "last")
    (line,) = [line for line in answered.err.splitlines() if line.startswith("go on: clawhive ")]
    assert line.rpartition(" ")[2] in run["run_id"]
    resumed = trusted(*line.split()[3:])
    assert (resumed.code, resumed.out) == (0, "It says hello.\n")
    assert trusted.root.joinpath("b.txt").read_text("utf-8") == "hi"


def asking_for_a_write(project):
    write = {"tool_calls": [{"name": "file.write", "input": {"path": "b.txt", "text": "b"}}]}
    project.root.joinpath("child.json").write_text(json.dumps([write, "written"]), "utf-8")


def test_a_run_says_which_call_of_a_sub_agent_waits(trusted):
    asking_for_a_write(trusted)
    done = trusted("run", "ask the helper", *GRANT)
    assert done.code == 3
    child = trusted("runs", "show", "last", "--json").json["children"][0]["run_id"]
    said = 'waits for a person: file.write: {"path":"b.txt","text":"b"}  (of agent:helper, run '
    assert f"{said}{child.removeprefix('run_')[:8]})" in done.err
    assert said in trusted("runs", "resume", "last").err


def test_a_call_that_is_made_again_is_shown_by_attempt_and_without_what_it_said_before(trusted):
    asking_for_a_write(trusted)
    trusted("run", "ask the helper", *GRANT)
    assert "attempt" not in trusted("runs", "show", "last").out
    assert trusted("approvals", "approve", "last").code == 0
    trusted.root.joinpath("child.json").write_text("[]", "utf-8")
    trusted("runs", "resume", "last")
    shown = trusted("runs", "show", "last").out
    assert "     attempt 1: parked\n     needs   agent.spawn:helper -> allow\n" in shown
    assert "     attempt 2: failed\n" in shown


def test_a_call_that_is_refused_at_its_second_attempt_does_not_show_what_the_first_said(trusted):
    asking_for_a_write(trusted)
    trusted("run", "ask the helper", *GRANT)
    assert "a sub-agent waits for a person" in trusted("runs", "show", "last").out
    file = trusted.root.joinpath("clawhive.toml")
    file.write_text(f'{CONFIG}\n[policy]\ndeny = ["agent.spawn:helper"]\n', "utf-8")
    assert trusted("trust", "--yes").code == 0
    assert trusted("approvals", "approve", "last").code == 0
    trusted("runs", "resume", "last")
    shown = trusted("runs", "show", "last").out
    assert "     attempt 2: refused\n" in shown
    assert "     error   denied: " in shown
    assert "a sub-agent waits for a person" not in shown
