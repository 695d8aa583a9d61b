"""The reports that CI systems read: SARIF, workflow commands, code quality, JUnit."""

import json
import os
import re
from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote
from xml.etree import ElementTree as ET

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawhive_core.diagnostics import Finding, Fix
from clawhive_core.diagnostics.reports import OUTPUTS, fingerprints, render

REPORTS = sorted(set(OUTPUTS) - {"text", "json"})
SARIF = json.loads(Path(__file__).with_name("sarif-subset.json").read_text("utf-8"))
GITLAB = {
    "type": "array",
    "items": {
        "type": "object",
        "required": ["description", "check_name", "fingerprint", "severity", "location"],
        "additionalProperties": False,
        "properties": {
            "description": {"type": "string"},
            "check_name": {"type": "string", "minLength": 1},
            "fingerprint": {"type": "string", "minLength": 1},
            "severity": {"enum": ["info", "minor", "major", "critical", "blocker"]},
            "location": {
                "type": "object",
                "required": ["path", "lines"],
                "properties": {
                    "path": {"type": "string", "minLength": 1},
                    "lines": {
                        "type": "object",
                        "required": ["begin"],
                        "properties": {"begin": {"type": "integer", "minimum": 1}},
                    },
                },
            },
        },
    },
}
FOUND = [
    Finding("CH0204", "note", "the folder is called `a`", "skills/a b/SKILL.md", 2, 7),
    Finding("CH0901", "error", "50% of it\nis: unknown, x", "a,b:c.toml", 2, 5, fix=Fix("mend")),
    Finding("CH0902", "warning", "w", "/abs/x.toml"),
    Finding("CH0405", "error", "it has no place"),
]
ANY_TEXT = st.text(max_size=12) | st.text(alphabet="%:,\r\n\0\x1b<>&\"'\u202e\ufffe", max_size=8)
ANY_FINDING = st.builds(
    Finding,
    st.sampled_from(["CH0204", "CH0901", "CH9999"]),
    st.sampled_from(["error", "warning", "note"]),
    ANY_TEXT,
    st.none()
    | st.text(min_size=1, max_size=8)
    | st.sampled_from(["a", "/b", os.fsdecode(b"\xff")]),
    st.none() | st.integers(1, 9),
    st.none() | st.integers(1, 9),
    fix=st.none() | ANY_TEXT.map(Fix),
)


def results(text):
    (run,) = json.loads(text)["runs"]
    return run["results"]


@pytest.mark.promise("P-169")
@given(st.lists(ANY_FINDING, max_size=5))
def test_whatever_is_found_each_report_keeps_to_its_form(some):
    number = len(set(some))
    sarif, gitlab = render(some, "sarif"), render(some, "gitlab")
    jsonschema.Draft7Validator(SARIF).validate(json.loads(sarif))
    jsonschema.Draft202012Validator(GITLAB).validate(json.loads(gitlab))
    assert len(results(sarif)) == len(json.loads(gitlab)) == number
    assert len(render(some, "github").split("\n")) == number + 1
    assert len(list(ET.fromstring(render(some, "junit")).iter("testcase"))) == max(number, 1)


@given(st.lists(ANY_FINDING, max_size=5), st.randoms())
def test_a_report_is_the_same_bytes_whatever_the_order_and_can_be_written(some, random):
    other = [*some, *some]
    random.shuffle(other)
    for name in REPORTS:
        assert render(some, name) == render(other, name)
        render(some, name).encode("utf-8")


def test_sarif_names_files_from_the_source_root_with_escaped_uris():
    places = [each["locations"][0]["physicalLocation"] for each in results(render(FOUND, "sarif"))]
    artifacts = [place["artifactLocation"] for place in places]
    assert artifacts == [
        {"uri": ".", "uriBaseId": "SRCROOT"},
        {"uri": "file:///abs/x.toml"},
        {"uri": "a%2Cb%3Ac.toml", "uriBaseId": "SRCROOT"},
        {"uri": "skills/a%20b/SKILL.md", "uriBaseId": "SRCROOT"},
    ]
    assert places[3]["region"] == {"startLine": 2, "startColumn": 7}
    assert "region" not in places[1]


def test_sarif_explains_each_code_once_and_points_to_it():
    (run,) = json.loads(render(FOUND, "sarif"))["runs"]
    rules = run["tool"]["driver"]["rules"]
    assert [rule["id"] for rule in rules] == ["CH0204", "CH0405", "CH0901", "CH0902"]
    assert all(rules[each["ruleIndex"]]["id"] == each["ruleId"] for each in run["results"])
    assert rules[2]["shortDescription"]["text"] == "Unknown configuration key"


def test_a_workflow_command_cannot_be_ended_or_forged_by_what_a_file_says():
    evil = Finding("CH0901", "error", "x\n::error file=y::forged\r%0A", "a::b,c\n.toml", 1, 1)
    command, summary = render([evil], "github").split("\n")
    properties, _, data = command.removeprefix("::error ").partition("::")
    facts = dict(each.split("=", 1) for each in properties.split(","))
    assert facts == {
        "file": "a%3A%3Ab%2Cc\\n.toml",
        "line": "1",
        "col": "1",
        "title": "CH0901",
    }
    assert unquote(data) == "x\\n::error file=y::forged\\r%0A"
    assert summary == "1 finding: 1 error"


def test_a_workflow_command_has_the_severity_of_its_finding():
    lines = render(FOUND, "github").split("\n")
    assert [re.match(r"::(\w+)", line)[1] for line in lines[:-1]] == [
        *("error", "warning", "error", "notice"),
    ]


def test_junit_counts_errors_as_failures_and_warnings_only_strictly():
    def failures(**more):
        root = ET.fromstring(render(FOUND, "junit", **more))
        suites = [int(suite.get("failures")) for suite in root.iter("testsuite")]
        assert sum(suites) == int(root.get("failures")) == len(list(root.iter("failure")))
        return [each.get("type") for each in root.iter("failure")]

    assert failures() == ["CH0405", "CH0901"]
    assert failures(strict=True) == ["CH0405", "CH0902", "CH0901"]


def test_nothing_found_is_a_report_too():
    assert results(render([], "sarif")) == []
    assert json.loads(render([], "gitlab")) == []
    (case,) = ET.fromstring(render([], "junit")).iter("testcase")
    assert list(case) == []
    assert render([], "github") == "no findings"


@given(st.lists(ANY_FINDING, max_size=6), st.integers(1, 99))
def test_a_fingerprint_survives_moved_lines_and_names_one_finding(some, by):
    names = fingerprints(some)
    assert len(set(names)) == len(some)
    moved = [replace(each, line=(each.line or 0) + by, column=by) for each in some]
    assert fingerprints(moved) == names


def test_a_fingerprint_does_not_hold_the_lines_that_a_message_names():
    one = Finding("CH0227", "error", "it was set in line 3 before (in a/b.yaml:3:4)", "f")
    two = Finding("CH0227", "error", "it was set in line 12 before (in a/b.yaml:12:1)", "f")
    other = Finding("CH0227", "error", "it was set in line 12 before (in a/c.yaml:12:1)", "f")
    assert fingerprints([one]) == fingerprints([two]) != fingerprints([other])
