"""The core check: imports against exports, cycles, versions, each at its place."""

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawhive_core.skills.checks.cycles import shortest_cycles
from tests.harness import exports

ZODIAC = """\
exports:
  api_version: "1.10"
  tools:
    - {name: calculate, input_schema: {type: object}, output_schema: {type: object}}
    - {name: snapshot, input_schema: {type: object}, output_schema: {type: object}}
"""


def imports(skill="zodiac", tool="calculate", version="1.0"):
    return f'imports:\n  - from: {skill}\n    tools: [{tool}]\n    min_version: "{version}"\n'


def own(place):
    return [(each.code, each.severity, each.place) for each in place.findings()]


def test_an_import_that_fits_finds_nothing(place):
    place.skill("zodiac", ZODIAC)
    place.skill("user", imports(version="1.9"))
    place.skill("other", imports(tool="snapshot"))
    assert own(place) == []
    assert {each.state for each in place.own().values()} == {"loaded"}


STEP_BEYOND = """\
permissions: ['fs.read:/x/**']
tasks: {t: {steps: [{name: a, tool: b, permissions: ['fs.read:/**', 'tool.call:b', 'fs.read:/x']}]}}
"""


@pytest.mark.parametrize(
    ("given", "code", "severity", "at", "fix"),
    [
        (imports(skill="zodiak"), "CH0601", "error", "2:11",
         "did you mean `zodiac`? Else install the skill, or remove the import"),
        (imports(tool="calculat"), "CH0602", "error", "3:13",
         "did you mean `calculate`? Else it exports: calculate, snapshot"),
        (imports(version="1.11"), "CH0603", "error", "4:18", "update `zodiac`, or ask for 1.10"),
        (imports(version="0.9"), "CH0604", "warning", "4:18",
         'try it, then write `min_version: "1.0"`'),
        (imports(skill="user"), "CH0607", "error", "2:11", "call the tool by its bare name"),
        (imports(tool="snapshot, snapshot"), "CH0606", "warning", "3:23", "remove one of them"),
        ("imports:\n  - {from: zodiac, tools: [a], min_version: 1.0}\n", "CH0605", "error", "2:45",
         'write `min_version: "1.0"`'),
        ("imports:\n  - {from: zodiac, tols: [a]}\n", "CH0306", "error", "2:20",
         "did you mean `tools`?"),
        ("imports: zodiac\n", "CH0305", "error", "1:10", None),
        ("exports: {api_version: 1.0}\n", "CH0501", "error", "1:24", 'write `api_version: "1.0"`'),
        ("exports: {api_version: '1.0', tools: [a, b, a]}\n", "CH0502", "error", "1:45",
         "remove one; the other stands in line 1"),
        ("exports: {api_version: '1.0', tools: [{name: a, input_schema: {type: objekt}}]}\n",
         "CH0503", "error", "1:70", None),
        ("permissions: ['fs.raed:/x']\n", "CH0309", "error", "1:15", None),
        ("tasks: {t: {steps: [{name: a, tool: b, permissions: ['fs.raed:/x']}]}}\n", "CH0309",
         "error", "1:54", None),
        (STEP_BEYOND, "CH0311", "warning", "2:54",
         "add it to the skill's `permissions`, or remove it here"),
        ("requires: {os: [beos]}\n", "CH0305", "error", "1:17", "use linux, macos or windows"),
        ("tasks: {t: {steps: [{name: a, tool: b}, {name: a, tool: b}]}}\n", "CH0308", "error",
         "1:48", "rename one"),
        ("tasks: {t: {steps: [{name: a, tool: b, needs: [c]}]}}\n", "CH0308", "error", "1:48",
         "there are: a"),
        ("id: a b\n", "CH0202", "error", "1:5", None),
        ("permisions: []\n", "CH0306", "warning", "1:1", "did you mean `permissions`?"),
        ("x: {on: 1}\n", "CH0231", "error", "1:5", "put it in quotes"),
    ],
)  # fmt: skip
def test_each_mistake_is_found_at_its_place_with_its_fix(place, given, code, severity, at, fix):
    place.skill("zodiac", ZODIAC)
    place.skill("user", given)
    (found, *_) = [each for each in place.findings() if each.code == code]
    assert (found.severity, found.place) == (severity, f"skills/user/clawhive.yaml:{at}")
    if fix is not None:
        assert found.fix.title == fix
    assert place.own()["user"].state == ("invalid" if severity == "error" else "loaded")
    assert place.own()["zodiac"].state == "loaded"


def test_exports_may_be_names_with_their_contracts_beside_them(place):
    manifest = (
        "exports:\n  api_version: '1.0'\n  tools: [a]\n"
        "  contracts: {a: {input_schema: {}, output_schema: {}}}\n"
    )
    place.skill("one", manifest)
    (tool,) = place.own()["one"].skill.exports.tools
    assert (tool.name, tool.input_schema) == ("a", {})
    place.skill("two", manifest.replace("{a:", "{b:"))
    assert own(place) == [("CH0502", "error", "skills/two/clawhive.yaml:4:15")]


