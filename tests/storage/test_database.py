import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from unittest.mock import Mock

import pytest

from clawhive_core.errors import DatabaseTooNew, StorageError
from clawhive_core.storage.sqlite import migrations
from clawhive_core.storage.sqlite.database import may_distrust_schemas, open_database, transaction
from clawhive_core.storage.sqlite.migrations import RoomSchema, database_id

NOTES = RoomSchema("notes", ("CREATE TABLE notes (text TEXT); CREATE INDEX n ON notes (text);",))
NOTES_2 = RoomSchema("notes", (*NOTES.migrations, "ALTER TABLE notes ADD COLUMN author TEXT;"))


def pragma(connection, name):
    return connection.execute(f"PRAGMA {name}").fetchone()[0]


def test_a_new_database_is_in_wal_mode_that_trusts_no_schema_with_normal_sync(tmp_path):
    with closing(open_database(tmp_path / "hive.db")) as connection:
        assert pragma(connection, "journal_mode") == "wal"
        assert pragma(connection, "trusted_schema") == (not may_distrust_schemas())
        assert pragma(connection, "synchronous") == 1


def test_the_folder_is_private_and_ignores_itself_in_git(tmp_path):
    path = tmp_path / "project" / ".clawhive" / "hive.db"
    open_database(path).close()
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert path.stat().st_mode & 0o777 == 0o600
    assert (path.parent / ".gitignore").read_text(encoding="utf-8") == "*\n"


def test_an_existing_gitignore_is_left_as_it_is(tmp_path):
    folder = tmp_path / ".clawhive"
    folder.mkdir()
    (folder / ".gitignore").write_text("hive.db\n", encoding="utf-8")
    open_database(folder / "hive.db").close()
    assert (folder / ".gitignore").read_text(encoding="utf-8") == "hive.db\n"


def test_a_folder_that_is_not_ours_gets_no_gitignore(tmp_path):
    open_database(tmp_path / "hive.db").close()
    assert not (tmp_path / ".gitignore").exists()


def test_each_room_is_migrated_from_where_it_stands(tmp_path):
    path = tmp_path / "hive.db"
    with closing(open_database(path, (NOTES,))) as connection:
        connection.execute("INSERT INTO notes VALUES ('kept')")
    with closing(open_database(path, (NOTES_2,))) as connection:
        assert connection.execute("SELECT text, author FROM notes").fetchall() == [("kept", None)]
        assert connection.execute("SELECT room, version FROM rooms").fetchall() == [("notes", 2)]


def test_a_migration_with_triggers_and_quoted_semicolons_is_split_correctly(tmp_path):
    script = """
    CREATE TABLE t (a TEXT DEFAULT ';'); -- a comment; with a semicolon
    CREATE TRIGGER r BEFORE DELETE ON t BEGIN SELECT RAISE(ABORT, 'no; never'); END;
    CREATE VIEW v AS SELECT a FROM t
    """
    with closing(open_database(tmp_path / "x.db", (RoomSchema("t", (script,)),))) as connection:
        connection.execute("INSERT INTO t DEFAULT VALUES")
        assert connection.execute("SELECT a FROM v").fetchall() == [(";",)]


def test_a_failing_migration_leaves_nothing_behind(tmp_path):
    path = tmp_path / "hive.db"
    bad = RoomSchema("bad", ("CREATE TABLE bad (a);", "CREATE TABLE bad (a);"))
    with pytest.raises(StorageError, match="already exists"):
        open_database(path, (NOTES, bad))
    with closing(open_database(path)) as connection:
        tables = connection.execute("SELECT name FROM sqlite_master WHERE name IN ('notes', 'bad')")
        assert tables.fetchall() == []


@pytest.mark.parametrize("read_only", [False, True])
def test_a_newer_database_is_refused_with_the_version_to_install(tmp_path, read_only):
    path = tmp_path / "hive.db"
    with closing(open_database(path, (NOTES_2,))) as connection:
        connection.execute("UPDATE rooms SET written_by = '9.8.7'")
    with pytest.raises(DatabaseTooNew) as caught:
        open_database(path, (NOTES,), read_only=read_only)
    assert caught.value.fix == "pip install 'clawhive>=9.8.7'"
    assert caught.value.code == "database_too_new"
    assert caught.value.place == str(path)


def test_rooms_that_this_code_does_not_know_are_no_obstacle(tmp_path):
    open_database(tmp_path / "hive.db", (NOTES,)).close()
    other = RoomSchema("other", ("CREATE TABLE other (a);",))
    open_database(tmp_path / "hive.db", (other,)).close()


def test_the_database_keeps_its_random_id(tmp_path):
    ids = []
    for name in ("a.db", "a.db", "b.db"):
        with closing(open_database(tmp_path / name)) as connection:
            ids.append(database_id(connection))
    assert ids[0] == ids[1] != ids[2]


