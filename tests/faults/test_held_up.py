"""Code that never waits is named with its stack; what ends the process records its runs first."""

from __future__ import annotations

import asyncio
import logging
import threading
from types import SimpleNamespace

import pytest

from clawhive_core.errors import RunBusy
from clawhive_core.hive import watchdog as module
from clawhive_core.hive.watchdog import Stall, Watchdog, guarded
from clawhive_core.model.tools import ToolMeta, ToolResult
from clawhive_core.testing import memory_hive

LONG = 30
"""Seconds after which a test fails that would wait for ever."""


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(module, "_EVERY_SECONDS", 0.01)
    monkeypatch.setattr(module, "_LOOK_SECONDS", 0.01)
    monkeypatch.setattr(module, "STALL_SECONDS", 0.05)


class Holding:
    """A provider whose one tool keeps the loop's thread until it is let go."""

    provider_id = "holding"

    def __init__(self, free):
        self.free = free

    async def list_tools(self):
        return [ToolMeta("test.hold", "Hold.", {"type": "object"}, "holding", risk="safe")]

    async def invoke(self, tool_name, input, ctx):
        assert self.free.wait(LONG)
        return ToolResult(ctx.tool_call_id, "free")

    async def close(self):
        pass


async def test_in_a_program_of_ones_own_it_is_told_and_nothing_ends(caplog):
    free = threading.Event()

    class Freeing(logging.Handler):
        def emit(self, record):
            caplog.handler.emit(record)
            free.set()

    handler = Freeing()
    logging.getLogger("clawhive").addHandler(handler)
    try:
        settings = {"limits.blocked_sec": 1}
        async with memory_hive(providers=[Holding(free)], settings=settings) as hive:
            _, outcome = await hive.call("test.hold", {})
    finally:
        logging.getLogger("clawhive").removeHandler(handler)
    assert outcome.output == "free"
    text = caplog.text
    assert f"the module `{__name__}` has held up everything else" in text
    assert "self.free.wait(LONG)" in text
    assert [each for each in module._DOGS if each is asyncio.get_running_loop()] == []


async def test_before_a_process_ends_its_runs_are_recorded_as_interrupted():
    free, seen, loop = threading.Event(), [], asyncio.get_running_loop()

    def end(held):
        (row,) = hive.log.read("SELECT status FROM runs")
        seen.append((row[0], held))
        free.set()

    watchdog = Watchdog(loop, lambda held: None, end)
    settings = {"limits.blocked_sec": 1}
    with guarded(watchdog, loop):
        async with memory_hive(providers=[Holding(free)], settings=settings) as hive:
            with pytest.raises(RunBusy):
                await hive.call("test.hold", {})
            events = [e.event for e in hive.log.events() if e.event.kind == "run.status"]
    (status, held), *_ = seen
    assert status == "interrupted"
    assert isinstance(held, Stall)
    assert held.place.startswith(__file__)
    assert held.message in [each.body.get("reason") for each in events]


async def test_a_signal_makes_the_end_come_sooner(monkeypatch):
    monkeypatch.setattr(module, "STALL_SECONDS", 3_600)
    monkeypatch.setattr(module, "_HURRY_SECONDS", 0.05)
    free, told, loop = threading.Event(), [], asyncio.get_running_loop()
    watchdog = Watchdog(loop, told.append, lambda held: free.set())
    with guarded(watchdog, loop):
        watchdog.hurries = True
        assert free.wait(LONG)
    assert len(told) == 1


async def test_a_loop_that_goes_on_is_not_told_of():
    told, loop = [], asyncio.get_running_loop()
    with guarded(Watchdog(loop, told.append, told.append), loop):
        for _ in range(100):
            await asyncio.sleep(0.001)
    assert told == []


def test_a_loop_that_does_not_run_now_is_not_told_of():
    told, loop = [], asyncio.new_event_loop()
    looked = threading.Event()
    loop.is_running = lambda: looked.set() or False
    with guarded(Watchdog(loop, told.append, told.append), loop):
        assert looked.wait(LONG)
    loop.close()
    assert told == []


async def test_the_time_for_which_the_whole_process_stood_still_does_not_count(monkeypatch):
    monkeypatch.setattr(module, "STALL_SECONDS", 10)
    looked, told, loop = threading.Event(), [], asyncio.get_running_loop()
    hours = iter(range(10**9))

    def an_hour_later():
        if (hour := next(hours)) > 40:
            looked.set()
        return 3_600.0 * hour

    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=an_hour_later))
    with guarded(Watchdog(loop, told.append, told.append), loop):
        loop.call_soon(looked.wait, LONG)
        await asyncio.sleep(0.001)
    assert looked.is_set()
    assert told == []


async def test_our_own_code_that_holds_the_loop_ends_nothing():
    told, ended, loop = threading.Event(), [], asyncio.get_running_loop()

    def tell(held):
        assert held.owner == ""
        told.set()

    with guarded(Watchdog(loop, tell, ended.append), loop):
        # Called by the loop itself, so that no code of this module is in the stack.
        loop.call_soon(told.wait, LONG)
        await asyncio.sleep(0.001)
    assert told.is_set()
    assert ended == []
