"""Rights written into the tables behind the log's back: they give nothing, and are told."""

import sqlite3
from contextlib import closing
from datetime import UTC, datetime

import pytest

from clawhive_core.errors import StorageError
from clawhive_core.events.grants import issued
from clawhive_core.hive.project_log import open_verified
from clawhive_core.model.grants import CapabilityGrant
from clawhive_core.policy.grants import GrantBook, Wish, derived
from clawhive_core.runs.requests import RunOptions
from clawhive_core.testing import memory_hive

EDIT = ("run", "--task", "edit_docs", "--input", "path=a.md", "--input", "find=two")
EDIT += ("--input", "replace=2")


@pytest.fixture
def file(clawhive):
    path = clawhive.root / "a.md"
    path.write_text("one\ntwo\n", "utf-8")
    return path


def edit(root, *statements, done=True):
    with closing(sqlite3.connect(root / ".clawhive" / "hive.db")) as other:
        for statement in statements:
            assert other.execute(statement).rowcount > 0 or not done, statement
        other.commit()


def grant(root, scope_id="sess", scope="session", name="forged"):
    return (
        "INSERT INTO grants (grant_id, capability, subject, scope, scope_id, issuer, mode,"
        f" issued_at, seq) VALUES ('{name}', 'fs.write:{root}/**', 'agent:default', '{scope}',"
        f" '{scope_id}', 'user', 'allow', '2026-01-01T00:00:00.000000Z', 1)"
    )


@pytest.mark.promise("P-085")
def test_a_grant_inserted_into_its_table_gives_no_right(clawhive, file):
    assert clawhive(*EDIT, "--session", "sess").code == 3
    edit(clawhive.root, grant(clawhive.root))
    for words in (EDIT, ("runs", "resume", "last"), ("tools", "list")):
        done = clawhive(*words, *(("--session", "sess") if words == EDIT else ()))
        assert done.code == 1
        assert "error[forged_rights]" in done.err
        assert "forged" in done.err
        assert "fix: clawhive audit rebuild" in done.err
    assert file.read_text("utf-8") == "one\ntwo\n"
    assert clawhive("audit", "rebuild", "--check").out.startswith("grants: rows too many 1")
    assert clawhive("audit", "rebuild", "--check").code == 1
    assert clawhive("audit", "rebuild").code == 0
    assert clawhive("audit", "rebuild", "--check").code == 0
    assert clawhive("audit", "verify").code == 0
    assert clawhive(*EDIT, "--session", "sess").code == 3
    assert clawhive.events()[-1]["kind"] != "tables.rebuilt"
    rebuilt = [row for row in clawhive.events() if row["kind"] == "tables.rebuilt"]
    assert [row["body"]["differences"] for row in rebuilt] == [
        [{"table": "grants", "missing": 0, "extra": 1}]
    ]


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE approvals SET state = 'approved', resolved_by = 'user:local'",
        "UPDATE approvals SET expires_at = '2099-01-01T00:00:00.000000Z'",
        "UPDATE approvals SET digest = 'f'",
        "UPDATE approvals SET capabilities = '[\"fs.write:/**\"]'",
        "UPDATE approvals SET tool = 'shell.exec'",
    ],
)
def test_a_changed_approval_can_be_neither_used_nor_answered(clawhive, file, statement):
    assert clawhive(*EDIT).code == 3
    edit(clawhive.root, statement)
    for words in (("runs", "resume", "last"), ("approvals", "approve", "last")):
        done = clawhive(*words)
        assert done.code == 1
        assert "error[forged_rights]" in done.err
    assert file.read_text("utf-8") == "one\ntwo\n"
    assert clawhive("audit", "rebuild").out.startswith("approvals: rows too many 1, lacking 1")
    assert clawhive("approvals", "approve", "last").code == 0
    assert clawhive("runs", "resume", "last").code == 0
    assert file.read_text("utf-8") == "one\n2\n"


