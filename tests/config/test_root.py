import os
import subprocess
import sys
from pathlib import Path

import pytest

from clawhive_core.config import find_root, user_dir
from clawhive_core.config.root import home_of
from clawhive_core.errors import ConfigError


@pytest.mark.parametrize("mark", ["clawhive.toml", ".clawhive", ".git"])
def test_the_root_is_the_nearest_folder_with_a_mark(tmp_path, mark):
    deep = tmp_path / "a" / "b" / "c"
    deep.mkdir(parents=True)
    (tmp_path / ".git").mkdir()
    (tmp_path / "a" / mark).mkdir()
    assert find_root(deep) == Path(os.path.realpath(tmp_path / "a"))


def test_without_a_mark_the_root_is_where_one_is(tmp_path):
    outside = [folder for folder in tmp_path.parents if any(
        (folder / mark).exists() for mark in ("clawhive.toml", ".clawhive", ".git"))]  # fmt: skip
    assert find_root(tmp_path) == Path(os.path.realpath(outside[0] if outside else tmp_path))


def test_the_root_of_a_linked_folder_is_the_real_one(tmp_path):
    (tmp_path / "real" / ".git").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert find_root(tmp_path / "link") == Path(os.path.realpath(tmp_path / "real"))


def test_an_explicit_root_goes_before_all(tmp_path):
    (tmp_path / ".git").mkdir()
    (tmp_path / "x").mkdir()
    assert find_root(tmp_path, Path("x")) == Path(os.path.realpath(tmp_path / "x"))
    (tmp_path / "x" / "clawhive.toml").write_text("")
    assert find_root(tmp_path, Path("x/clawhive.toml")) == Path(os.path.realpath(tmp_path / "x"))


@pytest.mark.parametrize("name", ["missing", "file"])
def test_an_explicit_root_that_is_no_folder_is_an_error(tmp_path, name):
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="no existing folder"):
        find_root(tmp_path, Path(name))


@pytest.mark.parametrize(
    ("env", "folder"),
    [
        ({"XDG_CONFIG_HOME": "/x", "HOME": "/h"}, "/x/clawhive"),
        ({"XDG_CONFIG_HOME": "", "HOME": "/h"}, "/h/.config/clawhive"),
        ({"XDG_CONFIG_HOME": "relative", "HOME": "/h"}, "/h/.config/clawhive"),
        ({"HOME": "/h"}, "/h/.config/clawhive"),
    ],
)
def test_the_users_directory_follows_the_xdg_specification(env, folder):
    assert user_dir(env) == Path(folder)


@pytest.mark.parametrize("home", ["relative", ""])
def test_a_users_directory_that_cannot_be_found_is_an_error(monkeypatch, home):
    monkeypatch.setenv("HOME", home)
    with pytest.raises(ConfigError, match="home directory is unknown"):
        user_dir({"HOME": home})


def test_an_environment_that_a_program_made_is_not_given_this_machines_home(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert home_of({}) == ""
    with pytest.raises(ConfigError, match="home directory is unknown"):
        user_dir({})


def test_a_process_without_home_has_its_accounts(monkeypatch):
    monkeypatch.delenv("HOME")
    assert user_dir({}).parts[-2:] == (".config", "clawhive")
    assert user_dir({}) == Path(home_of({}), ".config", "clawhive")


def test_reading_the_configuration_imports_nothing_heavy(tmp_path):
    code = (
        "import sys, pathlib\n"
        "from clawhive_core.config import load_config\n"
        f"root = pathlib.Path({os.fspath(tmp_path)!r})\n"
        "load_config(root=root, env={'HOME': str(root)}, cwd=root)\n"
        "heavy = {'asyncio', 'anyio', 'pydantic', 'yaml', 'rich', 'click', 'importlib.metadata',"
        " 'tomllib', 'difflib', 'json', 'hashlib', 'sqlite3', 'tempfile'}\n"
        "print(sorted(heavy & set(sys.modules)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", f"import sys; sys.path[:0] = {sys.path!r}\n{code}"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.stdout.strip(), done.stderr) == ("[]", "")
