"""Mending: what is certain, only the bytes of the fix, and nothing the second time."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawhive_core.skills.fixing.files import fix_files
from clawhive_core.skills.load import load_skills
from clawhive_core.skills.report import SkillReport


@pytest.fixture
def mended(place, monkeypatch):
    """Write a skill's file, mend it, and return its bytes; twice is the same as once."""
    monkeypatch.chdir(place.root)
    folder = place.root / "skills" / "words-of"

    def run(name, data, profile="lenient"):
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / name
        file.write_bytes(data if isinstance(data, bytes) else data.encode())
        before = mistakes(profile)
        done = fix(profile)
        if done:
            assert 0 < sum(each.fixes for each in done) <= before - mistakes(profile)
        assert fix(profile) == []
        return file.read_bytes()

    def mistakes(profile):
        """Count findings but for how lines end: a file that is cut in two is told of twice."""
        return sum(each.code != "CH0003" for each in report(profile).findings)

    def report(profile):
        load = lambda: load_skills(place.config(), env=place.env, paths=[folder])  # noqa: E731
        return SkillReport.of(load, profile)

    def fix(profile):
        found = report(profile)
        return fix_files(found.skills, found.findings, [place.root])

    return run


HEAD = "name: words-of\ndescription: d\n"


@pytest.mark.promise("P-170")
@pytest.mark.parametrize(
    ("profile", "before", "after"),
    [
        ("lenient", "name: words-of\ndescription: Use it: often", None),
        ("lenient", "description: d", "name: words-of\ndescription: d"),
        ("lenient", "name:\ndescription: d", "name: words-of\ndescription: d"),
        ("lenient", "name:  \ndescription: d", "name: words-of\ndescription: d"),
        ("lenient", HEAD + "x: 1\nx: 1", HEAD + "x: 1"),
        ("lenient", HEAD + "on: 1", HEAD + '"on": 1'),
        ("strict", "name: other\ndescription: d", "name: words-of\ndescription: d"),
        ("strict", 'name: "other" # why\ndescription: d', "name: words-of # why\ndescription: d"),
        ("strict", HEAD + "licence: MIT", HEAD + "license: MIT"),
        ("strict", "name: words-of\ndescription: 5", 'name: words-of\ndescription: "5"'),
        ("portable", HEAD + "metadata:\n  v: 1.10", HEAD + 'metadata:\n  v: "1.10"'),
    ],
)
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("bom", ["", "\ufeff"])
def test_a_text_is_mended_by_the_bytes_of_the_fix_alone(mended, profile, before, after, end, bom):
    after = after or 'name: words-of\ndescription: "Use it: often"'

    def text(front, mark):
        return f"{mark}---\n{front}\n---\n\nbody: x  \n\n\n".replace("\n", end).encode()

    assert mended("SKILL.md", text(before, bom), profile) == text(after, "")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("exports: {api_version: 1.10, tools: []}", 'exports: {api_version: "1.10", tools: []}'),
        ("exports:\n  api_version: 2 # x\n", 'exports:\n  api_version: "2.0" # x\n'),
        ("permision: []\n", "permissions: []\n"),
        ('"permision" : []', '"permissions" : []'),
        ("version: 1.0\n", 'version: "1.0"\n'),
        ("id: words-of\nversion: '1'\nversion: '1'\n", "id: words-of\nversion: '1'\n"),
        ('{\n\t"version": 1.5\n}', '{\n\t"version": "1.5"\n}'),
    ],
)
def test_a_manifest_is_mended(mended, before, after):
    name = "clawhive.json" if before.startswith("{") else "clawhive.yaml"
    assert mended(name, before).decode() == after


