"""kill -9 a hundred times while four processes run, ask, answer and resume on one log."""

import json
import sqlite3
from collections import Counter
from contextlib import closing

import pytest

pytestmark = pytest.mark.slow

KILLS = 100

OF_APPROVALS = (
    "SELECT json_extract(body, '$.approval_id') FROM events"
    " WHERE kind = 'approval.resolved' AND status = '{}'"
)

PROGRAM = """
import os
import random
import signal
import sys
import time
from contextlib import suppress

import anyio
from clawhive_core import ClawHiveError, Hive, ToolMeta

KILLS, PROCESSES = int(sys.argv[1]), 4
SCHEMA = {"type": "object", "properties": {}}

def note(name, *words):
    # One write of a line under O_APPEND is whole or absent, however the process ends.
    file = os.open(name, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(file, (" ".join(words) + "\\n").encode())
    os.close(file)

async def effect(ctx):
    await anyio.sleep(0.01)  # time to be killed between the intent and the effect
    note("effects", ctx.invocation_id, ctx.step_id)
    return "done"

async def one(hive):
    '''Answer what waits, and go on with a run of anybody, or start one.'''
    for approval in hive.approvals.pending():
        with suppress(ClawHiveError):
            hive.approvals.resolve(approval.approval_id, "approve", by="user:ana")
            note("answered", approval.approval_id)
    waiting = hive.log.read("SELECT run_id FROM runs WHERE ended_at IS NULL ORDER BY random()")
    for row in waiting[:2]:
        with suppress(ClawHiveError):
            run = await hive.resume(row["run_id"])
            note("ran", run["run_id"], run["status"])
    if len(waiting) < 8:
        run = await hive.run("go", model="scripted:script.json")
        note("ran", run["run_id"], run["status"])

async def work(rounds):
    async with Hive.open() as hive:
        for name, risk in (("local.safe", "safe"), ("local.asked", "guarded")):
            meta = ToolMeta(name, "A tool.", SCHEMA, "local", risk=risk)
            hive.tools.add(meta, effect)
        for _ in range(rounds):
            await one(hive)

def born():
    pid = os.fork()
    if pid == 0:
        try:
            anyio.run(work, 10**9)
        finally:
            os._exit(7)
    return pid

anyio.run(work, 3)
moments = random.Random(20_261_122)
alive = [born() for _ in range(PROCESSES)]
try:
    for _ in range(KILLS):
        time.sleep(moments.uniform(0.01, 0.4))
        slot = moments.randrange(PROCESSES)
        os.kill(alive[slot], signal.SIGKILL)
        _, status = os.waitpid(alive[slot], 0)
        assert os.WIFSIGNALED(status), status
        alive[slot] = born()
finally:
    for pid in alive:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
anyio.run(work, 1)
"""


def lines(house, name):
    return [line.split() for line in (house.root / name).read_text("utf-8").splitlines()]


def rows(house, sql):
    with closing(sqlite3.connect(house.root / ".clawhive" / "hive.db")) as connection:
        return connection.execute(sql).fetchall()


@pytest.mark.promise("P-103")
@pytest.mark.timeout(400)
def test_a_hundred_kills_under_load_lose_nothing_and_repeat_nothing(processes):
    calls = [{"name": "local.safe", "input": {}}, {"name": "local.asked", "input": {}}]
    script = [*({"tool_calls": [each]} for each in calls), "done"]
    (processes.root / "script.json").write_text(json.dumps(script), "utf-8")
    process = processes.start(KILLS, code=PROGRAM)
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, (out, err)
    assert_nothing_acknowledged_is_lost(processes)
    assert_each_effect_has_its_intent_and_happened_once(processes)
    assert_no_approval_was_used_twice(processes)
    assert processes("audit", "verify").code == 0
    differences = processes("audit", "rebuild", "--json")
    assert differences.code == 0
    assert differences.json["differences"] == []


def assert_nothing_acknowledged_is_lost(house):
    ended = dict(rows(house, "SELECT run_id, status FROM events WHERE kind = 'run.end'"))
    told = [(run_id, status) for run_id, status in lines(house, "ran") if status == "succeeded"]
    assert len(told) > KILLS / 4
    assert [run_id for run_id, status in told if ended.get(run_id) != status] == []
    known = {row[0] for row in rows(house, "SELECT run_id FROM events WHERE kind = 'run.start'")}
    assert {run_id for run_id, _ in lines(house, "ran")} <= known
    approved = {row[0] for row in rows(house, OF_APPROVALS.format("approved"))}
    answered = {words[0] for words in lines(house, "answered")}
    assert len(answered) > KILLS / 4
    assert answered <= approved


def assert_each_effect_has_its_intent_and_happened_once(house):
    """An intent of a killed process is `unknown`, and nothing repeats it."""
    intents = dict(
        rows(house, "SELECT invocation_id, step_id FROM events WHERE kind = 'invocation.start'")
    )
    effects = lines(house, "effects")
    assert [words for words in effects if intents.get(words[0]) != words[1]] == []
    assert set(Counter(words[1] for words in effects).values()) == {1}
    assert len(effects) < len(intents)  # some were killed between the two


def assert_no_approval_was_used_twice(house):
    used = [row[0] for row in rows(house, OF_APPROVALS.format("consumed"))]
    assert len(used) == len(set(used)) > KILLS / 4
    states = dict(rows(house, "SELECT state, count(*) FROM approvals GROUP BY state"))
    assert states["consumed"] == len(used)
