"""`web.fetch`: one page, under robots.txt and the bounds of the guarded client."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any, Final

from clawhive_core import HttpLimits, HttpResponse, InvokeContext, tool
from clawhive_web.robots import Robots

LIMITS: Final = HttpLimits(total=20.0, connect=5.0, read=10.0, body=5 * 1024 * 1024)
MAX_TEXT: Final = 500_000
"""Characters of text that are answered."""

_ROBOTS: Final = Robots()
_TEXTUAL: Final = re.compile(
    r"text/|application/(?:json|xml|xhtml\+xml|javascript)|.+\+(?:json|xml)"
)
_CHARSET: Final = re.compile(r"(?i)charset\s*=\s*[\"']?([A-Za-z0-9_.:-]{1,40})")
_SLOW: Final = frozenset({"idna", "punycode"})
"""Codecs that take the square of a text's length."""
_LEAD: Final = 4096
_FAILED: Final = 400


@dataclass(frozen=True, slots=True)
class Page:
    """A page as it was fetched."""

    url: str
    status: int
    content_type: str
    text: str
    bytes: int
    sha256: str
    retrieved: str
    truncated: bool
    warnings: list[str]


@tool(
    level="L0",
    risk="safe",
    effects={"url": "net.http"},
    sinks=["url"],
    side_effects=False,
    idempotent=True,
    output_trust="untrusted",
    category="web",
    keywords=["page", "download", "http", "url", "read"],
    aliases=["web_fetch"],
)
async def fetch(url: str, ctx: InvokeContext) -> Page:
    """Fetch a page of the web: its text, address after redirects, type and hash.

    Args:
        url: Its absolute address, http or https.
        ctx: The call's context.
    """
    await _ROBOTS.check(url, ctx)
    found = await ctx.http.request("GET", url, limits=LIMITS, cut=True)
    return read_page(found)


def read_page(found: HttpResponse) -> Page:
    """Return what an answer holds, with a warning for each part that is missing."""
    kind = found.headers.get("content-type", "")
    warnings: list[str] = []
    if found.truncated:
        warnings.append(f"the body was cut after {LIMITS.body} bytes")
    if found.status >= _FAILED:
        warnings.append(f"the server answered {found.status}")
    text = ""
    if kind and not _TEXTUAL.match(kind.lower()):
        warnings.append(f"{kind[:80]!r} is no text: only its hash and size are here")
    else:
        text = _text(found, kind, warnings)
    if len(text) > MAX_TEXT:
        warnings.append(f"the text was cut after {MAX_TEXT} characters")
    return Page(
        url=found.url,
        status=found.status,
        content_type=kind,
        text=text[:MAX_TEXT],
        bytes=len(found.body),
        sha256=sha256(found.body).hexdigest(),
        retrieved=datetime.now(UTC).isoformat(timespec="seconds"),
        truncated=found.truncated or len(text) > MAX_TEXT,
        warnings=warnings,
    )


def _text(found: HttpResponse, kind: str, warnings: list[str]) -> str:
    """Return the body in the charset that it names, else the one that it looks like."""
    named = _CHARSET.search(kind) or _CHARSET.search(found.body[:_LEAD].decode("latin-1"))
    if named is not None and named[1].lower() not in _SLOW:
        try:
            return found.body.decode(named[1])
        except (LookupError, ValueError):
            warnings.append(f"the body is not whole in the charset {named[1]!r} that it names")
    try:
        return found.body.decode("utf-8")
    except UnicodeDecodeError:
        return _guessed(found.body)


def _guessed(body: bytes) -> str:
    from charset_normalizer import from_bytes

    best: Any = from_bytes(body[: 64 * 1024]).best()
    return body.decode(best.encoding if best is not None else "utf-8", "replace")
