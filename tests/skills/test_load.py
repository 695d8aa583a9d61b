"""Where skills are found, which state each gets, and who trusts them."""

import json

import pytest

from clawhive_core.errors import SkillError, StorageError, UnknownId, UsageError
from clawhive_core.skills.discovery.decisions import SkillTrust, Switches, content_digest
from clawhive_core.skills.discovery.reading import read_skill, skill_text
from clawhive_core.skills.template import new_skill

TASK = "tasks: {job: {steps: []}}\n"


class Source:
    """What a plugin contributes."""

    name = "team"

    def __init__(self, *folders):
        self._folders = folders

    def folders(self):
        if not self._folders:
            raise RuntimeError("no network")
        return [str(folder) for folder in self._folders]


def test_a_manifest_alone_is_a_skill_in_each_of_its_forms(place):
    place.write("skills/one.yaml", TASK)
    place.write("skills/two.json", json.dumps({"tasks": {"job": {"steps": []}}}, indent="\t"))
    place.skill("three", TASK)
    place.write("skills/four/clawhive.json", '{"id": "fourth"}')
    place.write("skills/notes.txt", "no skill")
    place.write("skills/table.json", "[]")
    place.write("skills/.hidden/clawhive.yaml", TASK)
    assert set(place.own()) == {"one", "two", "three", "fourth"}
    assert place.codes() == []


def test_what_was_added_or_removed_counts_at_the_next_start(place):
    file = place.skill("one", TASK)
    assert set(place.own()) == {"one"}
    file.unlink()
    assert place.own() == {}


def test_earlier_places_win_and_the_others_are_shown(place):
    place.write("clawhive.toml", 'skills.paths = ["more"]\n')
    for base in ("more", "skills", ".agents/skills"):
        place.skill("one", f"version: '{base}'", base=base)
    user = place.user_dir / "skills" / "one"
    user.mkdir(parents=True)
    user.joinpath("clawhive.yaml").write_text("version: user")
    plugin = place.root / "team"
    place.skill("one", "version: plugin", base="team")
    entries = [each for each in place.load([Source(plugin)]).entries if each.skill.id == "one"]
    assert [each.skill.version for each in entries] == [
        *("more", "skills", ".agents/skills", "user", "plugin"),
    ]
    assert [each.skill.source for each in entries] == [
        *("config", "project", "project", "user", "plugin team"),
    ]
    assert [each.state for each in entries] == ["loaded", *["shadowed"] * 4]
    assert "more/one/clawhive.yaml" in entries[1].reason


def test_two_skills_of_one_name_in_one_folder_are_an_error_that_names_both(place):
    place.skill("a", "id: same")
    place.skill("b", "id: same")
    (found,) = place.load().findings
    assert (found.code, found.severity, found.file) == ("CH0401", "error", "skills/b/clawhive.yaml")
    assert "skills/a/clawhive.yaml" in found.message


def test_a_plugins_source_that_fails_leaves_the_others(place):
    place.skill("one", TASK)
    found = place.load([Source()])
    assert [each.code for each in found.findings] == ["CH0405"]
    assert "one" in {skill.id for skill in found.loaded}


@pytest.mark.parametrize(
    ("requires", "says"),
    [
        ("{bins: [no-such-program]}", "the program `no-such-program` is not on the PATH"),
        ("{env: [TOKEN]}", "the variable TOKEN is not set"),
        ("{os: [windows]}", "it is for windows only"),
        ("{python: [no-such-thing>=1]}", "the Python package `no-such-thing>=1` is not installed"),
    ],
)
def test_what_is_missing_gates_a_skill_without_an_error(place, requires, says):
    place.skill("one", f"requires: {requires}\n")
    entry = place.own()["one"]
    assert (entry.state, entry.reason) == ("gated", says)
    assert [(each.code, each.severity) for each in entry.findings] == [("CH0404", "note")]


def test_what_is_there_gates_nothing(place):
    place.skill(
        "one", "requires: {bins: [sh], env: [TOKEN], os: [Linux, darwin], python: [PyYAML>=6]}\n"
    )
    env = {**place.env, "TOKEN": "x"}
    assert place.own(env=env)["one"].state == "loaded"


def test_a_foreign_text_without_contract_is_a_skill_with_a_body(place):
    place.text("one", "name: one\ndescription: Does it.\nhooks: {}", "# How\n")
    skill = place.own()["one"].skill
    assert (skill.description, skill.exports.names(), skill.tasks) == ("Does it.", (), {})
    assert skill_text(skill) == "# How\n"


def test_a_check_of_a_path_reports_only_what_lies_there(place):
    place.skill("bad", "version: 1\n")
    place.skill("good", TASK, base="other")
    assert place.codes(paths=[place.root / "other"]) == []
    assert place.codes(paths=[place.root / "skills" / "bad" / "clawhive.yaml"]) == ["CH0305"]
    assert place.codes(paths=[place.root]) == ["CH0305"]
    assert place.codes(paths=[place.home]) == ["CH0406"]
    with pytest.raises(UsageError):
        place.load(paths=[place.root / "gone"])


