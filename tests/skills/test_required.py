"""`requires.tools` against the tools that there are, in CI and at start."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawhive_core.execution import core_tools
from clawhive_core.execution.sandbox import tools as sandbox_tools
from clawhive_core.execution.sandbox.program import RUN_PROGRAM
from clawhive_core.execution.skill_library import SKILL_OPEN
from clawhive_core.hive.hive import Hive
from clawhive_core.hive.known_tools import CORE_TOOLS, listed_tools
from clawhive_core.plugins.manager import open_plugins
from clawhive_core.skills.checks.required import KnownTools
from clawhive_core.skills.checks.set_check import SetCheck, check_tools
from clawhive_core.skills.contracts.skill import (
    ExportedTool,
    Exports,
    Import,
    Requires,
    Skill,
)
from clawhive_core.skills.discovery.skill_set import Entry
from clawhive_core.skills.documents.place import Named, Place
from clawhive_core.testing import memory_hive
from tests.harness import Provider, echo, exports

KNOWN = KnownTools(frozenset({"web.search", "web.fetch", "shell_exec", "file.read", "file.search"}))
HERE = Place("skills/x.yaml", 1, 1)


@pytest.mark.promise("P-075")
def test_a_skill_whose_tool_is_missing_is_left_out_with_the_place_of_the_name(place):
    place.skill("one", "requires:\n  tools:\n    - web.search\n    - web.serch\ntasks: {t: {}}\n")
    found = place.load(tools=KNOWN)
    (finding,) = found.findings
    assert (finding.code, finding.severity) == ("CH0611", "error")
    assert finding.place == "skills/one/clawhive.yaml:4:7"
    assert finding.fix.title.startswith("did you mean `web.search`? Else install")
    entry = found.find("one")
    assert (entry.state, entry.reason) == ("invalid", finding.message)
    (note,) = found.notes
    assert note.startswith(f"the skill `one` is not loaded: {finding.message} (CH0611 skills/one/")
    assert note.endswith("clawhive.yaml:4:7); clawhive skills check")


@pytest.mark.parametrize(
    "manifest",
    [
        "requires: {tools: [web.fetch, shell_exec]}",
        "required_tools: [web.fetch]",
        "requires: {tools: [web.fetch, web.fetch]}\nrequired_tools: [web.fetch]",
        "tasks: {}",
    ],
)
def test_a_tool_that_is_there_under_any_of_its_names_is_enough(place, manifest):
    place.skill("one", manifest)
    found = place.load(tools=KNOWN)
    assert (found.find("one").state, found.findings) == ("loaded", ())


def test_the_other_spelling_and_a_text_have_places_too(place):
    place.skill("one", "required_tools:\n  - none.one\n")
    place.text("two", "name: two\ndescription: x\nrequires: {tools: [none.two]}")
    assert [str(each.place) for each in place.load(tools=KNOWN).findings] == [
        "skills/one/clawhive.yaml:2:5",
        "skills/two/SKILL.md:4:20",
    ]


def test_what_imports_from_such_a_skill_is_left_out_too(place):
    place.skill("one", exports("a") + "requires: {tools: [no.tool]}")
    place.skill("two", "imports: [{from: one, tools: [a]}]")
    found = place.load(tools=KNOWN)
    assert {each.skill.id: each.state for each in found.entries[:2]} == {
        "one": "invalid",
        "two": "invalid",
    }
    assert [each.code for each in found.findings] == ["CH0611", "CH0612"]


def test_a_tool_that_another_skill_exports_is_there_as_long_as_that_skill_is(place):
    place.skill("one", exports("a"))
    place.skill("two", "requires: {tools: [one.a]}")
    assert place.load(tools=KNOWN).findings == ()
    place.skill("one", exports("a") + "requires: {tools: [no.tool]}")
    found = place.load(tools=KNOWN)
    assert [each.file for each in found.findings] == [
        "skills/one/clawhive.yaml",
        "skills/two/clawhive.yaml",
    ]


def test_where_a_plugin_lists_its_tools_only_when_it_runs_it_is_a_note(place):
    place.skill("one", "requires: {tools: [mcp.git.log]}")
    found = place.load(tools=KnownTools(KNOWN.names, complete=False))
    assert [(each.code, each.severity) for each in found.findings] == [("CH0611", "note")]
    assert found.find("one").state == "loaded"


def test_a_skill_that_is_off_or_broken_anyway_is_not_asked_for_its_tools(place):
    place.write("clawhive.toml", 'skills.disabled = ["one"]\n')
    place.skill("one", "requires: {tools: [no.tool]}")
    place.skill("two", "requires: {tools: [no.tool]}\nversion: 1\n")
    assert [each.code for each in place.load(tools=KNOWN).findings] == ["CH0305"]


def test_a_gated_skill_is_asked_so_that_ci_finds_it(place):
    place.skill("one", "requires: {tools: [no.tool], env: [TOKEN]}")
    found = place.load(tools=KNOWN)
    assert sorted(each.code for each in found.findings) == ["CH0404", "CH0611"]
    assert found.find("one").state == "invalid"


def test_holding_later_is_holding_at_once(place):
    place.skill("one", exports("a") + "requires: {tools: [no.tool]}")
    place.skill("two", "imports: [{from: one, tools: [a]}]")
    place.skill("three", "requires: {tools: [one.a]}")
    assert check_tools(place.load(), KNOWN) == place.load(tools=KNOWN)


NAMES = ("a", "b", "c", "d")


def skills_of(draw):
    """Turn `{name: (exports, required, imported)}` into skills."""
    return [
        Entry(
            Skill(
                name,
                "1",
                None,
                "test",
                exports=Exports("1.0", tuple(ExportedTool(each, HERE) for each in exports), HERE),
                imports=tuple(Import(other, HERE, (Named("t", HERE),)) for other in imports),
                requires=Requires(tuple(required), tool_places=(HERE,) * len(required)),
            ),
            "loaded",
        )
        for name, (exports, required, imports) in draw.items()
    ]


def kept(draw, known):
    """Return which skills stay, the slow way: drop whatever lacks something, until none does."""
    left = set(draw)
    while True:
        tools = known | {f"{name}.{each}" for name in left for each in draw[name][0]}
        lacking = {
            name
            for name in left
            if not set(draw[name][1]) <= tools or not set(draw[name][2]) <= left | {name}
        }
        if not lacking:
            return left
        left -= lacking


@given(
    st.dictionaries(
        st.sampled_from(NAMES),
        st.tuples(
            st.sets(st.just("t")),
            st.sets(st.sampled_from(["x.y", "z.z", *(f"{name}.t" for name in NAMES)]), max_size=2),
            st.sets(st.sampled_from(NAMES), max_size=2),
        ),
    )
)
def test_what_stays_is_what_the_slow_way_keeps(draw):
    draw = {
        name: (exports, sorted(required), sorted(imports & set(draw) - {name}))
        for name, (exports, required, imports) in draw.items()
    }
    held = SetCheck(skills_of(draw))
    held.tools(KnownTools(frozenset({"x.y"})))
    assert {each.skill.id for each in held.entries if each.state == "loaded"} == kept(draw, {"x.y"})


@pytest.mark.promise("P-075")
async def test_a_start_holds_skills_against_its_own_catalog(place):
    place.skill("one", "requires: {tools: [web.serch]}\ntasks: {job: {steps: []}}")
    place.skill("two", "requires: {tools: [web.search]}")
    async with Hive.open(place.root, env=place.env) as hive:
        assert hive.skill_set.find("one").state == "invalid"
        assert "two" in {skill.id for skill in hive.skills}
        assert [note for note in hive.notes if "CH0611" in note]
        with pytest.raises(
            Exception, match=r"`job` is a task type of `one`, which is invalid"
        ) as e:
            await hive.run(task="job")
        assert e.value.code == "unknown_task_type"
        report = hive.check_skills()
        assert [each.code for each in report.findings] == ["CH0611"]


async def test_a_tool_of_a_provider_that_only_the_start_knows_is_there(place):
    tools = Provider("test").offer("test.echo", echo)
    place.skill("one", "requires: {tools: [test.echo]}")
    folder = str(place.root / "skills")
    async with memory_hive(providers=[tools], settings={"skills.paths": [folder]}) as hive:
        assert hive.skill_set.find("one").state == "loaded"
    async with memory_hive(settings={"skills.paths": [folder]}) as hive:
        assert hive.skill_set.find("one").state == "invalid"


@pytest.mark.promise("P-075")
async def test_what_manifests_list_is_what_a_start_finds(place):
    """Otherwise `skills check` would say another thing in CI than every start does."""
    async with Hive.open(place.root, env=place.env) as hive:
        catalog = hive.catalog.current
        listed = listed_tools(place.config(), open_plugins(place.config(), place.env))
        names = {
            name
            for tool in catalog
            if not tool.meta.provider_id.startswith("skill_")
            for name in (tool.meta.name, *tool.meta.aliases)
        }
        assert listed == KnownTools(frozenset(names))


def test_configured_tools_and_aliases_are_listed(place):
    place.user_dir.mkdir(parents=True)
    place.user_dir.joinpath("config.toml").write_text(
        '[[tools]]\nname = "notes.count"\nfunction = "os.path:join"\n'
        '[catalog.alias]\n"my.search" = "web.search"\n"my.none" = "no.tool"\n'
    )
    listed = listed_tools(place.config(), open_plugins(place.config(), place.env))
    assert {"notes.count", "my.search"} <= listed.names
    assert "my.none" not in listed.names


def test_the_names_of_the_cores_tools_are_those_that_it_brings():
    metas = [tool.meta for tool in core_tools.TOOLS]
    metas += [SKILL_OPEN, *sandbox_tools.TOOLS]
    names = [name for meta in metas for name in (meta.name, *meta.aliases)]
    assert sorted(CORE_TOOLS) == sorted([*names, RUN_PROGRAM])
