import ast
import subprocess
import tomllib
from pathlib import Path

import pytest

from clawhive_core.errors import UsageError
from clawhive_core.plugins.check import check
from clawhive_core.plugins.invocation import invoke
from clawhive_core.plugins.source import importing_from
from clawhive_core.plugins.sync import sync
from clawhive_core.plugins.template import new_plugin
from clawhive_core.plugins.tool import declaration_of
from clawhive_core.storage.folders import TEMPLATES, make_from_template
from tests.harness import own_pytest


def names_in(folder):
    return sorted(path.name for path in folder.iterdir())


def files(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_the_template_has_exactly_these_files(tmp_path):
    written = new_plugin("hello", tmp_path)
    assert files(tmp_path) == [
        "hello/README.md",
        "hello/clawhive_hello/__init__.py",
        "hello/clawhive_hello/clawhive-plugin.toml",
        "hello/pyproject.toml",
        "hello/tests/test_hello.py",
    ]
    assert [str(path.relative_to(tmp_path)) for path in written] == files(tmp_path)
    assert names_in(tmp_path) == ["hello"]


@pytest.mark.parametrize("name", ["hello", "my-notes", "my_notes2"])
def test_the_template_is_synced_checked_and_filled_in(tmp_path, name):
    new_plugin(name, tmp_path)
    folder = str(tmp_path / name)
    assert check(folder) == []
    (report,) = sync(folder)
    assert not report.changed
    assert report.tools == (f"{name}.greet",)
    for path in (tmp_path / name).rglob("*"):
        assert "__name__" not in path.name
        assert path.is_dir() or "{{" not in path.read_text("utf-8").replace("{name}", "")
    project = tomllib.loads((tmp_path / name / "pyproject.toml").read_text("utf-8"))["project"]
    module = f"clawhive_{name.replace('-', '_')}"
    assert project["entry-points"]["clawhive.plugins"] == {name: module}
    assert project["name"].replace("-", "_") == module


def test_each_module_of_a_template_is_python_before_it_is_filled_in():
    found = [*TEMPLATES.rglob("*.py")]
    assert len(found) > 3
    for path in found:
        assert ast.parse(path.read_text("utf-8"), str(path)).body


def test_only_a_name_that_ends_in_a_word_is_filled_in(tmp_path, monkeypatch):
    made = tmp_path / "templates" / "kind"
    made.mkdir(parents=True)
    made.joinpath("a___name__.py").write_text("import b___name__\n__name__, x__other__, {{name}}\n")
    monkeypatch.setattr("clawhive_core.storage.folders.TEMPLATES", made.parent)
    (file,) = make_from_template("kind", tmp_path / "new", {"name": "c"})
    assert file.name == "a_c.py"
    assert file.read_text() == "import b_c\n__name__, x__other__, c\n"


async def test_its_tool_says_hello(tmp_path, ctx):
    new_plugin("hello", tmp_path)
    with importing_from(tmp_path / "hello", "clawhive_hello"):
        from clawhive_hello import greet

        result = await invoke(declaration_of(greet), {"name": "you"}, ctx)
    assert result.output == "Hello, you!"


def test_its_own_tests_pass_in_process(tmp_path):
    new_plugin("hello", tmp_path)
    source = tmp_path / "hello" / "tests" / "test_hello.py"
    with importing_from(tmp_path / "hello", "clawhive_hello"):
        namespace = {"__name__": "test_hello"}
        exec(compile(source.read_text("utf-8"), str(source), "exec"), namespace)
        tests = [value for name, value in namespace.items() if name.startswith("test_")]
        for test in tests:
            test()
    assert len(tests) == 2


def test_its_own_tests_pass_under_pytest_without_an_installation(tmp_path):
    new_plugin("hello", tmp_path)
    done = subprocess.run(
        own_pytest("-q"),
        cwd=tmp_path / "hello",
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed" in done.stdout


@pytest.mark.parametrize(
    ("name", "suggestion"),
    [
        ("Hello", "hello"),
        ("my plugin!", "my-plugin"),
        ("", "my-plugin"),
        ("../evil", "evil"),
        ("2fast", "plugin-2fast"),
        ("-x-", "x"),
        ("a" * 41, "a" * 40),
        ("clawhive_notes.x", "notes-x"),
        ("日本", "my-plugin"),
        ("core", "my-core"),
        ("builtin", "my-builtin"),
        ("sandbox", "my-sandbox"),
        ("mcp_git", "my-mcp_git"),
        ("skill-x", "my-skill-x"),
    ],
)
def test_a_bad_name_is_answered_with_one_that_works(tmp_path, name, suggestion):
    with pytest.raises(UsageError) as caught:
        new_plugin(name, tmp_path)
    assert caught.value.fix.endswith(f"clawhive plugins new {suggestion}")
    assert caught.value.exit_code == 2
    assert names_in(tmp_path) == []
    new_plugin(suggestion, tmp_path)


@pytest.mark.parametrize("kind", ["file", "folder", "link"])
def test_nothing_is_overwritten(tmp_path, kind):
    target = tmp_path / "hello"
    if kind == "file":
        target.write_text("mine")
    elif kind == "folder":
        target.mkdir()
    else:
        target.symlink_to(tmp_path / "gone")
    with pytest.raises(UsageError) as caught:
        new_plugin("hello", tmp_path)
    assert caught.value.code == "already_exists"
    assert names_in(tmp_path) == ["hello"]
    assert kind != "file" or target.read_text() == "mine"


def test_a_folder_that_is_not_there_is_an_error(tmp_path):
    with pytest.raises(UsageError) as caught:
        new_plugin("hello", tmp_path / "gone")
    assert caught.value.code == "io_error"


def test_nothing_half_written_stays_when_the_disk_is_full(tmp_path, monkeypatch):
    written = []

    def full(self, text, **options):
        if len(written) == 2:
            raise OSError(28, "No space left on device")
        written.append(self)
        return real(self, text, **options)

    real = Path.write_text
    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(UsageError, match="No space left"):
        new_plugin("hello", tmp_path)
    assert names_in(tmp_path) == []