def test_a_folder_that_cannot_be_listed_holds_no_skills(place):
    place.write("skills", "a file")
    assert place.own() == {}


def test_a_skill_is_switched_off_and_on(place):
    place.skill("one", TASK)
    switches = Switches(place.config())
    switches.disable("one", {})
    switches.disable("one", {})
    assert place.own()["one"].state == "disabled"
    assert place.own()["one"].next_step == "clawhive skills enable one"
    assert (place.root / ".clawhive" / ".gitignore").read_text() == "*\n"
    switches.enable("one", {})
    assert place.own()["one"].state == "loaded"


def test_what_the_configuration_switches_off_is_not_switched_on_elsewhere(place):
    place.skill("one", TASK)
    place.write("clawhive.toml", 'skills.disabled = ["one"]\n')
    assert "clawhive.toml" in place.own()["one"].reason
    with pytest.raises(UsageError, match=r"skills\.disabled"):
        Switches(place.config()).enable("one", {})


def test_a_damaged_list_of_switches_stops_instead_of_switching_on(place):
    place.skill("one", TASK)
    place.write(".clawhive/skills.json", "{").chmod(0o600)
    with pytest.raises(StorageError) as caught:
        place.load()
    assert "skills.json" in caught.value.place


def trusted(place, name="one"):
    skill = place.own()[name].skill
    SkillTrust(place.user_dir).add(skill, content_digest(skill.content), {})


def test_trust_ends_when_any_file_changes(place):
    place.skill("one", TASK)
    assert not place.own()["one"].skill.trusted
    trusted(place)
    assert place.own()["one"].skill.trusted
    assert oct((place.user_dir / "skill-trust.json").stat().st_mode)[-3:] == "600"
    helper = place.write("skills/one/scripts/run.sh", "echo")
    assert not place.own()["one"].skill.trusted
    helper.unlink()
    assert place.own()["one"].skill.trusted
    SkillTrust(place.user_dir).revoke(place.own()["one"].skill, {})
    assert not place.own()["one"].skill.trusted


def test_trust_is_for_the_place_and_not_for_the_name(place):
    place.skill("one", TASK)
    trusted(place)
    place.write("clawhive.toml", 'skills.paths = ["more"]\n')
    place.skill("one", TASK, base="more")
    assert not place.load().find("one").skill.trusted


def test_only_the_shipped_skills_are_trusted_from_the_start(place):
    place.skill("one", TASK)
    assert {each.skill.source for each in place.load().entries if each.skill.trusted} == {"shipped"}


def test_a_skill_with_a_link_in_it_cannot_be_trusted(place):
    place.skill("one", TASK)
    place.root.joinpath("skills", "one", "link").symlink_to("/etc/hostname")
    with pytest.raises(SkillError, match="a link or a special file"):
        trusted(place)


def test_what_changed_while_the_user_looked_is_not_trusted(place):
    place.skill("one", TASK)
    skill = place.own()["one"].skill
    with pytest.raises(UsageError, match="changed while you looked"):
        SkillTrust(place.user_dir).add(skill, "0" * 64, {})


@pytest.mark.parametrize("content", ["{", "[]", '{"schema": "skill-trust/9", "skills": []}'])
def test_a_damaged_list_of_trust_trusts_nothing_and_says_so(place, content):
    place.skill("one", TASK)
    trusted(place)
    place.user_dir.joinpath("skill-trust.json").write_text(content)
    found = place.load()
    assert [each.code for each in found.findings] == ["CH0407"]
    assert not found.find("one").skill.trusted


def test_a_list_of_trust_that_others_may_write_trusts_nothing(place):
    place.skill("one", TASK)
    trusted(place)
    place.user_dir.joinpath("skill-trust.json").chmod(0o666)
    assert place.codes() == ["CH0407"]


def test_no_run_changes_trust_or_switches(place):
    place.skill("one", TASK)
    skill = place.own()["one"].skill
    inside = {"CLAWHIVE_RUN": "run_1"}
    for change in (
        lambda: SkillTrust(place.user_dir).add(skill, "", inside),
        lambda: SkillTrust(place.user_dir).revoke(skill, inside),
        lambda: Switches(place.config()).disable("one", inside),
        lambda: Switches(place.config()).enable("one", inside),
    ):
        with pytest.raises(UsageError) as caught:
            change()
        assert caught.value.code == "inside_run"


def test_a_name_that_is_no_skill_is_answered_with_the_nearest(place):
    place.skill("zodiac", TASK)
    with pytest.raises(UnknownId) as caught:
        place.load().find("zodiak")
    assert caught.value.fix == "did you mean `zodiac`?"


def test_a_new_skill_is_valid_and_nothing_is_overwritten(place):
    files = new_skill("word-count", place.root / "skills")
    assert [file.name for file in files] == ["SKILL.md", "clawhive.yaml"]
    assert read_skill(files[0].parent, "test").findings == ()
    with pytest.raises(UsageError) as caught:
        new_skill("word-count", place.root / "skills")
    assert caught.value.code == "already_exists"
    assert [each.name for each in place.root.joinpath("skills").iterdir()] == ["word-count"]


