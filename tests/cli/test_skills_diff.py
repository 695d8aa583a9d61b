"""`clawhive skills diff` as people and CI use it: folders, and real git repositories."""

import json
import os
import subprocess
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
import yaml

from tests.cli.test_json import check, one_object

INPUT = {"type": "object", "required": ["day"], "properties": {"day": {"type": "string"}}}


def exported(name="rise", **more):
    return {"name": name, "input_schema": INPUT, "output_schema": {}, **more}


def contract(*tools, version="1.0", **more):
    exports = {"api_version": version, "tools": [*tools], **more.pop("exports", {})}
    return {"id": "sun", "exports": exports, **more}


OLD = contract(exported())
NARROWER = contract(exported(input_schema={**INPUT, "required": ["day", "place"]}), version="1.1")


def write(folder, name, value):
    file = Path(folder) / name / "clawhive.yaml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(value if isinstance(value, str) else yaml.safe_dump(value))
    return file


class Git:
    """A real repository in the project of the test."""

    def __init__(self, folder, monkeypatch):
        self.folder = folder
        monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
        monkeypatch.setenv("GIT_CONFIG_SYSTEM", os.devnull)
        for name in ("GIT_DIR", "GIT_INDEX_FILE", "GIT_WORK_TREE"):
            monkeypatch.delenv(name, raising=False)
        self("init", "-q", "-b", "main")

    def __call__(self, *words, day=None, at=None):
        who = {
            f"GIT_{role}_{key}": "ana@b.c"
            for role in ("AUTHOR", "COMMITTER")
            for key in ("NAME", "EMAIL")
        }
        when = {} if day is None else {"GIT_COMMITTER_DATE": f"{day}T12:00:00Z"}
        done = subprocess.run(
            ["git", *words],
            cwd=at or self.folder,
            env={**os.environ, **who, **when},
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout.strip()

    def commit(self, day=None):
        self("add", "-A")
        self("commit", "-q", "-m", "more", "--allow-empty", day=day)
        return self("rev-parse", "HEAD")


@pytest.fixture
def git(clawhive, monkeypatch):
    return Git(clawhive.root, monkeypatch)


@pytest.fixture
def base(clawhive, git):
    """A repository whose first commit holds one skill."""
    write("skills", "sun", OLD)
    Path("skills/sun/SKILL.md").write_text("---\nname: sun\ndescription: Of the sun.\n---\n")
    git.commit()
    return clawhive


@pytest.mark.promise("P-207")
def test_a_breaking_change_is_said_in_one_line_with_its_witness(clawhive):
    write("a", "sun", OLD)
    write("b", "sun", NARROWER)
    done = clawhive("skills", "diff", "a/sun", "b/sun")
    first, finding, fix, last = done.out.splitlines()
    assert (done.code, first) == (1, "sun 1.0 -> 1.1: needs 2.0 (breaking)")
    line = next(
        number
        for number, text in enumerate(Path("b/sun/clawhive.yaml").read_text().splitlines(), 1)
        if "name: rise" in text
    )
    assert finding.startswith(f"  b/sun/clawhive.yaml:{line}:")
    assert 'error CH0801 input of `rise`: {"day": ' in finding
    assert "was accepted and is refused now" in finding
    assert fix == '      fix: write `api_version: "2.0"`'
    assert last == "1 skill compared: 1 changed; 1 finding: 1 error"


@pytest.mark.promise("P-206")
def test_the_json_is_one_object_with_every_change(clawhive):
    write("a", "sun", OLD)
    write("b", "sun", NARROWER)
    write("b", "moon", {"id": "moon"})
    done = clawhive("skills", "diff", "a", "b", "--json")
    value = check(clawhive, one_object(done), "skills-diff")
    assert clawhive("skills", "diff", "a", "b", "--format", "json").out == done.out
    moon, sun = value["skills"]
    assert (value["old"], value["new"], done.code) == ("a", "b", 1)
    assert (moon["id"], moon["state"]) == ("moon", "added")
    assert {key: each for key, each in sun.items() if key != "changes"} == {
        "id": "sun",
        "state": "changed",
        "old_version": "1.0",
        "new_version": "1.1",
        "needed": "major",
        "made": "minor",
        "needed_version": "2.0",
        "enough": False,
    }
    (change,) = sun["changes"]
    assert (change["kind"], change["impact"]) == ("input_schema", "breaking")
    assert change["witness"]["accepted_by"] == "old"
    assert change["file"] == "b/sun/clawhive.yaml"
    assert value["summary"]["compared"] == 1


@pytest.mark.parametrize("form", ["sarif", "github", "gitlab", "junit"])
def test_a_report_for_ci_is_all_of_stdout(base, form):
    write("skills", "sun", NARROWER)
    done = base("skills", "diff", "git:HEAD", "--format", form)
    assert done.code == 1
    if form == "junit":
        assert ET.fromstring(done.out).get("failures") == "1"
    elif form == "github":
        assert done.out.startswith("::error file=skills/sun/clawhive.yaml,line=")
    else:
        assert "CH0801" in json.dumps(json.loads(done.out))
    assert done.err == "1 skill compared: 1 changed; 1 finding: 1 error\n"


def test_what_is_no_mistake_passes_and_strict_fails_on_warnings(clawhive):
    write("a", "sun", OLD)
    write("b", "sun", contract(exported(), permissions=["fs.read:/x/**"]))
    assert clawhive("skills", "diff", "a", "b").code == 0
    done = clawhive("skills", "diff", "a", "b", "--strict")
    assert (done.code, "warning CH0834" in done.out) == (1, True)


@pytest.mark.promise("P-206")
def test_nothing_changed_is_said(base):
    done = base("skills", "diff", "git:HEAD")
    assert (done.code, done.out) == (0, "1 skill compared: no contract changed\n")
    value = check(base, one_object(base("skills", "diff", "git:HEAD", "--json")), "skills-diff")
    assert (value["skills"], value["findings"]) == ([], [])


@pytest.mark.promise("P-209")
def test_a_revision_is_compared_from_every_place_of_a_repository(base, git, monkeypatch):
    old = git("rev-parse", "HEAD")
    git("tag", "v1")
    write("skills", "sun", NARROWER)
    first = "sun 1.0 -> 1.1: needs 2.0 (breaking)"
    spelled = [
        ("git:HEAD",),
        ("git:v1",),
        (f"git:{old[:12]}",),
        ("git:HEAD@{0}",),
        ("git:main:skills",),
        ("git:main:skills/sun",),
        ("git:main:skills/sun/clawhive.yaml",),
        ("git:main", "skills"),
        ("git:main", "skills/sun/clawhive.yaml"),
        ("git:main:./skills", "skills"),
    ]
    for words in spelled:
        done = base("skills", "diff", *words)
        assert (done.code, done.out.splitlines()[0]) == (1, first), words
        assert "description" not in done.out, words
    git.commit()
    two = base("skills", "diff", "git:v1", "git:HEAD:skills/sun")
    assert two.out.splitlines()[:1] == [first]
    assert "git:HEAD:skills/sun/clawhive.yaml:" in two.out
    back = base("skills", "diff", "skills", "git:v1")
    assert back.out.splitlines()[0] == "sun 1.1 -> 1.0: needs 1.2 (additive)"
    monkeypatch.chdir("skills")
    for words in (("git:v1",), ("git:v1:./sun",), ("git:v1:./sun", "sun"), ("git:v1", "sun")):
        assert base("skills", "diff", *words).out.splitlines()[0] == first, words
    git("worktree", "add", "-q", "--detach", "../other", "v1")
    monkeypatch.chdir(base.root.parent / "other")
    assert base("skills", "diff", "git:HEAD").code == 0
    assert base("skills", "diff", "git:main", "git:HEAD").out.startswith("sun 1.1 -> 1.0")
    monkeypatch.chdir("/")
    inside = base("skills", "diff", "git:v1", str(base.root / "skills"))
    assert inside.out.splitlines()[0] == first


def test_three_dots_are_the_commit_where_the_branch_began(base, git):
    git("switch", "-q", "-c", "topic")
    git("switch", "-q", "main")
    write("skills", "moon", {**contract(exported("full")), "id": "moon"})
    git.commit()
    git("switch", "-q", "topic")
    assert base("skills", "diff", "git:main").code == 1
    done = base("skills", "diff", "git:main...")
    assert (done.code, done.out) == (0, "1 skill compared: no contract changed\n")


@pytest.mark.promise("P-208")
def test_a_skill_that_is_gone_names_the_lines_of_those_who_import_it(base, git):
    user = {"id": "day", "imports": [{"from": "sun", "tools": ["rise"]}]}
    file = write("skills", "day", user)
    git.commit()
    Path("skills/sun/clawhive.yaml").unlink()
    Path("skills/sun/SKILL.md").unlink()
    done = base("skills", "diff", "git:HEAD")
    line = 1 + [text.startswith("- from: sun") for text in file.read_text().splitlines()].index(
        True
    )
    assert done.code == 1
    assert f"skills/day/clawhive.yaml:{line}:9: error CH0835 the skill `sun` is gone" in done.out
    assert "error CH0705 `sun.rise` is gone, and nothing announced that" in done.out


@pytest.mark.promise("P-208")
def test_the_history_dates_a_deprecation_that_does_not_say_when_it_was_announced(base, git):
    marked = contract(
        exported(), exports={"deprecated": [{"tool": "rise", "removal_date": "2021-03-01"}]}
    )
    write("skills", "sun", {**marked, "description": "before"})
    git.commit(day="2021-01-10")
    write("skills", "sun", marked)
    git.commit(day="2021-02-20")
    write("skills", "sun", contract(version="2.0"))
    for day, code in (("2021-02-25", 1), ("2021-03-01", 0)):
        git.commit(day=day)
        done = base("skills", "diff", "git:HEAD~1:skills", "git:HEAD:skills", "--json")
        assert (done.code, [each["code"] for each in done.json["findings"]]) == (
            code,
            ["CH0705"] * code,
        )
        git("reset", "-q", "--soft", "HEAD~1")
    write("a", "sun", marked)
    undated = base("skills", "diff", "a/sun", "skills/sun", "--json").json["findings"]
    assert [each["code"] for each in undated] == ["CH0707"]


def dated(base, *arguments):
    """Return the code and message of each finding about the dates of deprecations."""
    Path("skills/sun/handlers.py").write_text("async def rise(input, ctx):\n    return input\n")
    found = base("skills", "check", "skills", *arguments, "--json").json["findings"]
    return [(each["code"], each["message"]) for each in found if each["code"][:4] == "CH07"]


@pytest.mark.promise("P-230")
def test_a_check_dates_by_git_what_neither_contract_nor_lock_dates(base, git):
    today = datetime.now(UTC).date()
    first = today - timedelta(25)

    def deprecate(removal):
        entry = {"tool": "rise", "removal_date": str(removal)}
        write("skills", "sun", {**OLD, "exports": {**OLD["exports"], "deprecated": [entry]}})

    deprecate(today + timedelta(10))
    ((code, message),) = dated(base)
    assert (code, "10 days after" in message, "git saw it first" in message) == (
        "CH0701",
        True,
        True,
    )
    git.commit(day=str(first))
    assert dated(base) == []
    deprecate(first + timedelta(29))
    ((code, message),) = dated(base)
    assert (code, f"29 days after {first}, when git saw it first" in message) == ("CH0701", True)
    deprecate(first + timedelta(30))
    assert dated(base) == []


def test_what_was_deprecated_in_the_first_commit_of_a_contract_is_as_old_as_that(base, git):
    Path("skills/sun/clawhive.yaml").rename("skills/sun/clawhive.yml.bak")
    git.commit()
    removal = datetime.now(UTC).date() + timedelta(5)
    entry = {"tool": "rise", "removal_date": str(removal)}
    write("skills", "sun", {**OLD, "exports": {**OLD["exports"], "deprecated": [entry]}})
    assert [code for code, _ in dated(base)] == ["CH0707"]  # it was never without it
    git.commit(day="2021-01-10")
    assert dated(base) == []


def test_where_git_knows_nothing_the_date_is_asked_for(clawhive, monkeypatch):
    entry = {"tool": "rise", "removal_date": str(datetime.now(UTC).date() + timedelta(5))}
    write("skills", "sun", {**OLD, "exports": {**OLD["exports"], "deprecated": [entry]}})
    assert [code for code, _ in dated(clawhive)] == ["CH0707"]
    monkeypatch.setenv("PATH", "/nowhere")
    assert [code for code, _ in dated(clawhive)] == ["CH0707"]


@pytest.mark.promise("P-208")
def test_a_deprecation_that_is_younger_than_thirty_days_is_no_notice(base, git):
    day = datetime.now(UTC).date()
    entry = {"tool": "rise", "removal_date": str(day - timedelta(1))}
    write("skills", "sun", contract(exported(), exports={"deprecated": [entry]}))
    git.commit()
    write("skills", "sun", contract(version="2.0"))
    done = base("skills", "diff", "git:HEAD")
    assert (done.code, "users have 30 at least" in done.out) == (1, True)


def test_a_side_that_cannot_be_read_is_said(clawhive):
    write("a", "sun", "exports: {api_version: 1.0}\n")
    write("b", "sun", OLD)
    fixed = clawhive("skills", "diff", "a", "b")
    assert (fixed.code, "warning CH0836" in fixed.out) == (0, True)
    broken = clawhive("skills", "diff", "b", "a")
    assert (broken.code, "a/sun/clawhive.yaml:1:24: error CH0501" in broken.out) == (1, True)
    write("c", "sun", "exports: {api_version: 1.5}\n")
    write("d", "sun", "exports: {api_version: '1.0', tools: 3}\n")
    assert clawhive("skills", "diff", "a", "c").out == "1 skill compared: no contract changed\n"
    other = clawhive("skills", "diff", "a", "d")
    assert (other.code, "d/sun/clawhive.yaml:1:38: error CH0305" in other.out) == (1, True)


def test_a_broken_skill_that_is_gone_was_loaded_nowhere(clawhive):
    write("a", "sun", OLD)
    write("a", "odd", "exports: 3\n")
    write("b", "sun", OLD)
    assert clawhive("skills", "diff", "a", "b").out == "1 skill compared: no contract changed\n"


def test_two_skills_that_are_named_are_compared_whatever_they_are_called(clawhive):
    write(".", "before", {"exports": OLD["exports"]})
    write(".", "after", {"exports": NARROWER["exports"]})
    done = clawhive("skills", "diff", "before", "after/clawhive.yaml")
    assert (done.code, done.out.splitlines()[0]) == (1, "after 1.0 -> 1.1: needs 2.0 (breaking)")
    assert "  the skill `before` is called `after` now, which those who import" in done.out


def test_folders_without_a_skill_on_one_side_are_all_new_or_all_gone(clawhive, git):
    git.commit()
    write("skills", "sun", OLD)
    assert clawhive("skills", "diff", "git:HEAD").out.startswith("sun 1.0: added\n")
    git.commit()
    Path("skills/sun/clawhive.yaml").unlink()
    Path("skills/sun").rmdir()
    Path("skills").rmdir()
    assert clawhive("skills", "diff", "git:HEAD:skills").out.startswith("sun 1.0: gone\n")


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("git:none",), "unknown_revision", "git branch --all"),
        (
            ("git:origin/topic",),
            "unknown_revision",
            "git fetch origin topic:refs/remotes/origin/topic",
        ),
        (("git:--all",), "unknown_revision", "names no commit"),
        (("git:-h", "skills"), "unknown_revision", "names no commit"),
        (("git:HEAD:none",), "unknown_revision", "git ls-tree -r --name-only HEAD"),
        (("git:HEAD:../x",), "usage", "leads out of the repository"),
        (("git:HEAD:/etc",), "usage", "leads out of the repository"),
        (("git:",), "usage", "git:REF:PATH"),
        (("git::skills",), "usage", "git:REF:PATH"),
        (("skills",), "usage", "clawhive skills diff git:HEAD skills"),
        (("skills", "none"), "usage", "there is no none"),
        (("none", "git:HEAD"), "usage", "there is no none"),
        (("git:HEAD", "--format", "sarf"), "unknown_format", "use sarif"),
    ],
)
def test_a_side_that_does_not_exist_is_wrong_usage_with_what_to_do(base, words, code, says):
    done = base("skills", "diff", *words)
    assert (done.code, done.out) == (2, "")
    assert f"error[{code}]" in done.err
    assert says in done.err
    refused = base("skills", "diff", *words, "--json")
    assert check(base, one_object(refused), "error")["error"] == code


