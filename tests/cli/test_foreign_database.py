"""A project that came with a database: whose it is, and what of it counts."""

import json
import os
import shutil
import sqlite3
import stat
import subprocess
import sys
from contextlib import closing

import pytest

from clawhive_core.model.events import Event
from clawhive_core.protocols.ledger import ApprovalsWhere
from clawhive_core.storage.sqlite.log import EventLog
from clawhive_core.storage.sqlite.tables import PROJECT

EDIT = ("run", "--task", "edit_docs", "--input", "path=a.md", "--input", "find=two")
EDIT += ("--input", "replace=2")
WIDE = ("grants", "issue", "fs.write:/**", "--session", "demo")
BEFORE, AFTER = "one\ntwo\n", "one\n2\n"


@pytest.fixture
def file(clawhive):
    path = clawhive.root / "a.md"
    path.write_text(BEFORE, "utf-8")
    return path


@pytest.fixture
def user(clawhive, monkeypatch, tmp_path):
    """Becomes another user, with a home of its own, in the same or another folder."""

    def become(name, root=None):
        home = tmp_path / name
        home.mkdir(exist_ok=True)
        monkeypatch.setenv("HOME", str(home))
        monkeypatch.setenv("XDG_CONFIG_HOME", str(home / ".config"))
        if root is not None:
            clawhive.root = root
            monkeypatch.chdir(root)
        return home

    return become


def cloned(clawhive, to):
    """Copy the project as `git clone` or an archive would bring it."""
    shutil.copytree(clawhive.root, to, symlinks=True)
    return to


def database_id(root):
    with closing(sqlite3.connect(root / ".clawhive" / "hive.db")) as found:
        return found.execute("SELECT value FROM meta WHERE key = 'database_id'").fetchone()[0]


def chained(root, home, *words, clawhive, user):
    """Let another user's ClawHive add rows to this database, as its own, and leave no key."""
    own = database_id(root)
    folder = home / ".config" / "clawhive" / "databases"
    folder.mkdir(parents=True)
    (folder / f"{own}.json").write_text(json.dumps({"schema": "database-key/1", "key": "a" * 64}))
    (folder / f"{own}.json").chmod(0o600)
    return clawhive(*words)


def parked(clawhive):
    assert clawhive(*EDIT, "--session", "demo").code == 3


@pytest.mark.promise("P-273")
def test_rights_that_a_cloned_project_brings_give_nothing(clawhive, file, user, tmp_path):
    parked(clawhive)
    assert clawhive(*WIDE).code == 0
    assert clawhive("approvals", "approve", "last").code == 0
    user("victim", cloned(clawhive, tmp_path / "clone"))
    for words in (
        (*EDIT, "--session", "demo"),
        ("runs", "resume", "last"),
        ("approvals", "approve", "last"),
        ("subscriptions", "add", "zodiac", "--user", "local"),
        WIDE,
    ):
        done = clawhive(*words)
        assert done.code == 1, words
        assert "error[foreign_database]" in done.err, words
        assert "clawhive trust --fresh" in done.err
        assert f"--database {database_id(clawhive.root)}" in done.err
    assert (clawhive.root / "a.md").read_text("utf-8") == BEFORE


def test_a_cloned_database_can_be_read_verified_and_exported(clawhive, file, user, tmp_path):
    parked(clawhive)
    before = len(clawhive.events())
    user("victim", cloned(clawhive, tmp_path / "clone"))
    assert len(clawhive.events()) == before
    for words in (
        ("runs", "list"),
        ("runs", "show", "last"),
        ("approvals", "list"),
        ("approvals", "show", "last"),
        ("grants", "list"),
        ("audit", "query", "--run", "last"),
        ("audit", "export"),
        ("audit", "verify"),
    ):
        assert clawhive(*words).code == 0, words
    assert len(clawhive.events()) == before
    checked = clawhive("audit", "rebuild", "--check")
    assert checked.code == 0
    assert "others wrote it, and it counts nothing: approvals: edit.apply, pending" in checked.out
    doctor = clawhive("doctor")
    assert doctor.code == 1
    assert "clawhive trust --fresh" in doctor.out


