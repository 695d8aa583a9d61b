import json
import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawhive_core import ToolMeta
from clawhive_core.errors import ManifestError
from clawhive_core.plugins.entry_points import commands_in
from clawhive_core.plugins.hookspecs import PROTOCOLS
from clawhive_core.plugins.manifest import (
    Manifest,
    ManifestCommand,
    parse_manifest,
    read_manifest,
)
from clawhive_core.plugins.manifest_text import manifest_text

PLUGIN = '[plugin]\nid = "demo"\nhook_api = 1\n'
TOOL = (
    '[[tools]]\nname = "demo.act"\ndescription = "Act."\ncapability_level = "L0"\nrisk = "safe"\n'
    'input_schema = \'{"type": "object", "properties": {"path": {}}}\'\n'
)

texts = st.text(st.characters(codec="utf-8"))
words = st.text("abc_-", min_size=1, max_size=5)
ids = st.from_regex(r"[A-Za-z0-9_-]{1,8}", fullmatch=True)
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
    | st.sampled_from(["'''", '"""', "\x7f", "\ud800", "a\\'''\\", "\u2028"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
objects = st.dictionaries(st.text(), json_values, max_size=4)
names = st.builds("{}.{}".format, words, words)


@st.composite
def metas(draw):
    schema = {**draw(objects), "properties": {"path": draw(json_values)}}
    return ToolMeta(
        name=draw(names),
        description=draw(texts),
        input_schema=schema,
        provider_id=draw(st.sampled_from(["demo", "other"])),
        output_schema=draw(st.none() | objects),
        capability_level=draw(st.sampled_from(["L0", "L1", "L2"])),
        risk=draw(st.sampled_from(["safe", "guarded", "unsafe", "unknown"])),
        effects=draw(st.sampled_from([{}, {"path": "fs.read"}, {"": ("a.b:c", "d.e:f\x7f")}])),
        sinks=tuple(draw(st.lists(texts, max_size=2))),
        confirms=draw(st.none() | texts),
        idempotent=draw(st.booleans()),
        timeout_ms=draw(st.integers(1, 10**9)),
        keywords=tuple(draw(st.lists(texts, max_size=2))),
        examples=tuple(draw(st.lists(objects, max_size=2))),
        annotations=draw(objects),
    )


@st.composite
def manifests(draw):
    tools = draw(st.lists(metas(), max_size=3, unique_by=lambda m: (m.provider_id, m.name)))
    return Manifest(
        id="demo",
        hook_api=1,
        hooks=tuple(hook for hook in PROTOCOLS if draw(st.booleans())),
        after=tuple(draw(st.lists(ids, max_size=2))),
        before=tuple(draw(st.lists(ids, max_size=2))),
        dynamic=draw(st.booleans()),
        dynamic_settings=tuple(draw(st.lists(ids, max_size=2))),
        env=tuple(draw(st.lists(ids, max_size=2))),
        commands=tuple(ManifestCommand(name, draw(texts)) for name in draw(st.lists(texts))),
        tools=tuple(sorted(tools, key=lambda m: (m.provider_id, m.name))),
    )


@given(manifests())
def test_every_manifest_is_read_back_as_it_was_written(manifest):
    text = manifest_text(manifest)
    text.encode("utf-8")
    read = parse_manifest(text)
    assert read == manifest
    assert manifest_text(read) == text
    assert [tool.contract_hash for tool in read.tools] == [
        tool.contract_hash for tool in manifest.tools
    ]


@given(manifests())
def test_windows_line_ends_change_nothing_but_line_ends(manifest):
    text = manifest_text(manifest).replace("\n", "\r\n")
    read = parse_manifest(text)
    assert read.tools == manifest.tools


@given(st.text())
def test_any_text_is_a_manifest_or_an_error_with_place_and_fix(text):
    error = error_of(text)
    assert error is None or (error.place.startswith("here.toml") and error.fix)


def error_of(text):
    try:
        parse_manifest(text, "here.toml")
    except ManifestError as error:
        return error
    return None


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("", None, ["[plugin]", "sync"]),
        ("plugin = 3", 1, ["[plugin]"]),
        ("[plugin\n", 1, ["not TOML"]),
        (PLUGIN + "x = " + "1" * 5_000, None, ["not TOML", "digits"]),
        (PLUGIN + "x = 0000-01-01\n", 4, ["not TOML"]),
        (PLUGIN + "a." * 50_000 + "a = 1\n", 4, ["not TOML", "500 dots"]),
        (PLUGIN + "x = " + "[" * 50_000, None, ["not TOML", "nested"]),
        ('[plugin]\nid = "demo"\n', 1, ["hook_api", "hook_api = 1"]),
        ('[plugin]\nid = "demo"\nhook_api = "1"\n', 3, ["hook_api", "hook_api = 1"]),
        ('[plugin]\nid = "demo"\nhook_api = true\n', 3, ["hook_api"]),
        ("[plugin]\nhook_api = 1\n", 1, ["id"]),
        ('[plugin]\nid = "de mo"\nhook_api = 1\n', 2, ["'de mo'"]),
        (PLUGIN + 'hoks = ["x"]\n', 4, ["'hoks'", "`hooks`"]),
        (PLUGIN + "hooks = 3\n", 4, ["hooks", "list"]),
        (PLUGIN + 'hooks = ["clawhive_planer"]\n', 4, ["clawhive_planer", "clawhive_planners"]),
        (PLUGIN + 'tools = "static"\n', 4, ["dynamic"]),
        (PLUGIN + 'after = "builtin"\n', 4, ["after", "list"]),
        (PLUGIN + "\n[tols]\n", 5, ["'tols'", "`tools`"]),
        (PLUGIN + "commands = 3\n", 4, ["commands"]),
        ("commands = 3\n" + PLUGIN, 1, ["[[commands]]"]),
        (PLUGIN + '[[commands]]\nhelp = "x"\n', 4, ["name"]),
        (PLUGIN + '[[commands]]\nname = "x"\nhlp = "y"\n', 6, ["`help`"]),
        (PLUGIN + TOOL.replace('risk = "safe"\n', ""), 4, ["risk is missing"]),
        (PLUGIN + TOOL + TOOL.replace("safe", "low"), 14, ["'low'", "safe, guarded"]),
        (PLUGIN + TOOL.replace("demo.act", "act"), 5, ["segments"]),
        (PLUGIN + TOOL + TOOL, 11, ["twice"]),
        (PLUGIN + TOOL + "timeout_ms = 0\n", 10, ["positive"]),
        (PLUGIN + TOOL + "idempotent = 1\n", 10, ["true or false"]),
        (PLUGIN + TOOL + 'effects = {pth = "fs.read"}\n', 10, ["'pth'", "path"]),
        (
            PLUGIN
            + TOOL.replace("{}", "3").replace('{"path": 3}', "3")
            + 'effects = {path = "fs.read"}\n',
            10,
            ["'path'"],
        ),
        (PLUGIN + TOOL + "effects = {path = 3}\n", 10, ["table"]),
        (PLUGIN + TOOL + "output_schema = '{'\n", 10, ["not JSON"]),
        (PLUGIN + TOOL + "output_schema = '[]'\n", 10, ["no JSON object"]),
        (PLUGIN + TOOL + "examples = '[NaN]'\n", 10, ["NaN"]),
        (PLUGIN + TOOL + "output_schema = 'x'\ncolour = 1\n", 11, ["'colour'"]),
    ],
)
def test_a_wrong_manifest_is_answered_with_the_line_and_the_fix(text, line, words):
    with pytest.raises(ManifestError) as caught:
        parse_manifest(text, "m.toml")
    error = caught.value
    place = error.place.removeprefix("m.toml").strip(":").split(":")[0]
    assert place == ("" if line is None else str(line))
    for word in words:
        assert word in f"{error.message} {error.fix}"


