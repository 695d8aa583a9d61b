"""Types of Python from contracts: what they say, and that no text of a contract becomes code."""

import ast
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawhive_core.errors import UsageError
from clawhive_core.skills.discovery.reading import read_skill
from clawhive_core.skills.typed.folder import types_package
from clawhive_core.skills.typed.models import models
from clawhive_core.skills.typed.module import class_names, module_names, module_of
from tests.examples import share

pytest.importorskip("datamodel_code_generator")

ROOT = Path(__file__).parents[2]
NODE = {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}}
EVIL = (
    'x """ \' \\" \\ \n"""\nimport os\nos.system("x")\n# noqa\\',
    '"""',
    "\\",
    "\\N{DIGIT ONE} {x} %s\x00\ud800",
)


def fields(**properties):
    return {"type": "object", "properties": properties}


CASES = [
    ({}, "AIn: TypeAlias = Any"),
    (True, "AIn: TypeAlias = Any"),
    ({"type": "object"}, "AIn: TypeAlias = dict[str, Any]"),
    ({"type": "string", "format": "date"}, "AIn: TypeAlias = str"),
    ({"type": "array", "items": {"type": "integer"}}, "AIn: TypeAlias = list[int]"),
    ({"enum": ["a", 1, None]}, "AIn: TypeAlias = Literal['a', 1] | None"),
    ({"type": ["string", "null"]}, "AIn: TypeAlias = str | None"),
    ({"type": "object", "additionalProperties": {"type": "integer"}}, "dict[str, int]"),
    ({"type": "object", "additionalProperties": False}, "class AIn(TypedDict, closed=True)"),
    ({**fields(a={"type": "string"}), "required": ["a"]}, "    a: str"),
    (fields(a={"type": "string", "default": 'x"'}), "    a: NotRequired[str]"),
    (fields(**{"class": {}}), "TypedDict('AIn', {'class': 'NotRequired[Any]'})"),
    (fields(**{"a-b": {}, "": {}}), "{'a-b': 'NotRequired[Any]', '': 'NotRequired[Any]'}"),
    (fields(list={"type": "array", "items": {}}), "{'list': 'NotRequired[list[Any]]'}"),
    (fields(title={"type": "string"}), "    title: NotRequired[str]"),
    (fields(default={"type": "string"}), "    default: NotRequired[str]"),
    (
        {**fields(n={"$ref": "#/$defs/node"}), "$defs": {"node": NODE}},
        "next: NotRequired[Node]",
    ),
    (fields(up={"$ref": "#"}), "    up: NotRequired[AIn]"),
    (fields(x={"$ref": "#/nowhere"}), "    x: NotRequired[Any]"),
    (fields(x={"$ref": "#anchor"}), "    x: NotRequired[Any]"),
    (fields(x={"$ref": "https://example.com/x.json"}), "    x: NotRequired[Any]"),
    (fields(x={"$ref": "file:///etc/passwd"}), "    x: NotRequired[Any]"),
    (fields(x={"$ref": "#/properties/x/not"}, y={"not": {}}), "    x: NotRequired[Any]"),
    (fields(x={"$id": "urn:x", "$ref": "#/$defs/y"}), "    x: NotRequired[Any]"),
    ({"anyOf": [{"type": "string"}, fields(a={})]}, " | "),
    (fields(x=False), "    x: NotRequired[Any]"),
]


@pytest.fixture(scope="module")
def cases():
    """Return what each of the cases is typed as: the generator is slow, and runs once."""
    made = models({f"A{number}In": schema for number, (schema, _) in enumerate(CASES)}, frozenset())
    assert made.untyped == ()
    found = {}
    for node in made.nodes:
        text = ast.unparse(ast.fix_missing_locations(node))
        found[re.search(r"\w+", text.removeprefix("class "))[0]] = text
    return found


@pytest.mark.parametrize("number", range(len(CASES)))
def test_a_schema_has_this_type(cases, number):
    _, said = CASES[number]
    name = "Node" if said.startswith("next") else f"A{number}In"
    assert said.replace("AIn", f"A{number}In") in cases[name].replace("Node1", "Node")


RESERVED = frozenset({"Context", "Protocol"})