def test_a_project_that_its_user_moves_stays_theirs(clawhive, file, user, tmp_path):
    parked(clawhive)
    clawhive("approvals", "approve", "last")
    old, moved = clawhive.root, tmp_path / "moved"
    user("home", moved.parent)
    old.rename(moved)
    user("home", moved)
    assert clawhive(*WIDE).code == 0
    assert clawhive("audit", "verify").code == 0


def test_a_copy_in_another_folder_of_the_same_user_is_theirs_as_a_worktree_is(
    clawhive, file, user, tmp_path
):
    parked(clawhive)
    user("home", cloned(clawhive, tmp_path / "worktree"))
    assert clawhive(*WIDE).code == 0


def test_a_fresh_database_is_one_command_and_the_old_one_can_be_adopted_later(
    clawhive, file, user, tmp_path
):
    parked(clawhive)
    name = database_id(clawhive.root)
    user("victim", cloned(clawhive, tmp_path / "clone"))
    assert clawhive("trust", "--fresh").code == 0
    aside = clawhive.root / ".clawhive" / f"hive-{name[3:11]}.db"
    assert aside.is_file()
    assert clawhive(*EDIT, "--session", "demo").code == 3
    assert (clawhive.root / "a.md").read_text("utf-8") == BEFORE
    fresh = database_id(clawhive.root)
    assert fresh != name
    assert clawhive("trust", "--database", name, "--yes").code == 0
    assert database_id(clawhive.root) == name
    assert not aside.exists()
    assert (clawhive.root / ".clawhive" / f"hive-{fresh[3:11]}.db").is_file()


@pytest.mark.promise("P-274")
def test_adoption_shows_what_it_gives_and_then_all_of_it_counts(clawhive, file, user, tmp_path):
    parked(clawhive)
    clawhive(*WIDE)
    clawhive("subscriptions", "add", "zodiac", "--user", "ana")
    name = database_id(clawhive.root)
    user("victim", cloned(clawhive, tmp_path / "clone"))
    asked = clawhive("trust", "--database", name)
    assert asked.code == 2
    assert "fix: add --yes" in asked.err
    assert "fs.write:/**" in asked.err
    assert "for the session demo" in asked.err
    assert "ana may use what zodiac does not give for free" in asked.err
    assert "edit" in asked.err
    assert "waiting_approval" in asked.err
    assert "error[foreign_database]" in clawhive(*WIDE).err
    done = clawhive("trust", "--database", name[:14], "--yes", "--json")
    assert done.code == 0
    assert done.json["adopted"]
    assert len(done.json["gives"]["subscriptions"]) == 1
    assert clawhive.events()[-1]["kind"] == "database.adopted"
    assert clawhive("approvals", "approve", "last").code == 0
    assert clawhive("audit", "verify").code == 0


def test_no_run_adopts_a_database_or_sets_one_aside(clawhive, file, user, tmp_path, monkeypatch):
    parked(clawhive)
    name = database_id(clawhive.root)
    user("victim", cloned(clawhive, tmp_path / "clone"))
    monkeypatch.setenv("CLAWHIVE_RUN", "run_1")
    for words in (("--database", name, "--yes"), ("--fresh",)):
        assert "error[inside_run]" in clawhive("trust", *words).err
    assert "error[inside_run]" in clawhive("trust", "revoke", "--database", name).err
    assert database_id(clawhive.root) == name


def test_rights_that_others_chained_on_count_nothing(clawhive, file, user, tmp_path):
    parked(clawhive)
    name = database_id(clawhive.root)
    victim = tmp_path / "home"
    mallory = user("mallory", cloned(clawhive, tmp_path / "theirs"))
    assert chained(clawhive.root, mallory, *WIDE, clawhive=clawhive, user=user).code == 0
    assert clawhive("subscriptions", "add", "zodiac", "--user", "local").code == 0
    sent_back = clawhive.root / ".clawhive" / "hive.db"
    user("home", tmp_path / "project")
    assert victim.is_dir()
    assert clawhive("subscriptions", "list").out.count("zodiac") == 0
    shutil.copy(sent_back, clawhive.root / ".clawhive" / "hive.db")
    assert clawhive(*EDIT, "--session", "demo").code == 3
    assert "zodiac" not in clawhive("subscriptions", "list").out
    shown = clawhive("trust", "--database", name)
    assert "others wrote into it" in shown.err
    assert "fs.write:/**" in shown.err
    assert clawhive("audit", "verify").code == 0


