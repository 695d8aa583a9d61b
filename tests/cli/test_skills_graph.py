"""`clawhive skills graph` and `why`, as they are typed."""

import json

import pytest

from tests.cli.test_json import check, one_object
from tests.harness import exports

IMPORTS = 'imports: [{from: planet, tools: [chart], min_version: "1.0"}]\n'


@pytest.fixture
def sky(clawhive):
    """Return the command line over a provider, its consumer, and a skill that lacks a tool."""
    clawhive.skill = lambda name, text: write(clawhive.root / "skills" / f"{name}", text)
    clawhive.skill("planet", exports("chart"))
    clawhive.skill("jung", IMPORTS)
    clawhive.skill("broken", "imports: [{from: nowhere, tools: [x]}]\n")
    return clawhive


def write(folder, text):
    folder.mkdir(parents=True, exist_ok=True)
    folder.joinpath("clawhive.yaml").write_text(text, "utf-8")
    folder.joinpath("handlers.py").write_text("def chart(input, ctx): ...\n", "utf-8")


@pytest.mark.promise("P-210")
def test_the_graph_is_printed_in_each_form(sky):
    shown = sky("skills", "graph").out
    assert "jung 0.0.0\n  imports planet >= 1.0: chart  skills/jung/clawhive.yaml:1:18\n" in shown
    assert "broken 0.0.0 (invalid)\n  imports nowhere: x (not satisfied)" in shown
    assert sky("skills", "graph", "--format", "dot").out.startswith("digraph skills {\n")
    assert sky("skills", "graph", "--format", "mermaid").out.startswith("flowchart LR\n")
    value = check(sky, one_object(sky("skills", "graph", "--json")), "skills-graph")
    assert sky("skills", "graph", "--format", "json").json == value
    states = {each["id"]: each["state"] for each in value["skills"]}
    assert (states["broken"], states["nowhere"]) == ("invalid", "missing")


def test_the_graph_of_some_skills_leaves_the_others_out(sky):
    value = sky("skills", "graph", "jung", "--json").json
    assert [each["id"] for each in value["skills"]] == ["jung", "planet"]
    done = sky("skills", "graph", "jumg")
    assert (done.code, "did you mean `jung`?" in done.err) == (2, True)
    assert sky("skills", "graph", "--format", "png").code == 2


def test_a_set_without_cycles_says_so_and_one_with_cycles_shows_them(sky):
    done = sky("skills", "graph", "--cycles")
    assert (done.code, done.out, done.err) == (0, "", "no cycles\n")
    sky.skill("planet", exports("chart") + IMPORTS.replace("planet", "jung"))
    sky.skill("jung", exports("chart") + IMPORTS)
    value = check(sky, sky("skills", "graph", "--cycles", "--json").json, "skills-graph")
    assert value["cycles"] == [["jung", "planet"]]
    assert len(value["imports"]) == 2
    assert "--x" in sky("skills", "graph", "--cycles", "--format", "mermaid").out


def test_mermaids_own_bound_is_told(sky):
    tools = ", ".join(f"web.t{number}" for number in range(600))
    sky.skill("hungry", f"requires: {{tools: [{tools}]}}\n")
    assert "maxEdges" in sky("skills", "graph", "--format", "mermaid").err
    assert sky("skills", "graph", "--format", "dot").err == ""


@pytest.mark.promise("P-212")
def test_why_prints_who_uses_a_tool_and_with_json_one_object(sky):
    done = sky("skills", "why", "planet.chart")
    assert done.out.splitlines() == [
        "planet.chart: of planet 0.0.0, API 1.0 (loaded)",
        "  <- jung imports planet.chart  skills/jung/clawhive.yaml:1:34",
        "it is in use: 1 skill imports it",
    ]
    value = check(sky, one_object(sky("skills", "why", "planet.chart", "--json")), "skills-why")
    assert (value["removable"], value["imported_by"][0]["skill"]) == (False, "jung")
    assert sky("skills", "why", "jung").out.endswith("nothing here uses it: it may be removed\n")


@pytest.mark.promise("P-212")
def test_why_prints_the_chain_of_reasons_below_each_other(sky):
    sky.skill("planet", exports("chart") + "requires: {env: [NO_SUCH_TOKEN]}\n")
    lines = sky("skills", "why", "jung").out.splitlines()
    assert lines[0] == "jung 0.0.0 (gated)"
    assert lines[1].startswith("  jung is gated: CH0612 `jung` cannot be loaded: it imports from")
    assert lines[2].startswith("    fix: ")
    assert lines[3].startswith("    planet is gated: CH0404 ")
    check(sky, sky("skills", "why", "jung", "--json").json, "skills-why")
    assert "the agent" not in sky("skills", "why", "planet").out
    config = sky.home / ".config" / "clawhive"
    config.mkdir(parents=True)
    config.joinpath("config.toml").write_text("[agents.seer]\nallow = ['planet.*']\n")
    assert "<- the agent seer names it: agents.seer.allow" in sky("skills", "why", "planet").out


def test_names_of_steps_and_of_what_is_missing_are_answered(sky):
    sky.skill("daily", "tasks: {job: {steps: [{name: look, tool: planet.chart}]}}\n")
    out = sky("skills", "why", "planet").out
    assert "  <- daily calls planet.chart in the step job.look  skills/daily/clawhive.yaml:1" in out
    assert "1 skill imports it, 1 step calls it" in out
    assert "nowhere (no skill is called so)" in sky("skills", "why", "nowhere").out
    check(sky, sky("skills", "why", "nowhere", "--json").json, "skills-why")
    value = check(sky, sky("skills", "why", "nowher", "--json").json, "error")
    assert (value["error"], value["fix"]) == ("unknown_id", "did you mean `nowhere`?")


def test_a_long_chain_is_printed_within_the_width_of_a_page(sky):
    before = "planet"
    for number in range(60):
        sky.skill(f"s{number:02}", exports("chart") + IMPORTS.replace("planet", before))
        before = f"s{number:02}"
    lines = sky("skills", "why", "planet").out.splitlines()
    assert len(lines) == 1 + 61 + 1
    assert max(len(line) - len(line.lstrip()) for line in lines) == 40
    assert sky("skills", "why", "planet", "--json").json["imported_by"][-1]["depth"] == 60


def test_what_a_file_says_does_not_steer_the_terminal(sky):
    sky.skill("evil", json.dumps({"version": "\x1b[31m\u202e", "imports": []}))
    for words in (("graph",), ("why", "evil"), ("graph", "--format", "dot")):
        out = sky("skills", *words).out
        assert "\x1b" not in out
        assert "\u202e" not in out
