"""One defect in a valid skill: its code, its place, nothing else, and what `--fix` makes of it."""

import random
import re
from functools import partial
from pathlib import Path

import pytest

from benchmarks.made_skills import made, written
from benchmarks.skill_defects import DEFECTS, QUIET, _checked, judged, mutants
from clawhive_core.skills.contracts.schema import check_patterns

SEED = 20261122


@pytest.mark.parametrize("profile", ["lenient", "strict", "portable"])
def test_nothing_is_said_of_valid_skills_however_they_are_laid_out(tmp_path, profile):
    for number in range(40):
        skills = made(random.Random(f"{SEED}/{number}"))
        for path, text in written(skills, as_json=number % 5 == 0).items():
            file = tmp_path / str(number) / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(text.encode())
    report = _checked(tmp_path, profile)
    assert len(report.skills.entries) == 80
    assert [each.to_dict() for each in report.findings if each.code not in QUIET] == []
    assert {each.state for each in report.skills.entries} == {"loaded"}


@pytest.mark.promise("P-227")
def test_each_defect_is_found_once_at_its_place_and_mended_where_it_can_be(tmp_path):
    found = mutants(len(DEFECTS), SEED)
    judged(found, tmp_path)
    assert {each.defect.name: each.problems for each in found if each.problems} == {}
    assert len(found) >= 150
    assert sum(each.defect.mended for each in found) >= 0.6 * len(found)


def test_the_defects_are_of_every_group_and_their_codes_are_explained():
    from clawhive_core.diagnostics.codes import explain

    codes = {each.code for each in DEFECTS}
    assert {code[:4] for code in codes} == {f"CH0{group}" for group in "0234567"}
    assert [code for code in codes if explain(code) is None] == []
    assert len({each.name for each in DEFECTS}) == len(DEFECTS) >= 45


def test_the_same_seed_makes_the_same_mutants():
    again = [each.files for each in mutants(40, 7)]
    assert [each.files for each in mutants(40, 7)] == again
    assert [each.files for each in mutants(40, 8)] != again


@pytest.mark.parametrize(
    ("there", "exported", "handler"),
    [
        ("calculate_chart1", "calculate_chart2", "calculate_chart2"),  # another version
        ("list_item", "list_items", "list_item"),  # the code still calls what is gone
        ("list_item", "list_items", "nothing"),  # nobody says what was meant
        ("get_chart", "get_charts, set_chart", "get_charts"),  # both are as near
    ],
)
def test_an_import_is_not_rewritten_where_another_tool_may_be_meant(
    place, there, exported, handler
):
    tools = ", ".join(
        f"{{name: {name}, input_schema: {{}}, output_schema: {{}}}}"
        for name in exported.split(", ")
    )
    place.skill("owner", f'exports: {{api_version: "1.0", tools: [{tools}]}}')
    own = "{name: both, input_schema: {}, output_schema: {}}"
    contract = (
        f'exports: {{api_version: "1.0", tools: [{own}]}}\n'
        f"imports: [{{from: owner, tools: [{there}]}}]\n"
    )
    code = f'async def both(input, ctx):\n    await ctx.call("owner.{handler}", input)\n'
    place.skill("user", contract, handlers=code)
    from clawhive_core.skills.fixing.files import fix_files
    from clawhive_core.skills.report import SkillReport

    report = SkillReport.of(place.load)
    assert "CH0602" in {each.code for each in report.findings}
    fix_files(report.skills, report.findings, [place.root])
    assert place.root.joinpath("skills/user/clawhive.yaml").read_text() == contract


TEXT = "---\nname: a\ndescription: words\n---\n"


@pytest.fixture
def strict(place):
    """Write a skill's body and files, and return what the strict profile says of them."""
    from clawhive_core.skills.report import SkillReport

    def check(body, **files):
        place.write("skills/a/SKILL.md", TEXT + body)
        for name, text in files.items():
            place.write(f"skills/a/{name}", text)
        load = lambda: place.load(paths=[place.root / "skills"])  # noqa: E731 - called later
        found = SkillReport.of(load, "strict").findings
        return [(each.code, each.line, each.column) for each in found]

    return check


@pytest.mark.promise("P-228")
@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("See [it](none.md).\n", [("CH0215", 5, 10)]),
        ("![it](a/none.png)\n", [("CH0215", 5, 7)]),
        ('[it](none.md "title") and [it](<b.md>)\n', [("CH0215", 5, 6), ("CH0215", 5, 33)]),
        ("[it](there.md#part) [it](there.md?x) [it](my%20file.md)\n", []),
        ("[it](#part) [it](https://x.y/z) [it](mailto:a@b.c) [it](/root) [it]({base}/x)\n", []),
        ("`[it](none.md)`\n\n```md\n[it](none.md)\n```\n~~~\n[it](none.md)\n~~~\n", []),
        ("```md\n[it](none.md)\n```\n\n[it](none.md)\n", [("CH0215", 9, 6)]),
        ("````\n```\n[it](none.md)\n`````\n[it](none.md)\n", [("CH0215", 9, 6)]),
        ("```a``` [it](none.md)\n~~~ open\n[it](none.md)\n", [("CH0215", 5, 14)]),
        ("Run `python scripts/none.py` and scripts/none.py\n", [("CH0216", 5, 13)]),
        ("Run other/scripts/none.py, ${HOME}/scripts/none.py, scripts/NAME\n", []),
        ("Run `./scripts/run.sh`, `sh scripts/run.sh`\n", [("CH0217", 5, 6)]),
        ("Run `sh scripts/run.sh`\n", []),
        ("x\n" * 496, []),
        ("x\n" * 497, [("CH0214", 501, 1)]),
    ],
)
def test_what_a_body_points_at_is_looked_up(strict, body, expected):
    files = {"there.md": "", "my file.md": "", "scripts/run.sh": "exit\n"}
    assert strict(body, **files) == expected


