import asyncio
import datetime as dt
import json
import math
import threading
import uuid
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import NamedTuple

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from clawhive_core import InvokeContext, ToolError, ToolResult, tool
from clawhive_core.errors import NeedHumanApproval
from clawhive_core.model.canonical import canonical_text
from clawhive_core.plugins.invocation import invoke, to_result
from clawhive_core.plugins.tool import declaration_of


async def run(function, ctx, **arguments):
    return await invoke(declaration_of(function), arguments, ctx)


async def test_a_def_runs_in_a_worker_thread_and_gets_the_context(ctx):
    @tool
    def where(ctx: InvokeContext) -> dict[str, object]:
        """Tell the thread."""
        return {"main": threading.current_thread() is threading.main_thread(), "run": ctx.run_id}

    assert (await run(where, ctx)).structured == {"main": False, "run": "run-1"}


async def test_an_async_def_is_awaited_in_the_loop(ctx):
    @tool
    async def where() -> bool:
        """Tell the thread."""
        await anyio.lowlevel.checkpoint()
        return threading.current_thread() is threading.main_thread()

    assert await run(where, ctx) == ToolResult("call-1", "true", structured=True)


async def test_a_cancelled_call_waits_for_its_thread_so_that_its_caller_can_call_it_abandoned(ctx):
    started, release, ended = threading.Event(), threading.Event(), threading.Event()

    @tool
    def wait() -> None:
        """Wait."""
        started.set()
        release.wait(300)
        ended.set()

    call = asyncio.ensure_future(run_quietly(wait, ctx))
    await anyio.to_thread.run_sync(started.wait, 300)
    for _ in range(2):
        call.cancel()
        await asyncio.wait((call,), timeout=0.01)
        assert not call.done()
        assert not ended.is_set()
    release.set()
    await asyncio.wait((call,), timeout=300)
    assert call.done()
    assert ended.is_set()


async def run_quietly(function, ctx):
    await run(function, ctx)


async def test_cancellation_passes_through_an_async_tool(ctx):
    seen = []

    @tool
    async def wait() -> None:
        """Wait."""
        try:
            await anyio.sleep_forever()
        except anyio.get_cancelled_exc_class():
            seen.append("cancelled")
            raise

    async with anyio.create_task_group() as group:
        group.start_soon(run_quietly, wait, ctx)
        await anyio.wait_all_tasks_blocked()
        group.cancel_scope.cancel()
    assert seen == ["cancelled"]


async def failure(function, ctx):
    with pytest.raises(ToolError) as caught:
        await run(function, ctx)
    return caught.value


@pytest.mark.parametrize(
    "error", [ValueError("bad"), SystemExit(3), StopIteration(), ExceptionGroup("g", [OSError()])]
)
async def test_an_exception_is_the_tools_failure_with_its_place(error, ctx):
    @tool
    def act() -> str:
        """Act."""
        raise error

    found = await failure(act, ctx)
    assert found.code == "tool_failed"
    assert "test_invocation.py:" in found.place
    assert type(error).__name__ in found.message


async def test_an_exception_of_an_async_tool_is_its_failure_too(ctx):
    @tool
    async def act() -> str:
        """Act."""
        raise SystemExit(1)

    assert (await failure(act, ctx)).code == "tool_failed"


@pytest.mark.parametrize("error", [ToolError("no", code="not_found"), NeedHumanApproval("ask")])
async def test_errors_with_a_code_pass_as_they_are(error, ctx):
    @tool
    def act() -> str:
        """Act."""
        raise error

    with pytest.raises(type(error)) as caught:
        await run(act, ctx)
    assert caught.value is error


async def test_a_def_that_returns_a_coroutine_is_refused(ctx):
    async def later():
        return 1

    @tool
    def act() -> str:
        """Act."""
        return later()

    found = await failure(act, ctx)
    assert found.code == "invalid_output"
    assert "async def" in found.fix


class Colour(Enum):
    RED = "red"


class Text(StrEnum):
    A = "a"


class Level(IntEnum):
    HIGH = 4


@dataclass
class Point:
    x: int
    when: dt.date = dt.date(2026, 1, 2)


class Model(BaseModel):
    at: dt.datetime
    point: Point


class Pair(NamedTuple):
    a: int
    b: str


@pytest.mark.parametrize(
    ("value", "text", "structured"),
    [
        ("text", "text", None),
        (Text.A, "a", None),
        (None, "", None),
        (3, "3", 3),
        (True, "true", True),
        (2.5, "2.5", 2.5),
        (Level.HIGH, "4", 4),
        ({"b": 1, "a": None}, '{"a":null,"b":1}', {"b": 1, "a": None}),
        ([1, "x"], '[1,"x"]', [1, "x"]),
        (Pair(1, "b"), '[1,"b"]', [1, "b"]),
        (MappingProxyType({"a": 1}), '{"a":1}', {"a": 1}),
        (Point(1), '{"when":"2026-01-02","x":1}', {"x": 1, "when": "2026-01-02"}),
        (
            Model(at=dt.datetime(2026, 1, 1, tzinfo=dt.UTC), point=Point(2)),
            '{"at":"2026-01-01T00:00:00Z","point":{"when":"2026-01-02","x":2}}',
            {"at": "2026-01-01T00:00:00Z", "point": {"x": 2, "when": "2026-01-02"}},
        ),
        ({"c": Colour.RED, "p": PurePosixPath("a/b")}, '{"c":"red","p":"a/b"}', None),
        ({"d": Decimal("1.10"), "s": {2, 1}}, '{"d":"1.10","s":[1,2]}', None),
        ({"u": uuid.UUID(int=1)}, '{"u":"00000000-0000-0000-0000-000000000001"}', None),
    ],
)
def test_values_become_results(value, text, structured):
    result = to_result(value, "call-1")
    assert (result.tool_call_id, result.output, result.is_error) == ("call-1", text, False)
    if structured is not None:
        assert result.structured == structured
    json.dumps(result.structured, allow_nan=False)


def test_a_result_stays_as_it_is_under_the_id_of_its_call():
    made = ToolResult("", "out", is_error=True, structured={"a": 1})
    assert to_result(made, "call-1") == ToolResult(
        "call-1", "out", is_error=True, structured={"a": 1}
    )


def cycle():
    value = []
    value.append(value)
    return value


@pytest.mark.parametrize(
    ("value", "place"),
    [
        (object(), None),
        (b"bytes", None),
        (dt.date(2026, 1, 1), None),
        (Path("x"), None),
        (Colour.RED, None),
        (iter([1]), None),
        (Point, None),
        ({"a": [1, object()]}, "/a/1"),
        ({1: "a"}, None),
        ({"a": {2: 1}}, "/a"),
        (math.nan, None),
        ({"a": math.inf}, "/a"),
        ([b"x"], "/0"),
        ({"a": Point}, "/a"),
        (cycle(), None),
    ],
)
def test_anything_else_is_an_invalid_output(value, place):
    with pytest.raises(ToolError) as caught:
        to_result(value, "call-1")
    assert caught.value.code == "invalid_output"
    assert caught.value.place == place
    assert caught.value.fix


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(st.lists(json_values) | st.dictionaries(st.text(), json_values))
def test_every_json_value_comes_through_unchanged(value):
    result = to_result(value, "c")
    assert result.structured == value
    assert result.output == canonical_text(value)