@pytest.mark.promise("P-209")
def test_no_repository_and_no_git_are_told(clawhive, monkeypatch):
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(clawhive.root.parent))
    done = clawhive("skills", "diff", "git:HEAD")
    assert (done.code, "is in no git work tree: not a git repository" in done.err) == (2, True)
    monkeypatch.setenv("PATH", str(clawhive.root))
    done = clawhive("skills", "diff", "git:HEAD")
    assert (done.code, "fix: install git, or name two folders" in done.err) == (2, True)


@pytest.mark.promise("P-209")
def test_a_content_that_is_lost_is_named(base, git):
    blob = git("rev-parse", "HEAD:skills/sun/clawhive.yaml")
    Path(".git/objects", blob[:2], blob[2:]).unlink()
    done = base("skills", "diff", "git:HEAD")
    assert (done.code, "skills/sun/clawhive.yaml is not in this clone" in done.err) == (2, True)


@pytest.mark.promise("P-209")
def test_a_git_that_hangs_is_ended(base, tmp_path, monkeypatch):
    program = tmp_path / "bin" / "git"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\nexec sleep 600\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    monkeypatch.setattr("clawhive_core.skills.changes.git.SECONDS", 0.1)
    done = base("skills", "diff", "git:HEAD")
    assert (done.code, "git rev-parse did not end within" in done.err) == (2, True)


