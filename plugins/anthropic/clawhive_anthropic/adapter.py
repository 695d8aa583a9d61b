"""The adapter `anthropic`: one client of the SDK per event loop, made at the first call."""

from __future__ import annotations

from collections.abc import AsyncIterator
from importlib import import_module
from typing import TYPE_CHECKING

import anyio
from anyio.lowlevel import RunVar

from clawhive_anthropic.blocks import NAME
from clawhive_anthropic.failures import as_model_errors
from clawhive_anthropic.request import Written, write_request, write_tool
from clawhive_anthropic.response import read_response
from clawhive_anthropic.settings import DEFAULT_HOST, Credential, Settings
from clawhive_anthropic.streaming import Reading
from clawhive_core import LlmRequest, LlmResponse, StreamEvent, WireTools, bound_body

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic, AsyncStream, RequestOptions

_PATH = "/v1/messages"


class AnthropicAdapter:
    """Asks models over the Messages API (`clawhive_core.LlmAdapter`)."""

    name = NAME
    default_host = DEFAULT_HOST
    supports_tools = True

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._tools = WireTools(write_tool)
        self._client: RunVar[AsyncAnthropic | None] = RunVar(NAME, None)

    @property
    def host(self) -> str:
        """The host of the base URL."""
        return self._settings.host

    async def chat(self, request: LlmRequest) -> LlmResponse:
        """Answer a request.

        Raises:
            ModelError: What `model_failure` lists.
        """
        credential = self._settings.credential()
        client = await self._opened(credential)
        table = self._tools.table(request.tools)
        written = write_request(request, table, stream=False)
        with as_model_errors(credential.value):
            answer = await client.post(
                _PATH, cast_to=object, body=written.body, options=_options(client, written)
            )
        return read_response(answer, table)

    async def stream(self, request: LlmRequest) -> AsyncIterator[StreamEvent]:
        """Answer a request piece by piece.

        Raises:
            ModelError: What `model_failure` lists, also after the first pieces.
        """
        credential = self._settings.credential()
        client = await self._opened(credential)
        table = self._tools.table(request.tools)
        written = write_request(request, table, stream=True)
        reading = Reading(table)
        with as_model_errors(credential.value):
            async with await _streamed(client, written) as events:
                async for event in events:
                    for told in reading.take(event):
                        yield told
                    if reading.ended:
                        break
        for told in reading.finish():
            yield told

    async def close(self) -> None:
        """Close the client of this event loop; a later call opens another."""
        client = self._client.get()
        self._client.set(None)
        if client is not None:
            await client.close()

    async def _opened(self, credential: Credential) -> AsyncAnthropic:
        client = self._client.get()
        if client is None:
            # A second or so, in which others on this event loop go on.
            await anyio.to_thread.run_sync(_load)
            client = self._client.get() or self._made(credential)
            self._client.set(client)
        return client

    def _made(self, credential: Credential) -> AsyncAnthropic:
        from anthropic import AsyncAnthropic, DefaultAsyncHttpxClient

        value = credential.value
        return AsyncAnthropic(
            api_key=None if credential.is_token else value,
            auth_token=value if credential.is_token else None,
            base_url=self._settings.base_url,
            max_retries=0,  # retries are the core's
            http_client=DefaultAsyncHttpxClient(event_hooks={"response": [bound_body]}),
        )


def _load() -> None:
    for name in ("anthropic", "genai_prices"):
        import_module(name)


def _options(client: AsyncAnthropic, written: Written) -> RequestOptions:
    return {
        "headers": dict(written.headers),
        "params": dict(written.query),
        "timeout": client.timeout,
        "follow_redirects": False,  # the right is for one host, and so is the conversation
    }


async def _streamed(client: AsyncAnthropic, written: Written) -> AsyncStream[object]:
    """Return the API's events as JSON: the SDK's types would lose what they do not know."""
    from anthropic import AsyncStream

    return await client.post(
        _PATH,
        cast_to=object,
        body=written.body,
        options=_options(client, written),
        stream=True,
        stream_cls=AsyncStream[object],
    )
