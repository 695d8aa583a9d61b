"""The suite that plays recordings to an adapter: it passes the right, it names the wrong."""

from __future__ import annotations

import json
import urllib.error
import urllib.request

import anyio
import pytest

from clawhive_core import (
    MAX_BODY,
    LlmResponse,
    StreamEvent,
    TextBlock,
    ToolCall,
    model_failure,
    status_code,
)
from clawhive_core.testing import (
    Exchange,
    Recording,
    ScriptedModel,
    Wire,
    WireAnswer,
    WireServer,
    check_adapter,
    check_faults,
    check_wire,
    read_recordings,
)


class Adapter:
    """An adapter for an API of our own: `{"say": TEXT, "call": {...}}`, streamed as lines."""

    name, host, default_host, supports_tools = "own", None, None, True

    def __init__(self, url, *, lose=""):
        self.url, self.lose = url, lose

    async def chat(self, request):
        return self._read(json.loads(await self._post(request)))

    async def stream(self, request):
        said, whole = "", None
        for line in (await self._post(request)).decode().splitlines():
            if line.startswith("end: "):
                whole = self._read({**json.loads(line[5:]), "say": said})
            elif line:
                said += json.loads(line[6:])
                yield StreamEvent("text", json.loads(line[6:]))
        if whole is None:
            raise model_failure("invalid_response", "the stream ended early")
        for call in whole.tool_calls:
            yield StreamEvent("tool_use", block=call)
        yield StreamEvent("done", response=whole)

    async def close(self):
        return None

    async def _post(self, request):
        turns = [self._write(message) for message in request.messages]
        return await anyio.to_thread.run_sync(_post, self.url, {"turns": turns})

    def _read(self, value):
        if not isinstance(value, dict) or "say" not in value:
            raise model_failure("invalid_response", "no answer")
        blocks = [TextBlock(value["say"])]
        call = value.get("call")
        if call:
            blocks.append(ToolCall(call["id"], call["name"], call["input"]))
        return LlmResponse(tuple(blocks), "tool_use" if call else "end_turn")

    def _write(self, message):
        if message.role == "user":
            return {"role": "user"}
        turn = {"role": "model", "say": message.content[0].text}
        calls = LlmResponse(message.content).tool_calls
        if calls:
            turn["call"] = {"id": calls[0].id, "name": calls[0].name, "input": calls[0].input}
            turn["call"].pop(self.lose, None)
        return turn


def _post(url, body):
    request = urllib.request.Request(url, json.dumps(body).encode())
    try:
        with urllib.request.urlopen(request, timeout=300) as answer:
            return _checked(answer)
    except urllib.error.HTTPError as error:
        with error:
            after = error.headers.get("retry-after")
            raise model_failure(
                status_code(error.code),
                "no",
                status=error.code,
                retry_after=None if after is None else float(after),
            ) from error
    except (OSError, ValueError, urllib.error.URLError) as error:
        raise model_failure("connection_failed", str(error)) from error


def _checked(answer):
    import http.client

    try:
        data = answer.read(MAX_BODY.get() + 1)
        if len(data) > MAX_BODY.get():
            raise model_failure("response_too_large", "too much")
        if answer.headers["content-type"] == "application/json":
            json.loads(data)
        elif b"end: " not in data:
            raise model_failure("invalid_response", "no end")
    except (http.client.HTTPException, ValueError) as error:
        raise model_failure("connection_failed", str(error)) from error
    return data


def turns(body):
    return [turn for turn in body["turns"] if turn["role"] == "model"]


CALLED = {"say": "I ask.", "call": {"id": "c1", "name": "x", "input": {"a": 1}}}
STREAM = 'data: "Grü"\n\ndata: "ße."\n\nend: {}\n\n'
GOOD = Recording(
    "good",
    (
        Exchange("/", {"turns": [{"role": "user"}]}, 200, CALLED),
        Exchange(
            "/",
            {"turns": [{"role": "user"}, {"role": "model", **CALLED}, {"role": "user"}]},
            200,
            STREAM,
        ),
        Exchange("/", {"turns": []}, 429, {"error": "wait"}),
    ),
)


@pytest.mark.filterwarnings("ignore::ResourceWarning")
async def test_a_right_adapter_passes_and_the_report_counts_what_was_played():
    report = await check_wire(Wire(Adapter, turns, (GOOD,)))
    assert (report.exchanges, report.streamed, report.errors) == (3, 1, 1)
    assert (report.compared, report.tool_calls) == (1, 1)


async def test_check_adapter_plays_the_recordings_too():
    report = await check_adapter(ScriptedModel(["a"] * 9), wire=Wire(Adapter, turns, (GOOD,)))
    assert report is not None
    assert report.compared == 1


async def test_an_adapter_that_loses_an_id_is_found_and_the_exchange_named():
    with pytest.raises(
        AssertionError, match=r"good, exchange 0: `call\.id` is None, recorded 'c1'"
    ):
        await check_wire(Wire(lambda url: Adapter(url, lose="id"), turns, (GOOD,)))


async def test_an_excused_recording_is_read_but_not_compared():
    wire = Wire(lambda url: Adapter(url, lose="id"), turns, (GOOD,), excused={"good": "why"})
    assert (await check_wire(wire)).compared == 0


async def test_an_error_that_is_read_as_an_answer_is_found():
    class Deaf(Adapter):
        async def chat(self, request):
            return LlmResponse((TextBlock("fine"),))

    with pytest.raises(AssertionError, match="exchange 0: was read as"):
        await check_wire(Wire(Deaf, turns, (Recording("bad", (GOOD.exchanges[2],) * 3),)))


@pytest.mark.filterwarnings("ignore::ResourceWarning")
async def test_broken_answers_must_become_coded_errors():
    await check_faults(Wire(Adapter, turns), json.dumps(CALLED).encode(), STREAM.encode())


async def test_an_adapter_without_the_retry_time_is_found():
    class Hasty(Adapter):
        async def chat(self, request):
            try:
                return await super().chat(request)
            except Exception as error:
                error.data = {**error.data, "retry_after": None}
                raise

    with pytest.raises(AssertionError, match="429 with retry-after: `retry_after` is not read"):
        await check_faults(Wire(Hasty, turns), json.dumps(CALLED).encode(), STREAM.encode())


async def test_the_server_keeps_what_was_sent_and_repeats_its_last_answer():
    async with WireServer([WireAnswer.of({"n": 1}), WireAnswer.of({"n": 2})]) as server:
        answers = [
            json.loads(await anyio.to_thread.run_sync(_post, server.url, {"q": index}))
            for index in range(3)
        ]
    assert answers == [{"n": 1}, {"n": 2}, {"n": 2}]
    assert [request.body for request in server.requests] == [{"q": 0}, {"q": 1}, {"q": 2}]


def test_recordings_are_read_and_a_bad_line_is_named(tmp_path):
    file = tmp_path / "r.jsonl"
    line = {
        "path": "one",
        "interactions": [
            {
                "request": {"path": "/v1", "body": {}},
                "response": {"status": 200, "body": "data: x\n\n"},
            }
        ],
    }
    file.write_text(json.dumps(line) + "\n{}\n", encoding="utf-8")
    recordings = read_recordings(file)
    assert next(recordings).exchanges[0].streamed
    with pytest.raises(ValueError, match=r"r\.jsonl:2"):
        next(recordings)
