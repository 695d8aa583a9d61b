"""A database whose tables, views, triggers and indexes are not those of its migrations."""

import sqlite3
from contextlib import closing

import pytest

from clawhive_core.errors import StorageError
from clawhive_core.model.events import Event
from clawhive_core.storage.sqlite.database import open_database
from clawhive_core.storage.sqlite.log import EventLog
from clawhive_core.storage.sqlite.migrations import RoomSchema, fingerprint_of
from clawhive_core.storage.sqlite.schema import SCHEMA
from clawhive_core.storage.sqlite.tables import PROJECT
from tests.harness import verify

REWRITES = (
    "CREATE TRIGGER helpful AFTER INSERT ON grants"
    " BEGIN UPDATE grants SET capability = 'fs.write:/**'; END"
)


def change(path, *statements):
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        for statement in statements:
            other.execute(statement)


def rewritten(path, name, old, new):
    """Change the stored SQL of an object, which SQLite then believes."""
    change(
        path,
        "PRAGMA writable_schema = ON",
        f"UPDATE sqlite_master SET sql = replace(sql, '{old}', '{new}') WHERE name = '{name}'",
    )


@pytest.fixture
def project(path):
    EventLog.open(path, PROJECT).close()
    return path


def reopened(path):
    log = EventLog.open(path, PROJECT)
    log.close()
    return log


def test_the_fingerprint_is_that_of_the_migrations():
    assert fingerprint_of((SCHEMA, *PROJECT.schemas)) == PROJECT.fingerprint


def test_a_database_that_nobody_changed_opens_again(project):
    reopened(project)


@pytest.mark.parametrize(
    ("statements", "says"),
    [
        ([REWRITES], "on `grants` lies the trigger `helpful` of others"),
        (["CREATE INDEX mine ON events (ts)"], "on `events` lies the index `mine` of others"),
        (
            ["CREATE TRIGGER t INSTEAD OF UPDATE ON v_grants BEGIN SELECT 1; END"],
            "on `v_grants` lies the trigger `t` of others",
        ),
        (["DROP TRIGGER events_refuse_update"], "the trigger `events_refuse_update` is missing"),
        (["DROP INDEX events_of_revoked"], "the index `events_of_revoked` is missing"),
        (["ALTER TABLE grants ADD COLUMN more"], "the table `grants` is not as it was made"),
        (
            [
                "DROP VIEW v_approvals",
                "CREATE VIEW v_approvals AS SELECT 'notes.txt' AS preview",
            ],
            "the view `v_approvals` is not as it was made",
        ),
        (
            ["ALTER TABLE rooms RENAME TO kept", "CREATE VIEW rooms AS SELECT * FROM kept"],
            "the table `rooms` is missing",
        ),
    ],
)
def test_an_object_that_is_not_ours_on_our_tables_is_refused(project, statements, says):
    change(project, *statements)
    with pytest.raises(StorageError) as caught:
        reopened(project)
    assert caught.value.code == "altered_schema"
    assert says in caught.value.data["problems"]
    assert caught.value.place == str(project)


def test_sql_that_was_edited_where_sqlite_keeps_it_is_refused(project):
    rewritten(project, "blobs_refuse_update", "NEW.sha256 <> OLD.sha256", "0")
    with pytest.raises(StorageError, match="`blobs_refuse_update` is not as it was made"):
        reopened(project)


def test_a_comment_does_not_hide_the_end_of_a_statement(tmp_path):
    with_lines = RoomSchema("notes", ("CREATE VIEW v AS SELECT 1 -- one\n, 2;",))
    path = tmp_path / "hive.db"
    open_database(path, (with_lines,)).close()
    rewritten(path, "v", "\n", " ")
    with pytest.raises(StorageError, match="the view `v` is not as it was made"):
        open_database(path, (with_lines,))


def test_white_space_and_quotes_around_names_make_no_difference(project):
    rewritten(project, "grants_of_scope", "grants(scope", '  \n "grants"(scope')
    reopened(project)


def test_an_older_database_is_compared_after_its_migration(tmp_path):
    path = tmp_path / "hive.db"
    first = RoomSchema("notes", ("CREATE TABLE notes (text TEXT);",))
    second = RoomSchema("notes", (*first.migrations, "ALTER TABLE notes ADD COLUMN author TEXT;"))
    open_database(path, (first,)).close()
    change(path, "CREATE TRIGGER t AFTER INSERT ON notes BEGIN DELETE FROM notes; END")
    with pytest.raises(StorageError, match="on `notes` lies the trigger `t` of others"):
        open_database(path, (second,))
    change(path, "DROP TRIGGER t")
    with closing(open_database(path, (second,))) as connection:
        assert connection.execute("SELECT count(author) FROM notes").fetchone() == (0,)


def test_tables_and_views_of_others_stop_nothing_and_are_noted(project, tmp_path):
    change(
        project,
        "CREATE TABLE theirs (a)",
        "CREATE VIEW seen AS SELECT * FROM events",
        "CREATE TRIGGER t AFTER INSERT ON theirs BEGIN SELECT 1; END",
        "CREATE INDEX i ON theirs (a)",
    )
    reopened(project)
    report = verify(project, tmp_path)
    assert report.ok
    assert [note.split(",")[0] for note in report.notes] == [
        "index of others",
        "table of others",
        "trigger of others",
        "view of others",
    ]


def test_a_table_of_others_that_refers_to_ours_runs_nothing_of_its_own(path):
    """Its rows would go with ours, and its triggers run, if foreign keys were enforced."""
    log = EventLog.open(path, PROJECT)
    given = dict.fromkeys(("grant_id", "subject", "scope_id", "issuer"), "x")
    facts = {**given, "capability": "fs.read:/a", "scope": "task", "mode": "allow"}
    log.append_now(Event("grant.issued", {"grants": [facts]}))
    log.close()
    change(
        path,
        "CREATE TABLE theirs (g REFERENCES grants (grant_id) ON DELETE CASCADE)",
        "INSERT INTO theirs VALUES ('x')",
        "CREATE TRIGGER t AFTER DELETE ON theirs BEGIN INSERT INTO grants SELECT 'more',"
        " 'fs.write:/', 's', 'task', 't', 'i', 'allow', NULL, NULL, NULL, NULL, NULL, NULL,"
        " '', 1; END",
    )
    log = EventLog.open(path, PROJECT)
    try:
        log.append_now(Event("grant.revoked", {"grant_id": "x", "reason": "no"}))
        assert log.read("SELECT grant_id FROM grants") == []
    finally:
        log.close()


def test_what_is_refused_at_opening_is_a_problem_of_the_check(project, tmp_path):
    change(project, REWRITES)
    report = verify(project, tmp_path)
    assert not report.ok
    assert [(each.code, each.message) for each in report.problems] == [
        ("altered_schema", "on `grants` lies the trigger `helpful` of others")
    ]
