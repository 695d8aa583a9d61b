import os
import sqlite3
import threading
from functools import partial

import anyio
import pytest

from clawhive_core.errors import ClawHiveError, LogWriteFailed, StorageError
from clawhive_core.events.chain import genesis, row_hash
from clawhive_core.model.canonical import digest
from clawhive_core.model.events import Blob, Event
from clawhive_core.storage.sqlite.log import EventLog
from clawhive_core.storage.sqlite.migrations import RoomSchema
from clawhive_core.storage.sqlite.schema import SELECT

COUNTERS = RoomSchema("counters", ("CREATE TABLE counters (name TEXT PRIMARY KEY, n INTEGER);",))


def rows(log):
    return [tuple(row) for row in log.read(f"{SELECT} ORDER BY seq")]


def assert_chain(log):
    tip = genesis(log.id)
    for number, row in enumerate(rows(log), 1):
        assert row[0] == number
        assert row[-2] == tip
        assert row[-1] == row_hash(row) == digest(list(row[:-1]))
        tip = row[-1]


async def test_append_returns_sequence_numbers_in_order(log):
    assert await log.append(Event("a", {}), Event("b", {})) == [1, 2]
    assert await log.append(Event("c", {})) == [3]
    assert [stored.event.kind for stored in log.events()] == ["a", "b", "c"]
    assert_chain(log)


async def test_an_event_is_read_back_as_it_was_appended(log):
    event = Event(
        "run.start",
        {"title": "ü 漢字 \U0001f41d \x00", "n": 1, "f": 0.5, "list": [True, None, {"a": []}]},
        trace_id="trace_1",
        run_id="run_1",
        task_id="task_1",
        step_id="step_1",
        invocation_id="inv_1",
        conversation_id="conv_1",
        principal="user:local",
        tool="file.read",
        provider_id="builtin",
        status="running",
        version=3,
    )
    await log.append(event)
    (stored,) = log.events()
    assert stored.event == event
    assert stored.ts.endswith("Z")
    assert len(stored.ts) == len("2026-01-01T00:00:00.000000Z")


def test_append_now_works_without_an_event_loop(log):
    assert log.append_now(Event("a", {}), sync=True) == [1]
    assert_chain(log)


def test_only_what_must_survive_a_power_cut_waits_for_the_disk(log):
    seen = []

    def look(connection):
        seen.append(connection.execute("PRAGMA synchronous").fetchone()[0])

    wanted = [False, True, True, False, False, True]
    for sync in wanted:
        log.append_now(Event("a", {}), sync=sync, effect=look)
    normal, full = 1, 2
    assert seen == [full if sync else normal for sync in wanted]


async def test_posted_events_are_committed_in_order_before_a_later_append(log):
    log.post(Event("a", {}), Event("b", {}))
    log.post(Event("c", {}))
    assert await log.append(Event("d", {})) == [4]
    assert [stored.event.kind for stored in log.events()] == ["a", "b", "c", "d"]


async def test_flush_returns_when_posted_events_are_there(log):
    for number in range(50):
        log.post(Event("a", {"n": number}))
    await log.flush()
    assert [stored.event.body["n"] for stored in log.events()] == list(range(50))
    assert_chain(log)


def test_posted_events_survive_closing(path):
    log = EventLog.open(path)
    for number in range(500):
        log.post(Event("a", {"n": number}))
    log.close()
    again = EventLog.open(path)
    assert sum(1 for _ in again.events()) == 500
    again.close()


def test_posted_events_are_committed_although_nobody_waits(log):
    told = threading.Event()
    log.listen(lambda _: told.set())
    log.post(Event("a", {}))
    assert told.wait(300)
    assert len(rows(log)) == 1


def test_what_is_posted_right_after_a_commit_is_committed_although_nobody_waits(log):
    told = threading.Event()
    log.listen(lambda events: events[-1].event.kind == "posted" and told.set())
    log.append_now(Event("a", {}))
    log.post(Event("posted", {}))
    assert told.wait(300)