def test_an_approval_that_others_asked_for_is_neither_answered_nor_used(
    clawhive, file, user, tmp_path
):
    assert clawhive.snippet("print(1)").code == 0
    mallory = user("mallory", cloned(clawhive, tmp_path / "theirs"))
    chained(clawhive.root, mallory, *EDIT, clawhive=clawhive, user=user)
    sent_back = clawhive.root / ".clawhive" / "hive.db"
    user("home", tmp_path / "project")
    shutil.copy(sent_back, clawhive.root / ".clawhive" / "hive.db")
    for again in (("approvals", "approve", "last"), ("runs", "resume", "last")):
        assert "error[foreign_database]" in clawhive(*again).err
    assert file.read_text("utf-8") == BEFORE


def test_an_answer_that_others_chained_on_is_not_used(clawhive, file):
    parked(clawhive)
    log = EventLog.open(clawhive.root / ".clawhive" / "hive.db", PROJECT)  # without a key
    (asked,) = log.find(ApprovalsWhere()).items
    body = {"approval_id": asked.approval_id, "by": "user:local", "reason": None, "scope": "once"}
    columns = ("trace_id", "run_id", "task_id", "conversation_id", "step_id", "tool")
    facts = {name: getattr(asked, name) for name in columns}
    log.append_now(Event("approval.resolved", {**body, "grants": []}, status="approved", **facts))
    log.close()
    assert "approved" in clawhive("approvals", "list", "--all").out
    assert "error[foreign_database]" in clawhive("runs", "resume", "last").err
    assert file.read_text("utf-8") == BEFORE


def test_a_conversation_that_others_went_on_with_is_not_continued(clawhive, file):
    chat = ("--model", "scripted:demo", "--session", "talk")
    assert clawhive("run", "hello", *chat).code == 0
    assert clawhive("run", "again", *chat).code == 0
    path = clawhive.root / ".clawhive" / "hive.db"
    with closing(sqlite3.connect(path)) as other:
        other.execute("UPDATE events SET seal = x'00' WHERE kind = 'run.start'")
        other.commit()
    assert "error[foreign_database]" in clawhive("run", "and", *chat).err
    assert clawhive("run", "and", "--model", "scripted:demo", "--session", "new").code == 0


def test_a_body_that_was_changed_behind_its_event_is_not_executed(clawhive, file):
    long = "2" * 2000
    words = [*EDIT[:-1], f"replace={long}"]
    assert clawhive(*words).code == 3
    path = clawhive.root / ".clawhive" / "hive.db"
    with closing(sqlite3.connect(path)) as other:
        kept = "SELECT sql FROM sqlite_master WHERE name = 'blobs_refuse_update'"
        (made,) = other.execute(kept).fetchone()
        other.execute("DROP TRIGGER blobs_refuse_update")
        changed = "UPDATE blobs SET data = replace(CAST(data AS TEXT), '2222', '6666')"
        assert other.execute(changed + " WHERE type = 'json'").rowcount > 0
        other.execute(made)
        other.commit()
    clawhive("approvals", "approve", "last")
    assert clawhive("runs", "resume", "last").code != 0
    assert file.read_text("utf-8") == BEFORE


SHOWN = {
    "preview": "notes.txt",
    "diff": "notes.txt",
    "sinks": '{"path": "notes.txt"}',
    "destinations": '[{"argument": "path", "kind": "to", "value": "a", "source": "task"}]',
}


@pytest.mark.parametrize("column", SHOWN)
def test_an_approval_whose_shown_columns_were_changed_is_not_answered(clawhive, file, column):
    parked(clawhive)
    path = clawhive.root / ".clawhive" / "hive.db"
    with closing(sqlite3.connect(path)) as other:
        other.execute(f"UPDATE approvals SET {column} = ?", (SHOWN[column],))
        other.commit()
    assert "error[forged_rights]" in clawhive("approvals", "approve", "last").err
    assert file.read_text("utf-8") == BEFORE


