"""`clawhive skills`: what it prints, what it changes, what a task of a skill may then do."""

import contextlib
import json
import re
import sqlite3

import pytest

from clawhive_core.model.version import VERSION
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
    with contextlib.closing(sqlite3.connect(clawhive.root / ".clawhive" / "hive.db")) as log:
        return set(log.execute("SELECT DISTINCT issuer, mode FROM v_grants"))


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
    unasked = words("skills", "trust", "words")
    assert (unasked.code, unasked.out) == (2, "")
    assert "fix: add --yes" in unasked.err
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


LOOKS = "tasks: {look: {steps: [{name: look, tool: file.list, input: {path: .}}]}}"
NEEDS = "requires: {tools: [no.tool]}\ntasks: {job: {steps: []}}\n"


def needy(clawhive, manifest=NEEDS):
    folder = clawhive.root / "skills" / "needy"
    folder.mkdir(parents=True)
    folder.joinpath("clawhive.yaml").write_text(manifest)


@pytest.mark.promise("P-075")
def test_a_skill_that_requires_a_missing_tool_is_listed_checked_and_refused(clawhive):
    needy(clawhive)
    rows = clawhive("skills", "list", "--json").json["skills"]
    (row,) = [row for row in rows if row["id"] == "needy"]
    assert (row["state"], row["required_tools"]) == ("invalid", ["no.tool"])
    assert "requires the tool `no.tool`" in row["reason"]
    done = clawhive("skills", "check")
    assert (done.code, "skills/needy/clawhive.yaml:1:20: error CH0611" in done.out) == (1, True)
    done = clawhive("run", "--task", "job")
    assert done.code == 2
    assert "`job` is a task type of `needy`, which is invalid" in done.err
    assert "fix: clawhive skills show needy" in done.err
    assert "error CH0611" in clawhive("skills", "show", "needy").out
    assert runs(clawhive) == []


def test_a_check_takes_the_tools_from_a_list(clawhive):
    needy(clawhive, "requires: {tools: [no.tool, my.tool]}")
    file = clawhive.root / "tools.json"
    tools = [{"name": "no.tool", "aliases": ["my.tool"]}]
    # What shipped skills require.
    tools += [{"name": name} for name in ("file.read", "file.search", "web.search")]
    file.write_text(json.dumps({"tools": tools}))
    assert clawhive("skills", "check", "--tools", "tools.json").code == 0
    file.write_text(clawhive("tools", "list", "--json").out)
    done = clawhive("skills", "check", "--tools", "tools.json", "--json")
    report = check(clawhive, one_object(done), "check")
    assert (done.code, [each["code"] for each in report["findings"]]) == (1, ["CH0611"] * 2)


@pytest.mark.parametrize(
    "text",
    [
        *(None, "", "[]", "{}", '{"tools": {}}', '{"tools": [{}]}', '{"tools": ["a"]}', "[" * 9999),
        '{"tools": [{"name": "a", "aliases": [1]}]}',
        '{"tools": [{"name": "a", "aliases": "b"}]}',
    ],
)
def test_a_list_of_tools_that_is_none_is_wrong_usage(clawhive, text):
    if text is not None:
        clawhive.root.joinpath("tools.json").write_text(text)
    done = clawhive("skills", "check", "--tools", "tools.json", "--json")
    error = check(clawhive, one_object(done), "error")
    assert (done.code, error["error"], error["place"]) == (2, "usage", "--tools tools.json")
    assert error["fix"] == "make one: clawhive tools list --json > tools.json"


DYNAMIC = """
from clawhive_core import hookimpl

@hookimpl
def clawhive_tool_providers(ctx):
    return []
"""


def test_a_plugin_that_lists_its_tools_when_it_runs_makes_it_a_note(clawhive, site):
    needy(clawhive)
    manifest = '[plugin]\nid = "later"\nhook_api = 1\ntools = "dynamic"\n'
    site.plugin("later", DYNAMIC, manifest=f'{manifest}hooks = ["clawhive_tool_providers"]\n')
    done = clawhive("skills", "check")
    assert (done.code, "note CH0611" in done.out) == (0, True)
    assert clawhive("run", "--task", "job").code == 2  # a start knows all tools


def test_folders_of_skills_are_named_before_the_command_or_after_it(words):
    for base in ("one", "two"):
        folder = words.root / base / base
        folder.mkdir(parents=True)
        folder.joinpath("clawhive.yaml").write_text("tasks: {job: {steps: []}}")
    words.root.joinpath("one", "words.yaml").write_text("version: named\ntasks: {}")
    done = words("--skills", "one", "skills", "list", "--skills", "two/two", "--json")
    rows = [row for row in done.json["skills"] if row["source"] != "shipped"]
    found = [(row["id"], row["source"], row["state"]) for row in rows]
    assert found == [
        ("one", "flag", "loaded"),
        ("words", "flag", "loaded"),
        ("two", "flag", "loaded"),
        ("words", "project", "shadowed"),
    ]
    folder.joinpath("clawhive.yaml").write_text(LOOKS)
    assert words("run", "--task", "two.look", "--skills", "two").code == 0
    assert words("run", "--task", "two.look").code == 2
    assert words("tools", "list", "--skills", "two").code == 0


