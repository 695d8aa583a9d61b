"""Manifests: what is read, and where each mistake is reported."""

from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from clawhive_core.skills.contracts.manifest import MAX_BYTES, task_types
from clawhive_core.skills.discovery.reading import read_skill, shipped_skills
from clawhive_core.skills.discovery.shipped import shipped_folder
from clawhive_core.skills.documents import document


@pytest.fixture
def skill(tmp_path):
    def write(text, name="clawhive.yaml"):
        data = text if isinstance(text, bytes) else text.encode()
        tmp_path.joinpath(name).write_bytes(data)
        return tmp_path

    return write


GOOD = """\
id: demo
version: "1.2"
permissions: ["fs.read:${workspace}/**"]
tasks:
  job:
    description: Do it.
    input_schema: {type: object}
    steps:
      - {name: one, tool: file.read, input: {path: a}, needs: [], when: always}
    output: "${steps.one.output}"
"""


def test_a_manifest_is_read_whole(skill):
    folder = skill(GOOD)
    folder.joinpath("SKILL.md").write_text("---\nname: demo\ndescription: Shows.\n---\n\nText\n")
    read = read_skill(folder, "project").skill
    assert (read.id, read.version, read.source) == ("demo", "1.2", "project")
    assert read.description == "Shows."
    assert read.permissions == ("fs.read:${workspace}/**",)
    task = read.tasks["job"]
    assert task.steps[0]["tool"] == "file.read"
    assert task.output == "${steps.one.output}"
    assert list(task_types([read])) == ["demo.job"]


def test_a_skill_without_an_id_is_called_like_its_folder(skill):
    assert read_skill(skill("version: '1'"), "project").skill.id == skill("").name


@pytest.mark.parametrize(
    "front", ["", "no frontmatter", "---\n[1, 2\n---\n", "---\n- a\n---\nx", "\ufeff---\n"]
)
def test_a_skill_text_that_cannot_be_read_leaves_the_description_empty(skill, front):
    folder = skill(GOOD)
    folder.joinpath("SKILL.md").write_text(front, "utf-8")
    assert read_skill(folder, "project").skill.description == ""


BAD = {
    "no mapping": ("- a\n", "1:1", "must be a mapping"),
    "a number as a key": ("1: a\n", "1:1", "is no text, as a key"),
    "a number as id": ("id: 5\n", "1:5", "must be a text"),
    "a number as version": ("id: a\nversion: 1.10\n", "2:10", "must be a text"),
    "an empty id": ("id: ''\n", "1:5", "must be a text"),
    "permissions as text": ("permissions: fs.read\n", "1:14", "must be a list"),
    "a permission that is no text": ("permissions:\n  - a\n  - 3\n", "3:5", "must be a text"),
    "tasks as a list": ("tasks:\n  - job\n", "2:3", "must be a mapping"),
    "a task as text": ("tasks:\n  job: x\n", "2:8", "must be a mapping"),
    "a task's name with a dot": ("tasks:\n  a.b: {}\n", "2:3", "is no name of a task type"),
    "a misspelt key of a task": ("tasks:\n  job:\n    stesp: []\n", "3:5", "`stesp` is no key"),
    "a description that is no text": ("tasks:\n  j: {description: 4}\n", "2:20", "a text"),
    "a schema that is no mapping": ("tasks:\n  j: {input_schema: 4}\n", "2:21", "a mapping"),
    "steps as a mapping": ("tasks:\n  j: {steps: {}}\n", "2:14", "must be a list"),
    "a step as text": ("tasks:\n  j:\n    steps:\n      - read\n", "4:9", "a mapping"),
    "a step without a tool": ("tasks:\n  j:\n    steps:\n      - name: a\n", "4:9", "needs `tool`"),
    "a step whose tool is a list": (
        "tasks:\n  j:\n    steps:\n      - name: a\n        tool: [b]\n",
        "5:15",
        "must be a text",
    ),
    "a step's name with a dot": (
        "tasks:\n  j:\n    steps:\n      - {name: a.b, tool: c}\n",
        "4:16",
        "is no name of a step",
    ),
    "a misspelt key of a step": (
        "tasks:\n  j:\n    steps:\n      - name: a\n        tool: b\n        inputs: {}\n",
        "6:9",
        "`inputs` is no key of a step",
    ),
    "needs as text": (
        "tasks:\n  j:\n    steps:\n      - {name: a, tool: b, needs: c}\n",
        "4:35",
        "must be a list",
    ),
    "for_each as a list": (
        "tasks:\n  j:\n    steps:\n      - {name: a, tool: b, for_each: [c]}\n",
        "4:38",
        "must be a text",
    ),
    "a step's input as a list": (
        "tasks:\n  j:\n    steps:\n      - {name: a, tool: b, input: [c]}\n",
        "4:35",
        "must be a mapping",
    ),
    "grounds as a list": ("grounds: [web.search]\n", "1:10", "must be a mapping"),
    "grounds of a tool as a text": ("grounds:\n  a.b: url\n", "2:8", "must be a list"),
    "grounds of a person": (
        "grounds:\n  a.b: [to:recipient]\n",
        "2:9",
        "says nothing that a contract may ground",
    ),
    "grounds without a kind": ("grounds:\n  a.b: [url]\n", "2:9", "a contract may ground"),
    "grounds of no kind": ("grounds:\n  a.b: ['u:page']\n", "2:9", "is no kind"),
    "broken YAML": ("id: a\ntasks: [\n", "3:1", "is no YAML"),
    "a tab": ("id: a\ntasks:\n\tjob: {}\n", "3:1", "is indented by a tab"),
    "a key twice": ("id: a\nversion: '1'\nid: b\n", "3:1", "stands twice"),
    "a key twice, deep": (
        "tasks:\n  j:\n    steps:\n      - {name: a, tool: b, name: c}\n",
        "4:28",
        "stands twice",
    ),
    "a tag that makes objects": (
        "id: !!python/object:os.system {}\n",
        "1:5",
        "holds what JSON has not",
    ),
    "two documents": ("id: a\n---\nid: b\n", "2:1", "is no YAML"),
}


