"""Changes of the user's own configuration file by commands."""

import tomllib

import pytest

from clawhive_core.config.user_file import UserFile
from clawhive_core.errors import ConfigError, UnknownId, UsageError

KEPT = '# mine\n[policy]\ndeny = ["fs.write:a"]   # why\n'
NAME = ("tools", "declared", "mcp.git.git_status")
TABLE = {"risk": "safe", "effects": {"": ["a"], "repo path": "fs.read:{}/**"}, "sinks": ["é\x7f"]}


@pytest.fixture
def file(tmp_path):
    folder = tmp_path / "user"
    folder.mkdir()
    path = folder / "config.toml"
    path.write_text(KEPT, "utf-8")
    return path


def opened(file, **env):
    return UserFile(file.parent, env)


def test_a_table_is_added_at_the_end_and_read_back(file):
    opened(file).put({NAME: TABLE, ("a", "b"): {"c": 1}})
    assert file.read_text().startswith(KEPT)
    assert opened(file).get(NAME) == TABLE
    assert opened(file).get(("a",)) == {"b": {"c": 1}}
    assert opened(file).get(("policy", "deny", "x")) == {}


def test_a_table_that_is_there_is_replaced_with_all_that_stands_in_it(file):
    file.write_text(f'[tools.declared."mcp.git.git_status".effects]\nx = "fs.read"\n{KEPT}')
    opened(file).put({NAME: {"risk": "guarded"}})
    assert tomllib.loads(file.read_text()) == {
        **tomllib.loads(KEPT),
        "tools": {"declared": {NAME[-1]: {"risk": "guarded"}}},
    }


def test_what_was_added_is_removed_to_the_letter(file):
    opened(file).put({NAME: TABLE, ("a", "b"): {"c": 1}})
    opened(file).remove(NAME, ("a", "b"))
    assert file.read_text().rstrip("\n") == KEPT.rstrip("\n")
    with pytest.raises(UnknownId):
        opened(file).remove(NAME)


def test_one_key_is_set_and_its_neighbours_stay(file):
    file.write_text("[x]\na = 1 # one\nb = 2\n[x.y]\nb = 3")
    opened(file).set(("x",), "b", value=False)
    assert file.read_text() == "[x]\nb = false\na = 1 # one\n[x.y]\nb = 3"


@pytest.mark.parametrize(
    "text",
    ["tools.declared = 3\n", "[tools]\ndeclared = { x = {} }\n", "[[tools]]\nname = 'x'\n", "no"],
)
def test_what_cannot_be_changed_by_a_program_is_left_as_it_is(file, text):
    file.write_text(text)
    with pytest.raises(ConfigError) as caught:
        opened(file).put({NAME: TABLE})
    assert caught.value.place == str(file)
    assert file.read_text() == text


def test_a_text_of_several_lines_that_looks_like_a_table_is_left_alone(file):
    text = 'note = """\n[a.b]\nc = 1\n"""\n[a.b]\nc = 2\n'
    file.write_text(text)
    with pytest.raises(ConfigError):
        opened(file).remove(("a", "b"))
    assert file.read_text() == text


def test_no_run_changes_it(file):
    with pytest.raises(UsageError) as caught:
        opened(file, CLAWHIVE_RUN="run_1")
    assert caught.value.code == "inside_run"


def test_a_full_disk_leaves_it_whole(file, monkeypatch):
    def full(*_, **_more):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fdopen", full)
    with pytest.raises(ConfigError, match="No space left"):
        opened(file).put({NAME: TABLE})
    assert file.read_text() == KEPT
    assert [each.name for each in file.parent.iterdir()] == ["config.toml"]
