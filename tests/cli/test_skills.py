"""`clawhive skills`: what it prints, what it changes, what a task of a skill may then do."""

import json
import re

import pytest

from tests.cli.test_json import check, one_object

TEXT = ("--input", "text=one two three")

KEEPS = """\
permissions: ["fs.write:${workspace}/notes/**", "fs.read:${workspace}/**"]
tasks:
  keep:
    steps:
      - {name: write, tool: file.write, input: {path: notes/a.txt, text: hello}}
"""


@pytest.fixture
def words(clawhive):
    assert clawhive("skills", "new", "words").code == 0
    return clawhive


def keeps(clawhive):
    folder = clawhive.root / "skills" / "keeper"
    folder.mkdir(parents=True)
    folder.joinpath("clawhive.yaml").write_text(KEEPS)
    return folder


def runs(clawhive):
    return clawhive("runs", "list", "--json").json["runs"]


def test_a_new_skill_runs_offline_at_once(words):
    done = words("run", "--task", "count_words", *TEXT)
    assert (done.code, done.out.split()) == (0, ["3"])
    assert words("skills", "check", "--strict").code == 0


def test_the_list_holds_what_a_user_interface_needs(words):
    rows = check(words, one_object(words("skills", "list", "--json")), "skills")["skills"]
    row = next(row for row in rows if row["id"] == "words")
    expected = {"version": "0.1.0", "state": "loaded", "source": "project", "trusted": False}
    assert expected.items() <= row.items()
    assert (row["tasks"], row["required_tools"]) == (["words.count_words"], [])
    assert re.search(r"^words +0.1.0 +loaded +project", words("skills").out, re.MULTILINE)


@pytest.mark.parametrize("name", ["count_words", "words.count_words"])
def test_a_task_of_a_disabled_skill_is_refused_with_the_next_step_and_no_run(words, name):
    assert words("skills", "disable", "words").code == 0
    done = words("run", "--task", name, *TEXT, "--json")
    assert done.code == 2
    error = check(words, one_object(done), "error")
    assert (error["error"], error["fix"]) == ("skill_disabled", "clawhive skills enable words")
    assert runs(words) == []
    assert words("skills", "enable", "words").code == 0
    assert words("run", "--task", name, *TEXT).code == 0


def test_a_task_of_a_removed_skill_is_unknown_and_no_run_is_made(words):
    for file in (words.root / "skills" / "words").iterdir():
        file.unlink()
    done = words("run", "--task", "words.count_words", *TEXT, "--json")
    assert (done.code, one_object(done)["error"]) == (2, "unknown_task_type")
    assert runs(words) == []


def test_a_task_of_a_gated_skill_is_unknown_and_says_what_is_missing(words):
    manifest = words.root / "skills" / "words" / "clawhive.yaml"
    manifest.write_text(manifest.read_text() + "requires: {env: [NO_SUCH_TOKEN]}\n")
    done = words("run", "--task", "count_words", *TEXT)
    assert done.code == 2
    assert "error[unknown_task_type]" in done.err
    assert "the variable NO_SUCH_TOKEN is not set" in done.err


def test_an_invalid_skill_is_left_out_with_a_note_and_others_run(words):
    words.root.joinpath("skills", "bad.yaml").write_text("tasks: {t: 5}\n")
    done = words("run", "--task", "count_words", *TEXT)
    assert done.code == 0
    assert "the skill `bad` is not loaded" in done.err
    assert words("run", "--task", "t").code == 2


def granted(clawhive, *more):
    """Return who gave the rights that the keeper's run began with."""
    clawhive("run", "--task", "keep", *more)
    issued = [event["body"] for event in clawhive.events() if event["kind"] == "grant.issued"]
    return {(each["issuer"], each["mode"]) for body in issued for each in body["grants"]}


def test_an_untrusted_skill_gives_its_tasks_nothing(clawhive):
    keeps(clawhive)
    assert granted(clawhive) == {("starter", "allow"), ("starter", "ask")}


def test_a_trusted_skill_gives_what_it_declares_until_it_changes(clawhive):
    folder = keeps(clawhive)
    done = clawhive("skills", "trust", "keeper", "--yes")
    assert "would give its tasks: fs.write:${workspace}/notes/**" in done.err
    assert ("skill", "allow") in granted(clawhive)
    folder.joinpath("more.txt").write_text("x")
    rows = clawhive("skills", "list", "--json").json["skills"]
    assert [row["trusted"] for row in rows if row["id"] == "keeper"] == [False]


