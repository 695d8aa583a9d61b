import asyncio
import sys

import anyio
import anyio.lowlevel
import pytest

from clawhive_core.catalog.bounded import Bounded, Escaped, Overdue, run_bounded


async def give(value):
    return value


async def raising(error):
    raise error


async def test_work_in_time_gives_its_value():
    assert await run_bounded(give(3), 1, 0.01) == 3


async def test_an_exception_of_the_work_comes_through():
    with pytest.raises(ValueError, match="bad"):
        await run_bounded(raising(ValueError("bad")), 1, 0.01)


@pytest.mark.parametrize(
    "error", [SystemExit(1), GeneratorExit(), BaseExceptionGroup("g", [SystemExit()])]
)
async def test_what_would_end_the_process_is_contained(error):
    with pytest.raises(Escaped) as caught:
        await run_bounded(raising(error), 1, 0.01)
    assert caught.value.error is error


async def test_work_that_cancels_itself_does_not_cancel_its_caller():
    with pytest.raises(Escaped) as caught:
        await run_bounded(raising(asyncio.CancelledError()), 1, 0.01)
    assert isinstance(caught.value.error, asyncio.CancelledError)


async def test_an_interrupt_reaches_the_caller_and_not_the_loop():
    with pytest.raises(KeyboardInterrupt):
        await run_bounded(raising(KeyboardInterrupt()), 1, 0.01)


@pytest.mark.parametrize("seconds", [0, -5, 0.001])
async def test_work_that_stops_when_its_time_is_up_is_stopped(seconds):
    with pytest.raises(Overdue) as caught:
        await run_bounded(anyio.sleep_forever(), seconds, 1)
    assert caught.value.fate == "stopped"


async def test_work_that_does_not_stop_is_abandoned_and_fails_silently_later():
    release = asyncio.Event()
    work = Bounded(_stubborn(release), 0.01)
    with pytest.raises(Overdue) as caught:
        await work.wait(0.01)
    assert caught.value.fate == "abandoned"
    assert work.abandoned
    release.set()
    while work.abandoned:
        await anyio.lowlevel.checkpoint()
    assert work.late_result() is None


async def test_work_that_waits_for_something_once_cancelled_is_cancelled_once_more():
    with pytest.raises(Overdue) as caught:
        await run_bounded(_waiting(), 0.01, 0.04)
    assert caught.value.fate == "stopped"


async def _waiting():
    """Wait after the first cancellation, as anyio does for a program that it should end."""
    try:
        await anyio.sleep_forever()
    finally:
        await anyio.sleep_forever()


async def _stubborn(release):
    while not release.is_set():
        try:
            await release.wait()
        except asyncio.CancelledError:
            continue
    raise ValueError("nobody hears it")


async def test_a_cancelled_caller_stops_the_work_and_is_cancelled():
    stopped = []

    async def work():
        try:
            await anyio.sleep_forever()
        finally:
            stopped.append(True)

    task = asyncio.ensure_future(run_bounded(work(), 60, 1))
    while not task.done() and not stopped:
        await anyio.lowlevel.checkpoint()
        task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_work_that_is_cut_is_stopped_before_its_time():
    work = Bounded(anyio.sleep_forever(), 1)
    asyncio.get_running_loop().call_soon(work.cut)
    with pytest.raises(Overdue) as caught:
        await work.wait(3600)
    assert (caught.value.fate, work.is_cut) == ("stopped", True)


async def test_work_is_cut_from_another_thread():
    work = Bounded(anyio.sleep_forever(), 1)
    async with anyio.create_task_group() as group:
        group.start_soon(anyio.to_thread.run_sync, work.cut)
        with pytest.raises(Overdue):
            await work.wait(3600)


async def test_work_that_was_cut_before_anybody_waits_is_stopped():
    work = Bounded(anyio.sleep_forever(), 1)
    work.cut()
    with pytest.raises(Overdue):
        await work.wait(3600)


async def test_work_that_has_ended_is_cut_too_late():
    work = Bounded(give(3), 1)
    assert await work.wait(300) == 3
    work.cut()
    assert await work.wait(300) == 3


async def test_cut_work_that_does_not_stop_is_abandoned():
    release = asyncio.Event()
    work = Bounded(_stubborn(release), 0.01)
    asyncio.get_running_loop().call_soon(work.cut)
    with pytest.raises(Overdue) as caught:
        await work.wait(3600)
    assert caught.value.fate == "abandoned"
    release.set()


@pytest.mark.skipif(sys.version_info < (3, 12), reason="tasks cannot begin as they are made")
async def test_work_that_never_waits_has_ended_before_anybody_waits_for_it():
    work = Bounded(give("soon"), 1)
    assert not work.abandoned
    with pytest.raises(StopIteration) as ended:
        work.wait(300).send(None)
    assert ended.value.value == "soon"


async def test_work_that_waits_has_a_scope_of_its_own_from_its_first_step_on():
    async def bounded_itself() -> str:
        with anyio.move_on_after(0) as scope:
            await anyio.sleep_forever()
        await anyio.lowlevel.checkpoint()
        return f"went on: {scope.cancelled_caught}"

    with anyio.fail_after(300):
        assert await Bounded(bounded_itself(), 1).wait(300) == "went on: True"
