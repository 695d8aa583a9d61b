"""Shared parts of the tests of the adapter: servers on loopback and the shapes of answers."""

import json
from contextlib import asynccontextmanager

import pytest

from clawhive_core import LlmMessage, LlmRequest, ModelError, ToolDef
from clawhive_core.testing import WireAnswer, WireServer
from clawhive_openai import OpenAIAdapter, Server

KEY = "sk-secret-0123456789"


@pytest.fixture
def anyio_backend():
    return "asyncio"


@pytest.fixture(autouse=True, scope="session")
def one_tls_context():
    """Let all clients share what none uses on loopback: reading the certificates takes 50 ms."""
    try:
        import httpcore2
    except ImportError:  # the SDK's transport has had other names
        yield
        return
    context = httpcore2.default_ssl_context()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(httpcore2, "default_ssl_context", lambda **_: context)
        yield


class Bench:
    """Makes adapters for scripted servers, and requests."""

    key = KEY
    tool = ToolDef(
        "file.read", "Read a file.", {"type": "object", "properties": {"path": {"type": "string"}}}
    )

    @asynccontextmanager
    async def open(self, *bodies, api="chat", tools="native", name="openai"):
        """Open an adapter and its server; a body is JSON, a stream's text, or a WireAnswer."""
        answers = [each if isinstance(each, WireAnswer) else WireAnswer.of(each) for each in bodies]
        async with WireServer(answers) as server:
            made = Server(name, server.url, api, tools=tools)
            adapter = OpenAIAdapter(made, {"OPENAI_API_KEY": KEY})
            try:
                yield adapter, server
            finally:
                await adapter.close()

    async def failure(self, adapter, *, streamed):
        """Return the error that a request ends in."""
        try:
            if streamed:
                async for _ in adapter.stream(self.ask()):
                    pass
            else:
                await adapter.chat(self.ask())
        except ModelError as error:
            return error
        raise AssertionError("it was answered")

    def ask(self, *messages, **fields):
        given = messages or (LlmMessage.text("user", "Hi."),)
        return LlmRequest(fields.pop("model", "gpt-5-mini"), given, **fields)

    async def chat(self, body, api="chat", **fields):
        async with self.open(body, api=api) as (adapter, _):
            return await adapter.chat(self.ask(**fields))

    async def stream(self, body, api="chat", **fields):
        async with self.open(body, api=api) as (adapter, _):
            return [event async for event in adapter.stream(self.ask(**fields))]

    async def body(self, request, api="chat", answer=None):
        """Return what is sent for a request."""
        right = self.message(content="ok") if api == "chat" else self.response()
        async with self.open(answer or right, api=api) as (adapter, server):
            await adapter.chat(request)
            return server.requests[0].body

    def message(self, finish="stop", **message):
        choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish}
        usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
        return {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "model": "m",
            "choices": [choice],
            "usage": usage,
        }

    def call(self, arguments="{}", name="file__read", **more):
        function = {"name": name, "arguments": arguments}
        return {"id": "call_1", "type": "function", "function": function, **more}

    def chunks(self, *deltas, finish="stop", end=True):
        """Return a stream of chat chunks."""
        choices = [{"index": 0, "delta": delta, "finish_reason": None} for delta in deltas]
        if finish:
            choices.append({"index": 0, "delta": {}, "finish_reason": finish})
        lines = [{"id": "c", "model": "m", "choices": [choice]} for choice in choices]
        text = "".join(f"data: {json.dumps(line)}\n\n" for line in lines)
        return text + ("data: [DONE]\n\n" if end else "")

    def response(self, *items, status="completed", **more):
        usage = {"input_tokens": 7, "output_tokens": 3, "total_tokens": 10}
        return {
            "id": "resp_1",
            "object": "response",
            "model": "m",
            "status": status,
            "output": list(items) or [self.text("ok")],
            "usage": usage,
            **more,
        }

    def text(self, text, **more):
        parts = [{"type": "output_text", "text": text, "annotations": []}]
        return {"id": "msg_1", "type": "message", "role": "assistant", "content": parts, **more}

    def function_call(self, arguments="{}", **more):
        return {
            "id": "fc_1",
            "type": "function_call",
            "call_id": "call_1",
            "name": "file__read",
            "arguments": arguments,
            "status": "completed",
            **more,
        }

    def events(self, *events):
        """Return an event stream of the responses API."""
        return "".join(f"event: {each['type']}\ndata: {json.dumps(each)}\n\n" for each in events)


@pytest.fixture
def bench():
    return Bench()
