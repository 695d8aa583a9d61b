"""One answer as it arrives: its headers, its bounded body, and the failures that may end it."""

from __future__ import annotations

import zlib
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Callable,
    Generator,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import aclosing, contextmanager
from time import monotonic
from typing import Any, Final, Literal

from clawhive_core.errors import ToolError
from clawhive_core.execution.http.target import Target
from clawhive_core.model.late import dataclass

_PIECE: Final = 64 * 1024
_PACKED: Final = {"gzip": 31, "x-gzip": 31, "deflate": 15}
_PLAIN: Final = frozenset({"", "identity"})
_RAW_DEFLATE: Final = -15


class Deadline:
    """The moment when a request must be over; None is never."""

    def __init__(self, seconds: float | None) -> None:
        self._at = None if seconds is None else monotonic() + seconds

    def left(self, most: float | None = None) -> float | None:
        """Return the seconds that are left, at most so many."""
        if self._at is None:
            return most
        left = max(0.0, self._at - monotonic())
        return left if most is None else min(left, most)

    def extend(self, since: float) -> None:
        """Do not count the time since a moment of the monotonic clock."""
        if self._at is not None:
            self._at += monotonic() - since


@dataclass(slots=True)
class Answer:
    """A status and headers, with a body that has not been read (protocols: HttpStream)."""

    target: Target
    status: int
    fields: Sequence[tuple[bytes, bytes]]
    """The headers as they came."""
    body: Any
    """The body of the connection: an AsyncIterable with an `aclose`, which keeps the deadline."""
    limit: int
    deadline: Deadline
    cut: bool = False
    history: tuple[str, ...] = ()
    truncated: bool = False
    taken: bool = False
    closed: bool = False

    @property
    def url(self) -> str:
        """The address that it came from."""
        return self.target.url

    @property
    def headers(self) -> Mapping[str, str]:
        """By lower-case name; those that came several times are joined by commas."""
        found: dict[str, list[str]] = {}
        for name, value in self.fields:
            found.setdefault(_text(name).lower(), []).append(_text(value))
        return {name: ", ".join(values) for name, values in found.items()}

    def all(self, name: str) -> list[str]:
        """Return the values of a header, each as it came."""
        wanted = name.encode()
        return [_text(value) for raw, value in self.fields if raw.lower() == wanted]

    async def read(self) -> bytes:
        """Return the whole body, or where it was begun the rest.

        Raises:
            ToolError: As `chunks`.
        """
        found = bytearray()
        async for piece in self.chunks():
            found += piece
        return bytes(found)

    async def chunks(self) -> AsyncIterator[bytes]:
        """Yield the body, unpacked, in pieces.

        Raises:
            ToolError: `response_too_large`, unless it may be cut; `timeout`; `connection_failed`
                where it ends too early; `provider_error` where it is not what its headers say.
        """
        if self.taken:
            return
        self.taken = True
        unpack = _unpacking(self.target, self.all("content-encoding"))
        left = self.limit
        if not self.cut and self._announced() > self.limit:
            raise too_large(self.target, "body", self.limit)
        async with aclosing(self._timed()) as raw:
            async for data in raw:
                for piece in unpack(data):
                    if len(piece) > left:
                        self._end_at_limit()
                        yield piece[:left]
                        return
                    left -= len(piece)
                    yield piece
        if not self.truncated:
            for piece in unpack(None):
                yield piece

    def _announced(self) -> int:
        length = self.all("content-length")
        return int(length[0]) if len(length) == 1 and length[0].isdigit() else 0

    async def _timed(self) -> AsyncGenerator[bytes]:
        """Yield the body as it is sent, no more of it than the limit."""
        left, source = self.limit, aiter(self.body)
        try:
            with translated_errors(self.target, "body"):
                async for part in source:
                    if len(part) > left:
                        self._end_at_limit()
                        yield part[:left]
                        return
                    left -= len(part)
                    yield part
        finally:
            await source.aclose()
            await self.aclose()

    def _end_at_limit(self) -> None:
        if not self.cut:
            raise too_large(self.target, "body", self.limit)
        self.truncated = True

    async def aclose(self) -> None:
        """Let go of the connection; what was not read of the body is never read."""
        if self.closed:
            return
        import anyio

        self.taken = self.closed = True
        with anyio.CancelScope(shield=True):
            await self.body.aclose()


