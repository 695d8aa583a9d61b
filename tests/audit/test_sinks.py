"""Sinks get every committed event, in order; what a required one lacks stops effects."""

import asyncio
from contextlib import asynccontextmanager, closing, suppress

import anyio
import pytest

from clawhive_core.audit.sinks import SinkFanout, open_failures
from clawhive_core.errors import SinkFailed, StorageError
from clawhive_core.events.kinds import SINK_DELIVERED as DELIVERED
from clawhive_core.model.events import Event
from clawhive_core.runs.concurrency import background
from clawhive_core.storage.sqlite.log import EventLog


class Sink:
    """Keeps what it is given; fails as often as it is told."""

    def __init__(self, name="kept", *, required=False, failures=0):
        self.name = name
        self.required = required
        self.failures = failures
        self.kinds = []
        self.seqs = []
        self.is_closed = False

    async def write(self, events):
        if self.failures:
            self.failures -= 1
            raise ConnectionError("the other side is gone")
        self.kinds += [stored.event.kind for stored in events]
        self.seqs += [stored.seq for stored in events]

    async def close(self):
        self.is_closed = True


@pytest.fixture
def path(tmp_path):
    return tmp_path / "hive.db"


@pytest.fixture
def log(path):
    opened = EventLog.open(path)
    yield opened
    opened.close()


async def test_every_sink_gets_every_event_in_order(log):
    first, second = Sink("first"), Sink("second")
    fanout = SinkFanout(log, [first, second])
    await log.append(Event("a", {}), Event("b", {}))
    await log.append(Event("c", {}))
    await log.flush()
    await fanout.drain()
    assert first.kinds == second.kinds == ["a", "b", "c"]


async def test_the_pump_delivers_while_it_runs(log):
    delivered = asyncio.Event()

    class Telling(Sink):
        async def write(self, events):
            await super().write(events)
            delivered.set()

    sink = Telling()
    fanout = SinkFanout(log, [sink])
    pump = asyncio.ensure_future(fanout.pump())
    await asyncio.sleep(0)
    await log.append(Event("a", {}))
    await asyncio.wait_for(delivered.wait(), 10)
    pump.cancel()
    await asyncio.wait((pump,))
    assert sink.kinds == ["a"]


async def test_a_sink_that_fails_is_skipped_and_counted_and_the_others_go_on(log):
    bad, good = Sink("bad", failures=1), Sink("good")
    fanout = SinkFanout(log, [bad, good])
    await log.append(Event("a", {}))
    await log.flush()
    await fanout.drain()
    assert good.kinds[0] == "a"
    assert fanout.failures == {"bad": 1}
    assert fanout.acknowledge is None
    (said,) = await fanout.close()
    assert said.startswith("the audit sink `bad` failed once, first at event #1: ConnectionError")


@asynccontextmanager
async def delivering(log, *sinks, **options):
    """Deliver a log's events to sinks in the background."""
    fanout = SinkFanout(log, sinks, **options)
    async with background(fanout.pump()):
        yield fanout


@pytest.fixture
def _impatient(monkeypatch):
    """Let a sink that failed be tried again at once."""
    monkeypatch.setattr("clawhive_core.audit.sinks._PAUSE_SECONDS", 0.0)


async def test_an_intent_is_acknowledged_when_every_required_sink_has_taken_it(log):
    free = anyio.Event()

    class Slow(Sink):
        async def write(self, events):
            await free.wait()
            await super().write(events)

    slow = Slow("slow", required=True)
    async with delivering(log, slow, Sink("other", required=True), Sink("third")) as fanout:
        (seq,) = await log.append(Event("a", {}))
        waiting = asyncio.ensure_future(fanout.acknowledge(seq))
        for _ in range(10):
            await asyncio.sleep(0)
        assert not waiting.done()
        free.set()
        await waiting
    assert slow.kinds == ["a"]