def test_closing_twice_does_nothing_and_a_closed_log_refuses(path):
    log = EventLog.open(path)
    log.close()
    log.close()
    for attempt in (
        lambda: log.append_now(Event("a", {})),
        lambda: log.post(Event("a", {})),
    ):
        with pytest.raises(LogWriteFailed, match="closed"):
            attempt()
    with pytest.raises(StorageError):
        list(log.events())


async def test_many_producers_make_one_unbroken_chain(log):
    async def produce(name):
        for number in range(20):
            await log.append(Event("a", {"n": number}, run_id=name), sync=number % 7 == 0)

    async with anyio.create_task_group() as group:
        for producer in range(16):
            group.start_soon(produce, f"run_{producer}")
    assert len(rows(log)) == 320
    assert_chain(log)
    for producer in range(16):
        events = log.events(run_id=f"run_{producer}")
        assert [stored.event.body["n"] for stored in events] == list(range(20))


def test_logs_in_several_threads_on_one_file_make_one_chain(open_log):
    logs = [open_log() for _ in range(4)]

    def write(log):
        for number in range(50):
            log.append_now(Event("a", {"n": number}))

    threads = [threading.Thread(target=write, args=(log,)) for log in logs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(rows(logs[0])) == 200
    assert_chain(logs[0])


async def test_two_event_loops_may_use_one_log(log):
    async def write():
        for _ in range(20):
            await log.append(Event("a", {}))

    async with anyio.create_task_group() as group:
        group.start_soon(anyio.to_thread.run_sync, lambda: anyio.run(write))
        group.start_soon(write)
    assert len(rows(log)) == 40
    assert_chain(log)


async def test_a_cancelled_append_is_committed_and_harms_nobody(log):
    release = threading.Event()
    entered = anyio.Event()

    async def blocked():
        await log.append(Event("first", {}), effect=lambda _: release.wait(300) and None)

    async def cancelled(scope):
        with scope:
            entered.set()
            await log.append(Event("second", {}))

    scope = anyio.CancelScope()
    async with anyio.create_task_group() as group:
        group.start_soon(blocked)
        group.start_soon(cancelled, scope)
        await entered.wait()
        scope.cancel()
        release.set()
    assert await log.append(Event("third", {})) == [3]
    assert [stored.event.kind for stored in log.events()] == ["first", "second", "third"]


async def test_within_runs_in_the_same_transaction(open_log):
    log = open_log((COUNTERS,))
    await log.append(
        Event("a", {}), effect=lambda c: c.execute("INSERT INTO counters VALUES ('x', 1)") and None
    )
    assert [tuple(row) for row in log.read("SELECT * FROM counters")] == [("x", 1)]


async def test_a_raising_within_undoes_its_append_alone(open_log):
    log = open_log((COUNTERS,))
    release, errors = threading.Event(), []

    def quota(connection):
        connection.execute("INSERT INTO counters VALUES ('lost', 1)")
        raise LookupError("quota used up")

    async def append(kind, effect=None):
        try:
            await log.append(Event(kind, {}), Event(kind, {}), effect=effect)
        except LookupError as error:
            errors.append((kind, str(error)))

    async with anyio.create_task_group() as group:
        group.start_soon(append, "gate", lambda _: release.wait(300) and None)
        group.start_soon(append, "before")
        group.start_soon(append, "refused", quota)
        group.start_soon(append, "after")
        await anyio.lowlevel.checkpoint()
        await anyio.lowlevel.checkpoint()
        release.set()
    assert errors == [("refused", "quota used up")]
    kinds = [stored.event.kind for stored in log.events()]
    assert kinds == ["gate"] * 2 + ["before"] * 2 + ["after"] * 2
    assert log.read("SELECT * FROM counters") == []
    assert_chain(log)


def test_within_alone_needs_no_event(open_log):
    log = open_log((COUNTERS,))
    assert log.append_now(effect=lambda c: c.execute("DELETE FROM counters") and None) == []
    with pytest.raises(KeyError):
        log.append_now(effect=lambda _: {}["x"])
    assert rows(log) == []


async def test_within_is_a_compare_and_swap_between_logs(open_log):
    logs = [open_log((COUNTERS,)) for _ in range(3)]
    logs[0].append_now(effect=lambda c: c.execute("INSERT INTO counters VALUES ('q', 5)") and None)
    taken = []

    def take(connection):
        changed = connection.execute("UPDATE counters SET n = n - 1 WHERE name = 'q' AND n > 0")
        if not changed.rowcount:
            raise LookupError("used up")

    async def work(log):
        for _ in range(5):
            try:
                taken.extend(await log.append(Event("taken", {}), effect=take))
            except LookupError:
                continue

    async with anyio.create_task_group() as group:
        for log in logs:
            group.start_soon(work, log)
    assert len(taken) == 5
    assert len(rows(logs[0])) == 5


def test_a_projection_is_applied_with_its_event(open_log):
    def count(connection, stored):
        connection.execute(
            "INSERT INTO counters VALUES (?, 1) ON CONFLICT (name) DO UPDATE SET n = n + 1",
            (stored.event.body["name"],),
        )

    log = open_log((COUNTERS,), {"count": (count,)})
    log.append_now(*(Event("count", {"name": name}) for name in "aab"), Event("other", {}))
    assert [tuple(r) for r in log.read("SELECT * FROM counters")] == [("a", 2), ("b", 1)]


def test_a_raising_projection_undoes_its_append(open_log):
    def fail(connection, stored):
        connection.execute("INSERT INTO counters VALUES ('x', 1)")
        raise ZeroDivisionError(stored.seq)

    log = open_log((COUNTERS,), {"bad": (fail,)})
    with pytest.raises(ZeroDivisionError):
        log.append_now(Event("good", {}), Event("bad", {}))
    assert log.append_now(Event("good", {})) == [1]
    assert log.read("SELECT * FROM counters") == []
    assert_chain(log)


def test_an_append_that_somebody_waits_for_waits_for_no_company(log, monkeypatch):
    monkeypatch.setattr("clawhive_core.storage.sqlite.writer._LINGER", 600)
    for number in range(3):
        waiting = threading.Thread(target=log.append_now, args=(Event("a", {"n": number}),))
        waiting.start()
        waiting.join(300)
        assert not waiting.is_alive()


def test_what_is_posted_waits_for_company_and_shares_its_commit(log, monkeypatch):
    monkeypatch.setattr("clawhive_core.storage.sqlite.writer._LINGER", 600)
    begun = []

    def trace(sql):
        begun.extend(["BEGIN"] * sql.startswith("BEGIN"))

    log._writer._connection.set_trace_callback(trace)
    log.post(Event("a", {}))
    while not log._writer._bell.empty():  # until the writer knows of it
        os.sched_yield()
    log.post(Event("b", {}))
    assert log.append_now(Event("c", {})) == [3]
    log._writer._connection.set_trace_callback(None)
    assert begun == ["BEGIN"]


async def test_posts_ring_for_a_writer_that_works_no_further_time(log):
    entered, release = threading.Event(), threading.Event()

    def hold(_):
        entered.set()
        release.wait(300)

    async with anyio.create_task_group() as group:
        group.start_soon(partial(log.append, Event("gate", {}), effect=hold))
        await anyio.to_thread.run_sync(entered.wait, 300)
        for number in range(20):
            log.post(Event("a", {"n": number}))
        rings = log._writer._bell.qsize()
        release.set()
    await log.flush()
    assert rings == 0
    assert [stored.event.kind for stored in log.events()] == ["gate", *["a"] * 20]


async def test_what_was_undone_is_neither_heard_of_nor_missed_by_what_shares_its_commit(open_log):
    def fail(connection, stored):
        raise ZeroDivisionError

    log = open_log((), {"bad": (fail,)})
    entered, release, heard, failed = threading.Event(), threading.Event(), [], []
    log.listen(lambda events: heard.extend((each.seq, each.event.kind) for each in events))

    def hold(_):
        entered.set()
        release.wait(300)

    async def append(*kinds, effect=None):
        events = [Event(kind, {"b": Blob("x" * 600)}) for kind in kinds]
        try:
            await log.append(*events, effect=effect)
        except ZeroDivisionError:
            failed.append(kinds)

    async with anyio.create_task_group() as group:
        group.start_soon(partial(append, "gate", effect=hold))
        await anyio.to_thread.run_sync(entered.wait, 300)
        for kinds in (("before",), ("first", "bad"), ("after", "last")):
            group.start_soon(append, *kinds)
            await anyio.lowlevel.checkpoint()
        release.set()
    await log.flush()
    assert failed == [("first", "bad")]
    assert heard == [(1, "gate"), (2, "before"), (3, "after"), (4, "last")]
    assert [(each.seq, each.event.kind) for each in log.events()] == heard
    assert_chain(log)


def test_the_epoch_differs_once_a_right_may_have_been_revoked(open_log, path):
    def count(connection, _):
        connection.execute("INSERT OR IGNORE INTO counters VALUES ('x', 1)")

    def epoch():
        while (found := log.epoch()) is None:  # while the writer is at work
            pass
        return found

    log = open_log((COUNTERS,), {"count": (count,), "grant.revoked": (count,)})
    epochs = [epoch()]
    log.append_now(Event("a", {}))
    log.append_now(Event("count", {}))
    log.append_now(effect=lambda c: c.execute("DELETE FROM counters") and None)
    assert epoch() == epochs[-1]
    for change in (
        lambda: log.append_now(Event("grant.revoked", {"grant_id": "g"})),
        lambda: open_log((COUNTERS,)).append_now(Event("a", {})),
    ):
        change()
        epochs.append(epoch())
    assert len(set(epochs)) == len(epochs)
    during = []
    log.append_now(
        Event("grant.revoked", {"grant_id": "h"}), effect=lambda _: during.append(log.epoch())
    )
    assert during == [epochs[-1]]
    assert epoch() not in epochs
    log.close()
    assert log.epoch() is None


async def test_listeners_hear_each_batch_after_its_commit(log):
    heard = []

    def listen(events):
        heard.extend((stored.seq, stored.event.kind) for stored in events)
        assert log.read("SELECT max(seq) FROM events")[0][0] >= events[-1].seq

    stop = log.listen(listen)
    await log.append(Event("a", {"b": Blob("x")}), Event("b", {}))
    log.post(Event("c", {}))
    await log.flush()
    stop()
    await log.append(Event("d", {}))
    await log.flush()
    assert heard == [(1, "a"), (2, "b"), (3, "c")]
    assert log.listener_errors == 0


async def test_what_a_listener_raises_is_counted_and_goes_no_further(log):
    heard = []
    log.listen(lambda events: heard.append(1 / (len(events) - 1)))
    log.listen(heard.append)
    await log.append(Event("a", {}))
    await log.flush()
    assert log.listener_errors == 1
    assert len(heard) == 1


async def test_a_listener_that_appends_is_told_so_instead_of_hanging(log):
    errors = []

    def react(_):
        try:
            log.append_now(Event("reaction", {}))
        except LogWriteFailed as error:
            errors.append(error.message)

    log.listen(react)
    await log.append(Event("a", {}))
    await log.flush()
    assert len(errors) == 1
    assert "runs in the writer itself" in errors[0]


def test_events_are_read_page_by_page_from_where_one_asks(log):
    for start in range(0, 1200, 300):
        log.append_now(*(Event("a", {"n": start + n}, run_id=f"r{n % 2}") for n in range(300)))
    assert [s.seq for s in log.events()] == list(range(1, 1201))
    assert [s.seq for s in log.events(since=1190)] == list(range(1191, 1201))
    assert [s.seq for s in log.events(limit=3)] == [1, 2, 3]
    assert [s.seq for s in log.events(limit=0)] == []
    assert len(list(log.events(limit=700))) == 700
    assert [s.seq for s in log.events(run_id="r1", limit=2, since=2)] == [4, 6]
    assert list(log.events(run_id="nobody")) == []


def test_an_open_iterator_does_not_keep_the_log_from_growing(log):
    log.append_now(*(Event("a", {}) for _ in range(600)))
    iterator = log.events()
    next(iterator)
    log.append_now(Event("b", {}))
    assert [stored.event.kind for stored in iterator][-1] == "b"


def test_a_wrong_query_is_a_storage_error(log):
    with pytest.raises(StorageError, match="no such table"):
        log.read("SELECT * FROM missing_table")
    with pytest.raises(StorageError, match="readonly"):
        log.read("INSERT INTO blobs VALUES ('a', 'b', 'c')")


@pytest.mark.parametrize(
    "value",
    [
        None,
        "short",
        "long " * 1000,
        "\ud800 lone",
        "x" * 1000 + "\udfff",
        "\ufffd",
        b"",
        b"\x00\xff" * 300,
        {"a": [1, 2.5, None, True, "ü"]},
        [{"n": number} for number in range(500)],
        2**53,
        -(10**30),
        {"n": [10**40] * 50},
        float("inf"),
        [float("-inf"), 1e300] * 100,
        {"$value": 1},
        {"$blob": "00", "bytes": 1, "type": "json"},
        {"$int": "5", "more": 1},
        {"$int": "five"},
        {"$float": "1.5"},
    ],
    ids=repr,
)
def test_a_blob_is_loaded_as_it_was_appended(log, value):
    log.append_now(Event("a", {"deep": {"output": [Blob(value)]}}))
    (stored,) = log.events()
    assert log.load(stored.event.body["deep"]["output"][0]) == value


def test_nan_is_loaded_as_nan(log):
    log.append_now(Event("a", {"output": Blob({"n": float("nan")})}))
    (stored,) = log.events()
    loaded = log.load(stored.event.body["output"])["n"]
    assert loaded != loaded  # noqa: PLR0124 - NaN is the one value unequal to itself


def test_equal_bodies_are_stored_once(log):
    for _ in range(3):
        log.append_now(Event("a", {"output": Blob("same " * 500)}))
    assert log.read("SELECT count(*), type FROM blobs")[0][:] == (1, "text")


def test_a_reference_says_size_type_and_preview(log):
    log.append_now(Event("a", {"output": Blob("é" * 1000, preview="éé…")}))
    (stored,) = log.events()
    reference = stored.event.body["output"]
    assert reference["bytes"] == 2000
    assert reference["type"] == "text"
    assert reference["preview"] == "éé…"


def test_a_short_value_stays_in_its_row(log):
    log.append_now(Event("a", {"at": Blob("x" * 510), "above": Blob("x" * 511)}))
    (stored,) = log.events()
    assert stored.event.body["at"] == {"$value": "x" * 510}
    assert "$blob" in stored.event.body["above"]


def test_a_body_that_imitates_a_reference_is_kept_apart(log):
    log.append_now(Event("a", {"output": {"$blob": "0" * 64, "bytes": 1, "type": "json"}}))
    (stored,) = log.events()
    assert log.load(stored.event.body["output"]) == {
        "$blob": "0" * 64,
        "bytes": 1,
        "type": "json",
    }


def test_a_pruned_body_is_an_error_with_the_code_pruned(log):
    value = "long " * 1000
    log.append_now(Event("a", {"output": Blob(value)}))
    log.append_now(effect=lambda c: c.execute("UPDATE blobs SET data = NULL") and None)
    (stored,) = log.events()
    with pytest.raises(ClawHiveError) as caught:
        log.load(stored.event.body["output"])
    assert caught.value.code == "pruned"
    log.append_now(Event("b", {"output": Blob(value)}))
    assert log.load(stored.event.body["output"]) == value


def test_a_body_that_is_gone_is_an_error_with_a_code(log):
    with pytest.raises(ClawHiveError) as caught:
        log.load({"$blob": "0" * 64, "bytes": 1, "type": "json"})
    assert caught.value.code == "damaged_body"


def test_what_is_no_reference_is_loaded_as_it_is(log):
    assert log.load(None) is None
    assert log.load({"a": 1}) == {"a": 1}


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE events SET status = 'x'",
        "DELETE FROM events",
        "INSERT OR REPLACE INTO events SELECT * FROM events",
        "DELETE FROM blobs",
        "UPDATE blobs SET data = 'x'",
        "UPDATE blobs SET sha256 = 'x'",
        "INSERT OR REPLACE INTO blobs SELECT sha256, type, 'x' FROM blobs",
    ],
)
def test_rows_and_bodies_cannot_be_changed(log, statement):
    log.append_now(Event("a", {"output": Blob("x" * 1000)}))
    before = rows(log)
    with pytest.raises(sqlite3.IntegrityError, match=r"append-only|pruned"):
        log.append_now(effect=lambda c: c.execute(statement) and None)
    assert rows(log) == before


