"""The definitions of the tools that read pages."""

from __future__ import annotations

from typing import Any

from clawhive_core import ToolMeta

PROVIDER_ID = "web_pages"
MAX_PASSAGES = 60

_TEXT: dict[str, Any] = {"type": "string"}
_COUNT: dict[str, Any] = {"type": "integer", "minimum": 0}
_URL: dict[str, Any] = {"type": "string", "pattern": "^https?://", "maxLength": 4096}


def _object(properties: dict[str, Any], *optional: str) -> dict[str, Any]:
    required = [name for name in properties if name not in optional]
    return {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }


_PAGE = {
    "url": {**_TEXT, "description": "The address that answered, after redirects."},
    "asked": {**_TEXT, "description": "The address that was asked for."},
    "title": _TEXT,
    "author": _TEXT,
    "date": {**_TEXT, "description": "As YYYY-MM-DD, empty where the page names none."},
    "language": _TEXT,
    "text": {**_TEXT, "description": "The main text, of pages as Markdown."},
    "links": {"type": "array", "items": _object({"url": _TEXT, "text": _TEXT})},
    "media_type": _TEXT,
    "extractor": {"enum": ["trafilatura", "resiliparse", "pypdf", "text"]},
    "retrieved_at": _TEXT,
    "sha256": {**_TEXT, "description": "SHA-256 of the text, which spans are counted in."},
    "body_sha256": {**_TEXT, "description": "SHA-256 of what the server sent."},
    "truncated": {"type": "boolean", "description": "Whether the page was longer than is read."},
}

EXTRACT = ToolMeta(
    name="web.extract",
    description=(
        "Read a web page or a PDF: its main text as Markdown without menus and banners, with title,"
        " author, date and links."
    ),
    input_schema=_object({"url": {**_URL, "description": "The page's address."}}),
    output_schema=_object(_PAGE),
    provider_id=PROVIDER_ID,
    capability_level="L0",
    risk="safe",
    effects={"url": "net.http"},
    sinks=("url",),
    idempotent=True,
    timeout_ms=60_000,
    category="web",
    keywords=("page", "article", "read", "pdf", "text", "scrape", "download"),
    aliases=("web_extract",),
    examples=({"url": "https://example.com/article"},),
)

ANSWER = ToolMeta(
    name="web.answer",
    description=(
        "Have a model answer a question from numbered passages alone. Sentences that cite no"
        " passage, or whose names and numbers do not stand in the passages they cite, are left out."
    ),
    input_schema=_object(
        {
            "question": {**_TEXT, "minLength": 1, "maxLength": 1000},
            "passages": {
                "type": "array",
                "minItems": 1,
                "maxItems": MAX_PASSAGES,
                "items": {**_TEXT, "maxLength": 4000},
                "description": "Texts to answer from; the first one is cited as [1].",
            },
            "model": {
                **_TEXT,
                "pattern": "^[^:]+:.+$",
                "description": "PROVIDER:NAME of the model that writes.",
            },
        }
    ),
    output_schema=_object(
        {
            "sentences": {
                "type": "array",
                "items": _object({"text": _TEXT, "cites": {"type": "array", "items": _COUNT}}),
            },
            "dropped": {
                "type": "array",
                "items": _object({"text": _TEXT, "reason": _TEXT}),
            },
            "model": _TEXT,
        }
    ),
    provider_id=PROVIDER_ID,
    capability_level="L0",
    risk="safe",
    timeout_ms=180_000,
    category="web",
    keywords=("question", "cite", "summary", "sources"),
    examples=(
        {
            "question": "How tall is it?",
            "passages": ["It is 41 metres tall."],
            "model": "scripted:demo",
        },
    ),
)
