"""`.clawhive/hive.db` as somebody else left it: changed by the byte, by the row, and by rules."""

from __future__ import annotations

import asyncio  # noqa: TID253 - the project is made in one loop
import hashlib
import json
import random
import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from fuzzing.calls import Giving
from fuzzing.judging import Verdict, coded, require
from fuzzing.making import Case, changed, json_text, scalar, value

from clawhive_core.config import load_config
from clawhive_core.errors import ClawHiveError
from clawhive_core.events.chain import COLUMNS
from clawhive_core.hive.project_log import open_log, verify_log
from clawhive_core.hive.records import Records
from clawhive_core.storage.sqlite.migrations import database_id
from clawhive_core.testing import ScriptedModel, calling, memory_hive

KEEP = calling("fuzz.keep", {"path": "a.txt", "line": "x"})
SCRIPT = [calling("fuzz.any", {"q": 1}), "one", calling("fuzz.no", {}), "two", KEEP, "three"]
PLANTED = (
    "CREATE TRIGGER planted AFTER INSERT ON runs BEGIN DELETE FROM events; END",
    "CREATE VIEW v_planted AS SELECT * FROM events",
    "CREATE TABLE planted (a, b)",
    "DROP TABLE blobs",
    "DROP TABLE runs",
    "DROP VIEW v_runs",
    "DELETE FROM schema_versions",
    "PRAGMA user_version = 99",
    "PRAGMA application_id = 7",
    "PRAGMA encoding = 'UTF-16'",
    "CREATE INDEX planted_index ON events (hash)",
    "ALTER TABLE events ADD COLUMN planted TEXT",
)


class Databases:
    """Opened, verified, queried, compared and rebuilt; the chain is recomputed beside."""

    def __init__(self, folder: Path) -> None:
        self._root = folder / "project"
        home = folder / "home"
        (self._root / ".clawhive").mkdir(parents=True)
        self._file = self._root / ".clawhive" / "hive.db"
        self._base = folder / "base.db"
        asyncio.run(_record(self._base))
        env = {"XDG_CONFIG_HOME": str(home), "HOME": str(home)}
        self._config = load_config(root=self._root, env=env)
        with closing(sqlite3.connect(self._base)) as database:
            rows = "SELECT name, sql FROM sqlite_master WHERE type = ?"
            self._triggers = dict(database.execute(rows, ("trigger",)).fetchall())
            self._columns = {
                name: [row[1] for row in database.execute(f"PRAGMA table_info({name})")]
                for name, _ in database.execute(rows, ("table",)).fetchall()
            }
            counted = {
                name: database.execute(f"SELECT count(*) FROM {name}").fetchone()[0]
                for name in self._columns
            }
            self._rows = {name: count for name, count in counted.items() if count}
            self._bodies = database.execute("SELECT seq, body FROM events").fetchall()
        self._size = self._base.stat().st_size

    def make(self, rnd: random.Random) -> Case:
        found = [self._change(rnd) for _ in range(rnd.randint(1, 4))]
        return [*found, ["chain"]] if rnd.random() < 0.6 else found

    def _change(self, rnd: random.Random) -> list[Any]:
        pick = rnd.random()
        if pick < 0.35:
            seq, body = rnd.choice(self._bodies)
            try:
                said = json.dumps(changed(rnd, json.loads(body)))
            except (ValueError, RecursionError):
                said = "[" * 5_000
            return ["set", "events", "body", seq - 1, said]
        if pick < 0.7:
            table = rnd.choice(list(self._rows))
            column = rnd.choice(self._columns[table])
            given = scalar(rnd) if rnd.random() < 0.8 else json_text(rnd, value(rnd, 1))
            if isinstance(given, int) and abs(given) >= 2**63:
                given = float("inf")  # SQLite keeps no larger one
            given = bytes(rnd.randrange(256) for _ in range(9)) if rnd.random() < 0.1 else given
            return ["set", table, column, rnd.randrange(self._rows[table]), given]
        if pick < 0.78:
            table = rnd.choice(list(self._rows))
            return ["delete", table, rnd.randrange(self._rows[table])]
        if pick < 0.85:
            return ["sql", rnd.choice(PLANTED)]
        if pick < 0.95:
            return ["byte", rnd.randrange(self._size), rnd.randrange(256), rnd.choice((1, 1, 99))]
        size = rnd.choice((0, 1, 16, 100, 4_096, rnd.randrange(self._size)))
        garbage = ["wal", rnd.choice((1, 32, 5_000)), rnd.randrange(256)]
        return ["cut", size] if pick < 0.98 else garbage

    def judge(self, case: Case) -> Verdict:
        self._write(case)
        sound = _recomputed(self._file)
        refused = [not self._try(lambda: self._verify(sound)), not self._try(self._read)]
        return "refused" if any(refused) else "taken"

    def _write(self, case: Case) -> None:
        for each in self._file.parent.iterdir():
            each.unlink()
        self._file.write_bytes(self._base.read_bytes())
        with closing(sqlite3.connect(self._file)) as database, suppress(sqlite3.Error):
            for name in self._triggers:
                database.execute(f"DROP TRIGGER {name}")
            for operation in case:
                with suppress(sqlite3.Error, ValueError, TypeError, OverflowError):
                    _apply(database, operation)
            for statement in self._triggers.values():  # a forger puts them back
                database.execute(statement)
            database.commit()
            database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        data = bytearray(self._file.read_bytes())
        for name, *given in case:
            if name == "byte" and given[0] < len(data):
                data[given[0] : given[0] + given[2]] = bytes([given[1]]) * given[2]
            elif name == "cut":
                del data[given[0] :]
            elif name == "wal":
                Path(f"{self._file}-wal").write_bytes(bytes([given[1]]) * given[0])
        self._file.write_bytes(data)

    def _try(self, work: Callable[[], object]) -> bool:
        try:
            work()
        except ClawHiveError as error:
            coded(error)
            return False
        return True

    def _verify(self, sound: bool | None) -> None:
        report = verify_log(self._config)
        json.dumps(report.to_dict())
        report.lines()
        require(sound is not False or not report.ok, "verified, though its chain does not hold")

    def _read(self) -> None:
        log = open_log(self._config)
        try:
            for work in (
                log.require_rights,
                lambda: [
                    each.event.to_dict() if hasattr(each.event, "to_dict") else each
                    for each in log.events()
                ],
                lambda: _records(Records(log)),
                log.compare,
                log.rebuild,
                lambda: _records(Records(log)),
            ):
                self._try(work)
        finally:
            self._try(log.close)


