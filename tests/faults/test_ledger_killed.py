"""Kills and many processes at the SQLite ledger: in each migration, in appends, in races."""

import signal
import sqlite3
import subprocess
import sys

import pytest

from clawhive_core.protocols.ledger import RunsWhere
from clawhive_core.storage.sqlite.log import EventLog
from clawhive_core.storage.sqlite.migrations import RoomSchema
from clawhive_core.storage.sqlite.schema import SCHEMA
from clawhive_core.storage.sqlite.tables import PROJECT
from tests.harness import verify

pytestmark = pytest.mark.slow

# It ends itself without a word at the statement whose number it gets, of all that opening makes.
DYING = """
import os, signal, sqlite3, sys
from clawhive_core.storage.sqlite import database
from clawhive_core.storage.sqlite.log import EventLog
from clawhive_core.storage.sqlite.tables import PROJECT

left = [int(sys.argv[2])]
real = sqlite3.connect


class Connection(sqlite3.Connection):
    def execute(self, sql, *given):
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        left[0] -= 1
        return super().execute(sql, *given)


sqlite3.connect = lambda *args, **named: real(*args, **{**named, "factory": Connection})
log = EventLog.open(sys.argv[1], PROJECT)
log.close()
"""


def made_before(path):
    """Make a database as each module's first migration left it, with one event."""
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.close()
    firsts = [RoomSchema(each.room, each.migrations[:1]) for each in (SCHEMA, *PROJECT.schemas)]
    from clawhive_core.storage.sqlite.database import open_database

    open_database(path, firsts).close()


def die(path, statement):
    done = subprocess.run(
        [sys.executable, "-c", DYING, str(path), str(statement)], capture_output=True, check=False
    )
    assert done.returncode in {0, -signal.SIGKILL}, done.stderr.decode()
    return done.returncode == 0


@pytest.mark.parametrize("begin", ["nothing", "the first version"])
def test_a_migration_that_is_killed_at_any_statement_is_finished_by_the_next_opening(
    begin, tmp_path
):
    survived, statement = False, 0
    whole = tmp_path / "whole.db"
    EventLog.open(whole, PROJECT).close()
    wanted = schema_of(whole)
    while not survived:
        path = tmp_path / f"{begin[:3]}{statement}" / "hive.db"
        path.parent.mkdir()
        if begin != "nothing":
            made_before(path)
        survived = die(path, statement)
        log = EventLog.open(path, PROJECT)
        assert log.compare() == ()
        log.require_rights()
        log.close()
        assert schema_of(path) == wanted, f"killed at statement {statement}"
        assert verify(path, tmp_path / "user").ok
        statement += 3 if begin == "nothing" else 2
    assert statement > 20


def schema_of(path):
    connection = sqlite3.connect(path)
    try:
        rows = connection.execute("SELECT type, name, sql FROM sqlite_master ORDER BY type, name")
        return [(kind, name, " ".join((sql or "").split())) for kind, name, sql in rows]
    finally:
        connection.close()


# Appends until it is killed, and says which run ids were acknowledged.
APPENDING = """
import sys
from clawhive_core.model.events import Event
from clawhive_core.protocols.ledger import RunFree
from clawhive_core.storage.sqlite.log import EventLog
from clawhive_core.storage.sqlite.tables import PROJECT

log, mine = EventLog.open(sys.argv[1], PROJECT), sys.argv[2]
number = 0
while True:
    run_id = f"run_{mine}_{number}"
    body = {"task": {"task_type": None}, "title": "", "artifacts": "", "parent_run_id": None}
    event = Event("run.start", body, trace_id="t", run_id=run_id, task_id="t",
                  conversation_id="c", principal="agent:default", status="running")
    log.append_now(event, expects=[RunFree(run_id)])
    print(run_id, flush=True)
    number += 1
"""


def test_what_was_acknowledged_is_there_after_eight_writers_were_killed(tmp_path):
    path = tmp_path / "hive.db"
    EventLog.open(path, PROJECT).close()
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", APPENDING, str(path), str(number)], stdout=subprocess.PIPE
        )
        for number in range(8)
    ]
    told = []
    for each in writers:
        told += [each.stdout.readline().strip() for _ in range(20)]
    for each in writers:
        each.kill()
        told += each.stdout.read().split(b"\n")[:-1]
        each.wait()
        each.stdout.close()
    log = EventLog.open(path, PROJECT)
    try:
        there = {each.run_id for each in log.find(RunsWhere())}
        assert {each.decode() for each in told if each} <= there
        assert log.compare() == ()
    finally:
        log.close()
    assert verify(path, tmp_path / "user").ok


# Takes what it can of grants with fifty uses, until none is left.
TAKING = """
import sys
from clawhive_core.model.events import Event
from clawhive_core.protocols.ledger import GrantsUsable, Unmet
from clawhive_core.storage.sqlite.log import EventLog
from clawhive_core.storage.sqlite.tables import PROJECT

log = EventLog.open(sys.argv[1], PROJECT)
print("ready", flush=True)
sys.stdin.readline()
taken = 0
try:
    while True:
        used = Event("grant.used", {"grant_ids": ["grant_r"]})
        log.append_now(used, expects=[GrantsUsable(("grant_r",))])
        taken += 1
except Unmet:
    print(taken)
log.close()
"""


def test_eight_processes_make_as_many_uses_of_a_grant_as_it_has(tmp_path):
    from clawhive_core.events.grants import issued
    from tests.harness import grant

    path = tmp_path / "hive.db"
    log = EventLog.open(path, PROJECT)
    log.append_now(issued([grant("fs.read:/a", grant_id="grant_r", uses=50)]))
    log.close()
    takers = [
        subprocess.Popen(
            [sys.executable, "-c", TAKING, str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        for _ in range(8)
    ]
    for each in takers:
        assert each.stdout.readline() == b"ready\n"
    taken = [int(each.communicate(b"\n", timeout=300)[0]) for each in takers]
    assert sum(taken) == 50
    assert verify(path, tmp_path / "user").ok
