"""What nobody sees in the files of skills, links that lead elsewhere, and any order of files."""

import random

import pytest

from clawhive_core.skills.documents import document
from clawhive_core.skills.fixing.files import fix_files
from clawhive_core.skills.load import load_skills
from clawhive_core.skills.report import SkillReport
from tests.harness import exports
from tests.skills.corpus import needs_corpus, real_files

TEXT = "---\nname: x\ndescription: y\n---\n"


def found(place):
    return [(each.code, each.severity, each.place) for each in place.own()["x"].findings]


@pytest.mark.promise("P-191")
@pytest.mark.parametrize(
    ("text", "code", "severity", "at"),
    [
        ("\ufeff" + TEXT, "CH0010", "note", "1:1"),
        (TEXT.replace("\n", "\r\n"), "CH0003", "note", "1:4"),
        (TEXT + "a\nb\r\n", "CH0003", "note", "6:2"),
        (TEXT + "a\x1b[2J", "CH0004", "warning", "5:2"),
        (TEXT + "ä\x9b", "CH0004", "warning", "5:2"),
        (TEXT + "ab\u202ecd", "CH0005", "error", "5:3"),
        (TEXT + "ab\u2066cd", "CH0005", "error", "5:3"),
        (TEXT + "a\U000e0041", "CH0005", "error", "5:2"),
        (TEXT + "a\u200bb", "CH0005", "warning", "5:2"),
        (TEXT + "a\ufeffb", "CH0005", "warning", "5:2"),
    ],
)
def test_what_nobody_sees_is_named_with_its_place(place, text, code, severity, at):
    place.write("skills/x/SKILL.md").write_bytes(text.encode())
    assert found(place) == [(code, severity, f"skills/x/SKILL.md:{at}")]


@pytest.mark.promise("P-191")
@pytest.mark.parametrize(
    "text",
    [
        "\u0646\u0635",
        "\u0645\u06cc\u200c\u062e\u0648",
        "👩\u200d💻",
        "🏴\U000e0067\U000e0062\U000e007f",
        "a\tb\x0cc",
        "é\u0301",
    ],
)
def test_what_scripts_need_is_left_alone(place, text):
    place.write("skills/x/SKILL.md", TEXT + text)
    assert found(place) == []


@pytest.mark.promise("P-191")
def test_contract_and_handlers_are_looked_at_too(place):
    place.skill("x", "description: 'a\u202eb'\n" + exports("a"), handlers="def a(i, c): '\u2067'\n")
    assert found(place) == [
        ("CH0005", "error", "skills/x/clawhive.yaml:1:16"),
        ("CH0005", "error", "skills/x/handlers.py:1:15"),
    ]


def test_the_fix_of_a_byte_order_mark_takes_it_away(place):
    file = place.write("skills/x/SKILL.md", "\ufeff" + TEXT)
    report = SkillReport.of(place.load)
    (done,) = fix_files(report.skills, report.findings, [place.root])
    assert (done.fixes, file.read_bytes()) == (1, TEXT.encode())


@pytest.mark.promise("P-191")
@pytest.mark.parametrize("name", ["SKILL.md", "clawhive.yaml", "handlers.py"])
@pytest.mark.parametrize("flag", [document.NO_LINK, 0])
def test_a_link_that_leaves_the_folder_of_skills_is_refused_unread(place, name, flag, monkeypatch):
    monkeypatch.setattr(document, "NO_LINK", flag)  # Windows cannot open what is no link only
    place.skill("x", exports("a"))
    secret = place.root.parent / "secret"
    secret.write_text("---\nname: x\ndescription: secret\nid: secret\n---\n", "utf-8")
    link = place.root / "skills/x" / name
    link.unlink(missing_ok=True)
    link.symlink_to(secret)
    findings = place.own()["x"].findings
    assert ("CH0007", f"skills/x/{name}") in [(each.code, each.place) for each in findings]
    assert "secret" not in str(place.own()["x"])
    assert place.own()["x"].state == "invalid"


def test_a_link_within_the_folder_of_skills_is_followed(place):
    place.write("skills/shared/text.md", TEXT)
    place.write("skills/x/keep")
    place.root.joinpath("skills/x/SKILL.md").symlink_to("../shared/text.md")
    assert found(place) == []


@pytest.mark.promise("P-192")
@needs_corpus
def test_real_skills_are_checked_alike_in_any_order(place):
    folders = [file.parent for file in real_files()]
    config, seen = place.config(), []
    for seed in range(2):
        random.Random(seed).shuffle(folders)
        checked = load_skills(config, env=place.env, paths=folders)
        # which of two equal names is used follows from the order; nothing else does
        rows = [
            each.to_dict() for each in checked.findings if each.code not in {"CH0401", "CH0402"}
        ]
        seen.append(rows)
    assert len(folders) > 600
    assert seen[0] == seen[1] != []


@pytest.mark.promise("P-192")
def test_a_set_is_checked_alike_in_any_order_of_its_members(place):
    names = [f"s{number}" for number in range(12)]
    for number, name in enumerate(names):
        after = names[(number + 1) % len(names)]
        imports = f"imports: [{{from: {after}, tools: [t, none]}}]\nexternal_tools: [t, u]\n"
        place.skill(name, exports("t") + imports, base="all")
    folders, seen = [place.root / "all" / name for name in names], set()
    for seed in range(5):
        random.Random(seed).shuffle(folders)
        checked = load_skills(place.config(), env=place.env, paths=folders)
        seen.add(str([each.to_dict() for each in checked.findings]))
    assert len(seen) == 1
