"""The calls of one attempt of a tool: what stops it, and how it follows what earlier ones made."""

import anyio
import pytest

from clawhive_core.errors import NeedHumanApproval, RunError
from clawhive_core.execution import nested
from clawhive_core.execution.nested import NestedCalls, earlier_calls
from tests.harness import echo, text

OLD, NEW = ("demo.echo", {"n": 1}), ("demo.echo", {"n": 2})


@pytest.fixture
async def restarted(house):
    """Return the calls of a second attempt; the first made one call."""

    async def outer(_input, ctx):
        await ctx.call(*OLD)
        return text()

    await house.offer("demo.outer", outer).offer("demo.echo", echo).ready()
    await house.call("demo.outer")
    await house.log.flush()
    calls = NestedCalls()
    calls.replay(earlier_calls(house.log, house.scope()))
    return calls


async def turns():
    for _ in range(100):
        await anyio.lowlevel.checkpoint()


async def parks():
    raise NeedHumanApproval("it waits for a person")


class Call:
    """One call of a tool, under way."""

    def __init__(self, calls, work):
        self.calls, self.work, self.ended = calls, work, None

    async def __call__(self):
        try:
            self.ended = await self.calls.run(self.work)
        except (NeedHumanApproval, RunError) as error:
            self.ended = error.code


async def test_an_attempt_stops_when_the_last_call_that_is_under_way_has_ended():
    calls, release = NestedCalls(), [anyio.Event(), anyio.Event()]
    beside = [Call(calls, event.wait) for event in release]
    stopped = Call(calls, parks)
    with anyio.fail_after(300):
        async with anyio.create_task_group() as group:
            for call in (*beside, stopped):
                group.start_soon(call)
                await turns()
            release[0].set()
            await turns()
            assert stopped.ended is None
            release[1].set()
    assert stopped.ended == NeedHumanApproval("").code
    late = Call(calls, turns)
    await late()
    assert late.ended == stopped.ended


async def test_a_new_call_waits_as_long_as_a_call_beside_it_is_under_way(restarted, monkeypatch):
    monkeypatch.setattr(nested, "CATCH_UP_SECONDS", 1e-6)
    monkeypatch.setattr(nested, "_STEP_SECONDS", 1e-6)
    release = anyio.Event()
    beside = Call(restarted, release.wait)
    new = Call(restarted, lambda: restarted.take_call(*NEW))
    with anyio.fail_after(300):
        async with anyio.create_task_group() as group:
            group.start_soon(beside)
            await turns()
            group.start_soon(new)
            await turns()
            assert new.ended is None
            assert (await restarted.take_call(*OLD))[0] == 1
            release.set()
    assert new.ended == (2, None)


async def test_a_new_call_for_which_nothing_comes_again_is_another_way(restarted, monkeypatch):
    monkeypatch.setattr(nested, "CATCH_UP_SECONDS", 1e-6)
    monkeypatch.setattr(nested, "_STEP_SECONDS", 1e-6)
    new = Call(restarted, lambda: restarted.take_call(*NEW))
    await new()
    assert new.ended == "not_resumable"
    assert restarted.made == 1


async def test_a_call_that_waits_for_code_beside_it_is_not_made_once_the_attempt_stops(restarted):
    new = Call(restarted, lambda: restarted.take_call(*NEW))
    stopped = Call(restarted, parks)
    with anyio.fail_after(300):
        async with anyio.create_task_group() as group:
            group.start_soon(new)
            await turns()
            assert new.ended is None
            group.start_soon(stopped)
            await turns()
            await restarted.take_call(*OLD)
    assert new.ended == stopped.ended == NeedHumanApproval("").code
    assert restarted.made == 1