@pytest.mark.parametrize(
    "name", [*sorted(RESERVED), "Any", "ClawhiveIndex", "AIn", "TypedDict", "str"]
)
def test_a_definition_takes_no_name_that_is_used_otherwise(name):
    inside = {"type": "object", "properties": {"own": {"type": "string"}}, "required": ["own"]}
    schema = {**fields(x={"$ref": f"#/$defs/{name}"}), "$defs": {name: inside}}
    made = models({"AIn": schema}, RESERVED)
    text = "\n".join(ast.unparse(ast.fix_missing_locations(node)) for node in made.nodes)
    if name == "ClawhiveIndex":
        assert (made.untyped, text) == (("AIn",), "AIn: TypeAlias = Any")
        return
    names: dict = {}
    exec(f"from __future__ import annotations\nfrom typing import *\n{text}", names)
    assert set(names["AIn"].__annotations__) == {"x"}
    owners = [key for key, each in names.items() if "own" in getattr(each, "__annotations__", {})]
    assert len(owners) == 1
    assert {*owners}.isdisjoint({*RESERVED, "AIn"})


def skill_of(folder, contract, name="evil"):
    place = folder / name
    place.mkdir(parents=True)
    place.joinpath("clawhive.yaml").write_text(json.dumps(contract), "utf-8")
    return read_skill(place, "test").skill


def contract_with(*tools, **more):
    return {"version": "1.0.0", "exports": {"api_version": "1.0", "tools": list(tools)}, **more}


def tool(name, taken=None, answer=None, description="x"):
    facts = {"input_schema": taken or {"type": "object"}, "output_schema": answer or {}}
    return {"name": name, "description": description, **facts}


def module_text(skill, *others):
    known = {each.id: each for each in (skill, *others)}
    return module_of(skill, known, module_names(list(known))).text