def _text(raw: bytes) -> str:
    """Return a part of a header, whose bytes mean UTF-8 today, and Latin-1 before."""
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return raw.decode("latin-1")


class _Unpacker:
    """The inverse of one `Content-Encoding`, in bounded pieces.

    What follows the packed stream is left out, as browsers do.
    """

    def __init__(self, target: Target, encoding: str) -> None:
        self._target, self._encoding = target, encoding
        self._stream = zlib.decompressobj(_PACKED[encoding])
        self._begun = False

    def __call__(self, data: bytes | None) -> Iterator[bytes]:
        """Yield what a part unpacks to; None says that no other follows."""
        if data is None:
            if self._begun and not self._stream.eof:
                raise unreachable(self._target, "the packed body is not whole")
            return
        while not self._stream.eof and (piece := self._next(data)):
            yield piece
            data = self._stream.unconsumed_tail

    def _next(self, data: bytes) -> bytes:
        first, self._begun = not self._begun, True
        try:
            return self._stream.decompress(data, _PIECE)
        except zlib.error as error:
            if first and self._encoding == "deflate":
                # RFC 9110 says zlib; some servers send the bare stream.
                self._stream = zlib.decompressobj(_RAW_DEFLATE)
                return self._next(data)
            message = f"the body is no {self._encoding}: {error}"
            raise unusable(self._target, message) from error


def _plain(data: bytes | None) -> Iterator[bytes]:
    if data:
        yield data


def _unpacking(target: Target, encodings: list[str]) -> Callable[[bytes | None], Iterator[bytes]]:
    names = [each.strip().lower() for line in encodings for each in line.split(",")]
    packed = [each for each in names if each not in _PLAIN]
    if not packed:
        return _plain
    if len(packed) > 1 or packed[0] not in _PACKED:
        shown = ", ".join(packed)[:80]
        raise unusable(target, f"the body is packed as {shown!r}, which was not asked for")
    return _Unpacker(target, packed[0])


Phase = Literal["name", "connection", "answer", "body"]

_DOING: Final = {
    "name": "looking up the host's name",
    "connection": "connecting",
    "answer": "waiting for an answer",
    "body": "reading the body",
}


def too_large(target: Target, part: str, limit: int) -> ToolError:
    """Return the error for an answer that holds more than it may."""
    return ToolError(
        f"the {part} of the answer: more than {limit} bytes",
        place=target.shown,
        fix="ask for less of it, or raise `body` of the request's limits",
        code="response_too_large",
        data={"limit": limit},
    )


def unusable(target: Target, message: str) -> ToolError:
    """Return the error for an answer that is none."""
    return ToolError(
        message,
        place=target.shown,
        fix="ask another address, or tell whoever runs this server",
        code="provider_error",
    )


def unreachable(target: Target, message: str) -> ToolError:
    """Return the error for a server that cannot be spoken to."""
    return ToolError(
        message,
        place=target.shown,
        fix="check the address and the network, then try again",
        code="connection_failed",
    )


def late(target: Target, phase: Phase) -> ToolError:
    """Return the error for what took too long."""
    return ToolError(
        f"time was over while {_DOING[phase]}",
        place=target.shown,
        fix="try again later, or raise the request's limits",
        code="timeout",
        data={"phase": phase},
    )


@contextmanager
def translated_errors(target: Target, phase: Phase) -> Generator[None]:
    """Turn what the network below raises into errors of tools."""
    import httpcore2

    try:
        yield
    except (httpcore2.ConnectTimeout, httpcore2.PoolTimeout) as error:
        raise late(target, "connection") from error
    except (TimeoutError, httpcore2.TimeoutException) as error:
        raise late(target, phase) from error
    except httpcore2.LocalProtocolError as error:
        raise ToolError(
            f"the request is no HTTP: {error}",
            place=target.shown,
            fix="correct its method and headers",
            code="invalid_input",
        ) from error
    except httpcore2.RemoteProtocolError as error:
        if "without sending" in str(error):
            raise unreachable(target, f"the connection broke: {error}") from error
        raise unusable(target, f"the answer is no HTTP: {error}") from error
    except (httpcore2.NetworkError, httpcore2.ProxyError, OSError) as error:
        why = str(error) or type(error).__name__
        raise unreachable(target, f"the connection failed: {why}") from error
