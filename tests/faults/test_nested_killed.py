"""kill -9 while a parked tool is resumed: none of its calls is made twice, and the log verifies."""

import json
import random
import signal
import time

import pytest

pytestmark = pytest.mark.slow

PROGRAM = """
import sys
from pathlib import Path
import anyio
from clawhive_core import Hive, ToolMeta

OPEN = {"type": "object"}
word, run_id = sys.argv[1], sys.argv[2]

def append(path):
    with open(path, "a") as file:
        file.write("once\\n")
    return path

async def outer(ctx):
    run = ctx.run_id
    first = await ctx.call("local.note", {"path": f"{run}.first"})
    kept = await ctx.call("local.keep", {"path": f"{run}.kept"})
    last = await ctx.call("local.note", {"path": f"{run}.last"})
    return [first, kept, last]

def offer(hive, name, function, **facts):
    schema = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
    given = {"input_schema": OPEN if function is outer else schema, "risk": "safe", **facts}
    hive.tools.add(ToolMeta(name, "A tool.", provider_id="local", **given), function)

async def main():
    async with Hive.open() as hive:
        offer(hive, "local.note", append)
        offer(hive, "local.keep", append, risk="guarded", effects={"path": "fs.write"})
        offer(hive, "local.outer", outer, idempotent=True)
        for approval in hive.approvals.pending():
            hive.approvals.resolve(approval.approval_id, "approve", by="user:ana")
        print("ready", flush=True)
        if word == "run":
            run = await hive.run("go", model="scripted:script.json")
        else:
            run = await hive.resume(run_id)
        outer_step = run["steps"][0]
        print(run["status"], run["run_id"], outer_step["output_preview"], flush=True)

anyio.run(main)
"""

CALLS = ("first", "kept", "last")


@pytest.fixture
def house(processes):
    script = [{"tool_calls": [{"name": "local.outer", "input": {}}]}, "done"]
    (processes.root / "script.json").write_text(json.dumps(script), "utf-8")
    return processes


def work(house, word, run_id="-"):
    done = house.end(house.start(word, run_id, code=PROGRAM))
    assert done.code == 0, done.err
    return done.out.splitlines()[1].split(maxsplit=2)


def parked(house):
    status, run_id, _ = work(house, "run")
    assert status == "waiting_approval"
    return run_id


def begun(house, run_id):
    child = house.start("resume", run_id, code=PROGRAM)
    assert child.stdout.readline() == b"ready\n"
    return child


def times(house, run_id):
    """Return how often each call of the tool was made."""
    files = [house.root / f"{run_id}.{name}" for name in CALLS]
    return [len(each.read_text().splitlines()) if each.exists() else 0 for each in files]


@pytest.mark.timeout(900)  # some 80 processes, one after the other
def test_killed_at_25_moments_no_call_of_a_resumed_tool_is_made_twice(house):
    moments = random.Random(20_261_123)
    child = begun(house, parked(house))
    began = time.monotonic()
    assert child.stdout.readline().startswith(b"succeeded")
    whole = time.monotonic() - began
    finished = broken_off = 0
    for number in range(25):
        run_id = parked(house)
        assert times(house, run_id) == [1, 0, 0]
        child = begun(house, run_id)
        time.sleep(moments.uniform(0, whole))
        child.send_signal(signal.SIGKILL)
        house.end(child)
        shown = house("runs", "show", run_id, "--json").json
        if shown["status"] == "succeeded":
            finished += 1
        else:
            assert shown["status"] in {"waiting_approval", "interrupted"}
            status, _, output = work(house, "resume", run_id)
            assert status == "succeeded"
            if "unknown_outcome" in output:
                broken_off += 1
                assert max(times(house, run_id)) == 1
                continue
        assert times(house, run_id) == [1, 1, 1]
        if number % 5 == 0:
            assert house("runs", "replay", run_id).code == 0
    assert finished < 25
    assert broken_off < 25
    assert house("audit", "verify").code == 0
