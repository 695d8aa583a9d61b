"""The profiles of a check: what each of them calls an error."""

import csv
from pathlib import Path

import pytest

from clawhive_core.skills.checks.profiles import at_profile
from clawhive_core.skills.discovery.reading import read_skill
from clawhive_core.skills.discovery.skill_set import Entry, SkillSet
from tests.skills.corpus import CORPUS, needs_corpus

OURS = """\
id: zodiac
name: 星座
description: Say a sign
exports: {api_version: "1.0", tools: []}"""


def errors(folder, profile, others=()):
    read = read_skill(folder, "given")
    entries = (Entry(read.skill, "loaded", findings=read.findings), *others)
    found = at_profile(SkillSet(entries, read.findings), profile)
    return sorted({each.code for each in found if each.severity == "error"})


@pytest.fixture
def skill(tmp_path):
    def make(front, name="a", before=""):
        folder = tmp_path / name
        folder.mkdir(exist_ok=True)
        folder.joinpath("SKILL.md").write_text(f"{before}---\n{front}\n---\nbody\n", "utf-8")
        return folder

    return make


@pytest.mark.promise("P-172")
def test_a_contract_at_the_top_and_a_name_in_any_script_pass_leniently_alone(skill):
    folder = skill(OURS, "zodiac")
    read = read_skill(folder, "given")
    assert {each.severity for each in read.findings} == {"note"}
    assert errors(folder, "lenient") == []
    assert errors(folder, "strict") == ["CH0204", "CH0212"]
    assert {"CH0204", "CH0212"} <= set(errors(folder, "portable"))


@pytest.mark.parametrize(
    ("front", "code"),
    [
        ("name: a\ndescription: b", None),
        ("name: a\ndescription: b\nlicense: MIT\nmetadata: {x: 1}\nallowed-tools: [A]", None),
        ("name: A\ndescription: b", "CH0203"),
        ("name: -a\ndescription: b", "CH0203"),
        ("name: a--b\ndescription: b", "CH0203"),
        ("name: a_b\ndescription: b", "CH0203"),
        ("description: b", "CH0201"),
        ("name: b\ndescription: b", "CH0204"),
        ("name: a", "CH0205"),
        (f"name: a\ndescription: {'b' * 1025}", "CH0206"),
        ("name: a\ndescription: 5", "CH0207"),
        (f"name: a\ndescription: b\ncompatibility: {'c' * 501}", "CH0209"),
        ("name: a\ndescription: b\nversion: 1", "CH0212"),
        ("name: a\ndescription: b: c", "CH0225"),
        ("name: a\ndescription: b\ndescription: b", "CH0227"),
    ],
)
def test_strict_is_the_verdict_of_the_public_standard(skill, front, code):
    assert errors(skill(front), "lenient") == ([code] if code in {"CH0205", "CH0207"} else [])
    found = errors(skill(front), "strict")
    assert found == [] if code is None else code in found


@pytest.mark.parametrize("before", ["\ufeff", "\n", "\ufeff\n \n"])
def test_what_stands_before_the_frontmatter_is_an_error_of_the_standard(skill, before):
    folder = skill("name: a\ndescription: b", before=before)
    assert (errors(folder, "lenient"), errors(folder, "strict")) == ([], ["CH0223"])


@pytest.mark.parametrize(
    ("more", "code"),
    [
        ("description: use <b>", "CH0208"),
        ("description: b\nallowed-tools: A, B", "CH0210"),
        ("description: b\nallowed-tools:\n- A", "CH0210"),
        ("description: b\nmetadata: a", "CH0211"),
        ("description: b\nmetadata:\n  v: 1.0", "CH0211"),
        ('description: b\nmetadata: {v: "1"}', "CH0213"),
    ],
)
def test_portable_is_stricter_than_the_standard(skill, more, code):
    folder = skill(f"name: a\n{more}")
    assert (errors(folder, "strict"), errors(folder, "portable")) == ([], [code])


def test_a_contract_alone_is_no_skill_of_the_standard(tmp_path):
    tmp_path.joinpath("clawhive.yaml").write_text("id: a\n")
    assert (errors(tmp_path, "lenient"), errors(tmp_path, "strict")) == ([], ["CH0220"])


def test_a_text_that_cannot_be_read_is_not_called_missing(tmp_path):
    tmp_path.joinpath("SKILL.md").write_bytes(b"---\nname: \xff\n---\n")
    assert errors(tmp_path, "strict") == ["CH0001"]


@needs_corpus
@pytest.mark.parametrize("port", ["ref_rs_valid", "ref_ts_valid"])
def test_strict_agrees_with_each_port_of_the_reference_validator_on_every_real_skill(port):
    with CORPUS.joinpath("manifest.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    verdicts = {row["file"]: not errors((CORPUS / row["file"]).parent, "strict") for row in rows}
    assert verdicts == {row["file"]: row[port] == "1" for row in rows}
    assert len(rows) > 600


def test_the_page_lists_every_reason_for_which_a_verdict_may_differ():
    from benchmarks.skills_agreement import REASONS

    page = Path(__file__).parents[2].joinpath("docs", "reference", "strict-and-the-ports.md")
    rows = [line.split("|")[1].strip() for line in page.read_text().splitlines() if "|" in line]
    assert sorted(rows[2:]) == sorted(name for name, _ in REASONS)
