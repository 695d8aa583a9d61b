"""kill -9 in the middle of a tool: shown as what it is, and nothing that was written is lost."""

import os
import select
import signal

import pytest

from tests.faults.conftest import ENTRY

pytestmark = pytest.mark.slow

CHILD = """
import sys
import anyio
from clawhive_core import Hive, ToolMeta
from clawhive_core.plugins.manager import open_plugins
from clawhive_core.plugins.manager import PluginManager, PluginOptions


class Hanging:
    provider_id = "hanging"

    async def list_tools(self):
        return [ToolMeta("hanging.tool", "Hang.", {"type": "object"}, "hanging", risk="safe")]

    async def invoke(self, tool_name, input, ctx):
        print("in the tool", flush=True)
        await anyio.sleep_forever()

    async def close(self):
        pass


class Given(PluginManager):
    def providers(self):
        return [Hanging()]


async def work():
    async with Hive.open(plugins=lambda config, env: Given((), PluginOptions())) as hive:
        async with hive.session() as session:
            await session.invoke("sandbox.write_files", {"files": {"a": "b"}})
            await session.invoke("hanging.tool", {})

anyio.run(work)
"""


@pytest.fixture
def killed(processes):
    process = processes.start(code=CHILD)
    assert process.stdout.readline() == b"in the tool\n"
    before = processes("runs", "list", "--json").json["runs"]
    assert [run["status"] for run in before] == ["running"]
    process.send_signal(signal.SIGKILL)
    assert processes.end(process).code == -signal.SIGKILL
    return processes


def test_a_killed_run_is_interrupted_and_its_intent_unknown(killed):
    run = killed("runs", "show", "last", "--json").json
    assert run["status"] == "interrupted"
    assert [step["status"] for step in run["steps"]] == ["succeeded", "unknown"]
    (invocation,) = run["steps"][1]["invocations"]
    assert (invocation["tool"], invocation["status"]) == ("hanging.tool", "unknown")
    assert invocation["end_at"] is None
    assert "interrupted" in killed("runs", "list").out


def test_the_log_of_a_killed_run_is_whole_and_goes_on(killed):
    assert killed("audit", "verify").code == 0
    assert killed.end(killed.snippet("print(1)")).out == "1\n"
    runs = killed("runs", "list", "--json").json["runs"]
    assert [run["status"] for run in runs] == ["succeeded", "interrupted"]
    assert killed("audit", "verify").code == 0


def test_a_killed_plan_repeats_as_far_as_it_came(processes):
    loop = "import sys\nprint('looping', file=sys.stderr)\nwhile True:\n    pass\n"
    process = processes.snippet(loop)
    while b"looping" not in process.stderr.readline():
        assert process.poll() is None
    process.send_signal(signal.SIGKILL)
    processes.end(process)
    done = processes("runs", "replay", "last", "--json")
    assert done.code == 0
    assert (done.json["ok"], done.json["complete"]) == (True, False)
    assert processes("runs", "show", "last", "--json").json["status"] == "interrupted"


def test_the_worker_of_a_killed_run_does_not_outlive_its_limits(processes, proc):
    process = processes.snippet("import sys\nprint('on', file=sys.stderr)\nwhile True:\n    pass\n")
    while b"on\n" not in process.stderr.readline():
        assert process.poll() is None
    workers = [os.pidfd_open(pid) for pid in proc(process.pid)]
    assert workers
    process.send_signal(signal.SIGKILL)
    for worker in workers:
        ended, _, _ = select.select([worker], [], [], 30)
        os.close(worker)
        assert ended


WRITE = ("tools", "call", "file.write", "--grant", "fs.write:${workspace}/notes/**", "--args")
LIST = ("tools", "call", "file.list", "--args", '{"path": "."}')
KILLED = """
import os, signal
from clawhive_core.execution.files import nofollow

nofollow.replace_with = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_killed_write_left_is_swept_at_the_next_opening_and_nothing_else(processes):
    notes = processes.root / "notes"
    notes.mkdir()
    kept = {".0123456789abcdef.tmp", ".a.txt.tmp", "a.txt.tmp", "b.txt"}
    for name in kept:
        notes.joinpath(name).write_text("theirs")
    argument = '{"path": "notes/a.txt", "text": "whole"}'
    killed = processes(*WRITE, argument, code=KILLED + ENTRY)
    assert killed.code == -signal.SIGKILL
    (left,) = {each.name for each in notes.iterdir()} - kept
    assert left.endswith(".tmp")
    assert processes(*LIST).code == 0
    assert {each.name for each in notes.iterdir()} == kept
    assert processes(*WRITE, argument).code == 0
    assert notes.joinpath("a.txt").read_text() == "whole"


def test_what_a_kill_left_of_a_new_log_and_of_the_users_files_is_swept(processes):
    config = processes.home / ".config" / "clawhive"
    config.mkdir(parents=True)
    folder = processes.root / ".clawhive"
    assert processes(*LIST).code == 0
    for name in (folder / ".hive.db.0123456789abcdef", config / ".trust-abcdefgh"):
        name.write_text("half")
    processes.root.joinpath("clawhive.toml").write_text("")
    assert processes("trust", "--yes").code == 0
    assert processes(*LIST).code == 0
    assert [each.name for each in folder.glob(".hive*")] == []
    assert [each.name for each in config.glob(".trust*")] == []
