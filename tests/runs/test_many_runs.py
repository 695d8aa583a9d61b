"""What a run costs does not depend on how many others live: counted in statements and rows."""

import contextlib
import sqlite3

from clawhive_core.runs.record import watch
from clawhive_core.runs.requests import RunOptions
from clawhive_core.testing import memory_hive
from tests.harness import Provider, echo

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
        assert more <= statements
        assert further <= steps + 10


def test_the_counting_connection_counts():
    with contextlib.closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("CREATE TABLE t(a)")
        connection.executemany("INSERT INTO t VALUES(?)", [(each,) for each in range(500)])
        with Counted(connection) as cost:
            connection.execute("SELECT count(*) FROM t WHERE a > 1").fetchall()
    assert cost.statements == 1
    assert cost.steps > 10
