"""What a CI pastes or points to: the action, the hook, the block of the page."""

import itertools
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
ACTION = yaml.safe_load(ROOT.joinpath("action.yml").read_text("utf-8"))
PAGE = ROOT.joinpath("docs/how-to/skills-in-ci.md").read_text("utf-8")
STEPS = {step["name"]: step for step in ACTION["runs"]["steps"]}
EVIL = ["$(touch pwned)", "; touch pwned", "`touch pwned`", "--fix", "*"]


@pytest.fixture
def action(tmp_path):
    """Run the action's own script, as a runner does, against this checkout."""
    program = tmp_path / "temp" / "clawhive" / "bin" / "clawhive"
    program.parent.mkdir(parents=True)
    call = "from clawhive_core.cli import main; main()"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -c "{call}" "$@"\n')
    program.chmod(0o755)
    project = tmp_path / "project"
    project.joinpath("skills", "bad").mkdir(parents=True)
    project.joinpath("skills", "bad", "clawhive.yaml").write_text("zzz: 1\n")

    def run(**inputs):
        given = {name: each["default"] for name, each in ACTION["inputs"].items()} | inputs
        expression = re.compile(r"\$\{\{ inputs\.(\w+) \}\}")
        env = {
            name: given[expression.fullmatch(value)[1]]
            for name, value in STEPS["Check"]["env"].items()
        }
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", "-c", STEPS["Check"]["run"]],
            cwd=project,
            env={
                "PATH": os.environ["PATH"],
                "HOME": str(tmp_path),
                "RUNNER_TEMP": str(tmp_path / "temp"),
                **env,
            },
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout, done.stderr

    run.project = project
    return run


@pytest.mark.promise("P-175")
def test_the_action_reports_findings_beside_their_lines(action):
    code, out, _ = action()
    assert (code, out.partition("::`")[0]) == (
        0,
        "::warning file=skills/bad/clawhive.yaml,line=1,col=1,title=CH0306",
    )
    assert action(strict="true")[0] == 1
    assert action(profile="strict", paths="skills")[0] == 1


def test_the_action_writes_a_report_into_a_file_and_takes_a_baseline(action):
    action.project.joinpath("my b.json").write_text('{"schema": "baseline/1", "findings": []}')
    code, out, _ = action(format="junit", output="my report.xml", baseline="my b.json")
    assert (code, out) == (0, "")
    assert action.project.joinpath("my report.xml").read_text().startswith("<?xml")


@pytest.mark.promise("P-175")
@pytest.mark.parametrize(
    "evils", [EVIL[:1] * 6, pytest.param(EVIL * 6, marks=pytest.mark.slow), [*EVIL[1:], *EVIL[3:]]]
)
def test_an_input_is_never_read_as_a_command_or_an_option(action, evils):
    names = ["paths", "profile", "format", "output", "baseline", "strict"]
    for name, evil in zip(itertools.cycle(names), evils, strict=False):
        code, _, err = action(**{name: evil})
        assert code in {0, 2}, err
    assert not action.project.joinpath("pwned").exists()
    assert action.project.joinpath("skills/bad/clawhive.yaml").read_text() == "zzz: 1\n"


def test_no_expression_stands_in_a_script():
    assert [name for name, step in STEPS.items() if "${{" in step["run"]] == []


def test_the_hook_looks_at_whole_repositories_when_a_file_of_a_skill_changes():
    (hook,) = yaml.safe_load(ROOT.joinpath(".pre-commit-hooks.yaml").read_text("utf-8"))
    assert hook["entry"].split() == ["clawhive", "skills", "check"]
    assert hook["pass_filenames"] is False
    changed = ("SKILL.md", "a/SKILL.md", "skills/a/clawhive.yaml", "skills/a.yaml", "x/handlers.py")
    assert [each for each in changed if not re.search(hook["files"], each)] == []
    assert not re.search(hook["files"], "docs/MY-SKILL.md")
    assert f"id: {hook['id']}" in PAGE


def test_the_block_to_paste_is_a_workflow_with_inputs_that_the_action_has():
    blocks = [yaml.safe_load(text) for text in re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)]
    (workflow,) = [each for each in blocks if "jobs" in each]
    assert workflow["permissions"] == {"contents": "read"}
    steps = workflow["jobs"]["skills"]["steps"]
    assert set(steps[1]["with"]) <= set(ACTION["inputs"])
    for name in ACTION["inputs"]:
        assert f"`{name}`" in PAGE or f"{name}:" in PAGE


@pytest.mark.promise("P-209")
@pytest.mark.parametrize(("required", "ends"), [([], 0), (["day"], 1)])
def test_the_steps_to_paste_compare_with_the_branch_that_a_request_goes_to(
    action, tmp_path, required, ends
):
    blocks = [yaml.safe_load(text) for text in re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)]
    (steps,) = [each for each in blocks if isinstance(each, list) and len(each) > 1]
    assert steps[0]["with"]["fetch-depth"] == 0
    assert set(steps[1]["with"]) <= set(ACTION["inputs"])
    assert (steps[2]["env"], "${{" in steps[2]["run"]) == (
        {"BASE": "${{ github.base_ref }}"},
        False,
    )
    file = action.project / "skills" / "bad" / "clawhive.yaml"
    tool = {"name": "rise", "input_schema": {"type": "object"}, "output_schema": {}}
    exports = {"api_version": "1.0", "tools": [tool]}
    file.write_text(yaml.safe_dump({"exports": exports}))
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "RUNNER_TEMP": str(tmp_path / "temp")}
    who = ("-c", "user.name=ana", "-c", "user.email=a@b.c")
    for words in (
        ("init", "-q"),
        ("add", "-A"),
        (*who, "commit", "-q", "-m", "one"),
        ("update-ref", "refs/remotes/origin/$(touch${IFS}pwned)", "HEAD"),
    ):
        subprocess.run(["git", *words], cwd=action.project, env=env, check=True)
    tool["input_schema"]["required"] = required
    file.write_text(yaml.safe_dump({"exports": exports}))
    done = subprocess.run(
        ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", "-c", steps[2]["run"]],
        cwd=action.project,
        env={**env, "BASE": "$(touch${IFS}pwned)"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout.startswith("::error file=skills/bad/")) == (
        ends,
        bool(ends),
    )
    assert not action.project.joinpath("pwned").exists()