@pytest.mark.promise("P-209")
def test_a_shallow_clone_without_the_revision_says_how_to_fetch_it(base, git, monkeypatch):
    git.commit()
    git("clone", "-q", "--depth", "1", base.root.as_uri(), "../shallow")
    monkeypatch.chdir(base.root.parent / "shallow")
    assert base("skills", "diff", "git:origin/main").code == 0
    done = base("skills", "diff", "git:HEAD~1")
    assert (done.code, "this clone is shallow" in done.err) == (2, True)


@pytest.mark.promise("P-209")
def test_a_partial_clone_is_never_fetched_from(base, git, monkeypatch):
    write("skills", "sun", NARROWER)
    git.commit()
    git("config", "uploadpack.allowFilter", "true")
    git("clone", "-q", "--filter=blob:none", base.root.as_uri(), "../partial")
    partial = base.root.parent / "partial"
    before = sorted(partial.glob(".git/objects/**/*"))
    monkeypatch.chdir(partial)
    assert base("skills", "diff", "git:HEAD").code == 0
    done = base("skills", "diff", "git:HEAD~1")
    assert (done.code, "error[git_failed]" in done.err) == (2, True)
    assert sorted(partial.glob(".git/objects/**/*")) == before


@pytest.mark.promise("P-209")
def test_reading_a_revision_runs_nothing_of_the_repository_and_leaves_nothing(
    base, git, monkeypatch, tmp_path
):
    trap = tmp_path / "trap.sh"
    trap.write_text(f"#!/bin/sh\ntouch {tmp_path}/sprung\ncat\n")
    trap.chmod(0o755)
    for key in ("filter.evil.smudge", "filter.evil.clean", "core.pager", "core.fsmonitor"):
        git("config", key, str(trap))
    for key in ("gpg.program", "diff.evil.textconv", "core.sshCommand", "diff.external"):
        git("config", key, str(trap))
    git("config", "log.showSignature", "true")
    Path(".git/hooks").mkdir(exist_ok=True)
    for hook in ("post-checkout", "post-index-change"):
        Path(".git/hooks", hook).symlink_to(trap)
    blob = git("hash-object", "-w", "--no-filters", "skills/sun/clawhive.yaml")
    trees = f"100644 blob {blob}\tclawhive.yaml"
    made = subprocess.run(
        ["git", "mktree"], input=trees, capture_output=True, text=True, check=True
    )
    assert made.stdout
    Path(".gitattributes").write_text("*.yaml filter=evil diff=evil export-subst\n")
    tmp_path.joinpath("sprung").unlink(missing_ok=True)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    status = Path(".git/index").read_bytes()
    assert base("skills", "diff", "git:HEAD").code == 0
    marked = {"tool": "rise", "removal_date": "2021-03-01"}
    write("skills", "sun", contract(version="2.0", exports={"deprecated": [marked]}))
    assert base("skills", "diff", "git:HEAD").code == 1
    assert not tmp_path.joinpath("sprung").exists()
    assert list(scratch.iterdir()) == []
    assert Path(".git/index").read_bytes() == status