def held(text):
    """Return the tree of a module that holds types alone, and can be imported."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            assert ast.unparse(node.func) == "TypedDict"
        if isinstance(node, ast.Import | ast.ImportFrom):
            assert isinstance(node, ast.ImportFrom)
            assert node.module in {
                *("__future__", "typing", "typing_extensions", "collections.abc"),
                *("clawhive_skills", "clawhive_skills._context"),
            }
    allowed = ast.ClassDef | ast.Assign | ast.AnnAssign | ast.ImportFrom | ast.Expr
    assert [node for node in tree.body if not isinstance(node, allowed)] == []
    return tree


@pytest.mark.promise("P-213")
@pytest.mark.parametrize("evil", EVIL, ids=range(len(EVIL)))
def test_a_description_is_never_code(tmp_path, evil):
    evil = evil.replace("\ud800", "\\ud800")
    taken = {
        "title": evil,
        "description": evil,
        **fields(a={"type": "string", "description": evil, "title": evil, "default": evil}),
        "examples": [evil],
        "$comment": evil,
    }
    skill = skill_of(tmp_path, contract_with(tool("look", taken, taken, evil), version=evil))
    tree = held(module_text(skill))
    (handlers,) = [each for each in tree.body if getattr(each, "name", "") == "Handlers"]
    shown = ast.get_docstring(handlers.body[1]) or ""
    assert ("import os" in shown) == ("import os" in evil)


@pytest.mark.promise("P-213")
@share(1 / 50)
@given(
    st.dictionaries(
        st.text(max_size=8), st.sampled_from([{}, {"type": "string"}, NODE]), max_size=4
    ),
    st.lists(st.one_of(st.text(max_size=8), st.integers(), st.booleans(), st.none()), min_size=1),
    st.text(max_size=20),
)
def test_names_and_values_of_any_kind_make_types_alone(properties, values, description):
    schema = fields(**properties, values={"enum": values, "description": description})
    made = models({"LookInput": schema, "LookOutput": {"enum": values}}, frozenset())
    text = "\n".join(ast.unparse(ast.fix_missing_locations(node)) for node in made.nodes)
    held(text)
    assert {"LookInput", "LookOutput"} <= {
        getattr(node, "name", "") or ast.unparse(getattr(node, "target", None) or node.targets[0])
        for node in ast.parse(text).body
    }


def test_tools_and_skills_of_alike_names_get_names_of_their_own(tmp_path):
    names = ["a_b", "a-b", "A_B", "1st", "_", "class", "x" * 64]
    skill = skill_of(tmp_path, contract_with(*(tool(name) for name in names)))
    assert len(set(class_names(skill).values())) == len(names)
    held(module_text(skill))
    made = module_names(["a-b", "a_b", "A-B", "class", "match", "1x", "_context", "__init__"])
    assert len({name.lower() for name in made.values()}) == 8
    assert all(name.isidentifier() for name in made.values())
    assert {"class", "match", "_context", "__init__"}.isdisjoint(made.values())


def test_a_context_calls_what_the_contract_names_and_nothing_else(tmp_path):
    provider = skill_of(tmp_path, contract_with(tool("chart"), tool("moon")), "planet")
    imports = [{"from": "planet", "tools": ["chart", "gone"]}, {"from": "nowhere", "tools": ["x"]}]
    consumer = skill_of(
        tmp_path,
        contract_with(
            tool("look"), tool("chart"), imports=imports, requires={"tools": ["web.fetch"]}
        ),
        "jung",
    )
    text = module_text(consumer, provider)
    assert "import Refusal as Refusal, SkillContext" in text  # so strict checkers let it through
    assert "Literal['jung.chart', 'chart'], input: ChartInput" in text
    assert "Literal['planet.chart'], input: _planet.ChartInput" in text
    assert "'web.fetch'" in text
    assert not any(name in text for name in ("moon", "gone", "nowhere"))
    held(text)


def test_a_skill_without_exports_has_no_module(tmp_path):
    skill = skill_of(tmp_path, {"imports": []}, "none")
    package = types_package(["none"], {"none": skill}, tmp_path / "out", whole=True)
    assert [each.path.name for each in package.files] == ["__init__.py", "_context.py"]


def test_what_no_generator_can_type_is_any_and_told(tmp_path, monkeypatch):
    from clawhive_core.skills.typed import models as home

    real = home._generator()

    def picky():
        def generate(schema):
            if "boom" in schema:
                raise RecursionError
            return real(schema)

        return generate

    monkeypatch.setattr(home, "_generator", picky)
    made = models({"AInput": fields(boom={}), "AOutput": fields(fine={})}, frozenset())
    text = "\n".join(ast.unparse(ast.fix_missing_locations(node)) for node in made.nodes)
    assert made.untyped == ("AInput",)
    assert "AInput: TypeAlias = Any" in text
    assert "fine: NotRequired[Any]" in text


def shipped():
    return {
        place.name: read_skill(place, "test").skill
        for place in sorted(ROOT.joinpath("skills").iterdir())
    }


@pytest.mark.promise("P-214")
def test_equal_contracts_make_equal_bytes_whatever_is_asked_for(tmp_path):
    known = shipped()
    whole = types_package(list(known), known, tmp_path, whole=True)
    turned = dict(reversed(known.items()))
    again = types_package(list(turned), turned, tmp_path, whole=True)
    assert whole.untyped == ()
    assert [each.text for each in again.files] == [each.text for each in whole.files]
    some = types_package(["jungastro"], known, tmp_path, whole=False)
    names = [each.path.name for each in some.files]
    assert names == ["__init__.py", "_context.py", "jungastro.py", "zodiac.py"]
    assert {each.text for each in some.files} <= {each.text for each in whole.files}


@pytest.mark.promise("P-214")
def test_a_folder_is_brought_up_to_date_and_foreign_files_stay(tmp_path):
    known = shipped()
    package = types_package(list(known), known, tmp_path, whole=True)
    package.write()
    assert types_package(list(known), known, tmp_path, whole=True).outdated == []
    folder = tmp_path / "clawhive_skills"
    folder.joinpath("own.py").write_text("x = 1\n")
    folder.joinpath("zodiac.py").write_text(folder.joinpath("zodiac.py").read_text() + "#\n")
    del known["research"]
    late = types_package(list(known), known, tmp_path, whole=True)
    states = {each.path.name: each.state for each in late.outdated}
    assert states == {"zodiac.py": "changed", "research.py": "stale"}
    late.write()
    assert sorted(path.name for path in folder.iterdir()) == [
        *("__init__.py", "_context.py", "jungastro.py", "own.py", "zodiac.py"),
    ]


def test_a_file_of_somebody_else_is_not_written_over(tmp_path):
    file = tmp_path / "clawhive_skills" / "zodiac.py"
    file.parent.mkdir()
    file.write_text("mine = 1\n")
    known = shipped()
    with pytest.raises(UsageError) as caught:
        types_package(["zodiac"], known, tmp_path, whole=False)
    assert (caught.value.code, file.read_text()) == ("already_exists", "mine = 1\n")
    file.unlink()
    file.mkdir()
    with pytest.raises(UsageError) as caught:
        types_package(["zodiac"], known, tmp_path, whole=False)
    assert caught.value.code == "io_error"
    tmp_path.joinpath("flat").write_text("")
    with pytest.raises(UsageError) as caught:
        types_package(["zodiac"], known, tmp_path / "flat", whole=False)
    assert caught.value.code == "io_error"


def test_without_the_generator_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "datamodel_code_generator", None)
    with pytest.raises(UsageError) as caught:
        models({"AIn": {}}, frozenset())
    assert caught.value.code == "missing_package"
    assert caught.value.fix == "pip install 'clawhive[types]'"


HANDLERS = """
from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from clawhive_skills.jungastro import Context, ReflectInput, ReflectOutput, Refusal
    from clawhive_skills.zodiac import GetChartSnapshotOutput


