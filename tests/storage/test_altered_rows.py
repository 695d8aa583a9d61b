"""Rows that ClawHive never wrote: a coded error, never another."""

import sqlite3
from contextlib import closing, suppress

import pytest

from clawhive_core.errors import ClawHiveError, StorageError
from clawhive_core.hive.records import Records
from clawhive_core.testing import ScriptedModel, memory_hive

DEEP = "[" * 5_000


def alter(path, table, column, value):
    with closing(sqlite3.connect(path)) as other:
        triggers = dict(
            other.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
        )
        for name in triggers:
            other.execute(f"DROP TRIGGER {name}")
        other.execute(f"UPDATE {table} SET {column} = ?", (value,))
        for statement in triggers.values():
            other.execute(statement)
        other.commit()


def read(log):
    """Yield what each reading of the log raises."""
    records = Records(log)
    for work in (
        lambda: list(log.events()),
        lambda: list(records.events()),
        lambda: [each.to_dict() for each in records.runs()],
        lambda: [each.to_dict() for each in records.invocations()],
        lambda: [each.to_dict() for each in records.approvals()],
        log.require_rights,
        log.compare,
        log.rebuild,
    ):
        try:
            work()
        except ClawHiveError as error:
            yield error


@pytest.mark.parametrize(
    ("table", "column", "value"),
    [
        ("events", "body", DEEP),
        ("events", "body", b"\xff\xfe"),
        ("events", "body", '{"error": 1, "status": []}'),
        ("runs", "error", "{"),
    ],
)
async def test_what_others_wrote_into_rows_is_told_with_a_code(table, column, value):
    async with memory_hive(adapters=[ScriptedModel(["one"])]) as hive:
        await hive.run("go", model="scripted:x")
        await hive.log.flush()
        alter(hive.log.path, table, column, value)
        found = list(read(hive.log))
        assert found
        assert {type(each) for each in found} <= {StorageError, *StorageError.__subclasses__()}
        altered = [each for each in found if each.data.get("cause") == "altered"]
        assert all("backup" in each.fix for each in altered)
        with suppress(ClawHiveError):
            hive.log.close()


async def test_a_file_whose_schema_is_no_text_cannot_be_opened(tmp_path):
    from clawhive_core.storage.sqlite.database import open_database

    path = tmp_path / "hive.db"
    with closing(sqlite3.connect(path)) as other:
        other.execute("CREATE TABLE rooms (name TEXT)")
        other.commit()
    data = path.read_bytes()
    path.write_bytes(data.replace(b"CREATE TABLE rooms", b"CREATE \xffABLE rooms"))
    with pytest.raises(StorageError):
        open_database(path, read_only=True)