def strip_seals(root):
    """Make a database as it was before there were seals."""
    with closing(sqlite3.connect(root / ".clawhive" / "hive.db")) as other:
        other.execute("UPDATE events SET seal = NULL")
        other.commit()


def test_a_database_of_before_is_its_users_up_to_the_last_signed_row(
    clawhive, file, user, tmp_path
):
    parked(clawhive)
    home = tmp_path / "home" / ".config" / "clawhive"
    assert (home / "checkpoints").is_dir()
    shutil.rmtree(home / "databases")
    strip_seals(clawhive.root)
    clone = cloned(clawhive, tmp_path / "clone")
    assert clawhive("approvals", "approve", "last").code == 0
    assert clawhive("runs", "resume", "last").code == 0
    assert file.read_text("utf-8") == AFTER
    user("victim", clone)
    assert "error[foreign_database]" in clawhive("runs", "resume", "last").err


def test_rights_issued_after_the_last_signed_row_of_before_are_shown_for_adoption(
    clawhive, file, tmp_path
):
    parked(clawhive)
    clawhive(*WIDE)
    home = tmp_path / "home" / ".config" / "clawhive"
    (signed,) = (home / "checkpoints").glob("*.jsonl")
    lines = signed.read_text("utf-8").splitlines()
    issued = next(
        each["seq"]
        for each in clawhive.events()
        if each["kind"] == "grant.issued" and "fs.write:/**" in json.dumps(each)
    )
    signed.write_text(
        "".join(f"{each}\n" for each in lines if json.loads(each)["seq"] < issued), "utf-8"
    )
    shutil.rmtree(home / "databases")
    strip_seals(clawhive.root)
    assert clawhive(*EDIT, "--session", "demo").code == 3
    shown = clawhive("trust", "--database", database_id(clawhive.root))
    assert "would count, of its grants: fs.write:/**" in shown.err


def test_the_key_is_for_its_user_alone(clawhive, tmp_path):
    clawhive.snippet("print(1)")
    folder = tmp_path / "home" / ".config" / "clawhive" / "databases"
    (key,) = folder.iterdir()
    assert key.name == f"{database_id(clawhive.root)}.json"
    for each in (folder, folder.parent):
        assert stat.S_IMODE(each.stat().st_mode) == 0o700
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    key.chmod(0o666)
    assert "error[database_key]" in clawhive.snippet("print(1)").err


def test_revoking_lets_nothing_of_before_count(clawhive, file):
    parked(clawhive)
    assert clawhive("approvals", "approve", "last").code == 0
    name = database_id(clawhive.root)
    assert clawhive("trust", "revoke", "--database", name).code == 0
    assert "error[foreign_database]" in clawhive("runs", "resume", "last").err
    assert file.read_text("utf-8") == BEFORE
    assert clawhive.snippet("print(1)").code == 0


def test_an_id_that_is_a_path_finds_no_key(clawhive, file, tmp_path):
    clawhive.snippet("print(1)")
    home = tmp_path / "home" / ".config" / "clawhive"
    (key,) = (home / "databases").iterdir()
    shutil.copy(key, home / "planted.json")
    with closing(sqlite3.connect(clawhive.root / ".clawhive" / "hive.db")) as other:
        other.execute("UPDATE meta SET value = '../planted' WHERE key = 'database_id'")
        other.commit()
    assert "error[foreign_database]" in clawhive.snippet("print(1)").err


SETPRIV = shutil.which("setpriv")


