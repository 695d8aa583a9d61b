"""What a run costs does not depend on how many others live: counted in statements and rows."""

import contextlib
import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from clawhive_core.runs.record import watch
from clawhive_core.runs.requests import RunOptions
from clawhive_core.testing import memory_hive
from tests.harness import Provider, echo, verify

TABLES = ("grants", "grant_sets")
STEPS = 20
"""How many of SQLite's instructions count as one; an index of a hundred more rows costs some."""


class Counted:
    """Counts the statements of a connection, and what SQLite executes for them."""

    def __init__(self, *connections):
        self.statements, self.steps = 0, 0
        self._connections = connections

    def __enter__(self):
        for each in self._connections:
            each.set_trace_callback(self._traced)
            each.set_progress_handler(self._progressed, STEPS)
        return self

    def __exit__(self, *_):
        for each in self._connections:
            each.set_trace_callback(None)
            each.set_progress_handler(None, 0)

    def _traced(self, _):
        self.statements += 1

    def _progressed(self):
        self.steps += 1
        return 0


def counted(hive):
    return Counted(hive.log._readers.get(), hive.log._writer._connection)


def provider():
    return Provider().offer("demo.keep", echo, risk="guarded", effects={"path": "fs.write"})


OPTIONS = RunOptions(approve="deny", grants=("fs.write:${workspace}/docs/**",))


async def costs(hive):
    """Return the statements and steps of one call that writes, and of its run's start and end."""
    await hive.log.flush()
    with counted(hive) as start:
        session = hive.session(options=OPTIONS)
        opened = await session.__aenter__()
    with counted(hive) as call:
        await opened.invoke("demo.keep", {"path": "docs/a"})
        await hive.log.flush()
    with counted(hive) as end:
        await session.__aexit__(None, None, None)
    return [(each.statements, each.steps) for each in (start, call, end)]


async def test_a_start_a_call_and_an_end_cost_the_same_however_many_runs_live(monkeypatch):
    monkeypatch.setattr(watch, "POLL_SECONDS", 3600.0)  # its look is no part of a call
    async with memory_hive(providers=[provider()]) as hive:
        await costs(hive)  # what is done once
        alone = await costs(hive)
        async with contextlib.AsyncExitStack() as stack:
            for _ in range(60):
                living = await stack.enter_async_context(hive.session(options=OPTIONS))
                await living.invoke("demo.keep", {"path": "docs/b"})
            among = await costs(hive)
    for (statements, steps), (more, further) in zip(alone, among, strict=True):
        # What was queued meanwhile may be a commit of its own: some more, and never one a run.
        assert more <= statements + 10
        assert further <= steps + 15


def test_the_counting_connection_counts():
    with contextlib.closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("CREATE TABLE t(a)")
        connection.executemany("INSERT INTO t VALUES(?)", [(each,) for each in range(500)])
        with Counted(connection) as cost:
            connection.execute("SELECT count(*) FROM t WHERE a > 1").fetchall()
    assert cost.statements == 1
    assert cost.steps > 10


WORKER = """
import asyncio, sys
from clawhive_core.hive.hive import Hive
from clawhive_core.plugins.manager import PluginManager
from clawhive_core.plugins.contribution import Contribution
from clawhive_core.testing.scripted import ScriptedModel, answer, calling
from tests.harness import Provider, echo


class Model(ScriptedModel):
    async def chat(self, request):
        await asyncio.sleep(0.005)
        script = [*(calling("demo.say", {"n": n}) for n in range(3)), "Done."]
        return answer(script, 1 + (len(request.messages) - 1) // 2, request)


class Plugins(PluginManager):
    def __init__(self):
        super().__init__([])
        self.provider = Provider().offer("demo.say", echo)

    def providers(self):
        return [self.provider]

    def contributions(self, hook):
        model = Contribution("x", "x", Model([]))
        return [model] if hook == "clawhive_llm_adapters" else []


async def main(root, home, runs):
    plugins, env = Plugins(), {"HOME": home}
    async with Hive.open(root, env=env, plugins=lambda config, env: plugins) as hive:
        sys.stdin.readline()
        made = await asyncio.gather(
            *(hive.run("Say.", model="scripted:x") for _ in range(runs))
        )
        assert {run["status"] for run in made} == {"succeeded"}, made
    print(len(plugins.provider.calls))


asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
"""


@pytest.mark.slow
def test_four_processes_with_many_runs_each_lose_and_double_nothing(tmp_path):
    root, home = tmp_path / "project", tmp_path / "home"
    root.mkdir()
    home.mkdir()
    (root / "clawhive.toml").touch()
    env = {**os.environ, "PYTHONPATH": str(Path.cwd())}
    working = [
        subprocess.Popen(
            [sys.executable, "-c", WORKER, str(root), str(home), "25"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=env,
        )
        for _ in range(4)
    ]
    for each in working:
        each.stdin.write("go\n")
        each.stdin.flush()
    called = [int(each.communicate()[0]) for each in working]
    assert called == [75] * 4
    report = verify(root / ".clawhive" / "hive.db", home / ".config" / "clawhive")
    assert (report.ok, report.window_rows) == (True, 0)
    with contextlib.closing(sqlite3.connect(root / ".clawhive" / "hive.db")) as log:
        kinds = dict(log.execute("SELECT kind, count(*) FROM events GROUP BY kind").fetchall())
        once = "SELECT count(DISTINCT run_id || invocation_id) FROM events WHERE kind = ?"
        ends = log.execute(once, ("invocation.end",)).fetchone()[0]
        left = [log.execute(f"SELECT count(*) FROM {t}").fetchone()[0] for t in TABLES]
    assert kinds["run.start"] == kinds["run.end"] == 100
    assert kinds["invocation.start"] == kinds["invocation.end"] == ends == 300
    assert left == [0, 0]