@pytest.mark.parametrize(
    ("name", "meant"),
    [("Word Count", "word-count"), ("../x", "x"), ("", "my-skill"), ("é", "my-skill")],
)
def test_a_name_that_no_skill_may_have_is_answered_with_one_that_it_may(place, name, meant):
    with pytest.raises(UsageError) as caught:
        new_skill(name, place.root)
    assert caught.value.fix.endswith(f"clawhive skills new {meant}")
    assert list(place.root.iterdir()) == []


def test_a_full_disk_leaves_the_list_as_it_was(place, monkeypatch):
    place.skill("one", TASK)
    switches = Switches(place.config())
    switches.disable("one", {})
    before = switches.file.path.read_bytes()

    def full(handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(StorageError, match="No space left"):
        switches.disable("two", {})
    assert switches.file.path.read_bytes() == before
    names = sorted(each.name for each in switches.file.path.parent.iterdir())
    assert names == [".gitignore", "skills.json"]


def test_a_skill_that_cannot_be_written_is_an_error_and_nothing_stays(place):
    place.write("skills", "a file")
    with pytest.raises(UsageError) as caught:
        new_skill("one", place.root / "skills")
    assert caught.value.code == "io_error"
    assert [each.name for each in place.root.iterdir()] == ["skills"]


def test_too_many_files_cannot_be_trusted(place, monkeypatch):
    place.skill("one", TASK)
    place.write("skills/one/more.txt", "x")
    monkeypatch.setattr("clawhive_core.skills.discovery.decisions.MAX_FILES", 1)
    with pytest.raises(SkillError, match="more than 1 files"):
        trusted(place)


def test_a_manifest_alone_is_trusted_by_its_own_bytes(place):
    file = place.write("skills/one.yaml", TASK)
    trusted(place)
    place.write("skills/other.txt", "x")
    assert place.own()["one"].skill.trusted
    file.write_text(f"{TASK}# changed\n")
    assert not place.own()["one"].skill.trusted


def test_moving_bytes_from_a_name_to_a_file_changes_the_digest(place):
    one, other = place.root / "one", place.root / "other"
    place.write("one/ab", "c")
    place.write("other/a", "bc")
    assert content_digest(one) != content_digest(other)


IN_METADATA = [("CH0305", "error"), ("CH0301", "note")]


@pytest.mark.parametrize(
    ("front", "found"),
    [
        ("description: x", [("CH0201", "warning")]),
        ("name: 5\ndescription: x", [("CH0201", "warning")]),
        ("name: other\ndescription: x", [("CH0204", "note")]),
        ("name: one", [("CH0205", "error")]),
        ("name: one\ndescription: [x]", [("CH0207", "error")]),
        ("name: one\ndescription: '" + "x" * 1025 + "'", [("CH0206", "note")]),
        ("name: one\nname: one\ndescription: x", [("CH0227", "warning")]),
        (
            "name: one\ndescription: x\nmetadata: {clawhive: 5}",
            IN_METADATA,
        ),
        (
            "name: one\ndescription: x\nmetadata: {clawhive: '{'}",
            IN_METADATA,
        ),
        ("name: one\ndescription: x\nrequires: {bins: [sh]}", []),
    ],
)
def test_the_standards_rules_weigh_as_much_as_they_must(place, front, found):
    place.text("one", front)
    findings = place.load().findings
    assert [(each.code, each.severity) for each in findings] == found
    invalid = ("error" in {severity for _, severity in found}) and "invalid"
    assert [each.state for each in place.own().values()] == [invalid or "loaded"]


def test_a_version_is_read_from_where_the_standard_and_others_keep_it(place):
    place.text("one", "name: one\ndescription: x\nmetadata: {version: '2.1'}\nversion: '1'")
    place.text("two", "name: two\ndescription: x\nversion: '3'")
    assert [each.skill.version for each in place.own().values()] == ["2.1", "3"]


def test_a_name_in_no_letters_of_ours_gets_an_id_of_its_own(place):
    place.text("星", "name: 星\ndescription: x")
    place.text("my skill", "name: My Skill\ndescription: x")
    first, second = place.own()
    assert first == "my-skill"
    assert second.startswith("skill-")


@pytest.mark.parametrize("text", ["{", '{"a": 1', "[" * 100_000])
def test_a_manifest_in_json_must_be_json(place, text):
    place.write("skills/one/clawhive.json", text)
    (found,) = place.load().findings
    assert found.code in {"CH0224", "CH0229"}
    assert found.file == "skills/one/clawhive.json"


def test_what_a_finding_quotes_cannot_steer_a_terminal_or_fill_it(place):
    place.skill("one", 'id: "\\e[2J"\n')
    place.skill("two", f'imports: [{{from: "{"x" * 100_000}", tools: []}}]\n')
    for finding in place.load().findings:
        assert finding.message.isprintable()
        assert len(finding.message) <= 2000
