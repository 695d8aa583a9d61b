import os

import pytest

import clawhive_builtin
from clawhive_builtin import file_list, file_read, file_search, files, search
from clawhive_core import ToolError
from clawhive_core.plugins.tool import declaration_of

TOOLS = {"file.read": file_read, "file.list": file_list, "file.search": file_search}


def meta(name):
    return declaration_of(TOOLS[name]).meta("builtin")


@pytest.fixture
def use(call):
    def uses(name, **input):
        from jsonschema_rs import validator_for

        validator_for(meta(name).input_schema).validate(input)
        result = TOOLS[name](ctx=call, **input)
        validator_for(meta(name).output_schema).validate(result.structured)
        return result

    return uses


def refused(code, act, *args, **input):
    with pytest.raises(ToolError) as caught:
        act(*args, **input)
    assert caught.value.code == code, caught.value
    assert caught.value.fix
    return caught.value


def fill(folder, **texts):
    for name, text in texts.items():
        path = folder / name.replace("__", "/").replace("_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


@pytest.mark.parametrize(
    ("name", "effects"),
    [
        ("file.read", {"path": "fs.read"}),
        ("file.list", {"path": "fs.read:{}/**"}),
        ("file.search", {"path": "fs.read:{}/**"}),
    ],
)
def test_the_contracts_only_read_and_name_what_they_read(name, effects):
    tool = meta(name)
    assert (tool.name, tool.capability_level, tool.risk) == (name, "L0", "safe")
    assert dict(tool.effects) == effects
    assert tool.aliases == (name.replace(".", "_"),)
    assert all(part["description"] for part in tool.input_schema["properties"].values())


def test_a_file_is_read_whole_or_by_lines(project, use):
    fill(project, a_txt="one\ntwo\nthree\n")
    assert use("file.read", path="a.txt").structured == {
        "path": "a.txt",
        "text": "one\ntwo\nthree\n",
        "offset": 1,
        "lines": 3,
        "truncated": False,
    }
    part = use("file.read", path="a.txt", offset=2, limit=1)
    assert (part.structured["text"], part.structured["truncated"]) == ("two\n", True)
    assert part.output == "two\n\n[lines 2 to 2 of 3]"


def test_an_empty_file_is_read_as_nothing(project, use):
    fill(project, a_txt="")
    assert use("file.read", path="a.txt").output == ""


def test_a_line_too_long_to_show_is_cut_and_flagged(project, use):
    fill(project, a_txt="x" * (files.MAX_CHARACTERS + 1))
    result = use("file.read", path="a.txt")
    assert result.structured["truncated"]
    assert len(result.structured["text"]) == files.MAX_CHARACTERS


@pytest.mark.parametrize("bounds", [{"offset": 0}, {"offset": -1}, {"limit": 0}, {"limit": 10**9}])
def test_bounds_out_of_range_are_refused_by_name(project, call, bounds):
    fill(project, a_txt="x")
    (name,) = bounds
    assert refused("invalid_input", file_read, "a.txt", call, **bounds).place == f"/{name}"


def test_an_offset_beyond_the_end_says_how_many_lines_there_are(project, call):
    fill(project, a_txt="x\ny\n")
    error = refused("invalid_input", file_read, "a.txt", call, offset=3)
    assert error.message == "a.txt has 2 lines"


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("missing", "not_found"),
        (".", "not_a_file"),
        ("../x", "denied"),
        (".env", "denied"),
        ("/etc/passwd", "denied"),
        ("link", "denied"),
        ("data.bin", "not_text"),
    ],
)
def test_what_cannot_be_read_is_refused_with_a_code(project, call, path, code):
    (project / ".env").write_text("SECRET=1", encoding="utf-8")
    (project / "data.bin").write_bytes(b"\xff\0")
    (project / "link").symlink_to("/etc/passwd")
    refused(code, file_read, path, call)
    if code == "denied":
        refused(code, file_search, "root", call, path=path)


def test_a_folder_is_listed_with_kinds_and_sizes(project, use):
    fill(project, b_txt="12", a__c_txt="1", a__d__e_txt="1")
    (project / "link").symlink_to("b.txt")
    (project / ".env").touch()
    result = use("file.list")
    assert result.output == "a/\nb.txt  2 bytes\nlink  (link)"
    assert result.structured["entries"][1] == {"path": "b.txt", "kind": "file", "bytes": 2}
    deep = use("file.list", path="a", recursive=True).structured["entries"]
    assert [entry["path"] for entry in deep] == ["a/c.txt", "a/d", "a/d/e.txt"]


def test_an_empty_folder_is_said_to_be_empty(use):
    assert use("file.list").output == ". is empty"


def test_a_long_list_is_cut_and_flagged(project, use, monkeypatch):
    monkeypatch.setattr(files, "MAX_ENTRIES", 2)
    fill(project, a="", b="", c="")
    result = use("file.list", recursive=True)
    assert result.structured["truncated"]
    assert len(result.structured["entries"]) == 2


def test_names_that_are_not_utf_8_are_listed_escaped(project, use):
    (project / os.fsdecode(b"a\xff")).touch()
    assert use("file.list").structured["entries"][0]["path"] == "a\\udcff"


def test_a_text_is_found_with_file_and_line(project, use):
    fill(project, a_py="x = 1\n# TODO: y\n", src__b_py="TODO", src__c_txt="todo TODO")
    found = use("file.search", pattern="TODO").structured["matches"]
    assert [(one["path"], one["line"]) for one in found] == [
        ("a.py", 2),
        ("src/b.py", 1),
        ("src/c.txt", 1),
    ]
    assert found[0]["text"] == "# TODO: y"


