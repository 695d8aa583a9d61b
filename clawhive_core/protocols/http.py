"""The guarded HTTP client that a tool gets: `ctx.http`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, Protocol

from clawhive_core.model.late import dataclass
from clawhive_core.model.patterns import pattern

if TYPE_CHECKING:
    import httpx2


_charset = pattern(r"(?i);\s*charset\s*=\s*\"?([A-Za-z0-9_.:+-]{1,40})")


@dataclass(frozen=True, slots=True)
class HttpLimits:
    """The limits of one request, its redirects included."""

    total: float | None = 20.0
    """Seconds for all of it, waiting for a person's answer not counted; None without end."""
    connect: float = 10.0
    """Seconds for the name to be looked up, and again for the connection."""
    read: float = 10.0
    """Seconds in which something must arrive, or be taken."""
    body: int = 5 * 1024 * 1024
    """Bytes of the body, as it is sent and as it is decoded."""
    redirects: int = 5
    """The number of redirects that are followed."""


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """An answer that was read to its end."""

    status: int
    url: str
    """The address that it came from, after all redirects."""
    headers: Mapping[str, str]
    """By lower-case name; those that came several times are joined by commas."""
    body: bytes
    """Decoded: what a `Content-Encoding` packed is unpacked."""
    history: tuple[str, ...] = ()
    """The URLs that redirected, in order."""
    truncated: bool = False
    """Whether the body was longer and cut, which only `cut=True` allows."""

    @property
    def text(self) -> str:
        """The body in the charset that the answer names, else UTF-8; what is none is replaced."""
        named = _charset.search(self.headers.get("content-type", ""))
        charset = named[1].lower() if named else "utf-8"
        try:
            # What is for names of hosts takes the square of a body's length.
            if charset not in {"idna", "punycode"}:
                return self.body.decode(charset, "replace")
        except (LookupError, ValueError):
            pass
        return self.body.decode("utf-8", "replace")

    def json(self) -> Any:
        """Return the body as JSON.

        Raises:
            ValueError: It is none.
        """
        import json

        try:
            return json.loads(self.body)
        except RecursionError as error:
            raise ValueError("the JSON is nested too deep") from error


class HttpStream(Protocol):
    """An answer whose body is read as it comes."""

    @property
    def status(self) -> int:
        """The status."""
        ...

    @property
    def url(self) -> str:
        """The address that it came from, after all redirects."""
        ...

    @property
    def headers(self) -> Mapping[str, str]:
        """By lower-case name; those that came several times are joined by commas."""
        ...

    @property
    def history(self) -> tuple[str, ...]:
        """The URLs that redirected, in order."""
        ...

    @property
    def truncated(self) -> bool:
        """Whether the body was cut."""
        ...

    def chunks(self) -> AsyncIterator[bytes]:
        """Yield the decoded body in parts, once."""
        ...

    async def read(self) -> bytes:
        """Return the rest of the body."""
        ...


class HttpClient(Protocol):
    """HTTP requests under the rights of a call.

    A host is looked up once, all its addresses must be public or granted by number, the connection
    goes to a checked one, and each redirect is asked like the first request. Nothing of the
    environment counts, no cookie is kept.

    Raises:
        ToolError: `denied`, `invalid_input`, `timeout`, `connection_failed`,
            `response_too_large`, `too_many_redirects`, or `provider_error` for an answer that is
            no HTTP; `missing_package` where the extra is not installed.
    """

    async def request(
        self,
        method: str,
        url: str,
        *,
        params: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        content: bytes | str | None = None,
        json: Any = None,
        limits: HttpLimits | None = None,
        follow: bool = True,
        cut: bool = False,
    ) -> HttpResponse:
        """Send a request and return the whole answer, whatever its status.

        Args:
            method: Such as `GET`.
            url: Absolute, http or https.
            params: What to add to its query.
            headers: Of the request; of those, another origin sees only what says nothing of who
                asks.
            content: The body.
            json: A JSON value as the body instead.
            limits: What it may use; unset: the defaults.
            follow: Whether redirects are followed.
            cut: Whether a body that is too long is cut, and not an error.
        """
        ...

    def stream(
        self,
        method: str,
        url: str,
        *,
        params: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        content: bytes | str | None = None,
        json: Any = None,
        limits: HttpLimits | None = None,
        follow: bool = True,
        cut: bool = False,
    ) -> AbstractAsyncContextManager[HttpStream]:
        """Send a request and give its answer as soon as the headers are there."""
        ...

    def transport(self, limits: HttpLimits | None = None) -> httpx2.AsyncBaseTransport:
        """Return the same guard for a client of httpx2, such as an SDK takes one.

        Such a client must be made with `trust_env=False`; each of its requests and redirects is
        asked here. Bodies arrive unpacked.
        """
        ...
