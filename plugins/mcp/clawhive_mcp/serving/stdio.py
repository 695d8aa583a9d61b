"""The client on stdin and stdout, read and written without threads, so that a signal ends it."""

from __future__ import annotations

import asyncio  # noqa: TID253 - imported to serve
import os
import re
import stat
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

import anyio
from anyio.abc import ObjectReceiveStream, ObjectSendStream
from mcp.shared.message import SessionMessage  # noqa: TID253 - imported to serve
from mcp_types import jsonrpc_message_adapter

if TYPE_CHECKING:
    from mcp.shared._stream_protocols import ReadStream, WriteStream

_LONGEST_LINE = 64 * 1024 * 1024
"""Bytes of one message; a client that sends a longer one is left."""

_NEAR = 200
_ID = re.compile(rb'"id"\s*:\s*(\d{1,18}|"[^"\\]{1,100}")')
_UNREADABLE = b'{"jsonrpc":"2.0","id":%s,"error":{"code":-32700,"message":"it cannot be read"}}\n'


@asynccontextmanager
async def standard_streams() -> AsyncGenerator[
    tuple[ReadStream[SessionMessage | Exception], WriteStream[SessionMessage]]
]:
    """Give the messages of the client on stdin and stdout, and the way to it.

    Meanwhile stdin is empty and stdout goes to stderr, so that what a tool prints is no message.
    """
    if not (_is_pollable(0) and _is_pollable(1)):
        from mcp.server.stdio import stdio_server

        async with stdio_server() as streams:
            yield streams
        return
    sys.stdout.flush()
    theirs, ours = os.dup(0), os.dup(1)
    empty = os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty, 0)
    os.dup2(2, 1)
    os.close(empty)
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(_LONGEST_LINE)
    reading, _ = await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(theirs, "rb", buffering=0)
    )
    flow = asyncio.StreamReaderProtocol(asyncio.StreamReader())
    writing, _ = await loop.connect_write_pipe(lambda: flow, os.fdopen(ours, "wb", buffering=0))
    writer = asyncio.StreamWriter(writing, flow, None, loop)
    try:
        yield _Incoming(reader, writer), _Outgoing(writer)
    finally:
        reading.close()
        writing.close()


def _is_pollable(descriptor: int) -> bool:
    """Whether a descriptor is a pipe or socket; a terminal is shared with a shell, and left."""
    with suppress(OSError):
        mode = os.fstat(descriptor).st_mode
        return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)
    return False


class _Incoming(ObjectReceiveStream[SessionMessage | Exception]):
    """The messages of the client; a line that is none is given as its error."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def receive(self) -> SessionMessage | Exception:
        """Return the next message.

        Raises:
            EndOfStream: The client closed its side.
        """
        while True:
            try:
                line = await self._reader.readline()
            except (ValueError, OSError) as error:  # too long, or the pipe broke
                raise anyio.EndOfStream from error
            if not line:
                raise anyio.EndOfStream
            if not line.isspace():
                break
        try:
            return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
        except ValueError as error:
            # One that is nested too deeply, say: whoever sent it would wait for ever.
            if found := _ID.search(line[:_NEAR]) or _ID.search(line[-_NEAR:]):
                self._writer.write(_UNREADABLE % found[1])
            return error

    async def aclose(self) -> None:
        """Nothing is held."""


class _Outgoing(ObjectSendStream[SessionMessage]):
    """The way to the client."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer

    async def send(self, item: SessionMessage) -> None:
        """Send a message.

        Raises:
            BrokenResourceError: The client is gone.
        """
        text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
        try:
            self._writer.write(text.encode() + b"\n")
            await self._writer.drain()
        except (ConnectionError, OSError) as error:
            raise anyio.BrokenResourceError from error

    async def aclose(self) -> None:
        """Write what is left."""
        with suppress(ConnectionError, OSError, TimeoutError), anyio.move_on_after(2):
            await self._writer.drain()