@pytest.mark.parametrize("lacks", ["nothing", "links", "copies"])
def test_a_new_file_has_every_table_wherever_it_is_made(tmp_path, monkeypatch, lacks):
    if lacks == "links":
        monkeypatch.setattr(os, "link", Mock(side_effect=PermissionError))
    if lacks == "copies":
        monkeypatch.setattr(migrations, "CAN_COPY", False)
    with closing(open_database(tmp_path / "hive.db", (NOTES_2,))) as connection:
        assert connection.execute("SELECT room, version FROM rooms").fetchall() == [("notes", 2)]
        assert connection.execute("SELECT text, author FROM notes").fetchall() == []
        assert pragma(connection, "journal_mode") == "wal"
    assert [each.name for each in tmp_path.iterdir()] == ["hive.db"]


def test_a_transaction_that_raises_is_undone(tmp_path):
    def write_and_stop(connection):
        with transaction(connection):
            connection.execute("INSERT INTO notes VALUES ('lost')")
            raise ValueError("stop")

    with closing(open_database(tmp_path / "hive.db", (NOTES,))) as connection:
        with pytest.raises(ValueError, match="stop"):
            write_and_stop(connection)
        with transaction(connection):
            connection.execute("INSERT INTO notes VALUES ('kept')")
        assert connection.execute("SELECT text FROM notes").fetchall() == [("kept",)]


def test_a_file_that_is_no_database_is_an_error_with_place_and_fix(tmp_path):
    path = tmp_path / "hive.db"
    path.write_bytes(b"this is a text, not a database\n" * 200)
    with pytest.raises(StorageError) as caught:
        open_database(path)
    assert caught.value.data["cause"] == "not_a_database"
    assert caught.value.place == str(path)
    assert caught.value.fix
    assert path.read_bytes().startswith(b"this is a text")


def test_a_damaged_database_is_an_error_and_stays_untouched(tmp_path):
    path = tmp_path / "hive.db"
    open_database(path, (NOTES,)).close()
    whole = path.read_bytes()
    path.write_bytes(whole[:100] + b"\xff" * (len(whole) - 100))
    with pytest.raises(StorageError) as caught:
        open_database(path, (NOTES,))
    assert caught.value.data["cause"] == "corrupt"


def test_a_folder_in_its_place_is_an_error(tmp_path):
    (tmp_path / "hive.db").mkdir()
    with pytest.raises(StorageError, match="a folder stands in its place"):
        open_database(tmp_path / "hive.db")


def test_a_file_where_the_folder_belongs_is_an_error(tmp_path):
    (tmp_path / ".clawhive").write_text("", encoding="utf-8")
    with pytest.raises(StorageError) as caught:
        open_database(tmp_path / ".clawhive" / "hive.db")
    assert caught.value.place == str(tmp_path / ".clawhive" / "hive.db")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_permission_is_an_error(tmp_path):
    folder = tmp_path / "closed"
    folder.mkdir(mode=0o500)
    with pytest.raises(StorageError) as caught:
        open_database(folder / "hive.db")
    assert caught.value.data["cause"] == "no_permission"


def test_reading_only_makes_nothing(tmp_path):
    with pytest.raises(StorageError, match="no database yet"):
        open_database(tmp_path / ".clawhive" / "hive.db", read_only=True)
    assert list(tmp_path.iterdir()) == []


def test_a_read_only_connection_cannot_write(tmp_path):
    path = tmp_path / "hive.db"
    open_database(path, (NOTES,)).close()
    with (
        closing(open_database(path, read_only=True)) as connection,
        pytest.raises(sqlite3.OperationalError, match="readonly"),
    ):
        connection.execute("INSERT INTO notes VALUES ('x')")


def test_a_name_with_characters_of_a_uri_opens_that_file(tmp_path):
    path = tmp_path / "a?mode=memory#b%20c ü" / "hive.db"
    open_database(path, (NOTES,)).close()
    assert path.exists()


def test_several_processes_may_open_a_new_database_at_once(tmp_path):
    path = tmp_path / ".clawhive" / "hive.db"
    script = (
        "import sys\n"
        "from clawhive_core.storage.sqlite.database import open_database\n"
        "from clawhive_core.storage.sqlite.migrations import RoomSchema, database_id\n"
        "sys.stdin.readline()\n"
        f"c = open_database({str(path)!r}, (RoomSchema('notes', {NOTES_2.migrations!r}),))\n"
        "print(database_id(c))\n"
    )
    racers = [
        subprocess.Popen(
            [sys.executable, "-c", script],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
        )
        for _ in range(4)
    ]
    for racer in racers:
        racer.stdin.write("go\n")
        racer.stdin.flush()
    ids = {racer.communicate(timeout=600)[0] for racer in racers}
    assert [racer.returncode for racer in racers] == [0] * 4
    assert len(ids) == 1


def test_a_database_whose_folder_cannot_be_written_is_read_as_it_lies(tmp_path, monkeypatch):
    path = Path(tmp_path / "hive.db")
    with closing(open_database(path, (NOTES,))) as connection:
        connection.execute("INSERT INTO notes VALUES ('kept')")
    monkeypatch.setattr(os, "access", lambda *_: False)
    with closing(open_database(path, read_only=True)) as connection:
        assert connection.execute("SELECT text FROM notes").fetchall() == [("kept",)]