async def test_a_required_sink_that_fails_refuses_until_it_has_what_it_lacks(log, monkeypatch):
    sink = Sink("siem", required=True, failures=1)
    async with delivering(log, sink) as fanout:
        (seq,) = await log.append(Event("a", {}))
        with pytest.raises(SinkFailed, match=r"`siem` has not taken the events since #1: .* gone"):
            await fanout.acknowledge(seq)
        await log.flush()
        assert open_failures(log)["siem"].from_seq == 1
        with pytest.raises(SinkFailed):  # it is left alone for a while
            await fanout.acknowledge(0)
        assert sink.kinds == []
        monkeypatch.setattr(fanout._deliveries[0], "_rests_until", 0.0)
        await fanout.acknowledge(0)
        assert sink.kinds[:2] == ["a", "sink.failed"]
        (seq,) = await log.append(Event("b", {}))
        await fanout.acknowledge(seq)
    assert await fanout.close() == []
    assert sink.kinds == ["a", "sink.failed", "sink.recovered", "b"]
    assert open_failures(log) == {}


@pytest.mark.usefixtures("_impatient")
async def test_what_failed_in_one_process_stops_the_other_until_it_is_delivered(log, path):
    with closing(EventLog.open(path)) as other:
        here, there = Sink("siem", required=True, failures=9), Sink("siem", required=True)
        async with delivering(log, here) as first, delivering(other, there) as second:
            (seq,) = await log.append(Event("mine", {}))
            with pytest.raises(SinkFailed):
                await first.acknowledge(seq)
            await log.flush()
            (seq,) = await other.append(Event("theirs", {}))
            await second.acknowledge(seq)
            await other.flush()
        assert set(there.kinds) >= {"mine", "theirs"}
        assert open_failures(log) == {}


def failed(from_seq):
    facts = {"sink": "siem", "required": True, "from_seq": from_seq, "message": "gone"}
    return Event("sink.failed", facts)


def recovered(from_seq, to_seq):
    return Event("sink.recovered", {"sink": "siem", "from_seq": from_seq, "to_seq": to_seq})


@pytest.mark.usefixtures("_impatient")
async def test_what_a_process_lacks_that_ended_is_delivered_though_another_failed_later(log):
    sink = Sink("siem", required=True)
    await log.append(*(Event("a", {}) for _ in range(4)), failed(3), failed(2))
    async with delivering(log, sink) as fanout:
        await fanout.acknowledge(0)
    assert set(sink.seqs) >= {2, 3, 4}


async def test_a_recovery_ends_the_failures_only_of_what_it_delivered(log):
    await log.append(*(Event("a", {}) for _ in range(9)), failed(3), failed(2), failed(8))
    await log.append(recovered(3, 7))
    assert open_failures(log)["siem"].from_seq == 2
    await log.append(recovered(2, 7))
    assert open_failures(log)["siem"].from_seq == 8
    await log.append(recovered(8, 12))
    assert open_failures(log) == {}


async def test_what_a_process_lacks_at_its_end_stands_though_another_recovered(log):
    fanout = SinkFanout(log, [Sink("siem", required=True, failures=9)])
    await log.append(Event("a", {}))
    await log.flush()
    await fanout.drain()
    await log.append(recovered(1, 2), Event("b", {}))
    await fanout.close()
    await log.flush()
    assert open_failures(log)["siem"].from_seq == 1


async def test_a_sink_that_fails_over_a_log_that_refuses_keeps_no_other_from_closing(path):
    log = EventLog.open(path)
    sinks = [Sink("siem", required=True, failures=9), Sink("other")]
    fanout = SinkFanout(log, sinks)
    await log.append(Event("a", {}))
    await log.flush()
    log.close()
    (said,) = await fanout.close()
    assert "`siem` has not taken" in said
    assert (sinks[1].kinds, sinks[1].is_closed) == (["a"], True)


