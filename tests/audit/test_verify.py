import json
import shutil
import sqlite3
from contextlib import closing

import pytest

from clawhive_core.audit.checkpoints import Checkpoints
from clawhive_core.audit.verify import MOST_PROBLEMS
from clawhive_core.errors import StorageError
from clawhive_core.events.chain import COLUMNS, genesis, row_hash
from clawhive_core.model.events import Blob, Event
from clawhive_core.storage.sqlite.log import EventLog
from clawhive_core.storage.sqlite.schema import SELECT
from tests.harness import verify

TRIGGERS = (
    "events_refuse_update",
    "events_refuse_delete",
    "blobs_refuse_update",
    "blobs_refuse_delete",
)
ROWS = 20
SIGNED = 15


@pytest.fixture
def path(tmp_path):
    return tmp_path / "project" / ".clawhive" / "hive.db"


@pytest.fixture
def user_dir(tmp_path):
    return tmp_path / "user"


def write(path, rows=ROWS, name="a"):
    log = EventLog.open(path)
    for number in range(1, rows + 1):
        body = {"n": number, "output": Blob(f"{name} {number} " * 200)}
        log.append_now(Event(name, body, *(f"{column}_1" for column in COLUMNS[4:14])))
    log.close()
    return log.id


def sign(path, user_dir, seq=SIGNED, scheme="hmac-sha256"):
    log = EventLog.open(path)
    tip = log.read("SELECT hash FROM events WHERE seq = ?", (seq,))[0][0]
    checkpoints = Checkpoints(user_dir, log.id, path, scheme)
    checkpoints.write(seq, tip, "run_1")
    log.close()
    return checkpoints


@pytest.fixture
def signed(path, user_dir):
    write(path)
    return sign(path, user_dir)


