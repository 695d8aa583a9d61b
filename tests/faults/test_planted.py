"""What processes of one who is not root plant, and what they are asked about."""

import json
import subprocess

import pytest

from clawhive_core.config import trust_project

WIDE = ("--grant", "fs.write:${workspace}/**")
SETTINGS = "[policy]\ndeny = ['fs.write:${workspace}/notes/**']\n"


def write(processes, path, text, **more):
    arguments = json.dumps({"path": path, "text": text})
    return processes("tools", "call", "file.write", "--args", arguments, *WIDE, **more)


def test_a_process_of_an_ordinary_user_plants_nothing(processes, ordinary):
    subprocess.run(["git", "init", "-q", processes.root], check=True)
    before = sorted(processes.root.rglob("*"))
    config = f'[core]\n\tfsmonitor = "touch {processes.root}/robbed"\n'
    git = {"cwd": processes.root, "env": processes.env, **ordinary}
    for path in (".git/config", "src/.git", "deep/HEAD", ".envrc", "x.pth"):
        refused = write(processes, path, config, **ordinary)
        assert refused.code != 0, path
        subprocess.run(["git", "status"], check=True, capture_output=True, **git)
        assert not (processes.root / "robbed").exists(), path
        assert not set(map(str, before)) ^ {
            str(each) for each in processes.root.rglob("*") if ".clawhive" not in each.parts
        } - {str(processes.root / ".git" / "index")}, path
    assert write(processes, "src/plain.txt", "x", **ordinary).code == 0
    assert (processes.root / "src" / "plain.txt").read_text() == "x"


@pytest.fixture
def loosened(processes):
    """Return a project whose trusted file no longer says what it tightened."""
    file = processes.root / "clawhive.toml"
    file.write_text(SETTINGS)
    trust_project(file, user_dir=processes.home / ".config" / "clawhive", env={})
    assert write(processes, "notes/a", "x").code != 0
    file.write_text("")
    return processes


def test_without_a_terminal_nothing_runs_after_a_tightening_has_gone(loosened, ordinary):
    done = write(loosened, "notes/a", "x", **ordinary)
    assert done.code != 0
    assert "untrusted_project" in done.err
    assert "clawhive trust" in done.err
    assert not (loosened.root / "notes").exists()
    assert loosened("trust", "--yes").code == 0
    assert write(loosened, "notes/a", "x").code == 0


@pytest.mark.parametrize(("answer", "written"), [("n", False), ("y", True)])
def test_at_a_terminal_a_person_is_asked_first(loosened, answer, written):
    arguments = json.dumps({"path": "notes/a", "text": "x"})
    terminal = loosened.on_terminal("tools", "call", "file.write", "--args", arguments, *WIDE)
    terminal.until("no longer says: policy.deny")
    terminal.until("Go on without it")
    terminal.type(f"{answer}\n")
    assert (terminal.close() == 0) is written
    assert (loosened.root / "notes" / "a").exists() is written