@pytest.mark.promise("P-209")
def test_links_large_files_and_lfs_of_a_revision_are_not_followed(base, git, monkeypatch):
    Path("skills/link").mkdir()
    Path("skills/link/clawhive.yaml").symlink_to("id: evil")
    write("skills", "big", f"id: big\ndescription: {'x' * 3_000_000}\n")
    git.commit()
    Path("skills/link/clawhive.yaml").unlink()
    Path("skills/big/clawhive.yaml").write_text("id: big\n")
    done = base("skills", "diff", "git:HEAD")
    assert (done.code, "evil" in done.out) == (0, False)
    assert "note CH0837 skills/link/clawhive.yaml is a link in git:HEAD" in done.out
    assert "the old version cannot be used (CH0006 git:HEAD:skills/big/clawhive.yaml" in done.out
    write("skills", "sun", "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n")
    git.commit()
    stored = base("skills", "diff", "git:HEAD")
    assert (stored.code, "lies in Git LFS" in stored.err) == (2, True)


@pytest.mark.promise("P-209")
def test_a_tree_with_evil_names_writes_nothing_outside(base, git, tmp_path, monkeypatch):
    scratch = tmp_path / "deep" / "scratch"
    scratch.mkdir(parents=True)
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    blob = bytes.fromhex(git("rev-parse", "HEAD:skills/sun/clawhive.yaml"))
    inner = b"100644 clawhive.yaml\0" + blob

    def tree(raw):
        words = ["git", "hash-object", "-w", "--literally", "-t", "tree", "--stdin"]
        made = subprocess.run(words, input=raw, capture_output=True, check=True)
        return bytes.fromhex(made.stdout.decode())

    up = tree(b"40000 ..\0" + tree(b"40000 ..\0" + tree(b"40000 ..\0" + tree(inner))))
    commit = git("commit-tree", "-m", "evil", up.hex())
    before = sorted(tmp_path.rglob("clawhive.yaml"))
    done = base("skills", "diff", f"git:{commit}")
    assert done.out.startswith("sun 1.0: added\n")
    assert sorted(tmp_path.rglob("clawhive.yaml")) == before


