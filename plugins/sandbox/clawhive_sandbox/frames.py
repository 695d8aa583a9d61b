"""The protocol between an engine and its worker: frames over a stream socket, both ways.

A frame is its length (4 bytes, big endian), its kind (1 byte) and a body: JSON (`j`), or bytes that
the program printed (`o` stdout, `e` stderr). Nothing in it depends on both ends being one machine.

To the worker: `{"open": SPEC}` first, then `{"run": PROGRAM}`, and `{"answer": ID, ...}` to each
call. From it: `{"opened": N}` or `{"refused": WHY}` first; then output, `{"call": ID, "name": NAME,
"input": {}}`, and `{"ended": {...}}` to each run.
"""

from __future__ import annotations

import json
import socket
import struct
from typing import Any, cast

MOST = 32 << 20
"""Bytes of a frame; a longer one ends the conversation."""
HEADER = struct.Struct(">IB")
JSON, STDOUT, STDERR = b"joe"


class BrokenStream(Exception):
    """The other end said what is no frame."""


def frame(kind: int, body: bytes) -> bytes:
    """Return a frame."""
    return HEADER.pack(len(body), kind) + body


def json_frame(value: Any) -> bytes:
    """Return a frame of JSON."""
    return frame(JSON, json.dumps(value).encode())


async def send_all(stream: socket.socket, data: bytes) -> None:
    """Send bytes over a non-blocking socket; one whose other end has gone takes none."""
    import anyio

    left = memoryview(data)
    while left:
        try:
            left = left[stream.send(left) :]
        except BlockingIOError:
            await anyio.wait_writable(stream)
        except OSError:
            return


class Frames:
    """Takes frames from bytes as they arrive."""

    def __init__(self) -> None:
        self._data = bytearray()

    def feed(self, data: bytes) -> list[tuple[int, bytes]]:
        """Return the frames that are complete now, as kind and body.

        Raises:
            BrokenStream: A frame would be too long.
        """
        self._data += data
        found: list[tuple[int, bytes]] = []
        start = 0
        while len(self._data) - start >= HEADER.size:
            length, kind = HEADER.unpack_from(self._data, start)
            if length > MOST:
                raise BrokenStream(f"a frame of {length} bytes")
            end = start + HEADER.size + length
            if len(self._data) < end:
                break
            found.append((kind, bytes(self._data[start + HEADER.size : end])))
            start = end
        del self._data[:start]
        return found


def read_json(body: bytes) -> dict[str, Any]:
    """Return the object that a frame holds.

    Raises:
        BrokenStream: It holds something else.
    """
    try:
        value = json.loads(body)
    except ValueError as error:
        raise BrokenStream("a frame without JSON") from error
    if not isinstance(value, dict):
        raise BrokenStream("a frame without an object")
    return cast("dict[str, Any]", value)
