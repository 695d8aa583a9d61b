"""Folders that cannot be written or read, and a disk that is full."""

import pytest

pytestmark = pytest.mark.slow

SNIPPET = (
    *("run", "--task", "run_code_snippet", "--input", "language=python"),
    *("--input", "code=print(1)"),
)


def assert_explained(done, code):
    assert done.code == 1, done.err
    assert f"error[{code}]" in done.err
    assert "fix: " in done.err
    assert "Traceback" not in done.err


def test_a_read_only_project_can_be_looked_at_and_not_run_in(processes, ordinary):
    processes.root.chmod(0o555)
    for words in (("--help",), ("plugins",), ("runs", "list"), ("config", "show")):
        done = processes(*words, **ordinary)
        assert done.code == 0, (words, done.err)
    assert_explained(processes(*SNIPPET, **ordinary), "storage_failed")
    doctor = processes("doctor", "--json", **ordinary)
    assert doctor.code == 1
    (storage,) = [check for check in doctor.json["checks"] if check["name"] == "storage"]
    assert storage["state"] == "problem"
    assert list(processes.root.iterdir()) == []


def test_a_state_folder_that_cannot_be_written_is_said_with_its_place(processes, ordinary):
    assert processes(*SNIPPET).code == 0
    state = processes.root / ".clawhive"
    for path in state.iterdir():
        path.chmod(0o444)
    state.chmod(0o555)
    done = processes(*SNIPPET, **ordinary)
    assert_explained(done, "storage_failed")
    assert ".clawhive" in done.err
    as_json = processes(*SNIPPET, "--json", **ordinary)
    assert as_json.json["error"] == "storage_failed"
    assert processes("audit", "verify").code == 0


def test_a_state_folder_that_cannot_be_read_is_said_with_its_place(processes, ordinary):
    assert processes(*SNIPPET).code == 0
    processes.root.joinpath(".clawhive").chmod(0)
    for words in (SNIPPET, ("runs", "list"), ("audit", "tail"), ("audit", "verify")):
        assert_explained(processes(*words, **ordinary), "storage_failed")


def test_a_users_configuration_that_cannot_be_looked_at_is_not_passed_over(processes, ordinary):
    processes.home.chmod(0)
    done = processes(*SNIPPET, **ordinary)
    assert done.code == 2
    assert "error[invalid_config]" in done.err
    assert "config.toml" in done.err
    assert "Traceback" not in done.err


def test_a_home_that_cannot_be_written_is_noted_and_the_run_goes_on(processes, ordinary):
    processes.home.chmod(0o555)
    done = processes(*SNIPPET, **ordinary)
    assert "Traceback" not in done.err
    assert (done.code, done.out) == (0, "1\n"), done.err
    assert "no checkpoint was written" in done.err
    assert processes("audit", "verify", **ordinary).code in {0, 1}


def blocked(folder):
    """Make a folder that nobody may write to."""
    folder.mkdir()
    folder.chmod(0o555)
    return folder


def test_a_named_folder_that_cannot_be_made_is_refused_before_the_run(processes, ordinary):
    folder = blocked(processes.root / "blocked")
    done = processes(*SNIPPET, "--out", "blocked/out", **ordinary)
    assert done.code == 2
    assert "error[usage]" in done.err
    assert f"you may not write to {folder}" in done.err
    assert "fix: " in done.err
    assert processes("runs", "list", "--json").json["runs"] == []
    assert processes("audit", "verify").code == 0


def test_an_artifacts_folder_that_cannot_be_made_fails_the_run_and_not_the_log(processes, ordinary):
    blocked(processes.root / "clawhive-out")
    done = processes(*SNIPPET, **ordinary)
    assert done.code == 1
    assert "error[" in done.err
    assert "internal_error" not in done.err
    assert "Traceback" not in done.err
    run = processes("runs", "show", "last", "--json").json
    assert run["status"] == "failed"
    assert processes("audit", "verify").code == 0


def test_a_full_disk_stops_the_run_with_a_coded_error_and_a_whole_log(processes, full_disk):
    assert processes(*SNIPPET).code == 0
    done = processes(*SNIPPET, **full_disk(48 * 1024))  # less than a run's write-ahead log
    assert done.code == 1
    assert "Traceback" not in done.err
    assert "error[" in done.err
    assert "internal_error" not in done.err
    assert processes("audit", "verify").code == 0
    assert processes(*SNIPPET).code == 0
