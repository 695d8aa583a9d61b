"""Appends of an event loop: those of one turn are one commit, in its own thread where it may."""

import asyncio
import os
import shutil
import sqlite3
import threading
from contextlib import closing

import pytest

from clawhive_core.errors import LogWriteFailed
from clawhive_core.model.events import Blob, Event
from clawhive_core.storage.sqlite.append import Append
from clawhive_core.storage.sqlite.log import EventLog
from clawhive_core.storage.sqlite.migrations import RoomSchema
from tests.harness import verify

COUNTERS = RoomSchema("counters", ("CREATE TABLE counters (n INTEGER);",))


@pytest.fixture(autouse=True)
def _patient(monkeypatch):
    """Let the writer not look by itself for what was posted, however slow the machine is."""
    monkeypatch.setattr("clawhive_core.storage.sqlite.writer._LINGER", 600)


def idle(log):
    """Return when the writer's thread has ended its turn: what woke us may still be at work."""
    with log._writer._turn:
        pass


def count(connection, _):
    connection.execute("INSERT INTO counters VALUES (1)")


async def commits(log, *appends):
    """Await appends of one turn; return for each commit whether this thread did it."""
    idle(log)
    begun = []

    def trace(sql):
        if sql.startswith("BEGIN"):
            begun.append(threading.get_ident())

    log._writer._connection.set_trace_callback(trace)
    await asyncio.gather(*appends)
    log._writer._connection.set_trace_callback(None)
    return [ident == threading.get_ident() for ident in begun]


HERE, WRITER = [True], [False]


def kinds(log):
    return [stored.event.kind for stored in log.events()]


async def test_appends_are_committed_by_their_loop_behind_what_was_posted(log, path, tmp_path):
    log.post(Event("a", {}))
    output = Blob("x" * 600)
    assert await commits(log, log.append(Event("b", {}), Event("c", {"output": output}))) == HERE
    assert kinds(log) == ["a", "b", "c"]
    assert await log.append(Event("d", {})) == [4]
    assert log.load(list(log.events())[2].event.body["output"]) == "x" * 600
    log.close()
    assert verify(path, tmp_path / "user").ok


async def test_a_caller_gives_others_their_turn_and_hears_that_it_is_cancelled(log):
    turns = []

    async def other():
        turns.append("other")
        task.cancel()

    async def lone():
        await log.append(Event("a", {}))
        turns.append("never")

    task = asyncio.ensure_future(lone())
    await asyncio.gather(task, other(), return_exceptions=True)
    assert (turns, kinds(log)) == (["other"], ["a"])


@pytest.mark.parametrize(
    "options", [{"sync": True}, {"effect": lambda _: None}], ids=["sync", "effect"]
)
async def test_what_waits_for_the_disk_or_runs_foreign_code_is_left_to_the_writer(log, options):
    assert await commits(log, log.append(Event("a", {}), **options)) == WRITER
    assert kinds(log) == ["a"]


async def test_much_is_left_to_the_writer(log):
    assert await commits(log, log.append(Event("a", {"output": Blob("x" * 100_000)}))) == WRITER
    assert await commits(log, log.append(Event("b", {"text": "x" * 100_000}))) == WRITER
    for number in range(70):
        log.post(Event("c", {"n": number}))
    assert await commits(log, log.append(Event("d", {}))) == WRITER
    assert kinds(log) == ["a", "b", *["c"] * 70, "d"]


async def test_appends_of_one_turn_share_a_commit(log, path, tmp_path):
    names = [f"e{number}" for number in range(8)]
    assert await commits(log, *(log.append(Event(name, {})) for name in names)) == HERE
    assert kinds(log) == names
    log.close()
    assert verify(path, tmp_path / "user").ok


async def test_much_of_one_turn_is_left_to_the_writer(log):
    much = [log.append(Event("a", {"text": "x" * 60_000})) for _ in range(7)]
    assert await commits(log, *much) == WRITER


async def test_appends_of_one_turn_wait_for_another_process_without_stopping_the_loop(log, path):
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        waiting = [asyncio.ensure_future(log.append(Event(name, {}))) for name in "abc"]
        for _ in range(10):
            await asyncio.sleep(0)
        assert not any(task.done() for task in waiting)
        other.execute("ROLLBACK")
    assert sorted(await asyncio.gather(*waiting)) == [[1], [2], [3]]


