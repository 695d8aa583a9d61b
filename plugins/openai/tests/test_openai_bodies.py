"""An answer whose body is larger than an answer may be: refused while it is read, not after."""

import gzip

import pytest

from clawhive_core import ModelError
from clawhive_core.protocols.adapter import MAX_BODY
from clawhive_core.testing import WireAnswer

LIMIT = 100_000
EVENTS = "text/event-stream"


@pytest.fixture(autouse=True)
def _small():
    token = MAX_BODY.set(LIMIT)
    yield
    MAX_BODY.reset(token)


async def refused(bench, answer, *, streamed):
    async with bench.open(answer) as (adapter, _):
        error = await bench.failure(adapter, streamed=streamed)
    assert isinstance(error, ModelError)
    assert error.code == "response_too_large", error
    assert error.data["retryable"] is False
    assert "limits.response_bytes" in error.fix


@pytest.mark.parametrize("status", [200, 400, 500])
async def test_a_whole_answer_is_bounded_also_one_that_is_an_error(bench, status):
    await refused(bench, WireAnswer(b" " * (LIMIT + 1) + b"{}", status), streamed=False)


async def test_an_answer_is_counted_as_it_is_unpacked(bench):
    packed = gzip.compress(b'{"x": "' + b"a" * (50 * LIMIT))
    assert len(packed) < LIMIT
    answer = WireAnswer(packed, headers={"content-encoding": "gzip"})
    await refused(bench, answer, streamed=False)


@pytest.mark.parametrize("line", [b"data: ", b"x", b"data: x\n", b"data: x\r\n", b": \n"])
async def test_an_event_that_does_not_end_is_bounded(bench, line):
    body = line * (LIMIT // len(line) + 1)
    await refused(bench, WireAnswer(body, 200, EVENTS, piece=LIMIT // 10), streamed=True)


@pytest.mark.parametrize(
    ("end", "piece"), [("\n", 0), ("\n", 9_973), ("\r\n", 9_973), ("\r", 9_973)]
)
async def test_a_stream_may_be_longer_than_any_event_of_it(bench, end, piece):
    said = bench.chunks(*({"content": "word "} for _ in range(1_500)))
    data = said.replace("\n", end).encode()
    assert len(data) > LIMIT
    async with bench.open(WireAnswer(data, 200, EVENTS, piece=piece)) as (adapter, _):
        events = [event async for event in adapter.stream(bench.ask())]
    assert events[-1].response.text == "word " * 1_500
