"""The HTTP client of a call (protocols: HttpClient): redirects, and what a request is made of."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from clawhive_core.errors import ToolError
from clawhive_core.execution.http.target import (
    Rights,
    Target,
    bad_redirect,
    read_target,
    redirect_target,
)
from clawhive_core.model.late import dataclass
from clawhive_core.model.version import VERSION
from clawhive_core.protocols.http import HttpLimits, HttpResponse

if TYPE_CHECKING:
    import httpx2

    from clawhive_core.execution.http.answer import Answer, Deadline
    from clawhive_core.execution.http.guard import Guard, HttpRequest

_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_SEE_OTHER: Final = 303
_REWRITTEN: Final = frozenset({301, 302})
"""Statuses after which a POST becomes a GET, as RFC 9110 allows and every browser does."""
_IMPERSONAL: Final = frozenset(
    {"accept", "accept-language", "content-type", "content-language", "user-agent"}
)
"""Headers that another origin may see: they say nothing of who asks."""


@dataclass(slots=True)
class GuardedClient:
    """Requests of one call, under its rights.

    Args:
        guard: Gives the connections, and says where the library for them is not installed.
        rights: The rights that each request and redirect is held against.
        remaining: The seconds that the call still has.
    """

    guard: Callable[[], Guard]
    rights: Rights
    remaining: Callable[[], float | None] = lambda: None

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
        """Send a request and return the whole answer."""
        async with self.stream(
            method,
            url,
            params=params,
            headers=headers,
            content=content,
            json=json,
            limits=limits,
            follow=follow,
            cut=cut,
        ) as found:
            body = await found.read()
            return HttpResponse(
                found.status, found.url, found.headers, body, found.history, found.truncated
            )

    @asynccontextmanager
    async def stream(
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
    ) -> AsyncGenerator[Answer]:
        """Send a request and give its answer as soon as the headers are there."""
        guard = self.guard()
        from clawhive_core.execution.http.answer import Deadline

        limits = limits or HttpLimits()
        if not follow:
            limits = replace(limits, redirects=-1)
        outgoing = _outgoing(method, url, params, headers, content, json)
        left, total = self.remaining(), limits.total
        seconds = left if total is None else total if left is None else min(left, total)
        answer = await self._follow(guard, outgoing, limits, Deadline(seconds), cut=cut)
        try:
            yield answer
        finally:
            await answer.aclose()

    async def _follow(
        self,
        guard: Guard,
        outgoing: HttpRequest,
        limits: HttpLimits,
        deadline: Deadline,
        *,
        cut: bool,
    ) -> Answer:
        """Send a request and what its redirects make of it; return the answer that is none."""
        rights, history = self.rights, tuple[str, ...]()
        while True:
            answer = await guard.send(outgoing, rights, limits, deadline, cut=cut)
            places = answer.all("location")
            if answer.status not in _REDIRECTS or not places or limits.redirects < 0:
                answer.history = history
                return answer
            await answer.aclose()
            history = (*history, outgoing.target.url)
            if len(history) > limits.redirects:
                raise ToolError(
                    f"the server redirects more than {limits.redirects} times",
                    place=outgoing.target.shown,
                    fix="ask the address where it should end",
                    code="too_many_redirects",
                )
            if len(set(places)) > 1:
                raise bad_redirect("the redirect names two addresses", outgoing.target)
            outgoing = redirected(
                outgoing, answer.status, redirect_target(outgoing.target, places[0])
            )

    def transport(self, limits: HttpLimits | None = None) -> httpx2.AsyncBaseTransport:
        """Return the same guard for a client of httpx2."""
        guard = self.guard()
        from clawhive_core.execution.http.transport import GuardedTransport

        return GuardedTransport(guard, self.rights, limits or HttpLimits())


def redirected(outgoing: HttpRequest, status: int, target: Target) -> HttpRequest:
    """Return the request that a redirect asks for (RFC 9110, section 15.4)."""
    headers, method, content = outgoing.headers, outgoing.method, outgoing.content
    if (status == _SEE_OTHER and method != "HEAD") or (status in _REWRITTEN and method == "POST"):
        method, content = "GET", b""
        headers = [each for each in headers if not each[0].lower().startswith("content-")]
    if target.origin != outgoing.target.origin:
        headers = [each for each in headers if each[0].lower() in _IMPERSONAL]
    return replace(outgoing, target=target, method=method, headers=headers, content=content)


def _outgoing(
    method: str,
    url: str,
    params: Mapping[str, str] | None,
    headers: Mapping[str, str] | None,
    content: bytes | str | None,
    json: Any,
) -> HttpRequest:
    from clawhive_core.execution.http.guard import HttpRequest

    if params:
        from urllib.parse import urlencode

        lead = url.partition("#")[0]
        url = f"{lead}{'&' if '?' in lead else '?'}{urlencode(params)}"
    given = {"User-Agent": f"clawhive/{VERSION}", "Accept": "*/*"}
    if json is not None:
        from json import dumps

        content = dumps(json, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        given["Content-Type"] = "application/json"
    asked = {name.lower() for name in headers or {}}
    own = [(name, value) for name, value in given.items() if name.lower() not in asked]
    body = content.encode() if isinstance(content, str) else content or b""
    return HttpRequest(read_target(url), method.upper(), [*own, *(headers or {}).items()], body)