def test_a_hostile_body_leaves_no_trace(strict):
    body = "[" * 5_000 + "](x" * 5_000 + "`" * 5_000 + "\n" + "~~~\n" * 2_000 + "[a](\x00)\n"
    found = strict(body)
    assert {code for code, _, _ in found} <= {"CH0004", "CH0214", "CH0215"}


@pytest.mark.parametrize(
    "part", ["[", "[]", "![a](", "[a](b ", "`", "`a", "``a`", "```a\n", "~~~\n"]
)
def test_a_body_as_long_as_can_be_is_read_once(strict, part):
    """Reading it anew from each place, as all of these once were, would take an hour."""
    body = part * (1_000_000 // len(part)) + "\n"
    assert {code for code, _, _ in strict(body)} <= {"CH0214", "CH0215"}


def test_a_pattern_of_open_brackets_is_read_once():
    assert list(check_patterns({"pattern": "[" * 1_000_000})) == []


@pytest.mark.promise("P-228")
def test_files_that_differ_by_capital_letters_only_are_told_of_portably(place):
    from clawhive_core.skills.report import SkillReport

    place.write("skills/a/SKILL.md", TEXT)
    place.write("skills/a/docs/One.md")
    place.write("skills/a/docs/one.md")
    load = lambda: place.load(paths=[place.root / "skills"])  # noqa: E731 - called later
    said = [(each.code, each.place) for each in SkillReport.of(load, "portable").findings]
    assert said == [("CH0009", "skills/a/docs/one.md")]
    assert SkillReport.of(load, "strict").findings == []


@pytest.mark.promise("P-228")
def test_a_skill_whose_text_has_small_letters_is_read_and_renamed(place):
    from clawhive_core.skills.fixing.files import fix_files
    from clawhive_core.skills.report import SkillReport

    file = place.write("skills/a/skill.md", TEXT)
    assert place.own()["a"].skill.description == "words"
    assert [each.code for each in place.findings()] == ["CH0008"]
    report = SkillReport.of(place.load)
    (done,) = fix_files(report.skills, report.findings, [place.root])
    assert (done.fixes, file.exists(), file.with_name("SKILL.md").read_text()) == (1, False, TEXT)
    assert place.findings() == []
    file.write_text(TEXT)  # both: the right name counts
    assert place.findings() == []


@pytest.mark.promise("P-228")
def test_descriptions_of_the_same_words_are_told_of_once_for_each_that_comes_later(place):
    from clawhive_core.skills.report import SkillReport

    same = ("Turn PDF files into text.", "turn pdf files into TEXT", "Text into files: turn PDF")
    for number, words in enumerate((*same, "d", "d", "Turn text into PDF documents")):
        place.text(f"s{number}", f'name: s{number}\ndescription: "{words}"')
    load = partial(place.load, paths=[place.root / "skills"])
    assert SkillReport.of(load).findings == []
    report = SkillReport.of(load, "strict")
    said = [(each.code, each.severity, each.file) for each in report.findings]
    assert said == [("CH0403", "note", f"skills/s{number}/SKILL.md") for number in (1, 2)]


@pytest.mark.parametrize(
    ("pattern", "severity"),
    [
        ("^[a-z]+$", None),
        ("^(?:a|b)(?<year>\\d{4})$", None),
        ("[(?P<a>]+", None),  # a class of characters
        ("\\(\\?P<", None),
        ("a\\\\Z", None),  # a backslash, then a letter
        ("^(?P<year>\\d{4})$", "warning"),
        ("\\Aa\\Z", "warning"),
        ("(?i)abc", "warning"),
        ("a(?#why)", "warning"),
        ("a++b", "warning"),
        ("(a)\\1", "note"),
        ("a(?=b)", "note"),
        ("(?<!a)b", "note"),
    ],
)
def test_a_pattern_is_held_against_the_standards_language(pattern, severity):
    from clawhive_core.skills.contracts.schema import check_patterns

    schema = {
        "properties": {"a": {"items": [{"pattern": pattern}]}},
        "default": {"pattern": "(?i)"},
    }
    found = list(check_patterns(schema))
    assert [each.severity for each in found] == ([] if severity is None else [severity])
    for each in found:
        assert each.path == ("properties", "a", "items", 0, "pattern")


def test_ci_tries_defects_and_pairs_of_schemas_with_a_fresh_seed_each_time():
    root = Path(__file__).parents[2]
    run = root.joinpath(".ci", "run").read_text()
    loop = re.search(r"for script in (.*); do\n(.*?)\n *done", run, re.DOTALL)
    assert "benchmarks/*.py" in loop[1]
    assert "--smoke" in loop[2]
    for name in ("skill_defects", "schema_pairs"):
        assert f"{name}.py" not in loop[2]  # none is left out
        source = root.joinpath("benchmarks", f"{name}.py").read_text()
        assert "SystemRandom().randrange(10**9) if given.smoke" in source
        assert 'print(f"seed {seed}' in source