async def test_appends_of_one_turn_that_fail_all_say_so(log, monkeypatch):
    monkeypatch.setattr(log._writer, "_name", "/nowhere/hive.db")
    appends = [log.append(Event(name, {})) for name in "abc"]
    outcomes = await asyncio.gather(*appends, return_exceptions=True)
    assert [type(each) for each in outcomes] == [LogWriteFailed] * 3
    monkeypatch.undo()
    assert await log.append(Event("after", {})) == [1]


async def test_projections_are_left_to_the_writer_also_those_of_what_was_posted(open_log):
    log = open_log((COUNTERS,), {"counted": (count,)})
    assert await commits(log, log.append(Event("counted", {}))) == WRITER
    log.post(Event("counted", {}))
    assert await commits(log, log.append(Event("a", {}))) == WRITER
    assert kinds(log) == ["counted", "counted", "a"]
    assert len(log.read("SELECT * FROM counters")) == 2


async def test_listeners_are_told_by_the_writer(log):
    threads = []
    stop = log.listen(lambda _: threads.append(threading.get_ident()))
    await log.append(Event("a", {}))
    await log.flush()
    assert threads
    assert threading.get_ident() not in threads
    stop()
    assert await commits(log, log.append(Event("b", {}))) == HERE


async def test_what_was_posted_goes_first_also_where_another_process_writes(log, path):
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        log.post(Event("a", {}))
        waiting = asyncio.ensure_future(log.append(Event("b", {})))
        for _ in range(10):
            await asyncio.sleep(0)
        assert not waiting.done()
        other.execute("ROLLBACK")
    assert await waiting == [2]
    assert kinds(log) == ["a", "b"]


async def test_a_file_that_stays_locked_fails_the_append_after_some_time(log, path, monkeypatch):
    monkeypatch.setattr("clawhive_core.storage.sqlite.writer.BUSY_SECONDS", 0.02)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(LogWriteFailed, match="locked by another process"):
            await log.append(Event("lost", {}))
    assert await log.append(Event("after", {})) == [1]


async def test_while_the_writer_works_an_append_waits_for_its_turn(log):
    entered, release = threading.Event(), threading.Event()

    def hold(_):
        entered.set()
        release.wait(300)

    gate = asyncio.ensure_future(log.append(Event("gate", {}), effect=hold))
    await asyncio.to_thread(entered.wait, 300)
    waiting = asyncio.ensure_future(log.append(Event("a", {})))
    for _ in range(10):
        await asyncio.sleep(0)
    assert not waiting.done()
    release.set()
    await asyncio.gather(gate, waiting)
    assert kinds(log) == ["gate", "a"]


@pytest.mark.parametrize("posted", [True, False])
async def test_an_append_that_fails_says_so_and_a_lost_post_stops_the_log(log, path, posted):
    moved = path.with_name("moved.db")
    path.rename(moved)
    if posted:
        log.post(Event("lost", {}))
    with pytest.raises(LogWriteFailed, match="cannot be opened"):
        await log.append(Event("lost", {}))
    moved.rename(path)
    if posted:
        with pytest.raises(LogWriteFailed, match="cannot be opened"):
            await log.append(Event("after", {}))
    else:
        assert await log.append(Event("after", {})) == [1]


async def test_a_closed_log_refuses_an_append(log):
    log.close()
    with pytest.raises(LogWriteFailed, match="closed"):
        await log.append(Event("a", {}))


def test_an_interrupt_within_the_commit_ends_the_loop_and_keeps_the_log_usable(log, monkeypatch):
    class Interrupted:
        def __fspath__(self):
            raise KeyboardInterrupt

    monkeypatch.setattr(log._writer, "_name", Interrupted())
    with pytest.raises(KeyboardInterrupt):
        asyncio.run(log.append(Event("a", {})))
    monkeypatch.undo()
    assert asyncio.run(log.append(Event("b", {}))) == [1]


@pytest.mark.parametrize("alone", [True, False])
async def test_the_write_ahead_log_is_emptied_again_and_again(log, path, monkeypatch, alone):
    if not alone:
        log.listen(lambda _: None)  # so that the writer's thread commits
    monkeypatch.setattr("clawhive_core.storage.sqlite.writer.CHECKPOINT_PAGES", 40)
    sizes = set()
    for number in range(300):
        await log.append(Event("a", {"n": number, "text": "x" * 3000}))
        sizes.add(path.with_name("hive.db-wal").stat().st_size)
    assert max(sizes) < 100 * 4096