def test_a_search_is_narrowed_by_path_glob_and_case(project, use):
    fill(project, a_py="Word", src__b_py="word", src__c_txt="word")

    def paths(**input):
        found = use("file.search", pattern="word", **input).structured["matches"]
        return [one["path"] for one in found]

    assert paths() == ["src/b.py", "src/c.txt"]
    assert paths(ignore_case=True) == ["a.py", "src/b.py", "src/c.txt"]
    assert paths(glob="*.py") == ["src/b.py"]
    assert paths(glob="src/*.txt") == ["src/c.txt"]
    assert paths(path="src/b.py") == ["src/b.py"]
    assert paths(path="src", ignore_case=True) == ["src/b.py", "src/c.txt"]


def test_a_regular_expression_is_matched_line_by_line(project, use):
    fill(project, a_py="def test_one():\n    pass\ndef TEST_two():\n")
    found = use("file.search", pattern=r"^def test_\w+", regex=True).structured["matches"]
    assert [one["line"] for one in found] == [1]
    found = use("file.search", pattern="test_", regex=True, ignore_case=True).structured["matches"]
    assert [one["line"] for one in found] == [1, 3]


def test_a_search_of_text_takes_special_characters_as_they_are(project, use):
    fill(project, a_txt="f(x)\nfx\n")
    assert len(use("file.search", pattern="(x").structured["matches"]) == 1


@pytest.mark.parametrize("pattern", ["(", "[a", "*", "a{2,1}", "(?P<1>a)"])
def test_a_pattern_that_is_none_is_refused_with_the_reason(call, pattern):
    error = refused("invalid_input", file_search, pattern, call, regex=True)
    assert error.place == "/pattern"


@pytest.mark.parametrize("pattern", ["", "a\nb", "x" * 1001])
def test_a_pattern_that_no_line_can_hold_is_refused(call, pattern):
    refused("invalid_input", file_search, pattern, call)


def test_a_pattern_that_explodes_is_stopped_and_flagged(project, use, call):
    fill(project, a_txt="a" * 60 + "!\n")
    call.seconds = 1.2
    result = use("file.search", pattern="(a+)+$", regex=True)
    assert result.structured["truncated"]
    assert "pattern may be slow" in result.structured["reason"]


def test_matches_beyond_the_limit_are_cut_and_flagged(project, use):
    fill(project, a_txt="x\n" * 5)
    assert not use("file.search", pattern="x", limit=5).structured["truncated"]
    result = use("file.search", pattern="x", limit=4)
    assert len(result.structured["matches"]) == 4
    assert result.structured["reason"] == "there are more than 4 matches"


def test_binary_and_huge_files_are_passed_over_and_counted(project, use, monkeypatch):
    (project / "nul").write_bytes(b"word\0")
    (project / "latin").write_bytes(b"word\xff")
    fill(project, big="word" * 100, small="word")
    monkeypatch.setattr(search, "MAX_TEXT", 100)
    result = use("file.search", pattern="word").structured
    assert [one["path"] for one in result["matches"]] == ["small"]
    assert (result["files_searched"], result["files_passed_over"]) == (1, 3)


def test_folders_of_tools_are_not_searched_unless_named(project, use):
    fill(project, src__b="word")
    (project / "node_modules").mkdir()
    (project / "node_modules" / "a").write_text("word", encoding="utf-8")
    (project / ".git").mkdir()
    (project / ".git" / "config").write_text("word", encoding="utf-8")
    assert len(use("file.search", pattern="word").structured["matches"]) == 1
    assert len(use("file.search", pattern="word", path=".git").structured["matches"]) == 1


def test_denied_files_and_links_are_never_searched(project, use, tmp_path):
    (tmp_path / "outside").write_text("word", encoding="utf-8")
    (project / ".env").write_text("word", encoding="utf-8")
    (project / "link").symlink_to(tmp_path / "outside")
    assert use("file.search", pattern="word").output == "no match in 0 files"


def test_a_search_without_time_left_is_flagged(project, use, call, monkeypatch):
    fill(project, a="word")
    monkeypatch.setattr(search, "SECONDS", 0.0)
    result = use("file.search", pattern="word")
    assert result.structured["truncated"]


def test_very_long_lines_are_looked_at_only_in_part(project, use):
    fill(project, a=" " * search.MAX_LINE + "word", b="word" + " " * 10_000)
    found = use("file.search", pattern="word").structured["matches"]
    assert [one["path"] for one in found] == ["b"]
    assert len(found[0]["text"]) == search.SHOWN_LINE


def test_a_search_in_many_megabytes_goes_batch_by_batch(project, use, call):
    for number in range(6):
        (project / str(number)).write_text("x" * 1_500_000 + "\nword\n", encoding="utf-8")
    for regex in (False, True):
        result = use("file.search", pattern="word$" if regex else "word", regex=regex)
        assert len(result.structured["matches"]) == 6
    assert len(call.heard) > 2


def test_importing_the_plugin_imports_nothing_heavy():
    import subprocess
    import sys

    heavy = "asyncio anyio pydantic pydantic_monty importlib.metadata jsonschema_rs yaml subprocess"
    code = f"import sys, clawhive_builtin; print([m for m in {heavy.split()} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert done.stdout.strip() == "[]"
    assert clawhive_builtin.__all__ == sorted(clawhive_builtin.__all__)
