"""`clawhive skills types`, as it is typed."""

import sys

import pytest

from tests.cli.test_json import check, one_object

pytest.importorskip("datamodel_code_generator")


@pytest.fixture
def words(clawhive):
    assert clawhive("skills", "new", "words", "--contract").code == 0
    return clawhive


@pytest.mark.promise("P-214")
def test_types_are_written_once_and_compared_after(words):
    first = words("skills", "types")
    assert first.out.splitlines() == [
        "written: typings/clawhive_skills/__init__.py",
        "written: typings/clawhive_skills/_context.py",
        "written: typings/clawhive_skills/words.py",
    ]
    again = words("skills", "types")
    assert (again.out, again.err) == ("", "3 files are as they should be\n")
    assert words("skills", "types", "--check").code == 0
    contract = words.root / "skills" / "words" / "clawhive.yaml"
    contract.write_text(
        contract.read_text().replace("before: {type: [integer", "before: {type: [string")
    )
    done = words("skills", "types", "--check")
    assert (done.code, done.out) == (1, "differs: typings/clawhive_skills/words.py\n")
    value = check(words, one_object(words("skills", "types", "--check", "--json")), "skills-types")
    assert (value["ok"], value["files"][-1]["state"]) == (False, "changed")
    assert check(words, words("skills", "types", "--json").json, "skills-types")["ok"]
    assert words("skills", "types", "--check").code == 0


def test_types_of_named_skills_go_where_they_are_asked_for(words):
    done = words("skills", "types", "jungastro", "--out", "made")
    assert sorted(path.name for path in words.root.joinpath("made/clawhive_skills").iterdir()) == [
        *("__init__.py", "_context.py", "jungastro.py", "zodiac.py"),
    ]
    assert done.code == 0
    value = check(words, words("skills", "types", "wrods", "--json").json, "error")
    assert value["fix"] == "did you mean `words`?"


def test_types_of_a_skill_that_is_gone_are_removed(words):
    words("skills", "types")
    for file in (words.root / "skills" / "words").rglob("*"):
        if file.is_file():
            file.unlink()
    assert words("skills", "types", "--check").out == (
        "no longer needed: typings/clawhive_skills/words.py\n"
    )
    words("skills", "types")
    assert not words.root.joinpath("typings/clawhive_skills/words.py").exists()


def test_types_of_a_skill_without_handlers_come_with_a_note(words):
    words.root.joinpath("skills/words/handlers.py").unlink()
    done = words("skills", "types", "words")
    assert "written: typings/clawhive_skills/words.py" in done.out
    assert "the skill `words` is invalid" in done.err


def test_without_the_generator_nothing_is_written(words, monkeypatch):
    monkeypatch.setitem(sys.modules, "datamodel_code_generator", None)
    value = check(words, words("skills", "types", "--json").json, "error")
    assert (value["error"], value["fix"]) == ("missing_package", "pip install 'clawhive[types]'")
    assert not words.root.joinpath("typings").exists()