def test_the_write_ahead_log_that_killed_processes_left_is_emptied_at_the_next_opening(
    tmp_path, monkeypatch
):
    monkeypatch.setattr("clawhive_core.storage.sqlite.writer.CHECKPOINT_PAGES", 40)
    sizes = []
    for number in range(12):
        folder = tmp_path / str(number)
        log = EventLog.open(folder / "hive.db")
        for _ in range(2):  # the second begins when what came with the first is done
            log.append_now(Event("a", {"text": Blob({"text": os.urandom(10_000).hex()})}))
        shutil.copytree(folder, tmp_path / str(number + 1))  # as a kill would leave it
        log.close()
        sizes.append(folder.with_name(str(number + 1)).joinpath("hive.db-wal").stat().st_size)
    assert max(sizes) < 80 * 4096
    with closing(EventLog.open(tmp_path / "12" / "hive.db")) as log:
        assert len(list(log.events())) == 24


async def test_a_reader_that_holds_the_write_ahead_log_stops_nothing(log, path, monkeypatch):
    monkeypatch.setattr("clawhive_core.storage.sqlite.writer.CHECKPOINT_PAGES", 10)
    await log.append(Event("a", {}))
    with closing(sqlite3.connect(path, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM events").fetchone()
        for number in range(50):
            await log.append(Event("a", {"n": number}))
    assert len(kinds(log)) == 51


def test_appends_whose_loop_stops_before_their_commit_are_not_lost(log):
    async def leave():
        tasks = [asyncio.ensure_future(log.append(Event("a", {}))) for _ in range(3)]
        await asyncio.sleep(0)
        return tasks

    loop = asyncio.new_event_loop()
    left = loop.run_until_complete(leave())
    log.append_now(Event("b", {}))
    assert kinds(log) == [*["a"] * 3, "b"]
    loop.run_until_complete(asyncio.gather(*left))
    loop.close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_is_refused_instead_of_writing_with_its_parents_connection(log):
    child = os.fork()
    if child == 0:
        try:
            asyncio.run(log.append(Event("a", {})))
        except LogWriteFailed:
            os._exit(7)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


async def test_a_flush_commits_what_was_posted_where_it_is_called_and_else_touches_nothing(log):
    await log.append(Event("a", {}))
    assert await commits(log, log.flush()) == []
    log.post(Event("b", {}))
    assert await commits(log, log.flush()) == HERE
    assert kinds(log) == ["a", "b"]


async def test_a_flush_of_lost_events_says_so_where_it_is_called(log, path):
    moved = path.with_name("moved.db")
    path.rename(moved)
    log.post(Event("lost", {}))
    for _ in range(2):
        with pytest.raises(LogWriteFailed, match="cannot be opened"):
            await log.flush()
    moved.rename(path)


async def test_what_is_pressing_is_committed_before_what_may_wait(log):
    log.post(Event("a", {}), pressing=True)
    await log.post_or_wait(Event("b", {}))
    assert kinds(log) == ["a", "b"]
    await log.post_or_wait(Event("c", {}))
    with log._writer._turn:  # nothing is committed meanwhile
        log.post(Event("d", {}), pressing=True)
        assert log._writer.is_full(Append())
    await log.flush()
    assert kinds(log) == ["a", "b", "c", "d"]
    assert not log._writer.is_full(Append())


def put_pressing(log, event):
    """Queue an event as `post` does, without waking the writer's thread."""
    item = Append(log._rows([event]))
    item.is_pressing = True
    log._writer._queue.put(item)


async def test_what_is_pressing_presses_until_it_is_committed_and_not_only_taken(log):
    entered, release = threading.Event(), threading.Event()

    def hold(_):
        entered.set()
        release.wait(300)

    gate = asyncio.ensure_future(log.append(Event("gate", {}), effect=hold))
    put_pressing(log, Event("a", {}))
    await asyncio.to_thread(entered.wait, 300)
    waiting = asyncio.ensure_future(log.post_or_wait(Event("b", {})))
    for _ in range(10):
        await asyncio.sleep(0)
    assert not waiting.done()
    release.set()
    await asyncio.gather(gate, waiting)
    assert kinds(log) == ["a", "gate", "b"]


async def test_what_is_put_back_because_another_process_writes_still_presses(log, path):
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        put_pressing(log, Event("a", {}))
        waiting = asyncio.ensure_future(log.append(Event("b", {})))
        for _ in range(10):
            await asyncio.sleep(0)
        assert log._writer.is_full(Append())
        other.execute("ROLLBACK")
    await waiting
    assert kinds(log) == ["a", "b"]