def test_several_mistakes_of_one_manifest_are_all_reported(place):
    place.skill("one", "version: 1\npermissions: x\nimports: [{}]\ntasks: {t: {stesp: []}}\n")
    assert [code for code, _, _ in own(place)] == ["CH0305", "CH0305", "CH0305", "CH0306"]


def test_what_imports_from_an_invalid_skill_is_invalid_too(place):
    place.skill("zodiac", "version: 1\n" + ZODIAC)
    place.skill("user", imports())
    place.skill("beyond", imports(skill="user"))
    assert {each.state for each in place.own().values()} == {"invalid"}
    assert "CH0602" not in [code for code, _, at in own(place) if "/user/" in at]


def test_what_imports_from_a_gated_skill_is_gated_too(place):
    place.skill("zodiac", "requires: {bins: [no-such-program]}\n" + ZODIAC)
    place.skill("user", imports())
    assert {each.state for each in place.own().values()} == {"gated"}
    assert {severity for _, severity, _ in own(place)} == {"note"}


def test_a_cycle_is_shown_whole_with_the_place_of_every_edge(place):
    for one, other in ("ab", "bc", "ca"):
        place.skill(one, exports("t") + imports(other, "t"))
    findings = [each for each in place.findings() if each.severity == "error"]
    assert [each.code for each in findings] == ["CH0608"] * 3
    assert findings[0].place == "skills/a/clawhive.yaml:3:11"
    assert findings[0].message.endswith(
        "a -> b (skills/a/clawhive.yaml:3:11), b -> c (skills/b/clawhive.yaml:3:11), "
        "c -> a (skills/c/clawhive.yaml:3:11)"
    )
    assert {each.state for each in place.own().values()} == {"invalid"}


GRAPHS = st.dictionaries(
    st.sampled_from("abcdef"), st.lists(st.sampled_from("abcdef"), unique=True), max_size=6
)


def reaches(graph, start, end):
    seen, waiting = set(), [start]
    while waiting:
        name = waiting.pop()
        if name == end:
            return True
        if name not in seen:
            seen.add(name)
            waiting += graph.get(name, ())
    return False


@given(GRAPHS)
def test_every_edge_of_a_cycle_is_in_one_that_is_reported_and_no_other_is(graph):
    cycles = shortest_cycles(graph)
    shown = {
        (one, other)
        for cycle in cycles
        for one, other in zip(cycle, (*cycle[1:], cycle[0]), strict=True)
    }
    edges = {(one, other) for one, others in graph.items() for other in others if one != other}
    assert shown == {edge for edge in edges if reaches(graph, edge[1], edge[0])}
    assert len(set(cycles)) == len(cycles)
    assert all(len(set(cycle)) == len(cycle) for cycle in cycles)


def test_a_chain_of_thousands_is_walked_without_recursion():
    names = [f"s{number:05}" for number in range(20_000)]
    graph = {one: [other] for one, other in pairwise(names)}
    assert shortest_cycles(graph) == []


SOURCES = """\
id: zodiac
name: 西方占星
description: 星盘
exports:
  api_version: "1.0"
  tools:
    - name: calculate
      description: x
      input_schema: {type: object}
      output_schema: {type: object}
"""


def test_a_contract_at_the_top_of_the_text_is_read_with_notes_only(place):
    place.text("zodiac", SOURCES)
    place.text("jung", "name: 荣格\ndescription: x\nid: jungastro\n" + imports())
    assert {severity for _, severity, _ in own(place)} == {"note"}
    assert {each.state for each in place.own().values()} == {"loaded"}
    assert set(place.own()) == {"zodiac", "jungastro"}


@pytest.mark.parametrize("as_json", [True, False])
def test_a_contract_under_metadata_is_read(place, as_json):
    tool = {"name": "a", "input_schema": {}, "output_schema": {}}
    contract = {"exports": {"api_version": "1.0", "tools": [tool]}}
    value = json.dumps(json.dumps(contract)) if as_json else json.dumps(contract)
    place.text("one", f"name: one\ndescription: x\nmetadata:\n  clawhive: {value}")
    assert own(place) == [("CH0301", "note", "skills/one/SKILL.md:5:13")]
    assert place.own()["one"].skill.exports.names() == ("a",)


def test_a_mistake_under_metadata_is_found_at_its_line(place):
    place.text("one", "name: one\ndescription: x\nmetadata:\n  clawhive:\n    version: 2")
    assert own(place) == [
        ("CH0301", "note", "skills/one/SKILL.md:6:5"),
        ("CH0305", "error", "skills/one/SKILL.md:6:14"),
    ]


def test_a_contract_in_two_places_is_an_error_that_names_both(place):
    place.text("one", SOURCES)
    place.skill("one", "version: '1'")
    (found,) = [each for each in place.findings() if each.code == "CH0302"]
    assert "skills/one/clawhive.yaml:1:1" in found.message
    assert found.place == "skills/one/SKILL.md:2:1"
    assert place.own()["one"].state == "invalid"


@pytest.mark.parametrize("value", ["{mcp: [x]}", "[a]", "text"])
def test_a_foreign_requires_is_left_alone_with_a_note(place, value):
    place.text("one", f"name: one\ndescription: x\nrequires: {value}")
    assert own(place) == [("CH0304", "note", "skills/one/SKILL.md:4:11")]
    assert place.own()["one"].state == "loaded"