def _records(records: Records) -> None:
    for page in (
        records.runs(), records.invocations(), records.approvals(), records.grants(),
        records.events(),
    ):  # fmt: skip
        for each in page:
            json.dumps(each.to_dict(), default=str)
    for run in records.runs():
        for step in records.steps(run.run_id):
            step.to_dict()


def _apply(database: sqlite3.Connection, operation: list[Any]) -> None:
    match operation:
        case ["set", table, column, row, given]:
            at = f"(SELECT rowid FROM {table} LIMIT 1 OFFSET {int(row)})"
            database.execute(f"UPDATE {table} SET {column} = ? WHERE rowid = {at}", (given,))
        case ["delete", table, row]:
            at = f"(SELECT rowid FROM {table} LIMIT 1 OFFSET {int(row)})"
            database.execute(f"DELETE FROM {table} WHERE rowid = {at}")
        case ["sql", statement]:
            database.execute(statement)
        case ["chain"]:
            _chain(database)
        case _:
            pass


def _chain(database: sqlite3.Connection) -> None:
    """Make the chain hold again, as whoever forges a log does."""
    names = ", ".join(COLUMNS)
    tip = hashlib.sha256(f"clawhive.log/1:{database_id(database)}".encode()).hexdigest()
    rows = database.execute(f"SELECT {names} FROM events ORDER BY seq").fetchall()
    for row in rows:
        facts = [*row[:-2], tip]
        with suppress(TypeError, UnicodeEncodeError):
            tip = _hash(facts)
        database.execute(
            "UPDATE events SET prev = ?, hash = ? WHERE seq = ?", (facts[-1], tip, row[0])
        )


def _hash(facts: list[Any]) -> str:
    said = json.dumps(facts, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(said.encode()).hexdigest()


def _recomputed(file: Path) -> bool | None:
    """Say whether the chain holds, by the page about the log alone; None where nobody can say."""
    try:
        with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as database:
            tip = hashlib.sha256(f"clawhive.log/1:{database_id(database)}".encode()).hexdigest()
            names, last = ", ".join(COLUMNS), 0
            for row in database.execute(f"SELECT {names} FROM events ORDER BY seq"):
                same = row[-2] == tip and row[-1] == _hash(list(row[:-1]))
                if not same or row[0] != last + 1:
                    return False
                tip, last = row[-1], row[0]
    except (sqlite3.Error, TypeError, ValueError, ClawHiveError, OSError):
        return None
    return True


async def _record(base: Path) -> None:
    """Write a log with runs, calls, a refusal, a grant and an approval that waits."""
    models = [ScriptedModel(SCRIPT)]
    async with memory_hive(providers=[Giving()], adapters=models) as hive:
        for prompt in ("go", "on", "keep it"):
            await hive.run(prompt, model="scripted:x")
        await hive.log.flush()
        with closing(sqlite3.connect(hive.log.path)) as one, closing(sqlite3.connect(base)) as two:
            one.backup(two)
            two.execute("PRAGMA journal_mode = DELETE")