async def reflect(input: ReflectInput, ctx: Context) -> ReflectOutput | Refusal:
    found = await ctx.call("zodiac.get_chart_snapshot", {"include_aspects": True})
    if "error" in found:
        return found
    return {"functions": {}, "leading": sign(found), "inferior": "x", "signs": {}}


def sign(found: GetChartSnapshotOutput) -> str:
    return found["sun_sign"]
"""
WRONG = {
    '"zodiac.get_chart_snapshot"': '"zodiac.get_moon"',
    '{"include_aspects": True}': '{"include_aspects": 1}',
    '"leading": sign(found)': '"leading": 1',
    ', "signs": {}': "",
    'found["sun_sign"]': 'found["sunsign"]',
    '    if "error" in found:\n        return found\n': "",
}


@pytest.mark.slow
@pytest.mark.promise("P-214")
def test_a_strict_type_checker_takes_the_types_and_finds_what_breaks_a_contract(tmp_path):
    known = shipped()
    nested = fields(x={"type": "object", "properties": {"list": {"type": "array"}, "str": {}}})
    evil = {
        **fields(**{"class": {}, "a b": nested, "int": {"type": "integer"}}),
        "required": ["int"],
    }
    known["evil"] = skill_of(
        tmp_path / "made",
        contract_with(
            tool("look", evil, {"anyOf": [evil, {"type": "null"}]}, EVIL[0]),
            tool("walk", {**fields(n={"$ref": "#/$defs/node"}), "$defs": {"node": NODE}}),
        ),
    )
    package = types_package(list(known), known, tmp_path / "typings", whole=True)
    assert package.untyped == ()
    package.write()
    tmp_path.joinpath("pyproject.toml").write_text(
        '[tool.basedpyright]\ntypeCheckingMode="strict"\n'
    )
    tmp_path.joinpath("right.py").write_text(HANDLERS)
    for number, (right, wrong) in enumerate(WRONG.items()):
        assert right in HANDLERS
        tmp_path.joinpath(f"wrong{number}.py").write_text(HANDLERS.replace(right, wrong))
    program = Path(sys.executable).with_name("basedpyright")
    if not program.exists():
        pytest.skip("no type checker here")
    done = subprocess.run(
        [program, "--outputjson", "."], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    report = json.loads(done.stdout)
    errors = {Path(each["file"]).name for each in report["generalDiagnostics"]}
    wanted = {f"wrong{number}.py" for number in range(len(WRONG))}
    assert errors == wanted, report["generalDiagnostics"]
    assert report["summary"]["filesAnalyzed"] >= len(WRONG) + 7
