"""Answers of models' servers: JSON and event streams, whole, cut and broken, by each adapter."""

from __future__ import annotations

import asyncio  # noqa: TID253 - all inputs are judged in one loop
import json
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fuzzing.judging import ROOT, Verdict, Wrong, coded, require
from fuzzing.making import ODD_TEXTS, Case, changed, changed_bytes, json_text, text, value

from clawhive_anthropic import AnthropicAdapter, read_settings
from clawhive_core import LlmMessage, LlmRequest, ModelError, ToolDef
from clawhive_core.model.canonical import canonical
from clawhive_core.protocols.adapter import LlmAdapter
from clawhive_core.runs.responses import ResponseLimits, readable
from clawhive_core.testing import WireAnswer, WireServer, read_recordings
from clawhive_core.testing.adapter import check_response, check_stream, without_made_ids
from clawhive_gemini.adapter import GeminiAdapter
from clawhive_gemini.settings import Settings as GeminiSettings
from clawhive_local.adapter import LocalAdapter
from clawhive_local.settings import Settings as LocalSettings
from clawhive_openai import OpenAIAdapter, Server

KEY = "sk-secret-0123456789abcdef"
ECHO = ToolDef(
    "test.echo",
    "Answer its text.",
    {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
)
PIECES = (
    *ODD_TEXTS, "data: ", "event: ", "\n\n", "\r\n\r\n", "\r", ":", "id: 1\n", "retry: 1\n",
    "[DONE]",
    "data: {}\n\n", "data: null\n\n", "data: []\n\n", "event: error\n", '"error":', KEY, "{", "}",
    "]",
    '{"type": "error", "error": {"type": "overloaded_error", "message": 1}}', "\\ud800", "\\u0000",
)  # fmt: skip
HEADERS = (
    {"retry-after": "7"}, {"retry-after": "-1"}, {"retry-after": "nan"}, {"retry-after": "9" * 400},
    {"retry-after": "Wed, 21 Oct 9999 07:28:00 GMT"}, {"retry-after": "0"}, {"retry-after": "x"},
    {"retry-after": "Mon, 99 Foo 2026 99:99:99 +9999"}, {"retry-after-ms": "inf"}, {},
    {"retry-after": "1 Jan 0 0:0:0"}, {"retry-after": ",,,"},
    {"retry-after": "Mon, 1 Jan 1 +99999999"},
    {"content-encoding": "gzip"}, {"content-encoding": "br, deflate"}, {"location": "http://a/"},
)  # fmt: skip
STATUSES = (
    200,
    200,
    200,
    200,
    200,
    200,
    201,
    204,
    302,
    400,
    401,
    404,
    413,
    429,
    500,
    503,
    529,
    599,
)
CALL = {"name": "test__echo", "arguments": '{"text": "x"}'}
USAGE = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}


def _said(*events: Mapping[str, Any], named: bool = False, end: str = "") -> str:
    lines = [
        (f"event: {each['type']}\n" if named else "") + f"data: {json.dumps(each)}\n\n"
        for each in events
    ]
    return "".join(lines) + end


def _chat(message: Mapping[str, Any]) -> dict[str, Any]:
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    return {
        "id": "c",
        "object": "chat.completion",
        "model": "m",
        "choices": [choice],
        "usage": USAGE,
    }


def _chunk(delta: Mapping[str, Any], finish: str | None = None) -> dict[str, Any]:
    choices = [{"index": 0, "delta": delta, "finish_reason": finish}]
    return {"id": "c", "model": "m", "choices": choices, "usage": USAGE if finish else None}