@pytest.mark.parametrize(
    ("name", "before"),
    [
        ("clawhive.yaml", "permissions: []\npermision: []\n"),
        ("clawhive.yaml", "{permissions: [], permision: []}"),
        ("clawhive.yaml", "version: '1'\nversion: '2'\n"),
        ("clawhive.yaml", "version: [1.0]\n"),
        ("clawhive.yaml", "version: &a 1.0\n"),
        ("clawhive.yaml", "exports: {tools: []}\nexports: {tools: []}\n"),
        ("clawhive.yaml", "exports:\n  tools: []\nexports:\n  tools: []\n"),
        ("clawhive.yaml", "description: a\n  b\ndescription: a\n"),
        ("clawhive.yaml", "zzz: 1\n"),
        ("clawhive.yaml", "exports: {api_version: newest}\n"),
        ("SKILL.md", "---\nname: 5\ndescription: d\n---\n"),
        ("SKILL.md", "---\nname: other\ndescription: d\n---\n"),
        ("SKILL.md", "no frontmatter"),
        ("SKILL.md", b"---\nname: \xff\n---\n"),
    ],
)
def test_what_is_not_certain_is_left_alone(mended, name, before):
    data = before if isinstance(before, bytes) else before.encode()
    assert mended(name, data) == data


HARD = "---\nname: words-of\ndescription: d\n{}---\n"


@pytest.mark.parametrize(
    "front",
    [
        "allowed-tools: Bash(git add, git commit), Read\n",  # commas within a tool
        "allowed-tools: [Read, Bash(git add:*)]\n",
        "allowed-tools: []\n",
        "allowed-tools:\n- Read # why\n- Grep\n",
        "metadata: {}\n",
        "metadata: {a: [], b: '1'}\n",
        "metadata: {a: &x one, b: *x}\n",
        "metadata: {a: one,\n  b: two}\n",
        "metadata:\n  a: [[x], [y]]\n",
    ],
)
def test_what_has_no_certain_form_in_lines_stays(mended, front):
    data = HARD.format(front).encode()
    assert mended("SKILL.md", data, "portable") == data


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("metadata: {a: one, b: 'two'} # why\n", "metadata:\n  a: one\n  b: 'two' # why\n"),
        ("allowed-tools:\n  - Read\n  - Bash(git:*)\n", "allowed-tools: Read Bash(git:*)\n"),
        ("allowed-tools: 'Read,Grep' # why\n", "allowed-tools: 'Read Grep' # why\n"),
        ("compatibility: 3.11\n", 'compatibility: "3.11"\n'),
    ],
)
def test_a_list_or_mapping_is_written_as_every_tool_reads_it(mended, before, after):
    data = HARD.format(before).encode()
    assert mended("SKILL.md", data, "portable") == HARD.format(after).encode()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("---\nname: words-of\ndescription: d\n\n# Words\n", True),
        ("---\nname: words-of\ndescription: d\n\nSome text: as it is\n", True),
        ("---\nname: words-of\n\n# Words\n", False),  # the description is not there
        ("---\nname: words-of\ndescription: d\n\nlicense: MIT\n", False),  # one key more
        ("---\nname: words-of\ndescription: d\n# Words\n", False),  # a comment, or a title
        ("---\nname: [words-of\ndescription: d\n\n# Words\n", False),
    ],
)
def test_a_fence_is_written_only_where_it_must_have_stood(mended, before, after):
    head, _, body = before.partition("\n\n")
    assert mended("SKILL.md", before).decode() == (f"{head}\n---\n\n{body}" if after else before)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("tasks:\n\tjob:\n\t\tdescription: a\n", "tasks:\n  job:\n    description: a\n"),
        ("tasks:\n\tjob: [\n", "tasks:\n\tjob: [\n"),  # it would be no YAML then either
        ("id: a\rversion: '1'\nid2: x\r\n", "id: a\rversion: '1'\nid2: x\r\n"),
        ("id: 'a\u200bb'\n", "id: 'ab'\n"),
        ("description: ก\u200bข\n", "description: ก\u200bข\n"),  # where a line may break
        ("requires:\n  bins: sh\n", "requires:\n  bins: [sh]\n"),
        ("permissions: |\n  fs.read\n", "permissions: |\n  fs.read\n"),
        ("exports: {api_version: v1, tools: []}\n", 'exports: {api_version: "1.0", tools: []}\n'),
        ("exports: {api_version: 1.0-rc, tools: []}\n",) * 2,
    ],
)
def test_a_manifest_is_mended_where_it_can_only_mean_one_thing(mended, before, after):
    assert mended("clawhive.yaml", before).decode() == after


