"""The provider of the tools that read pages."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from clawhive_core import HttpLimits, HttpResponse, InvokeContext, ToolError, ToolMeta, ToolResult
from clawhive_web.readers import Readers
from clawhive_web.robots import Robots
from clawhive_web.tools import ANSWER, EXTRACT, PROVIDER_ID

LIMITS = HttpLimits(total=20.0, body=5 * 1024 * 1024)
"""The limits of reading one page; of a longer one the beginning is read."""
ACCEPT = "text/html,application/xhtml+xml,application/pdf,text/plain;q=0.8,*/*;q=0.1"
_HTML = ("text/html", "application/xhtml+xml", "")
_TEXTS = ("application/json", "application/xml", "application/rss+xml", "application/atom+xml")
_ENDS = 400
"""The least status that says that there is no page."""


class WebPages:
    """Offers `web.extract` and `web.answer` (`clawhive_core.ToolProvider`)."""

    provider_id = PROVIDER_ID

    def __init__(self) -> None:
        self._readers = Readers()
        self._robots = Robots()

    async def list_tools(self) -> list[ToolMeta]:
        """Return the tools."""
        return [EXTRACT, ANSWER]

    async def invoke(
        self, tool_name: str, input: Mapping[str, Any], ctx: InvokeContext
    ) -> ToolResult:
        """Serve one call.

        Raises:
            ToolError: `tool_not_found`; else as the tool says.
        """
        if tool_name == EXTRACT.name:
            found = await self.extract(input["url"], ctx)
            return ToolResult(ctx.tool_call_id, _shown(found), structured=found)
        if tool_name == ANSWER.name:
            from clawhive_web.answer import answer, shown

            said = await answer(input["question"], input["passages"], input["model"], ctx)
            return ToolResult(ctx.tool_call_id, shown(said), structured=said)
        raise ToolError(f"there is no tool `{tool_name}`", code="tool_not_found")

    async def extract(self, url: str, ctx: InvokeContext) -> dict[str, Any]:
        """Return the text of a page and what is known of it.

        Raises:
            ToolError: `page_failed`: the server has no such page; `unsupported_media_type`; what
                `Robots.check`, `ctx.http` and `Readers.read` raise.
        """
        await self._robots.check(url, ctx)
        headers = {"Accept": ACCEPT}
        page = await ctx.http.request("GET", url, headers=headers, limits=LIMITS, cut=True)
        if page.status >= _ENDS:
            raise ToolError(
                f"the server answered {page.status}",
                code="page_failed",
                place=page.url,
                fix="read another page, or this one later",
            )
        media_type, charset = content_type(page)
        kind = kind_of(media_type, page)
        found = await self._readers.read(page.body, kind, url=page.url, charset=charset)
        cut = found.pop("cut")
        return {
            "url": page.url,
            "asked": url,
            **found,
            "media_type": media_type,
            "retrieved_at": datetime.now(UTC).isoformat(timespec="seconds"),
            "sha256": sha256(found["text"].encode()),
            "body_sha256": sha256(page.body),
            "truncated": cut or page.truncated,
        }

    async def close(self) -> None:
        """End the workers."""
        await self._readers.close()


def sha256(data: bytes) -> str:
    """Return a digest, lower-case hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def content_type(page: HttpResponse) -> tuple[str, str]:
    """Return the media type and the charset that a server states, empty where it states none."""
    from email.message import Message

    said = Message()
    said["content-type"] = page.headers.get("content-type", "")
    stated = page.headers.get("content-type", "").strip()
    return (said.get_content_type() if stated else ""), said.get_content_charset("") or ""


def kind_of(media_type: str, page: HttpResponse) -> str:
    """Return what a reader takes a document for: by its first bytes, else by its media type.

    Raises:
        ToolError: `unsupported_media_type`.
    """
    if page.body.startswith(b"%PDF-"):
        return "pdf"
    if media_type == "application/pdf":
        return "pdf"
    if media_type in _HTML:
        return "html"
    if media_type.startswith("text/") or media_type in _TEXTS or media_type.endswith("+json"):
        return "text"
    raise ToolError(
        f"a document of the type {media_type} holds no text for web.extract",
        code="unsupported_media_type",
        place=page.url,
        fix="read a page, a PDF or a text",
    )


def _shown(found: Mapping[str, Any]) -> str:
    facts = " · ".join(filter(None, (found["author"], found["date"], found["url"])))
    cut = "\n\n(only the beginning was read)" if found["truncated"] else ""
    return f"{found['title']}\n{facts}\n\n{found['text']}{cut}".strip()