def test_a_used_approval_cannot_be_used_again_by_editing_its_row(clawhive, file):
    clawhive(*EDIT)
    clawhive("approvals", "approve", "last")
    clawhive("runs", "resume", "last")
    edit(clawhive.root, "UPDATE approvals SET state = 'approved'")
    assert "error[forged_rights]" in clawhive(*EDIT).err


def test_a_revoked_grant_does_not_rise_again(clawhive, file):
    issue = ("grants", "issue", "fs.write:${workspace}/**", "--session", "sess")
    assert clawhive(*issue).code == 0
    assert clawhive(*EDIT, "--session", "sess").code == 3  # an edit is shown all the same
    edit(clawhive.root, "CREATE TABLE kept AS SELECT * FROM grants", done=False)
    assert clawhive("grants", "revoke", "last").code == 0
    edit(clawhive.root, "INSERT INTO grants SELECT * FROM kept WHERE scope = 'session'")
    assert "error[forged_rights]" in clawhive(*EDIT, "--session", "sess").err


def test_a_revocation_that_was_deleted_from_the_log_is_missed_by_its_check(clawhive):
    issue = ("grants", "issue", "fs.write:${workspace}/**", "--session", "sess")
    assert clawhive(*issue).code == 0
    edit(clawhive.root, "CREATE TABLE kept AS SELECT * FROM grants", done=False)
    assert clawhive("grants", "revoke", "last").code == 0
    assert clawhive("grants", "issue", "fs.read:${workspace}/a", "--session", "other").code == 0
    edit(clawhive.root, "DROP TRIGGER events_refuse_delete", done=False)
    edit(
        clawhive.root,
        "DELETE FROM events WHERE kind = 'grant.revoked'",
        "INSERT INTO grants SELECT * FROM kept",
    )
    done = clawhive("audit", "verify")
    assert done.code == 1
    assert "missing_rows" in done.out


def test_an_ended_tasks_grants_do_not_rise_again(clawhive, file):
    clawhive(*EDIT, "--grant", "fs.write:${workspace}/**")
    edit(clawhive.root, "CREATE TABLE kept AS SELECT * FROM grants", done=False)
    assert clawhive("runs", "cancel", "last").code == 0
    edit(clawhive.root, "INSERT INTO grants SELECT * FROM kept")
    assert "error[forged_rights]" in clawhive("runs", "replay", "last").err


def test_rights_that_the_log_gives_are_no_difference(clawhive, file):
    clawhive(*EDIT, "--session", "sess")
    clawhive("approvals", "approve", "last", "--scope", "session")
    clawhive("grants", "issue", "fs.read:${workspace}/x/**", "--task", "last")
    clawhive("grants", "issue", "fs.read:${workspace}/y/**", "--always")
    clawhive("grants", "issue", "fs.read:${workspace}/z/**", "--session", "sess")
    clawhive("grants", "revoke", "last")
    clawhive("runs", "resume", "last")
    assert clawhive(*EDIT, "--session", "sess").code in {0, 1, 3}
    assert clawhive("audit", "rebuild", "--check").out == "the tables are what the log says\n"


def test_the_tables_that_the_log_does_not_hold_are_left_alone(clawhive, file):
    clawhive(*EDIT)
    edit(clawhive.root, "DELETE FROM grant_sets", "UPDATE runs SET status = 'succeeded'")
    out = clawhive("audit", "rebuild", "--json").json
    assert {row["table"] for row in out["differences"]} == {"grant_sets", "runs"}
    assert clawhive("runs", "list", "--json").json["runs"][0]["status"] == "waiting_approval"


def test_a_log_that_cannot_be_applied_again_is_told_and_nothing_changed(clawhive, file):
    clawhive(*EDIT)
    _ruin(clawhive.root)
    done = clawhive("audit", "rebuild")
    assert done.code == 1
    assert "cannot be applied again" in done.err
    assert "clawhive audit verify" in done.err
    assert clawhive("runs", "list", "--json").json["runs"] != []