def test_the_database_id_is_known_and_lasts(open_log):
    assert open_log().id == open_log().id


def test_a_loop_that_ended_before_its_append_harms_nobody(log):
    entered, release = threading.Event(), threading.Event()

    def hold(_):
        entered.set()
        release.wait(300)

    async def abandon():
        with anyio.move_on_after(0):
            await log.append(Event("abandoned", {}), effect=hold)

    anyio.run(abandon)
    assert entered.wait(300)
    release.set()
    assert log.append_now(Event("after", {})) == [2]


def test_a_log_that_cannot_be_opened_leaves_no_thread(path):
    path.parent.mkdir()
    path.write_text("no database " * 100, encoding="utf-8")
    before = threading.active_count()
    with pytest.raises(StorageError):
        EventLog.open(path)
    assert threading.active_count() == before


@pytest.mark.promise("P-232")
def test_whoever_closes_a_log_last_leaves_one_file_that_holds_all_of_it(tmp_path):
    path = tmp_path / "hive.db"
    for number in (1, 2, 3):
        log = EventLog.open(path)
        assert log.append_now(Event("a", {})) == [number]
        assert len(list(log.events())) == number
        log.close()
        assert [each.name for each in tmp_path.glob("hive.db*")] == ["hive.db"]


@pytest.mark.promise("P-232")
def test_a_log_that_the_disk_has_no_room_to_move_stays_where_it_is(tmp_path, monkeypatch):
    path = tmp_path / "hive.db"
    full = os.statvfs_result((512, 512, 9, 0, 0, 9, 9, 9, 0, 255))
    with monkeypatch.context() as patched:
        patched.setattr(os, "statvfs", lambda _: full)
        log = EventLog.open(path)
        log.append_now(Event("a", {}))
        log.close()
        assert (tmp_path / "hive.db-wal").stat().st_size > 0
    log = EventLog.open(path)
    assert [stored.event.kind for stored in log.events()] == ["a"]
    log.close()
    assert [each.name for each in tmp_path.glob("hive.db*")] == ["hive.db"]


@pytest.mark.promise("P-232")
def test_a_log_that_is_closed_while_another_one_is_open_takes_nothing_from_it(tmp_path):
    path = tmp_path / "hive.db"
    first, second = EventLog.open(path), EventLog.open(path)
    first.append_now(Event("a", {}))
    first.close()
    assert [stored.event.kind for stored in second.events()] == ["a"]
    second.append_now(Event("b", {}))
    second.close()
    assert [each.name for each in tmp_path.glob("hive.db*")] == ["hive.db"]


@pytest.mark.promise("P-232")
def test_a_log_whose_thread_still_reads_is_left_as_one_file(tmp_path):
    log = EventLog.open(tmp_path / "hive.db")
    log.append_now(Event("a", {}))
    read, closed = threading.Event(), threading.Event()

    def reads():
        assert len(list(log.events())) == 1
        read.set()
        assert closed.wait(300)

    thread = threading.Thread(target=reads)
    thread.start()
    assert read.wait(300)
    log.close()
    assert [each.name for each in tmp_path.glob("hive.db*")] == ["hive.db"]
    closed.set()
    thread.join()
