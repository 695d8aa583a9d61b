import subprocess
import sys
from contextlib import closing

import pytest

from clawhive_core.config.database_keys import DatabaseKeys
from clawhive_core.model.events import Event
from clawhive_core.storage.sqlite.log import EventLog
from tests.harness import verify

WRITE = """
import sys
from clawhive_core.storage.sqlite.log import EventLog
from clawhive_core.model.events import Blob, Event

log = EventLog.open(sys.argv[1])
sys.stdin.readline()
for number in range(int(sys.argv[3])):
    body = {"n": number, "output": Blob("x" * (number % 1000))}
    (seq,) = log.append_now(Event("a", body, run_id=sys.argv[2]), sync=number % 5 == 0)
    print(seq, flush=True)
log.close()
"""


def start(path, name, count):
    process = subprocess.Popen(
        [sys.executable, "-c", WRITE, str(path), name, str(count)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        encoding="utf-8",
    )
    process.stdin.write("go\n")
    process.stdin.flush()
    return process


def test_four_processes_write_one_chain(path, tmp_path):
    writers = [start(path, f"run_{number}", 100) for number in range(4)]
    seqs = [int(line) for writer in writers for line in writer.communicate(timeout=600)[0].split()]
    assert [writer.returncode for writer in writers] == [0] * 4
    assert sorted(seqs) == list(range(1, 401))
    assert verify(path, tmp_path / "user").ok
    log = EventLog.open(path)
    for number in range(4):
        bodies = [stored.event.body["n"] for stored in log.events(run_id=f"run_{number}")]
        assert bodies == list(range(100))
    log.close()


@pytest.mark.parametrize("after", [1, 30, 200])
def test_what_a_killed_process_was_told_is_there_and_the_chain_holds(path, tmp_path, after):
    writer = start(path, "run_1", 100_000)
    acknowledged = [int(writer.stdout.readline()) for _ in range(after)]
    writer.kill()
    acknowledged += [int(line) for line in writer.stdout.read().split("\n")[:-1] if line]
    writer.wait(300)
    writer.stdin.close()
    writer.stdout.close()
    log = EventLog.open(path)
    there = {stored.seq for stored in log.events()}
    assert set(acknowledged) <= there
    log.close()
    assert verify(path, tmp_path / "user").ok


def test_a_database_that_another_process_begins_at_the_same_time_is_no_foreign_one(path, tmp_path):
    keys = DatabaseKeys(tmp_path / "user")

    class Late(DatabaseKeys):
        """Finds no key, and is overtaken by a process that makes one."""

        def find(self, database_id):
            found = super().find(database_id)
            if found is None:
                with closing(EventLog.open(path, keys=keys)) as other:
                    other.append_now(Event("a", {}))
            return found

    with closing(EventLog.open(path, keys=Late(keys.user_dir))) as log:
        assert not log.is_foreign