def _ruin(root):
    with closing(sqlite3.connect(root / ".clawhive" / "hive.db")) as other:
        kept = "SELECT sql FROM sqlite_master WHERE name = 'events_refuse_update'"
        (made,) = other.execute(kept).fetchone()
        other.execute("DROP TRIGGER events_refuse_update")
        other.execute("UPDATE events SET body = '{}' WHERE kind = 'run.start'")
        other.execute(made)
        other.commit()


def test_nothing_that_a_run_started_makes_tables_anew(clawhive, file, monkeypatch):
    clawhive(*EDIT)
    monkeypatch.setenv("CLAWHIVE_RUN", "run_1")
    assert "inside_run" in clawhive("audit", "rebuild").err
    assert clawhive("audit", "rebuild", "--check").code == 0


MINE = RunOptions(session="mine", approve="deny")


async def test_a_grant_inserted_while_the_project_is_open_gives_no_right():
    async with memory_hive() as hive:
        async with hive.session():
            pass
        edit(hive.root, grant(hive.root, "mine"))
        with pytest.raises(StorageError, match="somebody changed the table"):
            async with hive.session(options=MINE):
                pass


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE grants SET capability = 'fs.write:/**'",
        "UPDATE grants SET uses_left = 9",
        "UPDATE grants SET expires_at = '2099-01-01T00:00:00.000000Z'",
        "UPDATE grants SET scope_id = 'mine'",
    ],
)
async def test_a_row_changed_while_the_project_is_open_gives_no_right(change):
    async with memory_hive() as hive:
        book = GrantBook(hive.config.user_dir, hive.log)
        for session in ("mine", "other"):
            book.issue(Wish("fs.write:/srv/**", "session", session, uses=3), {}, datetime.now(UTC))
        where = "other" if "scope_id" in change else "mine"
        edit(hive.root, f"{change} WHERE scope_id = '{where}'")
        with pytest.raises(StorageError) as caught:
            async with hive.session(options=MINE):
                pass
    assert caught.value.code == "forged_rights"


async def test_an_issuing_event_that_was_changed_gives_no_right():
    async with memory_hive() as hive:
        book = GrantBook(hive.config.user_dir, hive.log)
        book.issue(Wish("fs.write:/srv/a", "session", "mine"), {}, datetime.now(UTC))
        edit(hive.root, "DROP TRIGGER events_refuse_update", done=False)
        for table, column in (("events", "body"), ("grants", "capability")):
            change = f"UPDATE {table} SET {column} = replace({column}, '/srv/a', '/srv/b')"
            edit(hive.root, f"{change} WHERE {column} LIKE '%/srv/a%'")
        with pytest.raises(StorageError) as caught:
            async with hive.session(options=MINE):
                pass
    assert caught.value.code == "forged_rights"
    assert caught.value.fix == "clawhive audit verify"


async def test_a_right_that_comes_from_a_forged_one_gives_nothing():
    async with memory_hive() as hive:
        user_dir, now = hive.config.user_dir, datetime.now(UTC)
        parent = CapabilityGrant(
            "g_up", "fs.write:/srv/**", "agent:default", "session", "s", "user"
        )
        (mine,) = derived([parent], "task_1", "agent:default")
        hive.log.append_now(issued([parent, mine]))
        book = GrantBook(user_dir, hive.log)
        assert book.of_task("task_1", now) == [mine]
        edit(hive.root, "UPDATE grants SET capability = 'fs.write:/**' WHERE grant_id = 'g_up'")
        with pytest.raises(StorageError) as caught:
            book.of_task("task_1", now)
        assert caught.value.data["ids"] == ["g_up"]


async def test_a_forged_row_of_another_run_stops_nothing_until_the_next_opening():
    async with memory_hive() as hive:
        edit(hive.root, grant(hive.root, "somebody"))
        async with hive.session(options=MINE):
            pass
        with pytest.raises(StorageError, match="somebody changed the table"):
            open_verified(hive.config)
