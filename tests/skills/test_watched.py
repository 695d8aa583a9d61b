"""A set that is checked again after each change is the set that a whole check finds."""

import shutil

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from clawhive_core.skills import watched
from clawhive_core.skills.checks.required import KnownTools
from clawhive_core.skills.load import load_skills
from clawhive_core.skills.watched import WatchedSkills
from tests.examples import share

TOOLS = KnownTools(frozenset({"web.search", "d.any"}))
FILES = {"manifest": "clawhive.yaml", "handlers": "handlers.py", "text": "SKILL.md"}
NAMES = ("a", "b", "c", "d")
TOOL = "{{name: {0}, description: x, input_schema: {{type: object}}, output_schema: {{}}}}"

names = st.sampled_from(NAMES)
tools = st.lists(st.sampled_from(["t", "u"]), max_size=2, unique=True)
imports = st.lists(st.tuples(st.sampled_from((*NAMES, "aa", "gone")), tools), max_size=2)


@st.composite
def manifests(draw):
    lines = [f"id: {draw(names)}"] if draw(st.integers(0, 5)) == 0 else []
    exported = draw(tools)
    if exported or draw(st.booleans()):
        listed = ", ".join(TOOL.format(each) for each in exported)
        lines.append(f'exports: {{api_version: "{draw(st.integers(1, 2))}.0", tools: [{listed}]')
        if draw(st.booleans()):
            other = draw(st.sampled_from(["t", "b.u", "c.t"]))
            gone = f'tool: t, removal_date: "2999-01-01", replacement: {other}'
            lines[-1] += f", deprecated: [{{{gone}}}]"
        lines[-1] += "}"
    listed = ", ".join(
        f'{{from: {one}, tools: [{", ".join(some)}], min_version: "1.0"}}'
        for one, some in draw(imports)
    )
    lines.append(f"imports: [{listed}]")
    for key, value in (
        ("requires", "{tools: [web.search, b.t]}"),
        ("external_tools", "[u]"),
        ("requires_skill_data", "[c]"),
        ("tasks", "{go: {}}"),
        ("allowed_run_types", "[a.go]"),
    ):
        if draw(st.integers(0, 3)) == 0:
            lines.append(f"{key}: {value}")
    if draw(st.integers(0, 8)) == 0:
        lines.append("broken: [")
    return "\n".join(lines) + "\n"


EDITS = st.one_of(
    st.tuples(st.just("manifest"), names, manifests()),
    st.tuples(st.just("text"), names, st.sampled_from(["x", "'", "t u"])),
    st.tuples(st.just("alone"), names, manifests()),
    st.tuples(st.just("drop text"), names, st.none()),
    st.tuples(st.just("drop manifest"), names, st.none()),
    st.tuples(st.just("remove"), names, st.none()),
    st.tuples(st.just("rename"), names, names),
    st.tuples(st.just("handlers"), names, st.sampled_from(["def t(input, ctx): ...\n", "x = (\n"])),
    st.tuples(st.just("group"), names, manifests()),
)


def edit(root, kind, name, what):
    """Make one change and return the paths that a watcher would name."""
    folder = root / name
    match kind:
        case "manifest" | "handlers" | "text":
            file = folder / FILES[kind]
            text = f"---\nname: {name}\ndescription: {what}\n---\n" if kind == "text" else what
            made = not folder.exists()
            folder.mkdir(exist_ok=True)
            file.write_text(text)
            return [folder, file] if made else [file]
        case "alone":
            root.joinpath(f"{name}.yaml").write_text(what)
            return [root / f"{name}.yaml"]
        case "drop text" | "drop manifest":
            file = folder / ("SKILL.md" if kind == "drop text" else "clawhive.yaml")
            file.unlink(missing_ok=True)
            return [file]
        case "remove":
            shutil.rmtree(folder, ignore_errors=True)
            return [folder]
        case "rename":
            if folder.exists() and not (root / what).exists():
                folder.rename(root / what)
            return [folder, root / what]
        case _:
            inner = root / "more" / "skills" / name
            inner.mkdir(parents=True, exist_ok=True)
            inner.joinpath("clawhive.yaml").write_text(what)
            return [root / "more"]


@pytest.mark.promise("P-225")
@settings(share(1 / 4), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.lists(st.lists(EDITS, min_size=1, max_size=3), max_size=6), given=st.booleans())
def test_after_any_edits_the_set_is_the_one_that_a_whole_check_finds(place, steps, given):
    root = place.root / "skills"
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir()
    paths = [root] if given else []
    config = place.config()
    kept = WatchedSkills(config, (), paths, TOOLS)
    kept.check()
    for step in steps:
        changed = {str(path) for one in step for path in edit(root, *one)}
        assert kept.check(changed) == load_skills(config, paths=paths, tools=TOOLS)


@pytest.fixture
def kept(place, monkeypatch):
    """A watched set, and the names of the folders that it reads."""
    place.text("one", "name: one\ndescription: x")
    place.skill("two", 'exports: {api_version: "1.0", tools: [' + TOOL.format("t") + "]}")
    place.skill("three", "imports: [{from: two, tools: [t]}]")
    found = WatchedSkills(place.config(), (), (), TOOLS)
    found.check()
    reads = []
    real = watched.read_skill

    def read(location, source):
        reads.append(location.path.rpartition("/")[2])
        return real(location, source)

    monkeypatch.setattr(watched, "read_skill", read)
    return found, reads


def test_only_the_skill_that_changed_is_read_and_who_imports_from_it_is_told(place, kept):
    found, reads = kept
    file = place.skill("two", 'exports: {api_version: "1.0", tools: []}')
    after = found.check([str(file)])
    assert reads == ["two"]
    assert [each.code for each in after.find("three").findings] == ["CH0602"]


def test_a_new_skill_is_found_without_reading_the_others(place, kept):
    found, reads = kept
    place.text("four", "name: four\ndescription: x")
    assert found.check([str(place.root / "skills/four")]).find("four").state == "loaded"
    assert reads == ["four"]


def test_a_file_that_is_half_written_is_told_of_until_it_is_whole(place, kept):
    found, _ = kept
    file = place.write("skills/one/SKILL.md", "---\nname: one\n")
    assert [each.code for each in found.check([str(file)]).find("one").findings] == ["CH0222"]
    place.text("one", "name: one\ndescription: x")
    assert found.check([str(file)]) == place.load(tools=TOOLS)


def test_a_file_that_is_replaced_by_another_is_read(place, kept):
    found, reads = kept
    new = place.write("skills/one/.SKILL.md.swp", "---\nname: one\ndescription: other\n---\n")
    new.rename(new.with_name("SKILL.md"))
    changed = [str(new), str(new.with_name("SKILL.md"))]
    assert found.check(changed).find("one").skill.description == "other"
    assert reads == ["one"]


def test_a_thousand_changes_at_once_are_one_check(place, kept):
    found, _ = kept
    changed = [
        str(place.text(f"s{number}", f"name: s{number}\ndescription: x").parent)
        for number in range(1000)
    ]
    assert found.check(changed) == place.load(tools=TOOLS)