MOVED = 'id: zodiac # own\nexports:\n  api_version: "1.0"\n  tools: []\n'


@pytest.mark.promise("P-170")
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("profile", ["lenient", "strict"])
def test_a_contract_at_the_top_moves_into_its_own_file_line_by_line(place, mended, end, profile):
    head, rest = "---\nname: words-of\n", "# why\nlicense: MIT\ndescription: d\n---\n\nbody\n"
    before = f"{head}{MOVED}{rest}imports: no\n".replace("\n", end).encode()
    after = mended("SKILL.md", before, profile)
    folder = place.root / "skills" / "words-of"
    moved = folder.joinpath("clawhive.yaml").read_bytes()
    assert (
        after == (head + rest.removeprefix("# why\n") + "imports: no\n").replace("\n", end).encode()
    )
    assert moved == f"{MOVED}# why\n".replace("\n", end).encode()
    (entry,) = place.load(paths=[folder]).entries
    assert (entry.skill.id, entry.skill.exports.api_version) == ("zodiac", "1.0")
    assert entry.state == "loaded"


INSIDE = """\
  clawhive:
      id: zodiac # own

      exports:
          api_version: "1.0"
          tools: []
"""


@pytest.mark.promise("P-170")
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("profile", ["lenient", "portable"])
@pytest.mark.parametrize("others", ["", "  author: me\n"])
def test_a_contract_in_metadata_moves_into_its_own_file(place, mended, end, profile, others):
    head = "---\nname: words-of\n"
    rest = "description: d\n---\n\nbody\n"
    before = f"{head}metadata:\n{INSIDE}{others}{rest}".replace("\n", end).encode()
    after = mended("SKILL.md", before, profile)
    kept = f"metadata:\n{others}" if others else ""
    assert after == f"{head}{kept}{rest}".replace("\n", end).encode()
    folder = place.root / "skills" / "words-of"
    moved = 'id: zodiac # own\n\nexports:\n    api_version: "1.0"\n    tools: []\n'
    assert folder.joinpath("clawhive.yaml").read_bytes() == moved.replace("\n", end).encode()
    (entry,) = place.load(paths=[folder]).entries
    assert (entry.skill.id, entry.skill.exports.api_version) == ("zodiac", "1.0")


def test_a_contract_that_is_a_json_text_moves_as_it_is(place, mended):
    text = '{"id": "zodiac", "exports": {"api_version": "1.0", "tools": []}}'
    front = "name: words-of\ndescription: d\n"
    before = f"---\n{front}metadata:\n  clawhive: '{text}'\n---\n"
    assert mended("SKILL.md", before) == f"---\n{front}---\n".encode()
    moved = place.root / "skills" / "words-of" / "clawhive.yaml"
    assert moved.read_text() == f"{text}\n"


@pytest.mark.parametrize(
    "front",
    [
        "name: words-of\ndescription: d\nmetadata: {clawhive: {id: zodiac}}",
        "name: words-of\ndescription: d\nmetadata:\n  clawhive: {id: zodiac}",
        "name: words-of\ndescription: d\nmetadata:\n  clawhive:\n    id: &n zodiac\n  other: *n",
        "name: &n words-of\ndescription: *n\nexports: {tools: []}\nid: *n",
        "{name: words-of, description: d, exports: {tools: []}}",
        "name: words-of\ndescription: d\nexports: {tools: []}\nmetadata: {clawhive: {}}",
    ],
)
def test_a_contract_that_cannot_move_whole_stays(place, mended, front):
    data = f"---\n{front}\n---\n".encode()
    assert mended("SKILL.md", data) == data
    assert not place.root.joinpath("skills/words-of/clawhive.yaml").exists()


