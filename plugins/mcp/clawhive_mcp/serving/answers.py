"""Calls of clients and the answers to them: the same in text and structure, cut to pages."""

from __future__ import annotations

import base64
import json
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from mcp_types import (
    CallToolRequestParams,
    CallToolResult,
    ContentBlock,
    ImageContent,
    TextContent,
)

from clawhive_core import Artifact, Refusal, ToolResult

PAGE = 30_000
"""Characters of one answer; clients drop what is much longer, or keep it from the model."""
_KEPT_RESULTS = 64
_KEPT_CHARACTERS = 32 * 1024 * 1024
_LARGEST_ARTIFACT = 16 * 1024 * 1024
_LARGEST_IMAGE = 2 * 1024 * 1024
_ANSWERS = frozenset({"approval", "rights", "quota"})
"""The classes of refusals that the model cannot correct; told as errors they make it try again."""
_ARTIFACT = "artifact:"


@dataclass(frozen=True, slots=True)
class Request:
    """One call of a client."""

    ctx: Any
    """The SDK's context."""
    params: CallToolRequestParams

    @property
    def wants_progress(self) -> bool:
        """Whether the client asked to be told of progress."""
        meta: Mapping[str, Any] = self.ctx.meta or {}
        return meta.get("progress_token") is not None


@dataclass(slots=True)
class Results:
    """The results of a session that were cut, to be read on."""

    folder: str
    """The session's artifacts."""
    _texts: OrderedDict[str, str] = field(default_factory=OrderedDict[str, str])
    _number: int = 0

    def keep(self, text: str) -> str:
        """Keep a text; return the reference to it. The oldest go first."""
        self._number += 1
        ref = f"r{self._number}"
        self._texts[ref] = text
        size = sum(map(len, self._texts.values()))
        while len(self._texts) > 1 and (
            len(self._texts) > _KEPT_RESULTS or size > _KEPT_CHARACTERS
        ):
            size -= len(self._texts.popitem(last=False)[1])
        return ref

    def text(self, ref: str) -> str | None:
        """Return what a reference stands for, None where it is none of this session."""
        if not ref.startswith(_ARTIFACT):
            return self._texts.get(ref)
        path = Path(self.folder, ref.removeprefix(_ARTIFACT))
        try:
            real = path.resolve(strict=True)
            if not real.is_relative_to(Path(self.folder).resolve()) or not real.is_file():
                return None
            if real.stat().st_size > _LARGEST_ARTIFACT:
                return None
            return real.read_bytes().decode("utf-8", "replace")
        except (OSError, ValueError, RuntimeError):
            return None


def answer_of(result: ToolResult, results: Results) -> CallToolResult:
    """Return a tool's result as clients get it.

    A structured value that is an object is what both forms say; anything else is text.
    """
    value = result.structured
    images = [] if result.is_error else _images(result.artifacts, results.folder)
    facts: dict[str, Any] = {}
    if isinstance(value, dict):
        facts = dict(cast("dict[str, Any]", value))
    elif result.edited or (result.artifacts and not images):
        facts = {"output": result.output}
    if facts and result.artifacts:
        facts.setdefault("artifacts", [_reference(each) for each in result.artifacts])
    if facts and result.edited:
        facts.setdefault("edited", result.edited)
    text = _json(facts) if facts else result.output
    return _made(text, facts or None, results, is_error=result.is_error, more=images)


def refusal_of(refusal: Refusal) -> CallToolResult:
    """Return a refusal as clients get it; what a person decides is no error of the model's."""
    facts = refusal.to_dict()
    if refusal.error == "denied" and refusal.next.get("action") == "grant":
        # A model with a shell would run the command: a person reads it in the run's record.
        asked = {key: refusal.next[key] for key in ("action", "capabilities")}
        facts["next"] = {**asked, "hint": "a person finds how to allow it by clawhive runs show"}
    step = facts["next"].get("command") or facts["next"].get("hint")
    text = f"{refusal.error}: {refusal.message}"
    if step and step not in refusal.message:
        text += f"\nNext: {step}"
    if "approval_id" in refusal.extra:
        text += f"\nApproval: {refusal.extra['approval_id']}"
    is_error = refusal.reason not in _ANSWERS
    content: list[ContentBlock] = [TextContent(text=text)]
    return CallToolResult(content=content, structured_content=facts, is_error=is_error)


def said(facts: Mapping[str, Any], results: Results, *, is_error: bool = False) -> CallToolResult:
    """Return an object as an answer."""
    return _made(_json(facts), dict(facts), results, is_error=is_error)


def page_of(ref: str, text: str, offset: int) -> CallToolResult:
    """Return a page of what was cut."""
    facts = _page(ref, text, offset)
    content: list[ContentBlock] = [TextContent(text=_shown(facts))]
    return CallToolResult(content=content, structured_content=facts)


def _made(
    text: str,
    facts: Mapping[str, Any] | None,
    results: Results,
    *,
    is_error: bool = False,
    more: Sequence[ContentBlock] = (),
) -> CallToolResult:
    structured = None if facts is None else dict(facts)
    if len(text) > PAGE:
        structured = _page(results.keep(text), text, 0)
        text = _shown(structured)
    content: list[ContentBlock] = [TextContent(text=text), *more]
    return CallToolResult(content=content, structured_content=structured, is_error=is_error)


def _page(ref: str, text: str, offset: int) -> dict[str, Any]:
    end = offset + PAGE
    facts: dict[str, Any] = {
        "text": text[offset:end],
        "ref": ref,
        "offset": offset,
        "total": len(text),
        "next_offset": end if end < len(text) else None,
    }
    return facts


def _shown(page: Mapping[str, Any]) -> str:
    if page["next_offset"] is None:
        return page["text"]
    arguments = _json({"ref": page["ref"], "offset": page["next_offset"]})
    left = page["total"] - page["next_offset"]
    return f"{page['text']}\n[cut: {left} more characters; tool_more {arguments} goes on]"


def _reference(artifact: Artifact) -> dict[str, Any]:
    return {**artifact.to_dict(), "ref": f"{_ARTIFACT}{artifact.path}"}


def _images(artifacts: Sequence[Artifact], folder: str) -> list[ContentBlock]:
    """Return the images that a tool left, for clients that show them."""
    found: list[ContentBlock] = []
    for each in artifacts:
        if each.media_type.startswith("image/") and each.bytes <= _LARGEST_IMAGE:
            try:
                data = Path(folder, each.path).read_bytes()
            except OSError:
                continue
            text = base64.b64encode(data[:_LARGEST_IMAGE]).decode("ascii")
            found.append(ImageContent(data=text, mime_type=each.media_type))
    return found


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
