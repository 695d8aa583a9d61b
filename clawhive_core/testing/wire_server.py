"""A model provider's API on loopback: plays answers to an adapter's SDK, whole, cut and broken."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import field
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from clawhive_core.model.late import dataclass

if TYPE_CHECKING:
    from asyncio import Server, StreamReader, StreamWriter, Task

JSON = "application/json"
EVENT_STREAM = "text/event-stream"


@dataclass(frozen=True, slots=True)
class WireAnswer:
    """One HTTP answer, and how it arrives."""

    body: bytes = b""
    status: int = 200
    media_type: str = JSON
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    piece: int = 0
    """Bytes of each piece that is sent on its own; 0 sends all at once."""
    stop_after: int | None = None
    """The connection breaks after so many bytes of the body."""
    hang: bool = False
    """Nothing is answered as long as the connection lives."""

    @classmethod
    def of(
        cls,
        body: Any,
        status: int = 200,
        *,
        media_type: str | None = None,
        headers: Mapping[str, str] | None = None,
        piece: int = 0,
        stop_after: int | None = None,
        hang: bool = False,
    ) -> WireAnswer:
        """Return the answer for a recorded body: a text is an event stream, all else is JSON."""
        is_text = isinstance(body, str)
        data = body if is_text else json.dumps(body, ensure_ascii=False)
        kind = media_type or (EVENT_STREAM if is_text else JSON)
        return cls(data.encode(), status, kind, headers or {}, piece, stop_after, hang)


@dataclass(frozen=True, slots=True)
class WireRequest:
    """The request that the adapter's SDK sent."""

    method: str
    path: str
    headers: Mapping[str, str]
    """Names in lower case."""
    body: Any
    """The JSON value, None where there is none."""


Answers = Iterable[WireAnswer] | Callable[[WireRequest], WireAnswer]


class WireServer:
    """Serves answers in their order, the last one again and again; an async context manager.

    Args:
        answers: The answers, or a function of the request.

    Example:
        async with WireServer([WireAnswer.of({"id": "1"})]) as server:
            await make_adapter(server.url).chat(request)
        assert server.requests[0].body["model"] == "test"
    """

    def __init__(self, answers: Answers) -> None:
        self.requests: list[WireRequest] = []
        """Every request so far."""
        self.url = ""
        self._answer = answers if callable(answers) else _in_order(list(answers))
        self._server: Server | None = None
        self._tasks: set[Task[Any]] = set()

    async def __aenter__(self) -> Self:
        import asyncio

        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        port = self._server.sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        import asyncio

        if self._server is not None:
            self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._server is not None:
            await self._server.wait_closed()

    async def _serve(self, reader: StreamReader, writer: StreamWriter) -> None:
        import asyncio

        task = asyncio.current_task()
        if task is not None:
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        try:
            with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
                request = await _read(reader)
                self.requests.append(request)
                await _write(self._answer(request), reader, writer)
        finally:
            writer.close()
            with suppress(ConnectionError, asyncio.CancelledError):
                await writer.wait_closed()


def _in_order(answers: list[WireAnswer]) -> Callable[[WireRequest], WireAnswer]:
    left = answers[::-1]

    def next_answer(_: WireRequest) -> WireAnswer:
        return left.pop() if len(left) > 1 else left[0]

    return next_answer


async def _read(reader: StreamReader) -> WireRequest:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    first, *lines = head.split("\r\n")
    method, path, _ = first.split(" ", 2)
    pairs = (line.partition(":") for line in lines if line)
    headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    return WireRequest(method, path, headers, json.loads(body) if body else None)


async def _write(answer: WireAnswer, reader: StreamReader, writer: StreamWriter) -> None:
    import asyncio

    if answer.hang:
        await reader.read()
        return
    headers = {
        "content-type": answer.media_type,
        "transfer-encoding": "chunked",
        "connection": "close",
        **answer.headers,
    }
    lines = [f"HTTP/1.1 {answer.status} Played", *(f"{k}: {v}" for k, v in headers.items())]
    writer.write(("\r\n".join(lines) + "\r\n\r\n").encode("latin-1"))
    body = answer.body if answer.stop_after is None else answer.body[: answer.stop_after]
    size = answer.piece or len(body) or 1
    for start in range(0, len(body), size):
        piece = body[start : start + size]
        writer.write(b"%x\r\n%b\r\n" % (len(piece), piece))
        await writer.drain()
        await asyncio.sleep(0)
    if answer.stop_after is None:
        writer.write(b"0\r\n\r\n")
        await writer.drain()
