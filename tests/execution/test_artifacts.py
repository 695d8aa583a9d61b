"""`artifacts.write`: files in the run's own folder, and nowhere else."""

import pytest

from clawhive_core.execution.core_tools import MAX_BYTES, WRITE_ARTIFACTS, CoreProvider


@pytest.fixture
async def keeping(house):
    await house.catalog.add(CoreProvider((WRITE_ARTIFACTS,)))
    return house


async def write(house, **files):
    return await house.call("artifacts.write", {"files": files})


async def test_files_become_artifacts_without_asking_anybody(keeping):
    files = {"report.md": "# Ä\r\n", "data/items.json": "[]"}
    outcome = await write(keeping, **files)
    assert {each.path: each.media_type for each in outcome.artifacts} == {
        "report.md": "text/markdown",
        "data/items.json": "application/json",
    }
    folder = keeping.root / "clawhive-out" / "run_1"
    for name, text in files.items():
        assert (folder / name).read_bytes() == text.encode()
    assert [each["bytes"] for each in outcome.structured["files"]] == [6, 2]
    row = await keeping.row()
    assert (row["decision"], row["approval_required"]) == ("allow", 0)


async def test_a_second_file_of_the_name_replaces_the_first(keeping):
    await write(keeping, **{"a.md": "one"})
    await write(keeping, **{"a.md": "two"})
    assert (keeping.root / "clawhive-out" / "run_1" / "a.md").read_text() == "two"


@pytest.mark.parametrize("path", ["a/../b.md", "./a.md", "a//b.md", "", "a\0b", "a/"])
async def test_a_path_that_is_none_leaves_nothing(keeping, path):
    outcome = await write(keeping, **{"good.md": "x", path: "y"})
    error = outcome.structured["error"] if hasattr(outcome, "structured") else outcome.error
    assert error == "invalid_input"
    assert not (keeping.root / "clawhive-out").exists()


@pytest.mark.parametrize("path", ["../up.md", "/etc/x.md", "../../up.md"])
async def test_nothing_is_written_outside_of_the_folder(keeping, path):
    keeping.give("fs.write:**")
    outcome = await write(keeping, **{path: "x"})
    assert outcome.error == "invalid_input"
    assert list(keeping.root.rglob("up.md")) == []


async def test_a_link_in_the_folder_leads_nowhere(keeping):
    folder = keeping.root / "clawhive-out" / "run_1"
    folder.mkdir(parents=True)
    (folder / "out").symlink_to(keeping.root)
    outcome = await write(keeping, **{"out/taken.md": "x"})
    assert not (keeping.root / "taken.md").exists()
    assert getattr(outcome, "is_error", True)


async def test_too_much_at_once_is_refused(keeping):
    outcome = await write(keeping, **{"a.txt": "x" * (MAX_BYTES + 1)})
    assert outcome.structured["error"] == "too_large"