def test_a_skill_that_others_import_is_not_renamed(place, monkeypatch):
    monkeypatch.chdir(place.root)
    file = place.text("folder", "name: known\ndescription: d")
    place.skill("user", "imports: [{from: known, tools: []}]")
    report = SkillReport.of(place.load, "strict")
    assert "CH0204" in {each.code for each in report.findings}
    fix_files(report.skills, report.findings, [place.root])
    assert b"name: known" in file.read_bytes()


@pytest.mark.promise("P-171")
def test_a_link_out_of_the_root_is_not_followed(place, tmp_path, monkeypatch):
    monkeypatch.chdir(place.root)
    outside = tmp_path / "outside.yaml"
    outside.write_text("permision: []\n")
    folder = place.root / "skills" / "linked"
    folder.mkdir(parents=True)
    link = folder / "clawhive.yaml"
    link.symlink_to(outside)
    report = SkillReport.of(place.load)
    assert fix_files(report.skills, report.findings, [place.root]) == []
    inside = place.write("skills/real.yaml", "permision: []\n")
    link.unlink()
    link.symlink_to(inside)
    inside.chmod(0o640)
    report = SkillReport.of(place.load)
    (done,) = [each for each in fix_files(report.skills, report.findings, [folder]) if each.problem]
    assert (done.fixes, "is a link to" in done.problem) == (0, True)
    link.unlink()
    link.symlink_to(outside)  # changed after it was checked
    (done,) = [
        each for each in fix_files(report.skills, report.findings, [place.root]) if each.problem
    ]
    assert (done.fixes, "is a link to" in done.problem) == (0, True)
    assert outside.read_text() == "permision: []\n"
    link.unlink()
    link.symlink_to(inside)
    fix_files(report.skills, report.findings, [place.root])
    assert inside.read_text() == "permissions: []\n"
    assert link.is_symlink()
    assert inside.stat().st_mode & 0o777 == 0o640
    assert list(inside.parent.glob(".real*")) == []


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written_is_named(place, monkeypatch):
    monkeypatch.chdir(place.root)
    file = place.skill("locked", "permision: []\n")
    file.parent.chmod(0o500)
    report = SkillReport.of(place.load)
    (done,) = fix_files(report.skills, report.findings, [place.root])
    file.parent.chmod(0o700)
    assert "cannot be written" in done.problem
    assert file.read_text() == "permision: []\n"


WORDS = st.sampled_from(
    ["name", "description", "version", "on", "permision", "exports", "tools", "a", "metadata"]
)
VALUES = st.sampled_from(["1.0", "yes", "a: b", "'x'", "[1, on]", "{on: 1}", "|\n  x: 1", "", "@x"])
LINES = st.tuples(st.sampled_from(["", "", "  ", "- "]), WORDS, VALUES).map(
    lambda each: f"{each[0]}{each[1]}: {each[2]}"
)


@given(
    st.lists(LINES, max_size=6),
    st.sampled_from(["\n", "\r\n", "\r"]),
    st.sampled_from(["lenient", "strict", "portable"]),
)
def test_whatever_a_file_holds_mending_ends_and_makes_no_new_errors(
    tmp_path_factory, lines, end, profile
):
    from clawhive_core.config.load import open_config

    root = tmp_path_factory.mktemp("project")
    folder = root / "skills" / "some-skill"
    folder.mkdir(parents=True)
    text = end.join(["---", *lines, "---", "body", ""])
    folder.joinpath("SKILL.md").write_bytes(text.encode())
    folder.joinpath("clawhive.yaml").write_bytes(end.join(lines).encode())
    config = open_config(root, {}, {"HOME": str(root)})
    numbers = []
    for _ in range(12):
        report = SkillReport.of(lambda: load_skills(config, env={}, paths=[folder]), profile)
        numbers.append(sum(1 for each in report.findings if each.severity == "error"))
        if not fix_files(report.skills, report.findings, [root]):
            break
    else:
        pytest.fail("it is never done")
    assert not report.fixable
