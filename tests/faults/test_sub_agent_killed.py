"""kill -9 while a sub-agent works: its parent goes on with the sub-agent's own log."""

import json
import signal

import pytest

pytestmark = pytest.mark.slow

PROGRAM = """
import sys
from pathlib import Path
import anyio
from clawhive_core import Hive, ToolMeta

word, run_id = sys.argv[1], sys.argv[2]
SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}

def note(path):
    with open(path, "a") as file:
        file.write("once\\n")
    return path

async def wait(path):
    if not Path(path).exists():
        Path(path).write_text("")
        print("hanging", flush=True)
        await anyio.sleep_forever()
    return "there"

async def main():
    flags = {
        "agents.helper.description": "Helps.",
        "agents.helper.model": "scripted:child.json",
        "policy.allow": ["agent.spawn:helper", "tool.call:local.note"],
    }
    async with Hive.open(flags=flags) as hive:
        facts = {"risk": "safe", "idempotent": True}
        writes = ToolMeta("local.note", "A tool.", SCHEMA, "local", side_effects=True, **facts)
        hive.tools.add(writes, note)
        hive.tools.add(ToolMeta("local.wait", "A tool.", SCHEMA, "local", **facts), wait)
        if word == "run":
            run = await hive.run("go", model="scripted:parent.json")
        else:
            run = await hive.resume(run_id)
        print(run["status"], run["output"], flush=True)

anyio.run(main)
"""


@pytest.fixture
def house(processes):
    def call(name, **given):
        return {"tool_calls": [{"name": name, "input": given}]}

    child = [call("local.note", path="a"), call("local.wait", path="b"), "looked"]
    parent = [call("agent.helper", task="look"), "done"]
    (processes.root / "child.json").write_text(json.dumps(child), "utf-8")
    (processes.root / "parent.json").write_text(json.dumps(parent), "utf-8")
    return processes


def test_a_killed_sub_agent_is_gone_on_with_and_nothing_is_done_twice(house):
    process = house.start("run", "-", code=PROGRAM)
    assert process.stdout.readline().strip() == b"hanging"
    process.send_signal(signal.SIGKILL)
    house.end(process)
    runs = house("runs", "list", "--json").json["runs"]
    assert [run["status"] for run in runs] == ["interrupted"] * 2
    (parent,) = [run for run in runs if run["parent_run_id"] is None]
    (child,) = [run for run in runs if run["parent_run_id"] is not None]
    done = house.end(house.start("resume", parent["run_id"], code=PROGRAM))
    assert (done.code, done.out.split()) == (0, ["succeeded", "done"]), done.err
    assert (house.root / "a").read_text("utf-8") == "once\n"
    runs = house("runs", "list", "--json").json["runs"]
    assert {run["run_id"]: run["status"] for run in runs} == {
        parent["run_id"]: "succeeded",
        child["run_id"]: "succeeded",
    }
    assert house("audit", "verify").code == 0