@pytest.mark.promise("P-209")
def test_the_files_of_a_revision_are_removed_when_it_is_interrupted(base, tmp_path, monkeypatch):
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    seen = []

    def interrupt(*_):
        seen.extend(scratch.rglob("clawhive.yaml"))
        raise KeyboardInterrupt

    monkeypatch.setattr("clawhive_core.skills.changes.compare_sides", interrupt)
    assert base("skills", "diff", "git:HEAD").code == 130
    assert len(seen) == 1
    assert list(scratch.iterdir()) == []


def test_strange_names_of_files_are_read(base, git):
    write("skills/ü b\n", "sun:x", {**OLD, "id": "odd"})
    Path("skills/plain.yaml").write_text(yaml.safe_dump({**OLD, "id": "plain"}))
    Path("notes.yaml").write_text("tasks: 3\n")
    git.commit()
    done = base("skills", "diff", "git:HEAD")
    value = base("skills", "diff", "git:HEAD", "--json").json
    assert (value["summary"]["compared"], value["summary"]["changed"]) == (3, 0), done.out


def test_a_name_in_a_contract_does_not_steer_the_terminal(clawhive):
    write("a", "sun", OLD)
    evil = contract(exported(description="\x1b[2Jgone"), permissions=["fs.read:/\u202ex/**"])
    write("b", "sun", evil)
    done = clawhive("skills", "diff", "a", "b")
    assert [char for char in done.out if not char.isprintable() and char != "\n"] == []
