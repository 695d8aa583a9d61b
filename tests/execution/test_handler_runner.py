"""Which box a handler gets, and what it may ask for from there."""

import sys

import pytest

from clawhive_core import HandlerOutcome, SandboxLimits, SandboxUnavailable, ToolError
from clawhive_core.execution.context import ToolContext
from clawhive_core.execution.handlers.child import ChildPython
from clawhive_core.execution.handlers.handlers import HandlerRequests, HandlerRunner
from clawhive_core.protocols.sandbox import HandlerCall
from tests.execution.test_skill_tools import Project
from tests.harness import echo

CALL = HandlerCall("", "handlers.py", "f", {}, {}, SandboxLimits())


class Programs:
    """An engine that runs programs and no handlers."""

    name = "programs"


class Unusable:
    """An engine for handlers that cannot be used here."""

    name = "closed"
    isolation = "guest"

    def __init__(self, fix=None):
        self.fix = fix

    async def run_handler(self, call, host, output):
        raise SandboxUnavailable("it is closed", fix=self.fix)


class Answers(Unusable):
    """An engine that answers what it asks for."""

    async def run_handler(self, call, host, output):
        return HandlerOutcome(5)


@pytest.fixture
def context(house):
    return ToolContext(
        house.scope(), "zodiac.f", "call_1", (), float("inf"), house.executor, "skill_zodiac"
    )


@pytest.fixture
async def skill(house, monkeypatch):
    monkeypatch.delenv("CLAWHIVE_RUN", raising=False)
    project = Project(house.root)
    project.zodiac()
    async with project.hive() as hive:
        return next(each for each in hive.skills if each.id == "zodiac")


@pytest.fixture
def run(context, skill):
    """Run a handler over engines."""

    async def running(*engines):
        return await HandlerRunner(lambda: engines, SandboxLimits()).run(skill, CALL, context)

    return running


async def failed(awaitable):
    with pytest.raises(ToolError) as caught:
        await awaitable
    return caught.value


async def test_an_engine_that_runs_no_handlers_is_passed_over(run):
    assert await run(Programs(), Answers()) == 5
    error = await failed(run(Programs()))
    assert error.code == "sandbox_unavailable"
    assert "no sandbox engine here runs handlers" in error.message


async def test_an_engine_that_is_not_usable_gives_way_to_the_next_and_tells_how_to_use_it(run):
    assert await run(Unusable(), Answers()) == 5
    error = await failed(run(Unusable("switch it on"), Unusable("not this one")))
    assert (error.code, error.fix) == ("sandbox_unavailable", "switch it on")
    assert "`closed` is not usable here: it is closed" in error.message
    assert "clawhive doctor" in (await failed(run(Unusable()))).fix


@pytest.mark.parametrize(
    ("method", "arguments"),
    [
        ("secret", {"name": "KEY"}),
        ("complete", {"request": None}),
        ("output", {"stream": "stderr", "data": b"x"}),
        ("card", {"card": {}}),
        ("end", {}),
        ("__init__", {}),
        ("nothing", {}),
    ],
)
async def test_a_handler_reaches_nothing_of_its_context_but_what_it_is_given(
    house, context, method, arguments
):
    """Whatever it says on its line to the host."""
    house.secrets["KEY"] = "hunter22"
    error = await failed(HandlerRequests(context, 5)(method, arguments))
    assert (error.code, error.message) == ("invalid_input", f"ctx has no `{method}`")
    assert house.signals == []
    assert context.remaining() > 0


@pytest.mark.parametrize("name", [None, 3, ["demo.echo"], {"a": 1}])
async def test_a_handler_calls_a_tool_by_a_name(context, name):
    error = await failed(HandlerRequests(context, 5)("call", {"name": name, "input": {}}))
    assert (error.code, error.message) == ("invalid_input", "ctx.call takes the name of a tool")


async def test_a_call_without_input_is_one_with_an_empty_input(house, context):
    await house.offer("demo.echo", echo).ready()
    assert await HandlerRequests(context, 5)("call", {"name": "demo.echo"}) == {}
    assert await HandlerRequests(context, 5)("call", {"name": "demo.echo", "input": {"n": 1}}) == {
        "n": 1
    }


async def test_without_a_python_of_its_own_no_process_is_started(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "executable", "")
    with pytest.raises(SandboxUnavailable, match="on this system"):
        await ChildPython(tmp_path, "run_1").run_handler(CALL, None, None)
