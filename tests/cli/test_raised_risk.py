"""A plugin's tool that calls itself safe and writes files: what its user sees, and is asked."""

import pytest

SOURCE = """
from clawhive_core import tool

@tool(risk="safe", effects={"path": "fs.write"})
def keep(path: str) -> str:
    "Write a file, on paper."
    return f"kept {path}"

@tool(risk="safe", effects={"path": "fs.write:${run}/{}"})
def leave(path: str) -> str:
    "Write into the run's folder, on paper."
    return f"left {path}"
"""
WHY = "declared safe, and it writes files"
ARGS = ("--args", '{"path": "a.md"}')


@pytest.fixture
def bold(clawhive, site):
    site.plugin("bold", SOURCE)
    return clawhive


@pytest.mark.promise("P-201")
def test_every_place_that_shows_the_tool_says_its_risk_and_why(bold):
    listed = bold("tools", "list", "--json").json["tools"]
    risks = {each["name"]: (each["risk"], each["raised"]) for each in listed}
    assert (risks["bold.keep"], risks["bold.leave"]) == (("guarded", WHY), ("safe", None))
    assert f"guarded: bold.keep: {WHY}" in bold("tools", "list").out.splitlines()
    shown = bold("tools", "show", "bold.keep").out
    assert "bold.keep  bold  L1  guarded" in shown
    assert f"risk:     {WHY}: decided as guarded" in shown
    assert "risk:" not in bold("tools", "show", "bold.leave").out
    explained = bold("policy", "explain", "bold.keep", *ARGS)
    assert "ask: bold.keep" in explained.out
    assert f"the tool's risk is guarded: {WHY}" in explained.out
    told = bold("explain", "CH0116").out
    assert "fs.write:${run}/{}" in told


@pytest.mark.promise("P-201")
def test_no_grant_but_a_persons_lets_it_run_unasked(bold):
    skill = bold.root / "skills" / "one"
    skill.mkdir(parents=True)
    skill.joinpath("clawhive.yaml").write_text(
        "id: one\n"
        'permissions: ["fs.write:${workspace}/**", "fs.write:${run}/**"]\n'
        "tasks:\n"
        "  keep: {steps: [{name: keep, tool: bold.keep, input: {path: a.md}}]}\n"
        "  leave: {steps: [{name: leave, tool: bold.leave, input: {path: a.md}}]}\n"
    )
    assert bold("skills", "trust", "one", "--yes").code == 0
    assert bold("run", "--task", "leave").code == 0
    assert bold("run", "--task", "keep").code == 3
    assert bold("run", "--task", "keep", "--grant", "fs.write:${workspace}/a.md").code == 0
    outside = bold("tools", "call", "bold.leave", "--args", '{"path": "../a.md"}')
    assert outside.code == 1
    assert "leads out of the run's folder" in outside.out + outside.err


@pytest.mark.promise("P-236")
def test_the_check_of_a_skill_says_the_risk_that_counts_and_writes_it(bold):
    skill = bold.root / "skills" / "one"
    skill.mkdir(parents=True)
    manifest = skill / "clawhive.yaml"
    manifest.write_text(
        "id: one\n"
        'permissions: ["fs.write:${workspace}/**"]\n'
        "exports:\n"
        '  api_version: "1.0"\n'
        "  tools:\n"
        "    - name: keep\n"
        "      risk: safe  # they say\n"
        "      effects: {path: fs.write}\n"
        "      input_schema: {type: object, properties: {path: {type: string}}}\n"
        "      output_schema: {}\n"
    )
    skill.joinpath("handlers.py").write_text("def keep(input, ctx): ...\n")
    assert bold("skills", "trust", "one", "--yes").code == 0
    (listed,) = [
        each for each in bold("tools", "list", "--json").json["tools"] if each["name"] == "one.keep"
    ]
    assert (listed["risk"], listed["raised"]) == ("guarded", WHY)
    checked = bold("skills", "check", "skills")
    assert checked.code == 0
    place = "skills/one/clawhive.yaml:7:13: warning CH0515 "
    assert f"{place}`keep` declares itself safe, and it writes files" in checked.out
    assert bold("skills", "check", "skills", "--strict").code == 1
    assert bold("skills", "check", "skills", "--fix", "--strict").code == 0
    assert "      risk: guarded  # they say\n" in manifest.read_text()
    assert "--fix" in bold("explain", "CH0515").out


@pytest.mark.promise("P-236")
def test_no_risk_is_written_that_the_skill_s_own_cap_forbids(bold):
    skill = bold.root / "skills" / "one"
    skill.mkdir(parents=True)
    manifest = skill / "clawhive.yaml"
    text = (
        "exports:\n"
        '  api_version: "1.0"\n'
        "  tools:\n"
        "    - {name: keep, risk: safe, side_effects: true, input_schema: {}, output_schema: {}}\n"
        "risk_policy: {max_risk: safe}\n"
    )
    manifest.write_text(text)
    skill.joinpath("handlers.py").write_text("def keep(input, ctx): ...\n")
    checked = bold("skills", "check", "skills", "--fix")
    assert (checked.code, checked.out.count("warning CH0515")) == (0, 1)
    assert "risk_policy caps it at safe" in checked.out
    assert manifest.read_text() == text
