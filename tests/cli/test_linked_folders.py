"""A project that ships links where ClawHive keeps its own files: none is followed."""

import pytest

from clawhive_core.execution.files.nofollow import made_folder
from clawhive_core.testing import memory_hive


@pytest.fixture
def elsewhere(tmp_path):
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    return folder


def inside(folder):
    return sorted(each.name for each in folder.iterdir())


def test_a_clawhive_folder_that_is_a_link_is_refused(clawhive):
    assert clawhive.snippet("print(1)").code == 0
    (clawhive.root / ".clawhive").rename(clawhive.root / "data")
    before = inside(clawhive.root / "data")
    (clawhive.root / ".clawhive").symlink_to("data")
    for words in (("runs", "list"), ("audit", "verify"), ("skills", "disable", "zodiac")):
        done = clawhive(*words)
        assert "error[linked_folder]" in done.err, words
    assert "error[linked_folder]" in clawhive.snippet("print(1)").err
    assert inside(clawhive.root / "data") == before
    (clawhive.root / ".clawhive").unlink()
    (clawhive.root / "data").rename(clawhive.root / ".clawhive")
    assert clawhive.snippet("print(1)").code == 0


@pytest.mark.parametrize("name", ["hive.db", "hive.db-wal", "hive.db-journal"])
def test_a_database_that_is_a_link_is_refused(clawhive, elsewhere, name):
    (clawhive.root / ".clawhive").mkdir()
    (clawhive.root / ".clawhive" / name).symlink_to(elsewhere / "theirs")
    assert "error[linked_folder]" in clawhive.snippet("print(1)").err
    assert inside(elsewhere) == []


def test_a_gitignore_that_is_a_link_leads_to_no_file(clawhive, elsewhere):
    (clawhive.root / ".clawhive").mkdir()
    (clawhive.root / ".clawhive" / ".gitignore").symlink_to(elsewhere / ".bashrc")
    assert clawhive.snippet("print(1)").code == 0
    assert inside(elsewhere) == []


def test_a_list_of_skills_that_is_a_link_is_refused(clawhive, elsewhere):
    (elsewhere / "list.json").write_text('{"schema": "skills-off/1", "disabled": []}')
    (clawhive.root / ".clawhive").mkdir()
    (clawhive.root / ".clawhive" / "skills.json").symlink_to(elsewhere / "list.json")
    assert "error[linked_folder]" in clawhive("skills", "list").err


def test_a_folder_of_runs_that_is_a_link_is_refused(clawhive, elsewhere):
    (clawhive.root / "clawhive-out").symlink_to(elsewhere)
    done = clawhive.snippet("print(1)")
    assert done.code == 2
    assert "error[linked_folder]" in done.err
    assert "--out DIR" in done.err
    assert inside(elsewhere) == []
    assert clawhive.snippet("print(1)", "--out", "results").code == 0
    assert inside(clawhive.root / "results") == ["stderr.txt", "stdout.txt"]


def test_a_link_above_the_named_folder_inside_of_the_project_is_refused(clawhive, elsewhere):
    (clawhive.root / "build").symlink_to(elsewhere)
    assert "error[linked_folder]" in clawhive.snippet("1", "--out", "build/results").err
    assert inside(elsewhere) == []


def test_a_folder_outside_of_the_project_may_be_reached_by_the_users_own_link(
    clawhive, elsewhere, tmp_path
):
    (tmp_path / "mine").symlink_to(elsewhere)
    out = str(tmp_path / "mine" / "a" / "b")
    assert clawhive.snippet("print(1)", "--out", out).code == 0
    assert inside(elsewhere / "a" / "b") == ["stderr.txt", "stdout.txt"]


async def test_a_link_that_comes_after_the_start_of_a_run_is_not_followed(elsewhere):
    async with memory_hive() as hive, hive.session() as session:
        assert not (await session.invoke("artifacts.write", {"files": {"a.txt": "x"}})).is_error
        (hive.root / "clawhive-out").rename(hive.root / "before")
        (hive.root / "clawhive-out").symlink_to(elsewhere)
        await session.invoke("artifacts.write", {"files": {"a.txt": "x"}})
    assert inside(elsewhere) == []


def test_a_folder_is_made_below_the_root_without_following_links(tmp_path, elsewhere):
    (tmp_path / "real").mkdir()
    (tmp_path / "root").symlink_to("real")
    (tmp_path / "real" / "out").symlink_to(elsewhere)
    root = str(tmp_path / "root")
    with pytest.raises(OSError, match="link"), made_folder(root, f"{root}/out/run_1"):
        pass
    with made_folder(root, f"{root}/in/run_1"):
        assert inside(tmp_path / "real" / "in") == ["run_1"]
    assert inside(elsewhere) == []


def test_the_sandboxes_folder_is_not_reached_through_a_link(clawhive, elsewhere):
    (clawhive.root / "sandbox_workspace").symlink_to(elsewhere)
    done = clawhive.snippet("print(1)")
    assert done.code == 1
    assert inside(elsewhere) == []