@pytest.mark.parametrize("path", [".", "SKILL.md", "../words"])
def test_a_skill_is_checked_from_inside_its_own_folder_under_its_name(words, path, monkeypatch):
    monkeypatch.chdir(words.root / "skills" / "words")
    assert words("skills", "check", "--strict", path).out == "no findings\n"


def test_a_named_folder_that_is_not_there_is_wrong_usage(words):
    done = words("skills", "--skills", "gone", "--json")
    assert (done.code, one_object(done)["place"]) == (2, "--skills")


def test_a_refusal_repeats_the_named_folders_and_the_active_skills(words):
    words.root.joinpath("more").mkdir()
    words("skills", "trust", "words", "--yes")
    script = [{"tool_calls": [{"name": "file.list", "input": {"path": ".."}}]}, "Done."]
    words.root.joinpath("s.json").write_text(json.dumps(script))
    model = ("--model", "scripted:s.json")
    done = words("run", "go", *model, "--skill", "words", "--skills", "more")
    (fix,) = [line for line in done.err.splitlines() if "fix: clawhive --skills more run" in line]
    assert "--skill words" in fix


def test_a_skill_is_active_only_in_a_prompt_and_when_it_is_trusted(words):
    model = ("--model", "scripted:demo")
    done = words("run", "go", *model, "--skill", "words")
    assert (done.code, "error[untrusted_skill]" in done.err) == (2, True)
    assert "clawhive skills trust words" in done.err
    assert runs(words) == []
    words("skills", "trust", "words", "--yes")
    assert words("run", "go", *model, "--skill", "words").code == 0
    assert words("runs", "replay", "last").code == 0
    done = words("run", "--task", "count_words", *TEXT, "--skill", "words")
    assert (done.code, "--skill is for a PROMPT" in done.err) == (2, True)
    assert "did you mean `words`?" in words("run", "go", *model, "--skill", "wrods").err


def test_what_a_hive_reports_is_what_the_command_prints(words):
    from clawhive_core import Hive

    words.root.joinpath("skills", "bad.yaml").write_text("tasks: {t: 5}\n")
    printed = words("skills", "check", "skills", "--json").json
    with Hive.open_sync(words.root) as hive:
        report = hive.check_skills(["skills"])
    value = report.to_dict()
    assert not report.ok
    for each in (printed, value):
        each["summary"].pop("seconds")
    assert value == printed


@pytest.mark.promise("P-193")
@pytest.mark.parametrize("part", ["contract", "frontmatter"])
def test_the_schema_of_what_people_write_is_printed(clawhive, part):
    schema = json.loads(clawhive("skills", "schema", part).out)
    assert schema["$id"] == f"urn:clawhive:{part}:1"
    assert clawhive("skills", "schema").out == clawhive("skills", "schema", "contract").out
    assert clawhive("skills", "schema", "other").code == 2


@pytest.mark.promise("P-240")
def test_a_shipped_skill_that_was_changed_is_trusted_by_its_user_alone(
    clawhive, tmp_path, monkeypatch
):
    package = tmp_path / "site" / "clawhive_core"
    monkeypatch.setattr("clawhive_core.skills.discovery.shipped._PACKAGE", package)
    folder = package / "data" / "skills" / "one"
    folder.mkdir(parents=True)
    folder.joinpath("clawhive.yaml").write_text("tasks: {t: {steps: []}}\n")
    record = package.parent / f"clawhive-{VERSION}.dist-info" / "RECORD"
    record.parent.mkdir()
    record.write_text("clawhive_core/data/skills/one/clawhive.yaml,sha256=x,1\n")

    def trusted():
        return [row["trusted"] for row in clawhive("skills", "list", "--json").json["skills"]]

    assert trusted() == [False]
    checked = clawhive("skills", "check")
    assert (checked.code, checked.out.count("warning CH0409")) == (0, 1)
    assert "clawhive skills trust one" in checked.out
    assert clawhive("skills", "trust", "one", "--json").code == 2
    assert clawhive("skills", "trust", "one", "--yes").code == 0
    assert trusted() == [True]
    assert "CH0409" not in clawhive("skills", "check").out
    assert clawhive("skills", "trust", "one", "--revoke").code == 0
    assert trusted() == [False]
