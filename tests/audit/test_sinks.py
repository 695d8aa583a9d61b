"""Sinks get every committed event, in order; a required one that fails stops effects."""

import asyncio

import anyio
import pytest

from clawhive_core.audit.sinks import SinkFanout
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
        self.is_closed = False

    async def write(self, events):
        if self.failures:
            self.failures -= 1
            raise ConnectionError("the other side is gone")
        self.kinds += [stored.event.kind for stored in events]

    async def close(self):
        self.is_closed = True


@pytest.fixture
def log(tmp_path):
    opened = EventLog.open(tmp_path / "hive.db")
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
    assert good.kinds == ["a"]
    assert fanout.failures == {"bad": 1}
    assert fanout.problem() is None


async def test_a_required_sink_that_fails_says_why_effects_must_stop(log):
    fanout = SinkFanout(log, [Sink("ledger", required=True, failures=1)])
    await log.append(Event("a", {}))
    await log.flush()
    await fanout.drain()
    assert "`ledger` failed (the other side is gone)" in str(fanout.problem())


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
    assert "too far behind" in str(fanout.problem())


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

    fanout = SinkFanout(log, [Hung("hung", required=True)], write_seconds=0.01)
    await log.append(Event("a", {}))
    await log.flush()
    await fanout.drain()
    assert "required audit sink `hung` failed (it took longer than 0.01 s)" in fanout.problem()


async def test_a_sink_that_does_not_close_is_not_waited_for_without_end(log):
    class Open(Sink):
        async def close(self):
            await anyio.sleep_forever()

    last = Sink("last")
    fanout = SinkFanout(log, [Open("open"), last], close_seconds=0.01)
    await fanout.close()
    assert last.is_closed
    assert fanout.failures == {"open": 1}


async def test_a_required_sink_that_is_not_there_is_a_problem_from_the_beginning(log):
    assert SinkFanout(log, [Sink("here")], ["here"]).problem() is None
    assert "`gone` is not there" in SinkFanout(log, [Sink("here")], ["gone", "here"]).problem()