def test_trust_is_given_by_a_person_only(words, monkeypatch):
    refused = words("skills", "trust", "words", "--json")
    assert refused.code == 2
    check(words, one_object(refused), "error")
    monkeypatch.setenv("CLAWHIVE_RUN", "run_1")
    for command in (("trust", "words", "--yes"), ("disable", "words"), ("enable", "words")):
        done = words("skills", *command, "--json")
        assert (done.code, one_object(done)["error"]) == (2, "inside_run")


@pytest.mark.parametrize(
    "command",
    [
        ("show", "words"),
        ("disable", "words"),
        ("enable", "words"),
        ("trust", "words", "--yes"),
        ("trust", "words", "--revoke"),
        ("trust", "code"),
    ],
    ids=" ".join,
)
def test_one_skill_is_printed_as_its_schema_says(words, command):
    value = check(words, one_object(words("skills", *command, "--json")), "skill")
    assert value["id"] == command[1]
    assert value["body"].strip().startswith("# ")


def test_a_new_skill_is_told_as_its_schema_says(clawhive):
    value = check(clawhive, one_object(clawhive("skills", "new", "a-b", "--json")), "skills-new")
    assert value["files"] == ["skills/a-b/SKILL.md", "skills/a-b/clawhive.yaml"]


def test_a_check_fails_on_errors_and_strictly_on_warnings(words):
    assert words("skills", "check", "skills").code == 0
    file = words.root / "skills" / "odd.yaml"
    file.write_text("permisions: []\ntasks: {}\n")
    assert words("skills", "check").code == 0
    done = words("skills", "check", "--strict")
    assert (done.code, "skills/odd.yaml:1:1: warning CH0306" in done.out) == (1, True)
    file.write_text("imports: [{from: none, tools: [a]}]\n")
    done = words("skills", "check", "--format", "json")
    value = check(words, json.loads(done.out), "check")
    assert (done.code, value["summary"]["errors"]) == (1, 1)
    assert [each["code"] for each in value["findings"]] == ["CH0601"]


def test_a_check_of_what_is_not_there_or_in_no_form_is_wrong_usage(words):
    assert words("skills", "check", "gone").code == 2
    assert "unknown_format" in words("skills", "check", "--format", "xml").err
    assert words("skills", "show", "wrods").code == 2
    assert "did you mean `words`?" in words("skills", "enable", "wrods").err


def test_a_removed_skill_can_be_taken_off_the_list(words):
    words("skills", "disable", "words")
    words.root.joinpath("skills", "words").rename(words.root / "elsewhere")
    done = words("skills", "enable", "words")
    assert (done.code, "no skill is called words any more" in done.err) == (0, True)
    words.root.joinpath("elsewhere").rename(words.root / "skills" / "words")
    assert words("run", "--task", "count_words", *TEXT).code == 0


def test_what_a_text_says_does_not_steer_the_terminal(clawhive):
    folder = clawhive.root / "skills" / "loud"
    folder.mkdir(parents=True)
    front = '---\nname: loud\ndescription: "a\\eb"\n---\n\x1b[2J\tbody\n'
    folder.joinpath("SKILL.md").write_text(front)
    done = clawhive("skills", "show", "loud")
    assert "\x1b" not in done.out
    assert "body" in done.out


SOURCE = """
from clawhive_core import hookimpl
from pathlib import Path

class Team:
    name = "team"

    def folders(self):
        return [str(Path(__file__).parent / "skills")]

@hookimpl
def clawhive_skill_sources(ctx):
    return [Team()]
"""


def test_skills_of_a_plugin_are_listed_and_run(clawhive, site):
    folder = site.plugin("team", SOURCE)
    assert clawhive("skills", "new", "words", "--into", str(folder / "skills")).code == 0
    rows = clawhive("skills", "list", "--json").json["skills"]
    assert [row["source"] for row in rows if row["id"] == "words"] == ["plugin team"]
    site.forget()
    assert clawhive("run", "--task", "count_words", *TEXT).code == 0