_MESSAGE = {
    "id": "msg", "type": "message", "role": "assistant", "model": "claude-sonnet-4-5",
    "content": [
        {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"},
        {"type": "text", "text": "Hello.", "citations": None},
        {"type": "tool_use", "id": "t1", "name": "test__echo", "input": {"text": "x"}},
    ],
    "stop_reason": "tool_use", "usage": {"input_tokens": 3, "output_tokens": 2},
}  # fmt: skip
_BLOCKS = [
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hi"}},
    {"type": "content_block_stop", "index": 0},
    {
        "type": "content_block_start",
        "index": 1,
        "content_block": {"type": "tool_use", "id": "t1", "name": "test__echo", "input": {}},
    },
    {
        "type": "content_block_delta",
        "index": 1,
        "delta": {"type": "input_json_delta", "partial_json": '{"text": "x"}'},
    },
    {"type": "content_block_stop", "index": 1},
    {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 9}},
    {"type": "message_stop"},
]
_START = {"type": "message_start", "message": {**_MESSAGE, "content": [], "stop_reason": None}}
_FUNCTION = {"id": "call_1", "type": "function", "function": CALL}
_ITEMS = [
    {"id": "rs", "type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm."}]},
    {
        "id": "msg",
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_text", "text": "Hello.", "annotations": []}],
    },
    {"id": "fc", "type": "function_call", "call_id": "call_1", "status": "completed", **CALL},
]
_RESPONSE = {
    "id": "r", "object": "response", "model": "m", "status": "completed", "output": _ITEMS,
    "usage": {"input_tokens": 7, "output_tokens": 3, "total_tokens": 10},
}  # fmt: skip
_RESPONSES = [
    {"type": "response.created", "response": {**_RESPONSE, "status": "in_progress", "output": []}},
    {"type": "response.output_item.added", "output_index": 0, "item": {**_ITEMS[1], "content": []}},
    {
        "type": "response.output_text.delta",
        "output_index": 0,
        "content_index": 0,
        "delta": "Hello.",
    },
    {"type": "response.output_item.done", "output_index": 0, "item": _ITEMS[1]},
    {"type": "response.completed", "response": {**_RESPONSE, "output": [_ITEMS[1]]}},
]
_PARTS = [
    {"text": "Hm.", "thought": True, "thoughtSignature": "c2ln"},
    {"text": "Hello."},
    {"functionCall": {"name": "test__echo", "args": {"text": "x"}}},
]


def _gemini(*parts: Any, finish: str | None = "STOP") -> dict[str, Any]:
    candidate = {"content": {"role": "model", "parts": parts}, "finishReason": finish}
    usage = {"promptTokenCount": 4, "candidatesTokenCount": 5, "totalTokenCount": 9}
    return {"candidates": [candidate], "modelVersion": "gemini-3", "usageMetadata": usage}


PIECE = [
    _chunk({"role": "assistant"}),
    _chunk({"reasoning_content": "Hm."}),
    _chunk({"content": '{"tool": "test.echo", "arguments": {"text": "x"}}'}),
    _chunk({}, "stop"),
]
BODIES: Mapping[str, tuple[Any, ...]] = {
    "anthropic": (_MESSAGE, [_START, *_BLOCKS]),
    "chat": (
        _chat({"role": "assistant", "content": "Hello.", "reasoning_content": "Hm."}),
        _chat({"role": "assistant", "content": None, "tool_calls": [_FUNCTION]}),
        [_chunk({"role": "assistant", "content": "Hel"}), _chunk({"content": "lo."}, "stop")],
        [_chunk({"tool_calls": [{"index": 0, **_FUNCTION}]}), _chunk({}, "tool_calls")],
    ),
    "responses": (_RESPONSE, _RESPONSES),
    "gemini": (_gemini(*_PARTS), [_gemini(each, finish=None) for each in _PARTS] + [_gemini()]),
    "local": (PIECE,),
}
"""For each API JSON bodies, and lists of the events of a stream."""
RECORDED = {
    "anthropic": "anthropic_messages", "chat": "openai_chat", "responses": "openai_responses",
    "gemini": "gemini_generate_content",
}  # fmt: skip
MODELS = {"anthropic": "claude-sonnet-4-5", "gemini": "gemini-3-pro", "local": "model.gguf"}


class Llama:
    """A llama.cpp that answers the pieces it is given."""

    def __init__(self) -> None:
        self.pieces: list[Any] = []

    def load(self, *_: Any) -> Any:
        return self

    def handle_chat_completions(self, _: Any, take: Any) -> None:
        for each in self.pieces:
            if take(each):
                return