async def test_a_failure_that_stands_refuses_in_a_process_that_begins_later(log, path):
    async with delivering(log, Sink("siem", required=True, failures=9)) as fanout:
        (seq,) = await log.append(Event("a", {}))
        with pytest.raises(SinkFailed):
            await fanout.acknowledge(seq)
        await log.flush()
    with closing(EventLog.open(path)) as later:
        async with delivering(later, Sink("siem", required=True, failures=9)) as fanout:
            with pytest.raises(SinkFailed, match="since #1"):
                await fanout.acknowledge(0)
            assert fanout.failures == {"siem": 1}  # it was tried


@pytest.mark.usefixtures("_impatient")
async def test_a_sink_that_catches_up_gets_every_event_also_those_committed_meanwhile(log):
    class Counting(Sink):
        async def write(self, events):
            await log.append(Event("meanwhile", {})) if len(self.kinds) < 5 else None
            await super().write(events)

    sink = Counting("siem", required=True, failures=1)
    async with delivering(log, sink) as fanout:
        (seq,) = await log.append(Event("a", {}))
        with suppress(SinkFailed):
            await fanout.acknowledge(seq)
        (seq,) = await log.append(Event("b", {}))
        await fanout.acknowledge(seq)
        taken = set(sink.seqs)
    assert fanout.failures == {"siem": 1}
    assert taken >= set(range(1, seq + 1))


async def test_what_a_required_sink_lacks_at_the_end_is_said(log):
    fanout = SinkFanout(log, [Sink("siem", required=True, failures=9)])
    await log.append(Event("a", {}))
    await log.flush()
    (said,) = await fanout.close()
    assert said.startswith("the required audit sink `siem` has not taken the events since #1")
    await log.flush()
    assert open_failures(log)["siem"].required


async def test_what_waits_is_delivered_before_the_sinks_are_closed(log):
    sink = Sink()
    fanout = SinkFanout(log, [sink])
    await log.append(Event("a", {}))
    await log.flush()
    await fanout.close()
    assert sink.kinds == ["a"]
    assert sink.is_closed


async def test_a_sink_that_cannot_be_closed_keeps_no_other_from_closing(log):
    class Stuck(Sink):
        async def close(self):
            raise OSError("busy")

    last = Sink("last")
    fanout = SinkFanout(log, [Stuck("stuck"), last])
    await fanout.close()
    assert last.is_closed
    assert fanout.failures == {"stuck": 1}


async def test_a_sink_that_falls_too_far_behind_counts_as_failed(log, monkeypatch):
    monkeypatch.setattr("clawhive_core.audit.sinks._MAX_WAITING", 2)
    fanout = SinkFanout(log, [Sink("slow", required=True)])
    await log.append(*(Event("a", {}) for _ in range(5)))
    await log.flush()
    with pytest.raises(SinkFailed, match=r"since #1: .*too far behind"):
        await fanout.acknowledge(5)


async def test_a_batch_that_one_sink_has_reaches_the_others_when_the_pump_is_stopped(log):
    given, free = anyio.Event(), anyio.Event()

    class Slow(Sink):
        async def write(self, events):
            given.set()
            await free.wait()
            await super().write(events)

    first, second = Slow("first"), Sink("second")
    fanout = SinkFanout(log, [first, second])
    async with anyio.create_task_group() as group:
        group.start_soon(fanout.pump)
        await log.append(Event("a", {}))
        await given.wait()
        group.cancel_scope.cancel()
        free.set()
    await fanout.close()
    assert [sink.kinds for sink in (first, second)] == [["a"], ["a"]]


async def test_a_batch_that_a_sink_has_is_delivered_although_the_hive_closes(log):
    given, free = anyio.Event(), anyio.Event()

    class Slow(Sink):
        async def write(self, events):
            given.set()
            await free.wait()
            await super().write(events)

    sink = Slow()
    fanout = SinkFanout(log, [sink])
    async with background(fanout.pump()):
        await log.append(Event("a", {}))
        await given.wait()
        asyncio.get_running_loop().call_soon(free.set)  # once the pump was told to stop
    await fanout.close()
    assert sink.kinds == ["a"]


