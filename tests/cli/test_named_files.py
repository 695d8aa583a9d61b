"""Files that a user names: whole, or not at all, with one error that says what to do."""

import errno
import os

import pytest

LONG = "x" * 300
COMMANDS = {
    "runs export": ("runs", "export", "last", "--out"),
    "audit export": ("audit", "export", "--output"),
    "skills schema": ("skills", "schema", "--out"),
    "baseline": ("skills", "check", "--write-baseline", "--baseline"),
    "skills types": ("skills", "types", "--out"),
    "plugins new": ("plugins", "new", "abc", "--into"),
    "skills new": ("skills", "new", "abc", "--contract", "--into"),
    "run": ("run", "look", "--model", "scripted:demo", "--out"),
}
FILES = ("runs export", "audit export", "skills schema", "baseline")


@pytest.fixture
def place(clawhive):
    """A project with a skill and a run, a file `there` and a folder `folder`."""
    assert clawhive("skills", "new", "one", "--contract").code == 0
    assert clawhive("run", "look", "--model", "scripted:demo").code == 0
    clawhive.root.joinpath("there").write_text("kept")
    clawhive.root.joinpath("folder").mkdir()
    return clawhive


def files(root):
    return sorted(path for path in root.rglob("*") if ".clawhive" not in path.parts)


def held(done):
    """Return the code of the one error that a command printed, with its place and its fix."""
    assert done.code in {1, 2}
    errors = [line for line in done.err.splitlines() if line.startswith("error[")]
    assert len(errors) == 1
    assert "\n  at:  " in done.err
    assert "\n  fix: " in done.err
    assert "Traceback" not in done.err
    return errors[0].partition("]")[0].removeprefix("error[")


@pytest.mark.promise("P-261")
@pytest.mark.parametrize("command", COMMANDS)
def test_a_target_that_takes_no_file_is_one_error_and_nothing_is_left(place, command):
    before = files(place.root)
    for target in ("there/x", "/dev/full", "/dev/null", "/dev/stdout", LONG):
        assert held(place(*COMMANDS[command], target)) in {"io_error", "usage", "invalid_baseline"}
        assert files(place.root) == before
        assert place.root.joinpath("there").read_text() == "kept"


@pytest.mark.promise("P-261")
@pytest.mark.parametrize("command", [each for each in FILES if each != "skills schema"])
def test_a_folder_is_no_file_and_none_is_made_around_it(place, command):
    before = files(place.root)
    for target in ("folder", "gone/x", "/proc/x", ""):
        held(place(*COMMANDS[command], target))
        assert files(place.root) == before


@pytest.mark.promise("P-261")
@pytest.mark.parametrize("command", FILES)
def test_a_full_disk_leaves_what_was_there(place, command, monkeypatch):
    def full(_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    before = files(place.root)
    monkeypatch.setattr("os.fsync", full)
    done = place(*COMMANDS[command], "there")
    monkeypatch.undo()
    held(done)
    assert "No space left on device" in done.err
    assert files(place.root) == before
    assert place.root.joinpath("there").read_text() == "kept"


@pytest.mark.promise("P-261")
def test_a_runs_page_takes_the_place_of_another_and_keeps_its_rights(place):
    page = place.root / "there"
    page.chmod(0o640)
    assert place("runs", "export", "last", "--out", "there").out == "there\n"
    assert page.read_text().startswith("<!doctype html>")
    assert page.stat().st_mode & 0o777 == 0o640
    assert place("runs", "export", "last", "--out", "-").out == page.read_text()
    assert place("runs", "export", "last").out.startswith("run_")


@pytest.mark.promise("P-261")
@pytest.mark.parametrize("out", ["there/files", "there", LONG])
def test_a_run_whose_files_could_lie_nowhere_does_not_begin(place, out):
    code = "open('a.txt', 'w').write('x')"
    runs = place("runs", "list", "--json").json["runs"]
    done = place.snippet(code, "--out", out)
    assert held(done) == "usage"
    assert place("runs", "list", "--json").json["runs"] == runs
    assert place.snippet(code, "--out", "new/files").code == 0
    assert place.root.joinpath("new/files/a.txt").read_text() == "x"
