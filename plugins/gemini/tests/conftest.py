"""The API on loopback, with answers written by hand."""

from contextlib import asynccontextmanager
from importlib import import_module

import pytest

from clawhive_core import LlmMessage, LlmRequest, ToolDef
from clawhive_core.testing import WireAnswer, WireServer
from clawhive_gemini.adapter import GeminiAdapter
from clawhive_gemini.settings import Settings

KEY = "AIza-made-up-for-tests"


@pytest.fixture(autouse=True)
def _one_certificate(tmp_path_factory, monkeypatch):
    """Have clients load one certificate: all of certifi's are 20 ms for each client of the SDK."""
    file = tmp_path_factory.getbasetemp() / "one-certificate.pem"
    if not file.exists():
        certifi = import_module("certifi")  # the SDK's own dependency
        end = "-----END CERTIFICATE-----\n"
        file.write_text(certifi.contents().partition(end)[0] + end)
    monkeypatch.setenv("SSL_CERT_FILE", str(file))


ECHO = ToolDef("test.echo", "Answer its text.", {"type": "object", "$defs": {"a": {}}})


class Api:
    """Asks the adapter, and keeps what it sent."""

    def adapter(self, url, **env):
        return GeminiAdapter(Settings(url), env or {"GEMINI_API_KEY": KEY})

    def body(self, *parts, finish="STOP", **more):
        candidate = {"content": {"role": "model", "parts": list(parts)}, "finishReason": finish}
        return {"candidates": [candidate], "modelVersion": "gemini-3-flash-preview", **more}

    def sse(self, *chunks):
        import json

        return "".join(f"data: {json.dumps(chunk)}\r\n\r\n" for chunk in chunks)

    def request(self, *messages, model="gemini-3-pro", tools=(ECHO,), **more):
        asked = messages or (LlmMessage.text("user", "Say hello."),)
        return LlmRequest(model, tuple(asked), tools=tools, **more)

    @asynccontextmanager
    async def served(self, *answers):
        async with WireServer(answers) as server:
            adapter = self.adapter(server.url)
            try:
                yield adapter, server
            finally:
                await adapter.close()

    async def chat(self, body, request=None, status=200, **more):
        """Return the response, and the request's body."""
        answer = WireAnswer.of(body, status, **more)
        async with self.served(answer) as (adapter, server):
            response = await adapter.chat(request or self.request())
        return response, server.requests[-1].body

    async def stream(self, body, request=None):
        async with self.served(WireAnswer.of(body)) as (adapter, _):
            return [event async for event in adapter.stream(request or self.request())]

    async def sent(self, request):
        """Return the body that is sent for a request."""
        return (await self.chat(self.body({"text": "Hello."}), request))[1]


@pytest.fixture
def api():
    return Api()