def test_grounds_of_what_is_never_called_are_noticed(skill):
    folder = skill("grounds:\n  web.serch: ['u:url']\nrequires: {tools: [web.search]}\n")
    (finding,) = read_skill(folder, "project").findings
    assert (finding.code, finding.severity) == ("CH0310", "warning")
    assert finding.place == f"{folder / 'clawhive.yaml'}:2:3"
    assert finding.fix is not None
    assert finding.fix.title == "did you mean `web.search`?"


@pytest.mark.parametrize("what", BAD)
def test_a_mistake_is_reported_at_its_file_line_and_column(skill, what):
    text, place, says = BAD[what]
    folder = skill(text)
    (wrong,) = read_skill(folder, "project").findings
    assert wrong.place == f"{folder / 'clawhive.yaml'}:{place}"
    assert says in wrong.message
    assert wrong.severity == "error"


def test_a_misspelt_key_is_answered_with_the_one_that_was_meant(skill):
    folder = skill("tasks:\n  j:\n    stesp: []\n")
    (wrong,) = read_skill(folder, "project").findings
    assert wrong.fix.title == "did you mean `steps`?"


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"id: \xff\xfe\n", "is not UTF-8"),
        (b"#" * (MAX_BYTES + 1), f"larger than {MAX_BYTES} bytes"),
        (b"[" * 5000, "is nested deeper than 64 levels"),
        (b"id: a\0\n", "is no YAML"),
    ],
)
def test_what_cannot_be_read_at_all_names_the_file(skill, data, says):
    folder = skill(data)
    (wrong,) = read_skill(folder, "project").findings
    assert wrong.place.startswith(str(folder / "clawhive.yaml"))
    assert says in wrong.message


def test_a_manifest_that_cannot_be_opened_is_named(tmp_path):
    (wrong,) = read_skill(tmp_path / "gone.yaml", "project").findings
    assert (wrong.code, wrong.message) == (
        "CH0002",
        "the manifest cannot be read: No such file or directory",
    )


def test_every_shipped_skill_is_read_and_its_permissions_are_capabilities():
    from clawhive_core.capabilities import normalise

    skills = shipped_skills()
    assert "run_code_snippet" in {task for skill in skills for task in skill.tasks}
    for skill in skills:
        assert skill.description, skill.id
        for text in skill.permissions:
            normalise(text, {"workspace": "/w", "run": "/r", "home": "/h"})


def test_without_a_folder_of_shipped_skills_there_are_none(monkeypatch, tmp_path):
    assert shipped_folder().is_dir()
    monkeypatch.setattr(
        "clawhive_core.skills.discovery.shipped._PACKAGE", Path(tmp_path, "nowhere")
    )
    assert shipped_skills() == []


PIECES = (
    *("- ", "? ", ": ", "a: ", "[", "]", "{", "}", ", ", "\n", " ", "  ", "    ", "x", "&a "),
    *("!!map ", "--- ", "'", '"', "#", "|\n", "-\n", "a:\n", "\n- ", "\n  - ", "*a", "\t"),
)


def depth(text):
    """Return how deep the parser finds a text nested, up to where it stops."""
    deepest = here = 0
    try:
        for event in yaml.parse(text, Loader=yaml.CSafeLoader):
            here += isinstance(event, yaml.CollectionStartEvent)
            here -= isinstance(event, yaml.CollectionEndEvent)
            deepest = max(deepest, here)
    except yaml.YAMLError:
        pass
    return deepest


@pytest.fixture(scope="module")
def shallow():
    """Let a text be nested in four levels only."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(document, "MAX_DEPTH", 4)
        yield


@given(text=st.lists(st.sampled_from(PIECES), max_size=60).map("".join))
def test_a_text_is_read_only_where_it_is_not_nested_too_deep(shallow, text):
    try:
        document.compose(text)
    except document.TooDeep:
        assert depth(text) > 4
    except yaml.YAMLError:
        pass
    else:
        assert depth(text) <= 4


@pytest.mark.parametrize("piece", ["[", "[a: ", "{a: ", "- ", "? ", "a:\n"])
def test_each_way_to_nest_is_counted(piece):
    text = "".join(f"{' ' * number}a:\n" for number in range(70)) if piece == "a:\n" else piece * 70
    with pytest.raises(document.TooDeep):
        document.compose(text)
