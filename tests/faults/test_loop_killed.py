"""kill -9 at any moment of a model's run, again and again: it ends the same, each effect once."""

import json
import sqlite3
from collections import Counter
from contextlib import closing

import pytest

PROGRAM = """
import os
import random
import signal
import sys
import time
import traceback

import anyio
from clawhive_core import Hive, LlmResponse, TextBlock, ToolCall, ToolMeta, ToolResult
from clawhive_core.plugins.contribution import Contribution
from clawhive_core.plugins.manager import PluginManager

KILLS, AT_ONCE = int(sys.argv[1]), int(sys.argv[2])
PLAIN = {"type": "object", "properties": {}}
OF = {"type": "object", "properties": {"of": {"type": "string"}}, "required": ["of"]}
EFFECTS = ("kept", "once", "asked")

def note(name, *words):
    # One write of a line under O_APPEND is whole or absent, however the process ends.
    file = os.open(name, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(file, (" ".join(words) + "\\n").encode())
    os.close(file)

def noted(name):
    with open(name) if os.path.exists(name) else open(os.devnull) as file:
        return [line.split() for line in file]

async def effect(ctx, name):
    await anyio.sleep(0.004)  # time to be killed between the intent and the effect
    note(name, ctx.run_id, ctx.invocation_id)
    await anyio.sleep(0.004)  # and between the effect and its record
    return "done"

async def kept(ctx):
    # Made twice it does once what it does: that is what `idempotent` promises.
    if all(words[0] != ctx.run_id for words in noted("kept")):
        await effect(ctx, "kept")
    return "done"

async def once(ctx):
    return await effect(ctx, "once")

async def asked(ctx):
    return await effect(ctx, "asked")

async def look(of, ctx):
    return sum(words[0] == ctx.run_id for words in noted(of))

class Model:
    '''Has the three done; where the outcome of a call is unknown, it looks and decides.'''

    name, host, default_host, supports_tools = "scripted", None, None, True

    async def chat(self, request):
        called, results = (
            [block for message in request.messages for block in message.content
             if isinstance(block, kind)]
            for kind in (ToolCall, ToolResult)
        )
        needs = dict.fromkeys(EFFECTS, "a call")
        for call, result in zip(called, results, strict=True):
            of = call.input.get("of", call.name.removeprefix("local."))
            if isinstance(result.structured, dict):
                if result.structured["error"] != "unknown_outcome":
                    return LlmResponse((TextBlock(f"{of}: {result.output}"),))
                needs[of] = "a look"
            else:
                needs[of] = "a call" if result.output == "0" else ""
        asked = [
            ("look", {"of": of}) if need == "a look" else (of, {})
            for of, need in needs.items() if need
        ]
        if not asked:
            return LlmResponse((TextBlock("Each is done: " + ", ".join(needs)),))
        calls = tuple(
            ToolCall(f"call_{len(called) + number}", f"local.{name}", given)
            for number, (name, given) in enumerate(asked[:AT_ONCE])
        )
        return LlmResponse(calls, "tool_use")

    async def close(self):
        pass

class Plugins(PluginManager):
    def contributions(self, hook):
        found = hook == "clawhive_llm_adapters"
        return [Contribution("bench", "bench", Model())] if found else []

def offer(hive, name, function, **facts):
    meta = {"risk": "safe", "input_schema": PLAIN, **facts}
    hive.tools.add(
        ToolMeta(f"local.{name}", "A tool.", provider_id="local", **meta), function
    )

async def work():
    '''Bring what was broken off to its end, or else one run from its start.'''
    async with Hive.open(plugins=lambda config, env: Plugins([])) as hive:
        offer(hive, "kept", kept, idempotent=True)
        offer(hive, "once", once)
        offer(hive, "asked", asked, risk="guarded")
        offer(hive, "look", look, input_schema=OF, idempotent=True)
        rows = hive.log.read("SELECT run_id FROM runs WHERE ended_at IS NULL")
        run_id, run = rows[0]["run_id"] if rows else None, None
        while run is None or run["status"] == "waiting_approval":
            for approval in hive.approvals.pending():
                hive.approvals.resolve(approval.approval_id, "approve", by="user:ana")
            if run_id is None:
                run = await hive.run("Go.", model="scripted:three", approve="park")
            else:
                run = await hive.resume(run_id)
            run_id = run["run_id"]
        note("ended", run_id, run["status"])

def born():
    pid = os.fork()
    if pid == 0:
        code = 7
        try:
            anyio.run(work)
            code = 0
        except BaseException:
            traceback.print_exc()
        os._exit(code)
    return pid

def ended(pid):
    _, status = os.waitpid(pid, 0)
    if os.WIFSIGNALED(status):
        return False
    assert os.waitstatus_to_exitcode(status) == 0, status
    return True

began = time.monotonic()
assert ended(born())
whole = time.monotonic() - began
moments, kills = random.Random(20_261_122), 0
while kills < KILLS:
    pid = born()
    time.sleep(moments.uniform(0, whole))
    os.kill(pid, signal.SIGKILL)
    kills += not ended(pid)
assert ended(born())

async def replayed():
    async with Hive.open(plugins=lambda config, env: Plugins([])) as hive:
        for row in hive.log.read("SELECT run_id FROM runs"):
            report = await hive.replay(row["run_id"])
            note("replayed", row["run_id"], str(report.ok and report.complete))

anyio.run(replayed)
"""

EVENTS = "SELECT run_id, status, json_extract(body, '$.output') FROM events WHERE kind = 'run.end'"
UNKNOWN = "SELECT count(*) FROM events WHERE kind = 'invocation.end' AND status = 'unknown'"


def lines(house, name):
    return [line.split() for line in (house.root / name).read_text("utf-8").splitlines()]


def rows(house, sql):
    with closing(sqlite3.connect(house.root / ".clawhive" / "hive.db")) as connection:
        return connection.execute(sql).fetchall()


@pytest.mark.promise("P-166")
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("kills", "at_once"),
    [
        (8, 1),
        pytest.param(200, 1, marks=pytest.mark.slow),
        pytest.param(200, 3, marks=pytest.mark.slow),
    ],
)
def test_a_run_that_is_killed_again_and_again_ends_the_same_with_each_effect_once(
    processes, kills, at_once
):
    process = processes.start(kills, at_once, code=PROGRAM)
    out, err = process.communicate(timeout=800)
    assert process.returncode == 0, (out, err)
    ends = rows(processes, EVENTS)
    assert len(ends) > kills / 50
    for _, status, output in ends:
        assert status == "succeeded"
        assert "Each is done: kept, once, asked" in json.dumps(output)
    runs = [run_id for run_id, _, _ in ends]
    for effect in ("kept", "once", "asked"):
        assert Counter(words[0] for words in lines(processes, effect)) == Counter(runs), effect
    assert Counter(map(tuple, lines(processes, "replayed"))) == Counter(
        (run, "True") for run in runs
    )
    assert kills < 100 or rows(processes, UNKNOWN)[0][0] > 0
    assert processes("audit", "verify").code == 0
