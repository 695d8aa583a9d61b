"""The worker processes that turn documents into text: warm, bounded, killed where they hang."""

from __future__ import annotations

import json
import os
import struct
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clawhive_core import ToolError, confine

if TYPE_CHECKING:
    import anyio
    from anyio.abc import Process

SECONDS = 8.0
"""The time that one document may take."""
QUICK_SECONDS = 5.0
"""The time of the quick extractor, after the careful one took too long."""
MEMORY = 1 << 30
"""Bytes of address space of a worker."""
MAX_BODY = 16 * 1024 * 1024
"""Bytes of a document."""
MAX_TEXT = 1_000_000
"""Characters of the text that is kept."""
MAX_ANSWER = 16 * 1024 * 1024
_PROGRAM = str(Path(__file__).with_name("_reader.py"))


class Readers:
    """A few workers, each started when it is first needed and used for one document at a time.

    Args:
        seconds: The time of one document.
        most: The number of workers; the machine's processors, 4 at most.
    """

    def __init__(self, seconds: float = SECONDS, most: int | None = None) -> None:
        self._seconds = seconds
        self._most = most or min(4, len(os.sched_getaffinity(0)))
        self._idle: list[Process] = []
        self._running: set[Process] = set()
        self._room: anyio.Semaphore | None = None

    async def read(
        self, body: bytes, kind: str, *, url: str = "", charset: str = ""
    ) -> dict[str, Any]:
        """Return the text of a document and what is known of it.

        Args:
            body: The document.
            kind: `html`, `pdf` or `text`.
            url: Its address, which its links are relative to.
            charset: What its server says.

        Raises:
            ToolError: `too_large`; `encrypted` or `not_readable`; `limit_reached`: it took too
                long or too much memory, with the quick extractor too.
        """
        import anyio

        if len(body) > MAX_BODY:
            raise ToolError(f"the document has more than {MAX_BODY} bytes", code="too_large")
        if self._room is None:
            self._room = anyio.Semaphore(self._most)
        request = {"kind": kind, "url": url, "charset": charset, "characters": MAX_TEXT}
        async with self._room:
            found = await self._asked({**request, "quick": False}, body, self._seconds)
            if found is None and kind == "html":
                seconds = min(QUICK_SECONDS, self._seconds)
                found = await self._asked({**request, "quick": True}, body, seconds)
        if found is None:
            found = {"error": "limit_reached", "message": "its worker took too long, or died of it"}
        if "error" in found:
            raise ToolError(
                found["message"], code=found["error"], place=url or None, fix="read another one"
            )
        return found

    async def _asked(
        self, request: dict[str, Any], body: bytes, seconds: float
    ) -> dict[str, Any] | None:
        """Return what a worker answers; None where it hangs or dies, which is its end."""
        import anyio

        worker = self._idle.pop() if self._idle else await self._started()
        self._running.add(worker)
        answer: dict[str, Any] | None = None
        try:
            with anyio.move_on_after(seconds):
                answer = await _conversed(worker, request, body)
        finally:
            self._running.discard(worker)
            if answer is None:
                await _ended(worker)
        if answer is not None:
            self._idle.append(worker)
        return answer

    async def _started(self) -> Process:
        import subprocess

        import anyio

        try:
            return await anyio.open_process(
                [sys.executable, "-I", _PROGRAM, str(confine.__file__), str(MEMORY)],
                stderr=subprocess.DEVNULL,
                env={"LC_ALL": "C.UTF-8"},
            )
        except OSError as error:
            raise ToolError(
                f"the worker of web.extract cannot be started: {error}",
                code="io_error",
                fix="see whether this Python can start processes",
            ) from error

    async def close(self) -> None:
        """Kill every worker and wait until it is gone."""
        while self._idle or self._running:
            worker = self._idle.pop() if self._idle else self._running.pop()
            await _ended(worker)


async def _conversed(
    worker: Process, request: dict[str, Any], body: bytes
) -> dict[str, Any] | None:
    """Send one document and return the answer; None where the worker is gone."""
    import anyio
    from anyio.streams.buffered import BufferedByteReceiveStream

    stdin, stdout = worker.stdin, worker.stdout
    if stdin is None or stdout is None:
        return None
    head = json.dumps(request).encode()
    try:
        for piece in (head, body):
            await stdin.send(struct.pack(">I", len(piece)))
            await stdin.send(piece)
        answers = BufferedByteReceiveStream(stdout)
        (length,) = struct.unpack(">I", await answers.receive_exactly(4))
        return json.loads(await answers.receive_exactly(length)) if length <= MAX_ANSWER else None
    except (OSError, anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.IncompleteRead):
        return None


async def _ended(worker: Process) -> None:
    """Kill a worker and take its end, whatever becomes of this task."""
    import anyio

    with suppress(ProcessLookupError):
        worker.kill()
    with anyio.CancelScope(shield=True):
        await worker.aclose()
