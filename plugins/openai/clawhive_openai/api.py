"""The SDK's client: one an event loop, made at the first request."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import AbstractContextManager
from functools import cache
from typing import TYPE_CHECKING, Any

from anyio.lowlevel import RunVar

from clawhive_core import bound_body, model_failure
from clawhive_openai.failures import translated
from clawhive_openai.settings import Server

if TYPE_CHECKING:
    from openai import AsyncOpenAI, AsyncStream
    from openai._types import RequestOptions


@cache
def _events() -> type[AsyncStream[object]]:
    """Return the SDK's stream without the frames that hold nothing.

    Some servers keep a connection alive by them (`event: ping`), and the SDK reads each as JSON.
    """
    from openai import AsyncStream

    class Events(AsyncStream[object]):
        async def _iter_events(self) -> AsyncGenerator[Any]:
            async for event in super()._iter_events():
                if event.data.strip():
                    yield event

    return Events


class Api:
    """Posts JSON to one server and reads JSON, whole or as an event stream.

    The SDK's typed methods are passed by: what they do not know they may drop, and the next request
    must carry an answer as it was.
    """

    def __init__(self, server: Server, env: Mapping[str, str]) -> None:
        self._server = server
        self._env = env
        self._clients: RunVar[tuple[str, AsyncOpenAI] | None] = RunVar(
            f"openai client of {server.name}", None
        )

    async def post(self, path: str, body: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the server's answer; errors of the SDK pass through, see `translated`.

        Raises:
            ModelError: `missing_key`; `invalid_response` where it is no JSON object.
        """
        client = self._client()
        answer: Any = await client.post(path, cast_to=object, body=body, options=self._options())
        if not isinstance(answer, dict):
            raise model_failure("invalid_response", "the server answered with no JSON object")
        return answer  # pyright: ignore[reportUnknownVariableType] - a JSON object has text keys

    async def stream(self, path: str, body: Mapping[str, Any]) -> AsyncGenerator[Mapping[str, Any]]:
        """Yield the JSON objects of the server's event stream; leaving it closes the connection.

        Raises:
            ModelError: `missing_key`; errors of the SDK pass through, see `translated`.
        """
        client = self._client()
        events = await client.post(
            path,
            cast_to=object,
            body={**body, "stream": True},
            options=self._options(),
            stream=True,
            stream_cls=_events(),
        )
        try:
            async for event in events:
                if isinstance(event, dict):
                    yield event
        finally:
            await events.close()

    def translated(self) -> AbstractContextManager[None]:
        """Return a context in which each failure is a ModelError without the key."""
        return translated(self._server.key(self._env))

    async def close(self) -> None:
        """Close the connections of this event loop."""
        known = self._clients.get()
        if known is not None:
            self._clients.set(None)
            await known[1].close()

    def _client(self) -> AsyncOpenAI:
        """Return this event loop's client, a new one where the environment has another key."""
        key = self._server.key(self._env)
        known = self._clients.get()
        if known is not None and known[0] == key:
            return known[1]
        from openai import AsyncOpenAI, DefaultAsyncHttpxClient

        client = AsyncOpenAI(
            http_client=DefaultAsyncHttpxClient(event_hooks={"response": [bound_body]}),
            api_key=key or "none",  # the SDK insists on one; it is not sent
            base_url=self._server.base_url,
            max_retries=0,
        )
        self._clients.set((key, client))
        return client

    def _options(self) -> RequestOptions:
        """Return what differs from the SDK's own way.

        A redirect would carry the conversation to a host that policy has not seen, and the names of
        organisation and project are OpenAI's alone.
        """
        from openai import Omit

        names = [] if self._server.is_openai else ["OpenAI-Organization", "OpenAI-Project"]
        if not self._server.key(self._env):
            names.append("Authorization")
        return {"follow_redirects": False, "headers": {name: Omit() for name in names}}