def attack(path, *statements):
    """Change the file as somebody would who can write it."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        triggers = {
            name: connection.execute(
                "SELECT sql FROM sqlite_master WHERE name = ?", (name,)
            ).fetchone()[0]
            for name in TRIGGERS
        }
        for name in triggers:
            connection.execute(f"DROP TRIGGER {name}")
        for statement in statements:
            if callable(statement):
                statement(connection)
            else:
                connection.execute(statement)
        for sql in triggers.values():
            connection.execute(sql)


def found(path, user_dir):
    return [(problem.code, problem.seq) for problem in verify(path, user_dir).problems]


def test_an_untouched_log_is_ok(path, user_dir, signed):
    report = verify(path, user_dir)
    assert report.ok
    assert report.to_dict() == {
        "schema": "audit-verify/1",
        "ok": True,
        "database_id": signed.database_id,
        "rows": ROWS,
        "last_seq": ROWS,
        "checkpoint_seq": SIGNED,
        "window_rows": 5,
        "pruned": 0,
        "public_key": None,
        "problems": [],
        "notes": [],
    }


def test_the_report_names_the_rows_that_no_checkpoint_protects(path, user_dir, signed):
    assert verify(path, user_dir).lines() == [
        "20 rows, ok",
        "rows 16..20 are newer than the last checkpoint: if they were cut off, nothing would show",
    ]
    sign(path, user_dir, 19)
    assert verify(path, user_dir).lines()[1].startswith("row 20 is newer")
    sign(path, user_dir, 20)
    assert verify(path, user_dir).lines() == ["20 rows, ok"]


def test_an_empty_log_is_ok(path, user_dir):
    EventLog.open(path).close()
    report = verify(path, user_dir)
    assert (report.ok, report.rows, report.window_rows) == (True, 0, 0)
    assert report.lines() == ["0 rows, ok"]


VALUES = ("'x'", "NULL", "5", "1.5", "x'fffe'", "CAST(x'fffe' AS TEXT)")
NEVER_NULL = {"ts", "kind", "version", "body"}


@pytest.mark.parametrize(
    ("column", "value"),
    [
        (column, value)
        for column in COLUMNS[1:-2]
        for value in VALUES
        if value != "NULL" or column not in NEVER_NULL
    ],
)
def test_an_edited_column_is_found_in_its_row(path, user_dir, signed, column, value):
    attack(path, f"UPDATE events SET {column} = {value} WHERE seq = 7")
    assert found(path, user_dir) == [("altered", 7)]


def test_an_edited_body_is_found(path, user_dir, signed):
    attack(path, "UPDATE events SET body = replace(body, '7', '8') WHERE seq = 7")
    assert found(path, user_dir) == [("altered", 7)]


def test_an_added_space_is_found_although_the_json_is_the_same(path, user_dir, signed):
    attack(path, "UPDATE events SET body = replace(body, '\"n\":', '\"n\": ') WHERE seq = 7")
    assert found(path, user_dir) == [("altered", 7)]


def test_the_last_row_is_protected_too(path, user_dir, signed):
    attack(path, "UPDATE events SET status = 'x' WHERE seq = 20")
    assert found(path, user_dir) == [("altered", 20)]


def test_a_row_with_a_new_hash_breaks_the_link_of_the_next(path, user_dir, signed):
    def edit(connection):
        connection.execute("UPDATE events SET status = 'x' WHERE seq = 7")
        row = connection.execute(f"{SELECT} WHERE seq = 7").fetchone()
        connection.execute("UPDATE events SET hash = ? WHERE seq = 7", (row_hash(row),))

    attack(path, edit)
    assert found(path, user_dir) == [("broken_link", 8)]


def test_deleted_rows_are_found_where_they_stood(path, user_dir, signed):
    attack(path, "DELETE FROM events WHERE seq IN (7, 8)")
    assert found(path, user_dir) == [("missing_rows", 7)]


def test_a_deleted_first_row_is_found(path, user_dir, signed):
    attack(path, "DELETE FROM events WHERE seq = 1")
    assert found(path, user_dir) == [("missing_rows", 1)]


def test_a_deletion_that_is_closed_up_is_found(path, user_dir, signed):
    attack(
        path,
        "DELETE FROM events WHERE seq = 7",
        "UPDATE events SET seq = seq - 1 WHERE seq > 7",
    )
    assert found(path, user_dir)[0][1] == 7


def test_swapped_rows_are_found(path, user_dir, signed):
    attack(
        path,
        "UPDATE events SET seq = 100 WHERE seq = 7",
        "UPDATE events SET seq = 7 WHERE seq = 8",
        "UPDATE events SET seq = 8 WHERE seq = 100",
    )
    assert found(path, user_dir)[0][1] == 7


def test_an_inserted_row_is_found(path, user_dir, signed):
    columns = ", ".join(COLUMNS[1:])
    attack(path, f"INSERT INTO events SELECT 21, {columns}, NULL FROM events WHERE seq = 20")
    assert found(path, user_dir) == [("broken_link", 21), ("altered", 21)]


def test_a_row_before_the_first_is_found(path, user_dir, signed):
    columns = ", ".join(COLUMNS[1:])
    attack(path, f"INSERT INTO events SELECT -3, {columns}, NULL FROM events WHERE seq = 20")
    assert not verify(path, user_dir).ok


def test_a_cut_tail_is_found_up_to_the_last_checkpoint(path, user_dir, signed):
    attack(path, "DELETE FROM events WHERE seq > 10")
    report = verify(path, user_dir)
    assert [(p.code, p.seq) for p in report.problems] == [("cut_tail", 11)]
    assert "rows 11..15 are gone" in report.lines()[1]
    attack(path, "DELETE FROM events")
    assert found(path, user_dir) == [("cut_tail", 1)]


def test_a_cut_in_the_unprotected_window_is_what_the_report_warns_of(path, user_dir, signed):
    attack(path, "DELETE FROM events WHERE seq > 17")
    report = verify(path, user_dir)
    assert report.ok
    assert report.window_rows == 2


def rechain(connection, database_id):
    """Rewrite the whole chain, as somebody would who knows how it is made."""
    tip = genesis(database_id)
    for row in connection.execute(f"{SELECT} ORDER BY seq").fetchall():
        changed = [*row[:-2], tip]
        tip = row_hash([*changed, ""])
        connection.execute(
            "UPDATE events SET prev = ?, hash = ? WHERE seq = ?", (changed[-1], tip, row[0])
        )


def test_a_chain_that_was_rewritten_is_found_by_its_checkpoint(path, user_dir, signed):
    attack(
        path,
        "UPDATE events SET status = 'x' WHERE seq = 7",
        lambda connection: rechain(connection, signed.database_id),
    )
    assert found(path, user_dir) == [("checkpoint_mismatch", SIGNED)]


def test_a_changed_database_id_is_found(path, user_dir, signed):
    attack(path, "UPDATE meta SET value = 'db_other' WHERE key = 'database_id'")
    assert ("broken_link", 1) in found(path, user_dir)
    assert ("swapped", None) in found(path, user_dir)


def swap(path):
    for file in path.parent.glob("hive.db*"):
        file.unlink()
    write(path, name="other")


def test_another_log_in_its_place_is_found(path, user_dir, signed):
    swap(path)
    assert found(path, user_dir) == [("swapped", None)]
    assert [p.code for p in verify(path, signed).problems][:1] == ["swapped"]


def test_another_log_that_was_signed_since_is_noted(path, user_dir, signed):
    swap(path)
    sign(path, user_dir)
    report = verify(path, user_dir)
    assert report.ok
    assert "another log with at least 15 rows lay here before" in report.notes[0]


def test_a_log_that_moved_keeps_its_checkpoints(path, user_dir, signed, tmp_path):
    moved = tmp_path / "moved" / "hive.db"
    shutil.copytree(path.parent, moved.parent)
    assert verify(moved, user_dir).checkpoint_seq == SIGNED


def test_a_missing_and_an_altered_body_are_found_in_their_rows(path, user_dir, signed):
    reference = "(SELECT json_extract(body, '$.output.\"$blob\"') FROM events WHERE seq = {})"
    attack(
        path,
        f"DELETE FROM blobs WHERE sha256 = {reference.format(7)}",
        f"UPDATE blobs SET data = x'00' WHERE sha256 = {reference.format(9)}",
        f"UPDATE blobs SET data = 'text' WHERE sha256 = {reference.format(11)}",
    )
    assert found(path, user_dir) == [
        ("missing_body", 7),
        ("altered_body", 9),
        ("altered_body", 11),
    ]


def test_a_value_that_imitates_a_reference_is_no_missing_body(path, user_dir):
    log = EventLog.open(path)
    imitation = {"$blob": "0" * 64, "bytes": 1, "type": "json"}
    log.append_now(Event("a", {"plain": imitation, "output": Blob([imitation])}))
    log.close()
    assert verify(path, user_dir).ok


def test_a_forged_checkpoint_is_found_and_protects_nothing(path, user_dir, signed):
    fields = {**json.loads(signed.path.read_bytes()), "seq": 18}
    signed.path.write_text(json.dumps(fields) + "\n", encoding="utf-8")
    report = verify(path, user_dir)
    assert [(p.code, p.seq) for p in report.problems] == [("forged_checkpoint", 18)]
    assert report.checkpoint_seq is None


def test_a_wrong_key_is_found(path, user_dir, signed):
    signed.key_path.write_bytes(b"k" * 32)
    assert found(path, user_dir) == [("forged_checkpoint", SIGNED)]


def test_two_signed_checkpoints_that_contradict_each_other_are_found(path, user_dir, signed):
    signed.write(SIGNED, "0" * 64)
    assert found(path, user_dir) == [("contradicting_checkpoints", SIGNED)]


def test_a_damaged_checkpoint_line_is_noted(path, user_dir, signed):
    with signed.path.open("ab") as file:
        file.write(b'{"seq":')
    report = verify(path, user_dir)
    assert report.ok
    assert "line 2" in report.notes[0]


def test_a_removed_trigger_is_a_problem(path, user_dir, signed):
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("DROP TRIGGER events_refuse_update")
    report = verify(path, user_dir)
    assert [(each.code, each.message) for each in report.problems] == [
        ("altered_schema", "the trigger `events_refuse_update` is missing")
    ]


def test_a_ruined_log_stops_the_check_after_many_problems(path, user_dir):
    write(path, MOST_PROBLEMS + 50)
    attack(path, "UPDATE events SET status = 'x'")
    report = verify(path, user_dir)
    assert len(report.problems) == MOST_PROBLEMS
    assert report.problems[0].seq == 1
    assert "stopped" in report.notes[-1]


def test_a_log_can_be_checked_while_it_is_written(path, user_dir):
    log = EventLog.open(path)
    log.append_now(Event("a", {}))
    assert verify(path, user_dir).rows == 1
    log.append_now(Event("b", {}))
    assert verify(path, user_dir).rows == 2
    log.close()


def test_what_is_no_log_is_a_storage_error(path, user_dir, tmp_path):
    with pytest.raises(StorageError, match="no database yet"):
        verify(path, user_dir)
    text = tmp_path / "text.db"
    text.write_text("not a database " * 100, encoding="utf-8")
    with pytest.raises(StorageError):
        verify(text, user_dir)
    with closing(sqlite3.connect(tmp_path / "other.db")) as connection:
        connection.execute("CREATE TABLE other (a)")
    with pytest.raises(StorageError, match="no such table"):
        verify(tmp_path / "other.db", user_dir)


def test_references_are_found_wherever_they_stand_in_a_body(path, user_dir):
    log = EventLog.open(path)
    log.append_now(Event("a", {"new": [{"deep": {"output": Blob("x" * 1000)}}]}))
    log.close()
    attack(path, "DELETE FROM blobs")
    report = verify(path, user_dir)
    assert report.to_dict()["problems"] == [
        {
            "code": "missing_body",
            "seq": 1,
            "message": report.problems[0].message,
        }
    ]
    assert report.lines()[0] == "1 row, 1 problem"


def test_the_report_prints_the_public_key_that_signs(path, user_dir):
    write(path)
    checkpoints = sign(path, user_dir, scheme="ed25519")
    report = verify(path, user_dir)
    assert report.ok
    assert report.public_key == checkpoints.public_key()
    assert f"checkpoints up to row 15, public key {report.public_key}" in report.lines()


def test_old_checkpoints_verify_after_a_rotation_and_after_hmac(path, user_dir):
    write(path)
    sign(path, user_dir, 5)
    sign(path, user_dir, 10, scheme="ed25519").keys.rotate()
    checkpoints = sign(path, user_dir, 15, scheme="ed25519")
    assert {c.scheme for c in checkpoints.read().checkpoints} == {"hmac-sha256", "ed25519"}
    report = verify(path, user_dir)
    assert (report.ok, report.checkpoint_seq) == (True, 15)
