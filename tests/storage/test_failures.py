import threading
from functools import partial

import anyio
import pytest

from clawhive_core.errors import LogWriteFailed
from clawhive_core.model.events import Blob, Event
from clawhive_core.storage.sqlite.log import EventLog
from tests.harness import verify

LARGE = "x" * 200_000


def limit(log, pages):
    """Let the file grow by so many pages only, as on a full disk."""

    def set_limit(connection):
        used = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count = {used + pages}").fetchone()

    log.append_now(effect=set_limit)


def kinds(log):
    return [stored.event.kind for stored in log.events()]


def assert_whole(path, tmp_path):
    report = verify(path, tmp_path / "user")
    assert report.problems == ()


def test_a_full_disk_fails_the_append_and_leaves_the_log_whole(log, path, tmp_path):
    log.append_now(Event("before", {}))
    limit(log, 5)
    with pytest.raises(LogWriteFailed, match="full") as caught:
        log.append_now(Event("lost", {}), Event("lost", {"output": Blob(LARGE)}))
    assert caught.value.data["cause"] == "full"
    assert caught.value.place == str(path)
    assert kinds(log) == ["before"]
    assert_whole(path, tmp_path)


def test_appending_works_again_when_there_is_space_again(log, path, tmp_path):
    limit(log, 5)
    with pytest.raises(LogWriteFailed):
        log.append_now(Event("lost", {"output": Blob(LARGE)}))
    limit(log, 5_000)
    assert log.append_now(Event("kept", {"output": Blob(LARGE)})) == [1]
    assert_whole(path, tmp_path)


async def test_a_failed_commit_is_told_to_every_waiter_of_its_batch(log):
    limit(log, 5)
    release, entered, failed = threading.Event(), anyio.Event(), []

    async def append(name, body, effect=None):
        try:
            await log.append(Event(name, body), effect=effect)
        except LogWriteFailed:
            failed.append(name)

    async with anyio.create_task_group() as group:
        group.start_soon(append, "gate", {}, lambda _: release.wait(300) and None)
        await anyio.lowlevel.checkpoint()
        for name in ("small", "large"):
            group.start_soon(append, name, {"output": Blob(LARGE if name == "large" else "")})
        await anyio.lowlevel.checkpoint()
        entered.set()
        release.set()
    assert "large" in failed
    assert sorted(failed + kinds(log)) == ["gate", "large", "small"]


async def test_after_a_lost_post_the_log_refuses_everything(open_log, path, tmp_path):
    log = open_log()
    log.append_now(Event("before", {}))
    limit(log, 5)
    log.post(Event("lost", {"output": Blob(LARGE)}))
    with pytest.raises(LogWriteFailed, match="full"):
        await log.flush()
    limits = (
        lambda: log.append_now(Event("after", {})),
        lambda: log.post(Event("after", {})),
        lambda: log.append_now(effect=lambda _: None),
    )
    for attempt in limits:
        with pytest.raises(LogWriteFailed, match="full"):
            attempt()
    assert kinds(log) == ["before"]
    again = EventLog.open(path)
    assert again.append_now(Event("after", {})) == [2]
    again.close()
    assert_whole(path, tmp_path)


def test_closing_tells_of_a_lost_post_that_nobody_has_heard_of(path):
    log = EventLog.open(path)
    limit(log, 5)
    log.post(Event("lost", {"output": Blob(LARGE)}))
    with pytest.raises(LogWriteFailed, match="full"):
        log.close()
    log.close()


def test_a_post_whose_projection_raises_is_a_lost_post(open_log):
    def fail(connection, stored):
        raise ZeroDivisionError

    log = open_log((), {"bad": (fail,)})
    log.post(Event("bad", {}))
    with pytest.raises(LogWriteFailed, match="ZeroDivisionError"):
        log.append_now(Event("a", {}), effect=lambda _: None) and log.append_now(Event("b", {}))


