"""A streamed answer: events of the API folded into blocks, and told in the order of the blocks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, cast

from clawhive_anthropic.blocks import Value, read_block
from clawhive_anthropic.failures import unreadable
from clawhive_anthropic.json_values import well_formed, word
from clawhive_anthropic.response import response_of, was_cut
from clawhive_core import ContentBlock, StreamEvent, ToolCall, WireTable

_JOINED = {"text_delta": "text", "thinking_delta": "thinking", "input_json_delta": "partial_json"}
_TOLD: dict[str, Literal["text", "thinking"]] = {"text": "text", "thinking": "thinking"}


@dataclass(slots=True)
class _Part:
    """One block as far as it has come."""

    value: Value
    pieces: dict[str, list[str]] = field(default_factory=dict[str, "list[str]"])
    """The pieces that came of each field that is sent so."""
    grown: set[str] = field(default_factory=set[str])
    """Fields of which a delta of a kind that is not known has brought a piece."""
    told: int = 0
    """Pieces of its text that were yielded."""
    is_open: bool = True
    block: ContentBlock | None = None
    """The whole block; None as long as it is not certain."""

    def add(self, delta: Value) -> None:
        """Take a delta; one that is not known sets or prolongs the fields it names."""
        kind = word(delta.get("type")) or ""
        if kind in _JOINED:
            name = _JOINED[kind]
            piece = delta.get(name)
            if not isinstance(piece, str):
                raise unreadable(f"a `{kind}` without `{name}`")
            self.pieces.setdefault(name, []).append(piece)
        elif kind == "citations_delta":
            self.value["citations"] = [*(self.value.get("citations") or ()), delta.get("citation")]
        else:
            for key, value in delta.items():
                if key != "type":
                    self._set(key, value)

    def _set(self, key: str, value: Any) -> None:
        known: Any = self.value.get(key)
        if key in self.grown and type(known) is type(value) and type(value) in {str, list}:
            value = known + value
        self.grown.add(key)
        self.value[key] = value

    def joined(self) -> Value:
        """Return the block as a whole answer would have it; the input of a call stays a text."""
        value = dict(self.value)
        for name, pieces in self.pieces.items():
            if name == "partial_json":
                value["input"] = "".join(pieces) or value.get("input")
            else:
                value[name] = "".join(pieces)
        return value


class Reading:
    """Reads one stream.

    Args:
        table: The tools that were offered.
    """

    def __init__(self, table: WireTable[Value]) -> None:
        self._table = table
        self._taken: set[str] = set()
        self._message: Value | None = None
        self._parts: list[_Part] = []
        self._at: dict[int, _Part] = {}
        self._told = 0
        self._ended = False

    @property
    def ended(self) -> bool:
        """Whether the API has said that the answer is whole."""
        return self._ended

    def take(self, value: Any) -> Iterator[StreamEvent]:
        """Yield what an event of the API tells; kinds that are not known tell nothing.

        Raises:
            ModelError: `invalid_response`: it does not fit the ones before.
        """
        event: Value = well_formed(value) if isinstance(value, dict) else {}
        match event.get("type"):
            case "message_start":
                self._message = _table(event, "message") | {"content": None}
            case "content_block_start":
                self._start(_index(event), _table(event, "content_block"))
            case "content_block_delta":
                self._open(event).add(_table(event, "delta"))
            case "content_block_stop":
                self._stop(self._open(event))
            case "message_delta":
                self._update(event)
            case "message_stop":
                self._ended = True
            case _:
                pass  # pings, and what later versions of the API may tell
        yield from self._news()

    def finish(self) -> Iterator[StreamEvent]:
        """Yield what was held back until the end was known, then the whole.

        Raises:
            ModelError: `connection_failed`: the stream ended before the answer was whole.
        """
        if not self._ended or self._message is None:
            from clawhive_core import model_failure

            raise model_failure("connection_failed", "Anthropic's stream ended before its answer")
        for part in self._parts:
            self._stop(part)
        if self._parts and self._parts[-1].block is None and was_cut(self._message):
            self._parts.pop()
        self._settle()
        yield from self._news()
        blocks = [part.block for part in self._parts if part.block is not None]
        yield StreamEvent("done", response=response_of(self._message, blocks))

    def _start(self, index: int, block: Value) -> None:
        before = self._at.get(index)
        if before is not None:
            self._stop(before)
        self._settle()
        if word(block.get("type")) is None:
            raise unreadable("a content block has no type")
        part = _Part(block)
        for name in _TOLD:
            if isinstance(block.get(name), str):
                part.pieces[name] = [block[name]]
        self._at[index] = part
        self._parts.append(part)
        other = block.get("to")
        if block.get("type") == "fallback" and isinstance(other, dict) and self._message:
            # From here on another model answers, as a whole answer says in `model`.
            self._message["model"] = cast("Value", other).get("model")

    def _open(self, event: Value) -> _Part:
        part = self._at.get(_index(event))
        if part is None or not part.is_open:
            raise unreadable(f"a `{event['type']}` for a block that is not open")
        return part

    def _stop(self, part: _Part) -> None:
        """End a block; a call whose input is no object may be cut, which the end will tell."""
        if not part.is_open:
            return
        part.is_open = False
        is_call = part.value.get("type") == "tool_use"
        value = part.joined()
        if is_call and not str(value.get("input") or "").strip():
            return
        if "partial_json" in part.pieces and not is_call:
            value["input"] = _object(value["input"], part.value.get("input"))
        block = read_block(value, self._table, self._taken)
        if not isinstance(block, ToolCall) or block.malformed is None:
            part.block = block
        else:
            self._taken.discard(block.id)

    def _settle(self) -> None:
        """Read the calls that more followed, or that the end has proved to be whole."""
        for part in self._parts[self._told :]:
            if part.block is None and not part.is_open:
                part.block = read_block(part.joined(), self._table, self._taken)

    def _update(self, event: Value) -> None:
        if self._message is None:
            raise unreadable("a `message_delta` before `message_start`")
        self._message |= _told(event.get("delta"))
        self._message["usage"] = _told(self._message.get("usage")) | _told(event.get("usage"))

    def _news(self) -> Iterator[StreamEvent]:
        """Yield what is not told yet, up to the first block that still grows."""
        while self._told < len(self._parts):
            part = self._parts[self._told]
            kind = _TOLD.get(part.value["type"])
            if kind is not None:
                pieces = part.pieces.get(kind, [])
                yield from (StreamEvent(kind, piece) for piece in pieces[part.told :] if piece)
                part.told = len(pieces)
            if part.block is None:
                return
            if isinstance(part.block, ToolCall):
                yield StreamEvent("tool_use", block=part.block)
            self._told += 1


def _object(text: Any, otherwise: Any) -> Any:
    """Return the input of a tool at the provider; what cannot be read stays as it began."""
    import json

    try:
        return json.loads(text) if isinstance(text, str) else otherwise
    except (ValueError, RecursionError):
        return otherwise


def _index(event: Value) -> int:
    index = event.get("index")
    if not isinstance(index, int):
        raise unreadable(f"a `{event['type']}` without `index`")
    return index


def _table(event: Value, name: str) -> Value:
    value = event.get(name)
    if not isinstance(value, dict):
        raise unreadable(f"a `{event['type']}` without `{name}`")
    return dict(cast("Value", value))


def _told(value: Any) -> Value:
    """Return the fields that say something: those of an earlier event stand otherwise."""
    fields = cast("Value", value) if isinstance(value, dict) else {}
    return {key: each for key, each in fields.items() if each is not None}
