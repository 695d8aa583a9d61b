"""Event streams of chat completions, folded into the answer that they add up to."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from clawhive_core import LlmResponse, StreamEvent, WireTable, model_failure
from clawhive_openai.chat_response import KEPT, detail_text, part_text, read_chat
from clawhive_openai.failures import body_failure
from clawhive_openai.settings import Server
from clawhive_openai.values import Json, listed, mapping, text

_JOINED = frozenset({"text", "summary", "data", "transcript"})
"""Fields of reasoning details and of audio that come in pieces."""


class ChatStream:
    """Takes chunks in their order and says what is new; of several choices the first counts."""

    def __init__(self, table: WireTable[Json], server: Server) -> None:
        self._table = table
        self._server = server
        self._head: dict[str, Any] = {}
        self._message: dict[str, Any] = {}
        self._content: list[dict[str, Any]] = []
        self._in_parts = False
        self._calls = _Calls()
        self._reason: str | None = None
        self._counted = False

    def feed(self, chunk: Json) -> Iterator[StreamEvent]:
        """Yield the pieces of text and thinking that a chunk brings.

        Raises:
            ModelError: The chunk is an error.
        """
        if chunk.get("error") or chunk.get("object") == "error":
            raise body_failure(chunk.get("error") or chunk)
        for key in ("id", "model"):
            self._head[key] = self._head.get(key) or chunk.get(key)
        usage = chunk.get("usage") or mapping(chunk.get("x_groq")).get("usage")
        if usage:
            self._head["usage"] = usage
        choices = [mapping(each) for each in listed(chunk.get("choices"))]
        # A frame that counts the tokens and says no more ends what gives no reason to stop.
        self._counted = bool(usage) and not any(map(_says, choices))
        for choice in choices:
            if not choice.get("index"):
                if choice.get("error"):
                    raise body_failure(choice["error"])
                self._reason = text(choice.get("finish_reason")) or self._reason
                yield from self._take(mapping(choice.get("delta") or choice.get("message")))

    def finish(self) -> LlmResponse:
        """Return the whole answer.

        Raises:
            ModelError: `invalid_response`: the stream ended before the answer did.
        """
        said = self._message or self._content or self._calls.found
        if self._reason is None and not (self._counted and said):
            raise model_failure("invalid_response", "the stream ended before the answer did")
        message = {**self._message, "content": self._whole(), "tool_calls": self._calls.found}
        choice = {"message": message, "finish_reason": self._reason}
        return read_chat({**self._head, "choices": [choice]}, self._table, self._server)

    def _whole(self) -> Any:
        if self._in_parts:
            return self._content
        return "".join(part["text"] for part in self._content)

    def _take(self, delta: Json) -> Iterator[StreamEvent]:
        yield from self._think(delta)
        yield from self._say(delta.get("content"))
        refusal = text(delta.get("refusal"))
        if refusal:
            _join(self._message, "refusal", refusal)
            yield StreamEvent("text", refusal)
        for call in map(mapping, listed(delta.get("tool_calls"))):
            self._calls.take(call)
        legacy = mapping(delta.get("function_call"))
        if legacy:
            _merge(self._message.setdefault("function_call", {}), legacy)
        sound = mapping(delta.get("audio"))
        if sound:
            _merge(self._message.setdefault("audio", {}), sound, _JOINED)
        for key in KEPT:
            self._keep(key, delta.get(key))

    def _keep(self, key: str, value: Any) -> None:
        known = self._message.get(key)
        if isinstance(known, list) and isinstance(value, list):
            self._message[key] = [*known, *value]
        elif value:
            self._message[key] = value

    def _think(self, delta: Json) -> Iterator[StreamEvent]:
        said = ""
        for field in ("reasoning_content", "reasoning"):
            piece = text(delta.get(field))
            if piece:
                _join(self._message, field, piece)
                said = said or piece
        for detail in map(mapping, listed(delta.get("reasoning_details"))):
            self._take_detail(detail)
            said = said or detail_text(detail)
        if said:
            yield StreamEvent("thinking", said)

    def _take_detail(self, detail: Json) -> None:
        details: list[dict[str, Any]] = self._message.setdefault("reasoning_details", [])
        key = (detail.get("index"), detail.get("type"))
        for known in details:
            same = key[0] is not None and (known.get("index"), known.get("type")) == key
            if same and (known.get("id") or detail.get("id")) == (
                detail.get("id") or known.get("id")
            ):
                _merge(known, detail, _JOINED)
                return
        details.append({**detail})

    def _say(self, content: Any) -> Iterator[StreamEvent]:
        if text(content):
            self._add({"type": "text", "text": content})
            yield StreamEvent("text", content)
        for part in map(mapping, listed(content)):
            self._in_parts = True
            self._add({**part})
            if part.get("type") == "text" and text(part.get("text")):
                yield StreamEvent("text", part["text"])
            elif part.get("type") == "thinking" and part_text(part):
                yield StreamEvent("thinking", part_text(part))

    def _add(self, part: dict[str, Any]) -> None:
        last = self._content[-1] if self._content else {}
        kind = part.get("type")
        if kind == last.get("type") == "text":
            _join(last, "text", text(part.get("text")))
        elif kind == last.get("type") == "thinking" and isinstance(last.get("thinking"), list):
            last["thinking"] = _longer(last["thinking"], part.get("thinking"))
            last.update({k: v for k, v in part.items() if k != "thinking" and v is not None})
        else:
            self._content.append(part)


class _Calls:
    """Tool calls in pieces: by index, and by id or name where servers give no usable index."""

    def __init__(self) -> None:
        self.found: list[dict[str, Any]] = []
        self._at: dict[Any, dict[str, Any]] = {}

    def take(self, piece: Json) -> None:
        """Add a piece to the call it belongs to."""
        index = piece.get("index")
        known = self._at.get(index) if index is not None else self._by_id(piece)
        is_new = known is None or _begins_another(known, piece)
        call: dict[str, Any] = {} if is_new or known is None else known
        if is_new:
            self.found.append(call)
        self._at[index] = call
        kept = {k: v for k, v in piece.items() if k not in {"index", "function", "custom"}}
        # Some servers repeat the fields of the first piece as empty texts.
        call.update({key: value for key, value in kept.items() if not _says_nothing(value)})
        for kind in ("function", "custom"):
            if piece.get(kind):
                _merge(call.setdefault(kind, {}), mapping(piece[kind]))

    def _by_id(self, piece: Json) -> dict[str, Any] | None:
        same = [call for call in self.found if piece.get("id") and call.get("id") == piece["id"]]
        if same:
            return same[0]
        return self.found[-1] if self.found and not piece.get("id") else None


def _says(choice: Json) -> bool:
    delta = mapping(choice.get("delta") or choice.get("message"))
    return any(value for key, value in delta.items() if key != "role")


def _says_nothing(value: Any) -> bool:
    return value is None or value == ""


def _longer(known: Any, new: Any) -> list[Any]:
    """Return the thoughts of a part and of the next: texts that follow each other are one."""
    found: list[Any] = [{**mapping(each)} for each in listed(known)]
    more = [{"type": "text", "text": new}] if isinstance(new, str) else listed(new)
    for each in map(mapping, more):
        if found and each.get("type") == found[-1].get("type") == "text":
            _join(found[-1], "text", text(each.get("text")))
        else:
            found.append({**each})
    return found


def _begins_another(call: Json, piece: Json) -> bool:
    """Whether a piece under a known index is a new call, as some servers number all alike."""
    known, new = call.get("id"), piece.get("id")
    name = text(mapping(piece.get("function")).get("name"))
    if known and new and known != new:
        return bool(name)
    return bool(name) and not new and _is_whole(mapping(call.get("function")).get("arguments"))


def _is_whole(arguments: Any) -> bool:
    with suppress(ValueError):
        return isinstance(json.loads(text(arguments)), dict)
    return isinstance(arguments, dict)


def _merge(known: dict[str, Any], new: Json, joined: Any = ("arguments", "input")) -> None:
    """Add new fields to known ones, joining texts that come in pieces."""
    for key, value in new.items():
        if key in joined and isinstance(value, str):
            _join(known, key, value)
        elif value is not None and value != "":
            known[key] = value


def _join(fields: dict[str, Any], key: str, piece: str) -> None:
    # Quadratic only in theory: CPython extends a text that nothing else refers to in place.
    fields[key] = text(fields.get(key)) + piece