async def test_what_waits_behind_a_lost_post_is_refused_too(open_log):
    entered, release = threading.Event(), threading.Event()

    def fail(connection, stored):
        entered.set()
        release.wait(300)
        raise ZeroDivisionError

    log = open_log((), {"bad": (fail,)})
    log.append_now(Event("before", {}))
    log.post(Event("bad", {}))
    refused = []

    async def append():
        try:
            await log.append(Event("behind", {}))
        except LogWriteFailed as error:
            refused.append(error.message)

    await anyio.to_thread.run_sync(entered.wait, 300)
    async with anyio.create_task_group() as group:
        group.start_soon(append)
        await anyio.lowlevel.checkpoint()
        release.set()
    assert len(refused) == 1
    assert "ZeroDivisionError" in refused[0]
    assert kinds(log) == ["before"]


def test_a_database_that_became_read_only_fails_the_append(log):
    log.append_now(Event("before", {}))
    log.append_now(effect=lambda c: c.execute("PRAGMA query_only = ON") and None)
    with pytest.raises(LogWriteFailed, match="read-only") as caught:
        log.append_now(Event("lost", {}))
    assert caught.value.data["cause"] == "read_only"
    assert "writable" in caught.value.fix


@pytest.mark.parametrize("replacement", [None, b""])
def test_a_file_that_was_deleted_or_replaced_is_noticed(log, path, replacement):
    log.append_now(Event("before", {}))
    path.rename(path.with_name("moved.db"))
    if replacement is not None:
        path.write_bytes(replacement)
    with pytest.raises(LogWriteFailed, match="cannot be opened"):
        log.append_now(Event("lost", {}))
    path.with_name("moved.db").rename(path)
    assert log.append_now(Event("after", {})) == [2]


@pytest.mark.parametrize("statement", ["ROLLBACK", "COMMIT"])
def test_a_within_that_ends_the_transaction_keeps_nothing(log, path, tmp_path, statement):
    log.append_now(Event("before", {}))
    with pytest.raises(LogWriteFailed, match="ended its transaction") as caught:
        log.append_now(Event("lost", {}), effect=lambda c: c.execute(statement) and None)
    assert caught.value.fix == "Leave BEGIN, COMMIT and ROLLBACK to the log."
    assert "LogWriteFailed" not in caught.value.message
    assert log.append_now(Event("after", {})) == [2]
    assert kinds(log) == ["before", "after"]
    assert_whole(path, tmp_path)


def test_a_baseexception_of_within_reaches_its_caller_and_the_writer_lives(log):
    def leave(_):
        raise SystemExit(3)

    with pytest.raises(SystemExit):
        log.append_now(Event("lost", {}), effect=leave)
    assert log.append_now(Event("after", {})) == [1]


def test_posting_has_a_bound(log, monkeypatch):
    monkeypatch.setattr("clawhive_core.storage.sqlite.writer.BACKLOG", 10)
    entered, release = threading.Event(), threading.Event()

    def hold(_):
        entered.set()
        release.wait(300)

    waiting = threading.Thread(target=partial(log.append_now, Event("gate", {}), effect=hold))
    waiting.start()
    assert entered.wait(300)

    def post_without_end():
        for number in range(1000):
            log.post(Event("a", {"n": number}))

    with pytest.raises(LogWriteFailed, match="wait to be written"):
        post_without_end()
    release.set()
    waiting.join()
    log.append_now(Event("after", {}))
    assert kinds(log) == ["gate", *["a"] * 10, "after"]


def test_a_log_that_is_closing_takes_nothing_more_and_keeps_what_it_took(path):
    log = EventLog.open(path)
    entered, release, taken = threading.Event(), threading.Event(), []

    def hold(_):
        entered.set()
        release.wait(300)

    def post_without_end():
        while True:
            log.post(Event("late", {}))
            taken.append("late")

    waiting = threading.Thread(target=partial(log.append_now, Event("gate", {}), effect=hold))
    waiting.start()
    assert entered.wait(300)
    closing = threading.Thread(target=log.close)
    closing.start()
    with pytest.raises(LogWriteFailed, match="closed in this process"):
        post_without_end()
    release.set()
    waiting.join()
    closing.join()
    again = EventLog.open(path)
    assert kinds(again) == ["gate", *taken]
    again.close()