class Answers:
    """Each adapter over a server on loopback, or a made-up llama.cpp."""

    def __init__(self, folder: Path) -> None:
        self._loop = asyncio.new_event_loop()
        self._answer = WireAnswer()
        self._server = WireServer(lambda _: self._answer)
        self._loop.run_until_complete(self._server.__aenter__())
        url, env = self._server.url, {"OPENAI_API_KEY": KEY, "GEMINI_API_KEY": KEY}
        self._llama = Llama()
        self._weights = folder / "model.gguf"
        self._weights.write_bytes(b"GGUF" + bytes(60))
        settings = read_settings({"base_url": url}, {"ANTHROPIC_API_KEY": KEY})
        self._adapters: dict[str, LlmAdapter] = {
            "anthropic": AnthropicAdapter(settings),
            "chat": OpenAIAdapter(Server("openai", url, "chat"), env),
            "responses": OpenAIAdapter(Server("openai", url, "responses"), env),
            "gemini": GeminiAdapter(GeminiSettings(url), env),
            "local": LocalAdapter(LocalSettings(), self._llama.load),
        }
        self._recorded = {name: _recorded(file) for name, file in RECORDED.items()}
        for name in self._adapters:  # what an SDK loads at its first call is no input's growth
            self.judge((name, 200, {}, 0, BODIES[name][0], True))

    def make(self, rnd: random.Random) -> Case:
        name = rnd.choice(list(BODIES))
        body: Any = rnd.choice(BODIES[name])
        recorded = self._recorded.get(name, ())
        if recorded and rnd.random() < 0.4:
            body = rnd.choice(recorded)
        streams = isinstance(body, list | str)
        if isinstance(body, str) or rnd.random() < 0.3:
            said = body if isinstance(body, str) else _encoded(body, name)
            body = changed_bytes(rnd, said.encode(), PIECES) if name != "local" else body
        elif rnd.random() < 0.05 and name != "local":
            body = json_text(rnd, value(rnd)).encode(errors="surrogatepass")
        else:
            body = changed(rnd, body)
        headers = dict(rnd.choice(HEADERS)) if rnd.random() < 0.2 else {}
        if rnd.random() < 0.05:
            headers["retry-after"] = "".join(
                each for each in text(rnd)[:50] if each.isascii() and each.isprintable()
            )
        cut = rnd.choice((0, 0, 0, 1, 7, 61))
        if rnd.random() < 0.05:
            streams = not streams
        return (name, rnd.choice(STATUSES), headers, cut, body, streams)

    def judge(self, case: Case) -> Verdict:
        return self._loop.run_until_complete(self._judged(*case))

    async def _judged(
        self, name: str, status: int, headers: Any, cut: int, body: Any, streams: bool
    ) -> Verdict:
        kind = "text/event-stream" if streams else "application/json"
        data = body if isinstance(body, bytes) else _encoded(body, name).encode(errors="replace")
        self._llama.pieces = body if isinstance(body, list) else [body]
        small = len(data) < 3_000
        wholes: list[Any] = []
        for piece in (0, cut) if cut and streams and small else (0,):
            self._answer = WireAnswer(data, status, kind, headers, piece=piece)
            try:
                wholes.append(await self._asked(name, streams=streams))
            except ModelError as error:
                coded(error)
                require(KEY not in f"{error.message} {error.fix} {error.data}", "the key is told")
                require(isinstance(error.data.get("retryable"), bool), "no word on asking again")
                after = error.data.get("retry_after", 0)
                require(0 <= after < float("inf"), f"to be asked again after {after!r}")
                wholes.append(error.code)
        require(
            len({isinstance(each, str) for each in wholes}) == 1 and wholes[0] == wholes[-1],
            f"cut into pieces it is read otherwise: {wholes!r:.500}",
        )
        return "refused" if isinstance(wholes[0], str) else "taken"

    async def _asked(self, name: str, *, streams: bool) -> Any:
        adapter = self._adapters[name]
        model = str(self._weights) if name == "local" else MODELS.get(name, "gpt-5-mini")
        asked = LlmRequest(model, (LlmMessage.text("user", "Hi."),), tools=(ECHO,))
        try:
            if streams:
                events = [event async for event in adapter.stream(asked)]
                check_stream(events, "stream")
                response = events[-1].response
            else:
                response = await adapter.chat(asked)
                check_response(response, "chat")
        except AssertionError as error:
            raise Wrong(str(error)) from None
        ResponseLimits().check(response, name)
        if response is None:
            raise Wrong("no response")
        response = readable(response)
        for block in response.content:  # as it is recorded and sent back
            canonical([getattr(block, "text", ""), getattr(block, "input", None)])
        return [repr(without_made_ids(response))]


def _encoded(body: Any, name: str) -> str:
    try:
        if isinstance(body, list):
            rows = [each if isinstance(each, dict) else {"type": str(each)[:99]} for each in body]
            rows = [{"type": "x", **each} if name == "anthropic" else each for each in rows]
            named = name in {"anthropic", "responses"} and all("type" in each for each in rows)
            return _said(*rows, named=named, end="data: [DONE]\n\n" if name == "chat" else "")
        return json.dumps(body)
    except (ValueError, RecursionError):
        return "[" * 20_000


def _recorded(name: str) -> tuple[Any, ...]:
    file = ROOT.parent / "shared" / "data" / "cassettes_dev" / f"{name}.jsonl"
    if not file.exists():
        return ()
    bodies = [one.response for each in read_recordings(file) for one in each.exchanges]
    return tuple(each for each in bodies if len(json.dumps(each)) < 20_000)
