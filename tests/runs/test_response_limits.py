"""One cap on bytes, one on events and one deadline hold every answer, whatever adapter gives it."""

from __future__ import annotations

from itertools import count

import anyio
import pytest

from clawhive_core.hive.hive import RunOptions
from clawhive_core.model.embeddings import Embeddings
from clawhive_core.model.failures import model_failure
from clawhive_core.model.messages import (
    LlmResponse,
    MediaBlock,
    ProviderBlock,
    TextBlock,
    ThinkingBlock,
)
from clawhive_core.model.tools import ToolCall
from clawhive_core.protocols.adapter import StreamEvent
from clawhive_core.runs.responses import approximate_size
from clawhive_core.testing import ScriptedModel, memory_hive

MODEL = "scripted:test"
MOST = 4_000


class Streaming(ScriptedModel):
    """Streams what a generator yields, and counts it."""

    def __init__(self, events, pause=None):
        super().__init__([])
        self.events = events
        self.pause = pause
        self.given = 0
        self.closed = False

    async def stream(self, request):
        try:
            for event in self.events():
                self.given += 1
                if self.pause is not None:
                    await anyio.sleep(self.pause)
                yield event
        finally:
            self.closed = True


def ended(hive):
    (end,) = [each.event for each in hive.log.events() if each.event.kind == "model.end"]
    return end


def kept(hive):
    body = ended(hive).body
    return hive.log.load(body["partial"]) if "partial" in body else None


def forever(event):
    return lambda: (event for _ in count())


def streamed(hive):
    return hive.run("go", model=MODEL, stream=True)


CALL = ToolCall("c", "test.echo", {"n": "x" * 100})
ENDLESS = {
    "text": StreamEvent("text", "word " * 20),
    "thinking": StreamEvent("thinking", "hm, " * 25),
    "arguments": StreamEvent("tool_use", block=CALL),
    "media": StreamEvent("tool_use", block=MediaBlock("image", "image/png", "A" * 100)),
}


@pytest.mark.parametrize("kind", ENDLESS)
async def test_an_endless_stream_ends_at_the_cap_on_bytes_and_its_text_is_kept(kind):
    model = Streaming(forever(ENDLESS[kind]))
    settings = {"limits.response_bytes": MOST}
    async with memory_hive(adapters=[model], settings=settings) as hive:
        run = await streamed(hive)
        assert (run["status"], run["error"]["code"]) == ("failed", "response_too_large")
        assert "limits.response_bytes" in run["error"]["fix"]
        assert model.given <= MOST // 100 + 1
        assert model.closed
        assert kept(hive) == ("word " * 20 * (model.given - 1) if kind == "text" else None)
        assert "partial" not in str(run["error"])
        assert (await hive.replay("last")).ok


async def test_an_endless_stream_of_nothing_ends_at_the_cap_on_events():
    model = Streaming(forever(StreamEvent("text", "")))
    settings = {"limits.response_events": 500}
    async with memory_hive(adapters=[model], settings=settings) as hive:
        run = await streamed(hive)
        assert (run["error"]["code"], model.given) == ("response_too_large", 501)
        assert "limits.response_events" in run["error"]["fix"]
        assert (await hive.replay("last")).ok


@pytest.mark.parametrize("pause", [0.001, None])
async def test_a_stream_that_drips_ends_at_the_deadline_even_if_it_never_waits(pause):
    model = Streaming(forever(StreamEvent("text", "x")), pause)
    settings = {"limits.response_sec": 0.05, "limits.response_events": 2**40}
    async with memory_hive(adapters=[model], settings=settings) as hive:
        run = await streamed(hive)
        assert run["error"]["code"] == "timeout"
        assert "limits.response_sec" in run["error"]["fix"]
        assert model.closed
        assert set(kept(hive)) == {"x"}
        assert (await hive.replay("last")).ok


