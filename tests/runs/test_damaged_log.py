"""A database that lacks a table: the failure has a code, a place and a fix."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest

from clawhive_core.errors import ClawHiveError
from clawhive_core.testing import ScriptedModel, memory_hive

MODEL = "scripted:test"


@pytest.mark.parametrize("table", ["blobs", "events", "runs"])
async def test_a_run_on_a_log_without_a_table_says_what_is_wrong(table):
    async with memory_hive(adapters=[ScriptedModel(["one", "two"])]) as hive:
        run = await hive.run("go", model=MODEL)
        assert run["output"] == "one"
        with closing(sqlite3.connect(hive.log.path)) as database:
            database.execute(f"DROP TABLE {table}")
            database.commit()
        with pytest.raises(ClawHiveError) as caught:
            await hive.run("go", model=MODEL)
        assert caught.value.code in {"log_write_failed", "storage_failed"}
        assert "no such table" in caught.value.message
        assert table in caught.value.message
        assert caught.value.place == str(hive.log.path)
        assert "backup" in caught.value.fix
