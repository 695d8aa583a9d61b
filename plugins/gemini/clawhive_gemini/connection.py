"""The SDK's client: one for each event loop, made when it is first needed."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable, Mapping
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import anyio.to_thread

from clawhive_core import ModelError, body_failure, bound_body
from clawhive_gemini.failures import exception_failure
from clawhive_gemini.settings import Settings, read_key

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

    from google.genai import Client

_OPENED: ContextVar[list[Any]] = ContextVar("responses that a stream has opened")
"""The SDK closes the response of a stream that is left early only when it is garbage."""


class Connection:
    """Sends JSON to the API and returns JSON as it came.

    The SDK adds address, key, headers and proxies, and takes event streams apart. Its types are
    left out: they drop what they do not know and write signatures anew, and a model's turn must go
    back as it was.
    """

    def __init__(self, settings: Settings, env: Mapping[str, str]) -> None:
        self._settings = settings
        self._env = env
        self._clients: WeakKeyDictionary[AbstractEventLoop, Client] = WeakKeyDictionary()

    async def post(self, path: str, body: dict[str, object]) -> Any:
        """Return the JSON value of an answer.

        Raises:
            ModelError: The API or the connection failed.
        """
        key = read_key(self._settings, self._env)
        try:
            transport = await self._transport(key)
            answer = await transport.async_request("post", path, body)
            return json.loads(answer.body or "null")
        except ModelError:
            raise
        except Exception as error:  # noqa: BLE001 - the SDK has three HTTP clients, each with its own errors
            raise body_failure(error) or exception_failure(error, key) from None

    async def stream(self, path: str, body: dict[str, object]) -> AsyncGenerator[Any]:
        """Yield the JSON values of an event stream.

        Raises:
            ModelError: The API or the connection failed.
        """
        key = read_key(self._settings, self._env)
        opened: list[Any] = []
        _OPENED.set(opened)
        try:
            transport = await self._transport(key)
            async for piece in await transport.async_request_streamed("post", path, body):
                yield json.loads(piece.body or "null")
        except ModelError:
            raise
        except Exception as error:  # noqa: BLE001 - the SDK has three HTTP clients, each with its own errors
            raise body_failure(error) or exception_failure(error, key) from None
        finally:
            for response in opened:
                await response.aclose()

    async def close(self) -> None:
        """Close all connections; a later call makes new ones."""
        clients = list(self._clients.values())
        self._clients.clear()
        for client in clients:
            client.close()
            await client.aio.aclose()

    async def _transport(self, key: str) -> Any:
        """Return what the running loop's client sends by."""
        import asyncio

        loop = asyncio.get_running_loop()
        if loop not in self._clients:
            make = await anyio.to_thread.run_sync(_client_class)
            if loop not in self._clients:
                self._clients[loop] = self._make(make, key)
        return self._clients[loop]._api_client  # noqa: SLF001 - see the class  # pyright: ignore[reportPrivateUsage] - see the class

    def _make(self, make: Callable[..., Client], key: str) -> Client:
        # Not retried: `Models` does. Not redirected: another host needs a right of its own, and
        # would be sent the key.
        options = {
            "base_url": self._settings.base_url,
            "api_version": self._settings.api_version,
            "retry_options": {"attempts": 1},
            "async_client_args": {
                "follow_redirects": False,
                "allow_redirects": False,
                "event_hooks": {"response": [_keep, bound_body]},
            },
        }
        return make(api_key=key, vertexai=False, http_options=options)


async def _keep(response: Any) -> None:
    _OPENED.get([]).append(response)


def _client_class() -> Callable[..., Client]:
    """Import the SDK and the prices, which takes a while."""
    import genai_prices
    from google.genai import Client

    del genai_prices
    return Client