async def test_the_deadline_counts_all_attempts_and_waits():
    def busy(request):
        raise model_failure("overloaded", "busy", retry_after=60)

    model = ScriptedModel([busy] * 3)
    settings = {"limits.response_sec": 30}
    async with memory_hive(adapters=[model], settings=settings) as hive:
        run = await hive.run("go", model=MODEL)
    assert (run["error"]["code"], len(model.requests)) == ("overloaded", 1)


async def test_an_answer_just_below_the_caps_passes():
    answer = LlmResponse((TextBlock("x" * (MOST - 500)),))
    events = [StreamEvent("text", "x" * 10)] * ((MOST - 500) // 10)
    done = StreamEvent("done", response=answer)
    settings = {"limits.response_bytes": MOST, "limits.response_events": len(events) + 1}
    whole = ScriptedModel([answer])
    for model in (whole, Streaming(lambda: [*events, done])):
        async with memory_hive(adapters=[model], settings=settings) as hive:
            run = await hive.run("go", model=MODEL, stream=model is not whole)
            assert run["output"] == answer.text
            assert "partial" not in ended(hive).body


LARGE = {
    "text": TextBlock("x" * MOST),
    "wide text": TextBlock("ü" * (MOST // 2)),
    "thinking": ThinkingBlock("", signature="x" * MOST),
    "arguments": ToolCall("c", "test.echo", {"n": list(range(MOST // 8))}),
    "what is no JSON": ToolCall("c", "test.echo", {}, malformed="x" * MOST),
    "media": MediaBlock("image", "image/png", "A" * MOST),
    "its own": ProviderBlock("scripted", {"x" * MOST: None}),
}


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize("what", LARGE)
async def test_a_whole_answer_above_the_cap_is_refused_before_it_is_recorded(what, streams):
    model = ScriptedModel([LlmResponse((LARGE[what],))])
    if streams:
        (answer,) = model._script
        model = Streaming(lambda: [StreamEvent("done", response=answer)])
    settings = {"limits.response_bytes": MOST}
    async with memory_hive(adapters=[model], settings=settings) as hive:
        run = await hive.run("go", model=MODEL, stream=streams)
        assert run["error"]["code"] == "response_too_large"
        assert ended(hive).body["response"] is None
        assert (await hive.replay("last")).ok


async def test_the_text_of_a_stream_that_breaks_is_kept_and_shown_in_the_page():
    def broken():
        yield StreamEvent("text", "Once upon ")
        yield StreamEvent("text", "a time")
        raise OSError("gone")

    async with memory_hive(adapters=[Streaming(broken)]) as hive:
        run = await streamed(hive)
        assert "OSError: gone" in run["error"]["message"]
        assert kept(hive) == "Once upon a time"
        assert ended(hive).body["preview"] == "Once upon a time"
        assert (await hive.replay("last")).ok


class Vectors:
    """Makes vectors of as many numbers as it is told."""

    name, host, default_host, default_model = "vectors", None, None, "m"

    def __init__(self, dimension):
        self.dimension = dimension

    async def embed(self, texts, model):
        return Embeddings("m", tuple((1.0,) * self.dimension for _ in texts))

    async def close(self):
        pass


@pytest.mark.parametrize(("dimension", "fits"), [(490, True), (501, False)])
async def test_vectors_are_counted_as_the_log_keeps_them(tools, dimension, fits):
    async def embed(given, ctx):
        return (await ctx.embed(["a", "b"], None)).dimension

    tools.add("test.embed", embed)
    settings = {"limits.response_bytes": MOST}
    async with memory_hive(
        providers=[tools], embedders=[Vectors(dimension)], settings=settings
    ) as hive:
        _, outcome = await hive.call("test.embed", {}, RunOptions())
        ends = [e.event for e in hive.log.events() if e.event.kind == "embedding.end"]
    assert [each.status for each in ends] == ["succeeded" if fits else "failed"]
    assert ("response_too_large" in outcome.output) is not fits


def test_a_value_that_holds_itself_is_weighed_in_the_end():
    turning = []
    turning.append(turning)
    assert approximate_size(turning, 1_000) > 1_000
    assert approximate_size([[]] * 10, 1_000) == 88
