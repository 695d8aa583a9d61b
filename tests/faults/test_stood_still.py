"""A process that stands still for longer than its lease, and wakes."""

import signal
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest

from clawhive_core.config.load import open_config
from clawhive_core.hive.project_log import open_log
from clawhive_core.model.events import Event
from clawhive_core.protocols.ledger import RunIs
from clawhive_core.runs.record.ownership import STOPPED, recover

pytestmark = pytest.mark.slow

LEASE = 0.5
TIMES = 50

CHILD = f"""
import sys
from pathlib import Path
import anyio
from clawhive_core import Hive, ToolMeta, ToolResult
from clawhive_core.errors import RunError
from clawhive_core.plugins.manager import PluginManager, PluginOptions


class Ticking:
    provider_id = "ticking"

    async def list_tools(self):
        return [ToolMeta("ticking.tick", "Tick.", {{"type": "object"}}, "ticking", risk="safe")]

    async def invoke(self, tool_name, input, ctx):
        await anyio.sleep(0.01)
        return ToolResult(ctx.tool_call_id, "ticked")

    async def close(self):
        pass


class Given(PluginManager):
    def providers(self):
        return [Ticking()]


async def work():
    flags = {{"storage.lease_seconds": {LEASE}}}
    given = Given((), PluginOptions())
    async with Hive.open(flags=flags, plugins=lambda config, env: given) as hive:
        for _ in sys.stdin:  # it blocks the event loop, and no run is lost by that
            try:
                async with hive.session() as session:
                    print(session.run_id, flush=True)
                    sys.stdin.readline()
                    while not Path("stop").exists():
                        await session.invoke("ticking.tick", {{}})
                print("ended", flush=True)
            except RunError as error:
                print(error.code, flush=True)

anyio.run(work)
"""


@pytest.fixture
def log(processes):
    flags = {"storage.lease_seconds": LEASE}
    opened = open_log(open_config(processes.root, flags, processes.env))
    yield opened
    opened.close()


def say(process):
    process.stdin.write(b"\n")
    process.stdin.flush()


def begin(process):
    """Have it begin a run and call tools in it; return the run's id."""
    say(process)
    run_id = process.stdout.readline().decode().strip()
    say(process)
    return run_id


def freeze(log, process, run_id):
    """Stop a process amid its work for longer than its lease."""
    while not any(each.event.kind == "invocation.end" for each in log.events(run_id=run_id)):
        time.sleep(0.002)
    stop(process)
    while is_locked(log.path):  # it stands in a transaction, which nobody can take from it
        process.send_signal(signal.SIGCONT)
        time.sleep(0.005)
        stop(process)
    (worker,) = {row[0] for row in log.read("SELECT worker FROM runs WHERE run_id = ?", (run_id,))}
    while any(each.worker == worker and each.seconds_left > 0 for each in log.workers()):
        time.sleep(0.002)


def stop(process):
    """Stop a process, and return once it stands still."""
    process.send_signal(signal.SIGSTOP)
    while Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0] != "T":
        time.sleep(0.001)


def is_locked(path):
    with closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as connection:
        try:
            connection.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            return True
        connection.execute("ROLLBACK")
        return False


def take_up(log, run_id):
    body = {"reason": "it was resumed", "fence": 3, "worker": log.worker}
    taken = Event("run.status", body, run_id=run_id, status="running")
    (seq,) = log.append_now(taken, expects=[RunIs(run_id, STOPPED, 2)])
    return seq


def test_whose_run_was_taken_while_it_stood_still_writes_nothing_more(processes, log):
    from subprocess import PIPE

    process = processes.start(code=CHILD, stdin=PIPE)
    for _ in range(TIMES):
        run_id = begin(process)
        freeze(log, process, run_id)
        assert recover(log) == [run_id]
        seq = take_up(log, run_id)
        process.send_signal(signal.SIGCONT)
        assert process.stdout.readline() == b"run_busy\n"
        assert list(log.events(run_id=run_id, since=seq)) == []
        row = log.read("SELECT status, fence, worker FROM runs WHERE run_id = ?", (run_id,))
        assert tuple(row[0]) == ("running", 3, log.worker)
        log.append_now(Event("run.end", {"error": None}, run_id=run_id, status="cancelled"))


def test_who_wakes_before_its_run_was_taken_goes_on(processes, log):
    from subprocess import PIPE

    process, stop = processes.start(code=CHILD, stdin=PIPE), processes.root / "stop"
    for _ in range(TIMES):
        run_id = begin(process)
        freeze(log, process, run_id)
        process.send_signal(signal.SIGCONT)
        while not any(each.seconds_left > 0 for each in log.workers()):
            time.sleep(0.002)
        assert recover(log) == []
        stop.touch()
        assert process.stdout.readline() == b"ended\n"
        stop.unlink()
        row = log.read("SELECT status, fence FROM runs WHERE run_id = ?", (run_id,))
        assert tuple(row[0]) == ("succeeded", 1)
