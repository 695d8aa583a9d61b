"""Models that are loaded, and answers that are being written, off the event loop."""

from __future__ import annotations

import threading
from collections.abc import AsyncGenerator, Mapping
from queue import SimpleQueue
from typing import Any

import anyio.to_thread

from clawhive_core import ModelError, model_failure
from clawhive_local.server import Load, Server
from clawhive_local.settings import Settings
from clawhive_local.weights import weights_of

_STOP_SECONDS = 10.0


class Engine:
    """Loads each model once, and answers in a thread for each request.

    llama.cpp answers one request of a model at a time; others wait in its own queue.
    """

    def __init__(self, settings: Settings, load: Load) -> None:
        self._settings = settings
        self._load = load
        self._loading = threading.Lock()
        self._servers: dict[str, Server] = {}
        self._writing: set[_Writing] = set()

    async def answer(self, model: str, body: dict[str, Any]) -> AsyncGenerator[Mapping[str, Any]]:
        """Yield the pieces of an answer.

        Leaving it stops the model at its next token.

        Raises:
            ModelError: The model cannot be loaded, or llama.cpp failed.
        """
        writing = _Writing(self, model, body)
        self._writing.add(writing)
        writing.start()
        try:
            while True:
                piece = await anyio.to_thread.run_sync(writing.pieces.get, abandon_on_cancel=True)
                if piece is None:
                    return
                if isinstance(piece, Exception):
                    raise _failure(piece)
                yield piece
        finally:
            writing.stopped.set()
            self._writing.discard(writing)

    async def close(self) -> None:
        """Stop what is being written and unload all models; a later request loads anew."""
        await anyio.to_thread.run_sync(self._close)

    def server(self, model: str) -> Server:
        """Return a model's server, loading it where it is not yet; blocks meanwhile.

        Raises:
            ModelError: The model cannot be loaded.
        """
        with self._loading:
            path = weights_of(model)
            if path not in self._servers:
                self._servers[path] = self._load(path, self._settings)
            return self._servers[path]

    def _close(self) -> None:
        writing = list(self._writing)
        for each in writing:
            each.stopped.set()
        for each in writing:
            each.join(_STOP_SECONDS)
        with self._loading:
            self._servers.clear()


class _Writing(threading.Thread):
    """One answer that is being written."""

    def __init__(self, engine: Engine, model: str, body: dict[str, Any]) -> None:
        super().__init__(name="clawhive-local", daemon=True)
        self.pieces: SimpleQueue[Mapping[str, Any] | Exception | None] = SimpleQueue()
        """The pieces that came; None ends them."""
        self.stopped = threading.Event()
        self._engine = engine
        self._model = model
        self._body = body

    def run(self) -> None:
        """Write it."""
        try:
            server = self._engine.server(self._model)
            if not self.stopped.is_set():
                server.handle_chat_completions(self._body, self._take)
        except Exception as error:  # noqa: BLE001 - it is raised where the answer is read
            self.pieces.put(error)
        finally:
            self.pieces.put(None)

    def _take(self, piece: dict[str, Any]) -> bool:
        self.pieces.put(piece)
        return self.stopped.is_set()


def _failure(error: Exception) -> ModelError:
    if isinstance(error, ModelError):
        return error
    code = "invalid_request" if isinstance(error, ValueError) else "provider_error"
    return model_failure(code, f"llama.cpp: {error}")