def test_another_hook_api_is_told_before_unknown_keys():
    with pytest.raises(ManifestError) as caught:
        parse_manifest('[plugin]\nid = "x"\nhook_api = 9\nshape = "new"\n[future]\n')
    assert caught.value.code == "incompatible_hook_api"
    assert "9" in caught.value.message
    assert "supports 1" in caught.value.message
    assert "pip install -U clawhive" in caught.value.fix


def test_a_missing_file_a_folder_bytes_and_a_huge_file_are_errors_with_a_fix(tmp_path):
    missing = tmp_path / "clawhive-plugin.toml"
    folder = tmp_path / "folder.toml"
    folder.mkdir()
    binary = tmp_path / "binary.toml"
    binary.write_bytes(b"[plugin]\nid = '\xff'\n")
    huge = tmp_path / "huge.toml"
    huge.write_bytes(b"#" * (5 * 1024 * 1024))
    codes = {}
    for path in (missing, folder, binary, huge):
        with pytest.raises(ManifestError) as caught:
            read_manifest(path)
        assert caught.value.fix
        codes[path.name] = (caught.value.code, caught.value.place.removeprefix(str(path)))
    assert codes == {
        "clawhive-plugin.toml": ("manifest_missing", ""),
        "folder.toml": ("invalid_manifest", ""),
        "binary.toml": ("invalid_manifest", ":2"),
        "huge.toml": ("invalid_manifest", ""),
    }


def test_deeply_nested_text_is_an_error_not_a_crash():
    deep = "[" * 5000
    for text in (f"a = {deep}", PLUGIN + TOOL + f"output_schema = '{deep}'\n"):
        with pytest.raises(ManifestError):
            parse_manifest(text)


def test_every_json_schema_survives_including_null():
    schema = {"enum": [None, "'''", "\x7f"], "default": None, "const": {"$ref": "#"}}
    meta = ToolMeta("demo.act", "A\n\"\"\"\\ \t\r\x01é'''", schema, "demo", risk="safe")
    text = manifest_text(Manifest("demo", 1, tools=(meta,)))
    assert parse_manifest(text).tools == (meta,)
    assert json.loads(tomllib.loads(text)["tools"][0]["input_schema"]) == schema


def test_lines_inside_long_texts_are_not_taken_for_keys():
    long = "[[tools]]\nname = '''\nrisk = 1\n[plugin]\n'''\nrisk = 2\n"
    with pytest.raises(ManifestError) as caught:
        parse_manifest(PLUGIN + long)
    assert caught.value.place == "clawhive-plugin.toml:9"


@pytest.mark.parametrize(
    "text", ["[[commands]]\nname = " + "1" * 5_000, "[[commands]]\n" + "a." * 50_000 + "a = 1\n"]
)
def test_a_command_list_that_cannot_be_read_lists_nothing(text):
    assert commands_in(text) == []


def test_dots_in_texts_do_not_make_a_key_long():
    tool = TOOL.replace("{}", json.dumps({"description": "a. " * 600}))
    assert len(parse_manifest(PLUGIN + tool).tools) == 1