@pytest.mark.skipif(os.name != "posix", reason="POSIX rights")
@pytest.mark.skipif(os.geteuid() == 0 and SETPRIV is None, reason="root would need setpriv")
def test_runs_work_where_the_users_own_directory_cannot_be_written_to(clawhive, file, tmp_path):
    program = [sys.executable, "-c", "import sys; from clawhive_core.cli import main; main()"]
    if os.geteuid() == 0:  # without its capabilities root is held by rights as everybody is
        program = [str(SETPRIV), "--bounding-set=-all", "--inh-caps=-all", *program]
    home = tmp_path / "home"
    home.chmod(0o555)

    def run(*words):
        return subprocess.run(
            [*program, *words], capture_output=True, text=True, check=False, cwd=clawhive.root
        )

    snippet = ("run", "--task", "run_code_snippet", "--input", "language=python")
    for _ in range(2):
        done = run(*snippet, "--input", "code=print(6*7)")
        assert done.returncode == 0, done.stderr
        assert "42" in done.stdout
    for words in (WIDE, ("subscriptions", "add", "zodiac", "--user", "local")):
        assert "error[read_only_home]" in run(*words).stderr
    assert "read_only_home" in run(*EDIT).stderr
    assert file.read_text("utf-8") == BEFORE
    home.chmod(0o755)


def kept(clawhive):
    """Return a copy of the database's files, as a backup or an attacker keeps them."""
    folder = clawhive.root / ".clawhive"
    return {each.name: each.read_bytes() for each in folder.glob("hive.db*")}


def put_back(clawhive, files):
    folder = clawhive.root / ".clawhive"
    for each in folder.glob("hive.db*"):
        each.unlink()
    for name, data in files.items():
        (folder / name).write_bytes(data)


@pytest.mark.promise("P-273")
def test_an_older_copy_of_ones_own_database_gives_no_revoked_right_back(clawhive, file):
    assert clawhive(*WIDE).code == 0
    older = kept(clawhive)
    assert clawhive("grants", "revoke", "last").code == 0
    put_back(clawhive, older)
    run = (*EDIT, "--session", "demo")
    refused = clawhive(*run, "--json")
    assert (refused.code, refused.json["error"]) == (1, "older_database")
    assert file.read_text() == BEFORE
    assert "older copy" in clawhive("doctor").out
    assert clawhive("runs", "list").code == 0
    name = database_id(clawhive.root)
    asked = clawhive("trust", "--database", name)
    assert asked.code == 2
    assert "what was revoked, used or answered since would count again" in asked.err
    assert clawhive("trust", "--database", name, "--yes").code == 0
    (given,) = clawhive("grants", "list", "--json").json["grants"]
    assert given["capability"] == "fs.write:/**"  # the person took it as it is
    assert clawhive(*run).code in {0, 3}
    assert clawhive("audit", "verify").code == 1


def test_a_cut_tail_and_a_row_that_was_changed_at_the_tip_stop_work(clawhive):
    clawhive.snippet("print(1)")
    whole = kept(clawhive)
    for change in ("DELETE FROM events WHERE seq > 3", "UPDATE events SET hash = 'x' || hash"):
        put_back(clawhive, whole)
        with closing(sqlite3.connect(clawhive.root / ".clawhive" / "hive.db")) as found:
            triggers = "SELECT name, sql FROM sqlite_master WHERE type = 'trigger'"
            guards = found.execute(triggers).fetchall()
            for guard, _ in guards:
                found.execute(f"DROP TRIGGER {guard}")
            found.execute(change)
            for _, sql in guards:
                found.execute(sql)
            found.commit()
        assert clawhive.snippet("print(1)", "--json").json["error"] == "older_database"
    put_back(clawhive, whole)
    assert clawhive.snippet("print(1)").code == 0


def test_a_moved_project_goes_on_and_so_does_a_copy_unless_the_other_went_on_before(
    clawhive, monkeypatch, tmp_path
):
    clawhive.snippet("print(1)")
    first, second = clawhive.root, cloned(clawhive, tmp_path / "copied")
    for root in (second, first, second):
        monkeypatch.chdir(root)
        clawhive.root = root
        assert clawhive.snippet("print(1)").code == 0
    moved = tmp_path / "moved"
    monkeypatch.chdir(tmp_path)
    second.rename(moved)
    monkeypatch.chdir(moved)
    clawhive.root = moved
    assert clawhive.snippet("print(1)").code == 0
    later = cloned(clawhive, tmp_path / "later")
    assert clawhive.snippet("print(1)").code == 0
    monkeypatch.chdir(later)
    assert clawhive.snippet("print(1)", "--json").json["error"] == "older_database"
