"""`clawhive skills check` as CI uses it: forms, profiles, fixes, the baseline."""

import json
from xml.etree import ElementTree as ET

import jsonschema
import pytest

from tests.cli.test_json import check, one_object

BAD = """\
permision: []
exports: {api_version: 1.10, tools: []}
imports: [{from: gone, tools: [x]}]
"""


@pytest.fixture
def bad(clawhive):
    folder = clawhive.root / "skills" / "bad"
    folder.mkdir(parents=True)
    folder.joinpath("clawhive.yaml").write_text(BAD)
    return clawhive


def text(clawhive):
    return clawhive.root.joinpath("skills/bad/clawhive.yaml").read_text()


@pytest.mark.parametrize("form", ["sarif", "github", "gitlab", "junit"])
def test_a_report_is_all_that_stands_on_stdout_and_the_exit_code_is_the_same(bad, form):
    done = bad("skills", "check", "skills", "--format", form)
    assert done.code == 1
    if form == "junit":
        assert ET.fromstring(done.out).get("failures") == "2"
    elif form == "github":
        assert done.out.startswith("::warning file=skills/bad/clawhive.yaml,line=1,col=1,")
    else:
        json.loads(done.out)
    assert bad("skills", "check", "skills", "--format", form).out == done.out


def test_a_table_of_calls_is_reported_in_the_same_forms(clawhive):
    table = "calls:\n- {tool: file.read, input: {path: a.md}, expect: deny}\n"
    clawhive.root.joinpath("policy.yaml").write_text(table)
    done = clawhive("policy", "test", "policy.yaml", "--format", "github")
    assert (done.code, done.out.partition(",")[0]) == (1, "::error file=policy.yaml")


def test_an_unknown_form_is_refused_before_anything_is_mended(bad):
    done = bad("skills", "check", "skills", "--fix", "--format", "sarf")
    assert (done.code, "use sarif" in done.err) == (2, True)
    assert text(bad) == BAD


@pytest.mark.promise("P-170")
def test_fix_mends_what_is_certain_and_reports_what_is_left(bad):
    before = check(bad, one_object(bad("skills", "check", "skills", "--json")), "check")
    assert before["codes"] == {"CH0306": 1, "CH0501": 1, "CH0601": 1}
    edits = [edit for each in before["findings"] for edit in each["fix"]["edits"]]
    assert edits == [
        {"start": 0, "end": 9, "text": "permissions"},
        {"start": 37, "end": 41, "text": '"1.10"'},
    ]
    done = bad("skills", "check", "skills", "--fix", "--json")
    after = check(bad, one_object(done), "check")
    assert (done.code, after["codes"], after["summary"]["fixed"]) == (1, {"CH0601": 1}, 2)
    mended = BAD.replace("permision", "permissions").replace("1.10", '"1.10"')
    assert text(bad) == mended
    assert bad("skills", "check", "skills", "--fix", "--json").json["summary"]["fixed"] == 0
    assert text(bad) == mended


def test_what_can_be_mended_is_said(bad):
    assert "2 can be mended: add --fix" in bad("skills", "check", "skills").err
    done = bad("skills", "check", "skills", "--fix")
    assert "mended: skills/bad/clawhive.yaml" in done.err
    assert "2 fixes made" in done.err


@pytest.mark.promise("P-173")
def test_a_baseline_keeps_known_findings_back_and_no_new_ones(bad):
    known = ("skills", "check", "skills", "--baseline", "ci/known.json")
    bad.root.joinpath("ci").mkdir()
    done = bad(*known, "--write-baseline")
    assert (done.code, done.out) == (0, "no findings\n")
    assert "3 findings written" in done.err
    file = bad.root / "ci" / "known.json"
    schema = json.loads(bad("schema", "baseline").out)
    jsonschema.Draft202012Validator(schema).validate(json.loads(file.read_bytes()))
    assert {row["file"] for row in json.loads(file.read_bytes())["findings"]} == {
        "../skills/bad/clawhive.yaml"
    }
    manifest = bad.root / "skills" / "bad" / "clawhive.yaml"
    manifest.write_text(f"# moved\n\n{BAD}")
    assert bad(*known).code == 0
    manifest.write_text(f"{BAD}zzz: 1\n")
    document = check(bad, one_object(bad(*known, "--json")), "check")
    assert (document["codes"], document["summary"]["baselined"]) == ({"CH0306": 1}, 3)
    manifest.write_text("version: '1'\n")
    assert "3 of ci/known.json are mended" in bad(*known).err


def test_a_baseline_is_the_same_from_any_folder_and_the_same_bytes(bad, monkeypatch):
    bad("skills", "check", "skills", "--baseline", "b.json", "--write-baseline")
    before = bad.root.joinpath("b.json").read_bytes()
    monkeypatch.chdir(bad.root / "skills")
    assert bad("skills", "check", ".", "--baseline", "../b.json").code == 0
    bad("skills", "check", ".", "--baseline", "../b.json", "--write-baseline")
    assert bad.root.joinpath("b.json").read_bytes() == before


def test_what_the_baseline_knows_is_not_mended(bad):
    bad("skills", "check", "skills", "--baseline", "b.json", "--write-baseline")
    done = bad("skills", "check", "skills", "--baseline", "b.json", "--fix")
    assert (done.code, text(bad)) == (0, BAD)


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("--baseline", "gone.json"), "invalid_baseline"),
        (("--baseline", "bad.json"), "invalid_baseline"),
        (("--baseline", "."), "invalid_baseline"),
        (("--baseline", "gone/b.json", "--write-baseline"), "invalid_baseline"),
        (("--write-baseline",), "usage"),
    ],
)
@pytest.mark.parametrize("content", ["{", "[]", '{"schema": "baseline/1", "findings": [1]}'])
def test_an_unusable_baseline_is_wrong_usage_and_hides_nothing(bad, words, code, content):
    bad.root.joinpath("bad.json").write_text(content)
    done = bad("skills", "check", "skills", *words, "--json")
    error = one_object(done)
    assert (done.code, error["error"]) == (2, code)
    assert error["fix"]


@pytest.mark.promise("P-172")
def test_the_profile_decides_what_is_an_error(clawhive):
    folder = clawhive.root / "skills" / "zodiac"
    folder.mkdir(parents=True)
    front = 'id: zodiac\nname: 星座\ndescription: d\nexports: {api_version: "1.0", tools: []}'
    folder.joinpath("SKILL.md").write_text(f"---\n{front}\n---\n", "utf-8")
    codes = [
        clawhive("skills", "check", "skills", "--profile", profile).code
        for profile in ("lenient", "strict", "portable")
    ]
    assert codes == [0, 1, 1]
    assert clawhive("skills", "check", "--profile", "loose").code == 2


def test_strictly_a_warning_is_a_failure_in_junits_form_too(bad):
    bad.root.joinpath("skills/bad/clawhive.yaml").write_text("zzz: 1\n")
    lenient = bad("skills", "check", "skills", "--format", "junit")
    strict = bad("skills", "check", "skills", "--format", "junit", "--strict")
    assert [(done.code, ET.fromstring(done.out).get("failures")) for done in (lenient, strict)] == [
        (0, "0"),
        (1, "1"),
    ]
