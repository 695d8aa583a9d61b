"""`clawhive skills lock` and `--frozen`, as people and CI use them."""

import json
import os
import shutil
import signal
import subprocess
import sys

import pytest

from tests.cli.test_json import check, one_object

STARS = """\
exports:
  api_version: "1.0"
  tools:
  - {name: ask, description: Ask., input_schema: {type: object}, output_schema: {}}
"""


@pytest.fixture
def skills(clawhive):
    write(clawhive, "stars", STARS)
    write(clawhive, "reader", "imports: [{from: stars, tools: [ask]}]\n")
    return clawhive


def write(clawhive, name, manifest):
    folder = clawhive.root / "skills" / name
    folder.mkdir(parents=True, exist_ok=True)
    folder.joinpath("clawhive.yaml").write_text(manifest)
    folder.joinpath("handlers.py").write_text("def ask(input, ctx): ...\n")


def lock_file(clawhive):
    return clawhive.root / "clawhive.lock"


@pytest.mark.promise("P-223")
def test_frozen_writes_nothing_and_says_what_would_change_and_where(skills):
    missing = skills("skills", "lock", "--frozen")
    assert (missing.code, "there is no clawhive.lock" in missing.out) == (1, True)
    assert not lock_file(skills).exists()
    done = skills("skills", "lock")
    assert (done.code, done.out, "2 skills written" in done.err) == (0, "", True)
    before = lock_file(skills).read_bytes()
    kept = skills("skills", "lock", "--frozen")
    assert (kept.code, kept.out) == (0, "")
    assert skills("skills", "lock").code == 0
    write(skills, "stars", STARS.replace("Ask.", "Ask me."))
    done = skills("skills", "lock", "--frozen")
    assert (done.code, lock_file(skills).read_bytes()) == (1, before)
    assert "skills/stars/clawhive.yaml:4:12: error CH0806" in done.out
    done = skills("skills", "lock", "--frozen", "--format", "github")
    assert "::error file=skills/stars/clawhive.yaml,line=4,col=12" in done.out


def test_what_is_accepted_is_shown(skills):
    skills("skills", "lock")
    write(skills, "stars", STARS.replace("{type: object}", "{type: object, required: [day]}"))
    assert skills("skills", "check").code == 1
    done = skills("skills", "lock")
    assert (done.code, "CH0815" in done.out, "written" in done.err) == (0, True, True)
    assert skills("skills", "check").code == 0


def test_frozen_is_one_object_with_its_state(skills):
    first = check(skills, one_object(skills("skills", "lock", "--json")), "skills-lock")
    assert (first["state"], first["summary"]["skills"], first["file"]) == (
        *("written", 2),
        "clawhive.lock",
    )
    again = check(skills, one_object(skills("skills", "lock", "--json")), "skills-lock")
    assert again["state"] == "current"
    write(skills, "third", "tasks: {job: {steps: []}}\n")
    stale = skills("skills", "lock", "--frozen", "--json")
    assert (stale.code, check(skills, one_object(stale), "skills-lock")["state"]) == (1, "stale")
    write(skills, "third", "version: 1\n")
    blocked = skills("skills", "lock", "--json")
    value = check(skills, one_object(blocked), "skills-lock")
    assert (blocked.code, value["state"]) == (1, "blocked")
    assert [each["code"] for each in value["findings"]] == ["CH0305"]


def test_other_bytes_that_say_the_same_are_not_what_frozen_wants(skills):
    skills("skills", "lock")
    value = json.loads(lock_file(skills).read_text())
    lock_file(skills).write_text(json.dumps(value))
    assert skills("skills", "check").code == 0
    done = skills("skills", "lock", "--frozen")
    assert (done.code, "CH0823" in done.out) == (1, True)


def test_conflict_marks_are_named_with_their_line(skills):
    skills("skills", "lock")
    lines = lock_file(skills).read_text().splitlines(keepends=True)
    lock_file(skills).write_text("".join([*lines[:3], "<<<<<<< ours\n", *lines[3:]]))
    for words in (("lock",), ("lock", "--frozen"), ("check",)):
        done = skills("skills", *words)
        assert (done.code, "clawhive.lock:4:1: error CH0811" in done.out) == (1, True)


def test_no_run_accepts_what_changed(skills, monkeypatch):
    monkeypatch.setenv("CLAWHIVE_RUN", "run_1")
    done = skills("skills", "lock")
    assert (done.code, "inside_run" in done.err) == (2, True)
    assert not lock_file(skills).exists()
    assert skills("skills", "lock", "--frozen").code == 1


def test_a_start_says_that_the_lock_is_no_use(skills):
    lock_file(skills).write_text("[]")
    done = skills("run", "look", "--model", "scripted:demo")
    assert (done.code, "CH0812 clawhive.lock" in done.err) == (0, True)


def test_a_kill_leaves_the_old_lock_or_the_new_one(skills):
    skills("skills", "lock")
    old = lock_file(skills).read_bytes()
    write(skills, "third", "tasks: {job: {steps: []}}\n")
    script = (
        "import os, signal\n"
        "from pathlib import Path\n"
        "from clawhive_core.diagnostics.files import replace_file\n"
        "os.fsync = lambda _: os.kill(os.getpid(), signal.SIGKILL)\n"
        f"replace_file(Path({str(lock_file(skills))!r}), b'new')\n"
    )
    done = subprocess.run([sys.executable, "-c", script], check=False, env=dict(os.environ))
    assert (done.returncode, lock_file(skills).read_bytes()) == (-signal.SIGKILL, old)
    assert skills("skills", "lock").code == 0
    assert lock_file(skills).read_bytes() != old


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_git_merges_branches_that_locked_different_skills(skills):
    def git(*words):
        who = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
        subprocess.run(["git", *who, *words], cwd=skills.root, check=True, capture_output=True)

    skills("skills", "lock")
    git("init", "-q", "-b", "one")
    git("add", ".")
    git("commit", "-qm", "base")
    git("branch", "two")
    for branch, name in (("one", "aaa"), ("two", "zzz")):
        git("checkout", "-q", branch)
        write(skills, name, STARS)
        skills("skills", "lock")
        git("add", ".")
        git("commit", "-qm", name)
    git("merge", "-q", "--no-edit", "one")
    assert skills("skills", "check").code == 0
    done = skills("skills", "lock", "--frozen")
    assert (done.code, "4 skills" in done.err) == (0, True)