async def test_a_sink_that_hangs_counts_as_failed(log):
    class Hung(Sink):
        async def write(self, events):
            await anyio.Event().wait()

    async with delivering(log, Hung("hung", required=True), required_seconds=0.01) as fanout:
        (seq,) = await log.append(Event("a", {}))
        with pytest.raises(SinkFailed, match=r"it took longer than 0\.01 s"):
            await fanout.acknowledge(seq)


async def test_a_sink_that_does_not_close_is_not_waited_for_without_end(log):
    class Open(Sink):
        async def close(self):
            await anyio.sleep_forever()

    last = Sink("last")
    fanout = SinkFanout(log, [Open("open"), last], close_seconds=0.01)
    await fanout.close()
    assert last.is_closed
    assert fanout.failures == {"open": 1}


async def test_a_required_sink_that_is_not_there_refuses_from_the_beginning(log):
    async with delivering(log, Sink("here"), required=["here"]) as fanout:
        await fanout.acknowledge(0)
    fanout = SinkFanout(log, [Sink("here")], ["gone", "here"])
    with pytest.raises(SinkFailed, match="`gone` is not there"):
        await fanout.acknowledge(0)


@pytest.mark.usefixtures("_impatient")
async def test_a_log_that_cannot_be_read_for_a_while_stops_no_delivery(log, monkeypatch):
    def unreadable(**_):
        raise StorageError("the disk is gone")

    sink = Sink("siem", required=True, failures=1)
    async with delivering(log, sink) as fanout:
        monkeypatch.setattr(fanout._deliveries[0], "_log", Unreadable(log, unreadable))
        (seq,) = await log.append(Event("a", {}))
        with pytest.raises(SinkFailed):
            await fanout.acknowledge(seq)
        monkeypatch.undo()
        with suppress(SinkFailed):
            await fanout.acknowledge(seq)
        await fanout.acknowledge(seq)
    assert "a" in sink.kinds


class Unreadable:
    """A log whose events cannot be read."""

    def __init__(self, log, events):
        self._log = log
        self.events = events

    def __getattr__(self, name):
        return getattr(self._log, name)


@pytest.mark.parametrize("body", [{}, {"sink": "siem"}, {"sink": "siem", "from_seq": "soon"}])
async def test_an_event_that_does_not_say_what_a_sink_lacks_is_told_and_stops_effects(log, body):
    async with delivering(log, Sink("siem", required=True)) as fanout:
        await log.append(Event("sink.failed", body))
        with pytest.raises(SinkFailed, match="Event #1 does not say what its audit sink lacks"):
            await fanout.acknowledge(0)
        with pytest.raises(StorageError, match="Event #1"):
            open_failures(log)


@pytest.mark.usefixtures("_impatient")
async def test_a_long_process_says_now_and_then_what_a_required_sink_has(log, monkeypatch):
    monkeypatch.setattr("clawhive_core.audit.sinks._PAGE", 5)
    sink = Sink("siem", required=True)
    async with delivering(log, sink) as fanout:
        for _ in range(12):
            (seq,) = await log.append(Event("a", {}))
            await fanout.acknowledge(seq)
        await log.flush()
    said = [each.event.body["to_seq"] for each in log.events() if each.event.kind == DELIVERED]
    assert said
    assert said == sorted(said)
    assert sorted(set(sink.seqs)) == sorted(sink.seqs)


async def test_a_sink_that_fails_at_what_was_there_before_stops_every_process(log):
    await log.append(Event("a", {}))
    fanout = SinkFanout(log, [Sink("siem", required=True, failures=9)])
    async with background(fanout.pumping()):
        with pytest.raises(SinkFailed, match="since #1"):
            await fanout.acknowledge(0)
        await log.flush()
    assert open_failures(log)["siem"].from_seq == 1
