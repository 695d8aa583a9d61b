"""robots.txt of the hosts that are fetched from, as RFC 9309 reads it."""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from clawhive_core import HttpLimits, InvokeContext, ToolError

if TYPE_CHECKING:
    from protego import Protego

AGENT: Final = "clawhive"
KEPT: Final = 3600.0
"""Seconds for which the rules of a host count without being asked for again."""
LIMITS: Final = HttpLimits(total=10.0, connect=5.0, read=5.0, body=512 * 1024)

_HOSTS: Final = 256
_CLIENT_ERROR: Final = 400
_SERVER_ERROR: Final = 500


class Robots:
    """The rules of each host, asked for once an hour."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[Protego, float]] = {}

    async def check(self, url: str, ctx: InvokeContext) -> None:
        """Return where a page may be fetched.

        Raises:
            ToolError: `robots_denied`; `robots_unreachable` where the rules cannot be had; as
                `ctx.http` where there is no right to ask for them.
        """
        split = urlsplit(url)
        origin = f"{split.scheme}://{split.netloc}"
        rules, since = self._known.get(origin, (None, 0.0))
        if rules is None or monotonic() - since > KEPT:
            rules = await _ask(origin, ctx)
            if len(self._known) >= _HOSTS:
                self._known.clear()
            self._known[origin] = rules, monotonic()
        if not rules.can_fetch(url, AGENT):
            raise ToolError(
                "the site's robots.txt keeps programs from this page",
                place=f"{origin}/robots.txt",
                fix="read it in a browser, or ask another source",
                code="robots_denied",
            )


async def _ask(origin: str, ctx: InvokeContext) -> Protego:
    """Return a host's rules: what it does not have (4xx) forbids nothing."""
    from protego import Protego

    place = f"{origin}/robots.txt"
    try:
        found = await ctx.http.request("GET", place, limits=LIMITS, cut=True)
    except ToolError as error:
        if error.code not in {"timeout", "connection_failed", "provider_error"}:
            raise
        raise _unreachable(place, error.message) from error
    if found.status >= _SERVER_ERROR:
        raise _unreachable(place, f"the server answered {found.status}")
    return Protego.parse("" if found.status >= _CLIENT_ERROR else found.text)


def _unreachable(place: str, why: str) -> ToolError:
    return ToolError(
        f"the site's robots.txt cannot be had, so nothing may be fetched: {why}",
        place=place,
        fix="try again later",
        code="robots_unreachable",
    )
