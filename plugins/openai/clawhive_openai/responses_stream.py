"""Event streams of the responses API, read to the answer that they end in."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from clawhive_core import (
    ContentBlock,
    LlmResponse,
    StreamEvent,
    TextBlock,
    ToolCall,
    WireTable,
    model_failure,
)
from clawhive_openai.failures import body_failure
from clawhive_openai.responses_response import assemble, read_item
from clawhive_openai.settings import Server
from clawhive_openai.values import Json, listed, mapping, text

_ENDS = frozenset({"response.completed", "response.incomplete", "response.failed"})
_TEXTS = frozenset({"response.output_text.delta", "response.refusal.delta"})
_THOUGHTS = frozenset({"response.reasoning_summary_text.delta", "response.reasoning_text.delta"})


class ResponsesStream:
    """Takes events in their order and says what is new."""

    def __init__(self, table: WireTable[Json], server: Server) -> None:
        self._table = table
        self._server = server
        self._items: dict[int, Json] = {}
        self._blocks: dict[int, Sequence[ContentBlock]] = {}
        self._open: set[int] = set()
        self._said: dict[int, str] = {}
        self._called: set[int] = set()
        self._ids: set[str] = set()
        self._end: Json | None = None

    def feed(self, event: Json) -> Iterator[StreamEvent]:
        """Yield the pieces of text and thinking and the complete calls that an event brings.

        Raises:
            ModelError: The event is an error.
        """
        kind, index = text(event.get("type")), _index(event)
        if kind in _TEXTS:
            yield from self._say(index, text(event.get("delta")))
        elif kind in _THOUGHTS:
            if text(event.get("delta")):
                yield StreamEvent("thinking", event["delta"])
        elif kind == "response.output_item.added":
            self._open.add(index)
        elif kind == "response.output_item.done":
            yield from self._done(index, mapping(event.get("item")))
        elif kind in _ENDS:
            yield from self._close(mapping(event.get("response")))
        elif kind == "error":
            raise body_failure(event.get("error") or event)

    def finish(self) -> LlmResponse:
        """Return the whole answer.

        Raises:
            ModelError: The answer failed, or `invalid_response`: the stream ended before it did.
        """
        if self._end is None:
            raise model_failure("invalid_response", "the stream ended before the answer did")
        content = tuple(block for index in sorted(self._blocks) for block in self._blocks[index])
        answer = {**self._end, "output": [self._items[index] for index in sorted(self._items)]}
        return assemble(answer, content, self._server)

    def _close(self, answer: Json) -> Iterator[StreamEvent]:
        """Take the terminal event, which repeats the items or, at some servers, leaves them out."""
        self._end = answer
        ids = {item.get("id") for item in self._items.values()} - {None, ""}
        for index, item in enumerate(map(mapping, listed(answer.get("output")))):
            if index not in self._items and item.get("id") not in ids:
                yield from self._done(index, item)
        for index, words in self._said.items():
            self._blocks.setdefault(index, [TextBlock(words)])
        self._open.clear()
        yield from self._calls()

    def _done(self, index: int, item: Json) -> Iterator[StreamEvent]:
        self._open.discard(index)
        said = self._said.pop(index, "")
        if index in self._items:  # some servers give each item the same index
            index = max(self._items) + 1
        self._items[index] = item
        blocks = read_item(item, self._ids, self._table, self._server.name)
        whole = "".join(block.text for block in blocks if isinstance(block, TextBlock))
        if said and not whole:  # what a person has read stays in the record
            blocks, whole = [TextBlock(said), *blocks], said
        self._blocks[index] = blocks
        if not whole.startswith(said):
            raise model_failure("invalid_response", "an item's text is not what its pieces said")
        if whole != said:  # a server may send no deltas
            yield StreamEvent("text", whole[len(said) :])
        yield from self._calls()

    def _say(self, index: int, piece: str) -> Iterator[StreamEvent]:
        if piece:
            self._said[index] = self._said.get(index, "") + piece
            yield StreamEvent("text", piece)

    def _calls(self) -> Iterator[StreamEvent]:
        """Yield the complete calls before which nothing is open any more: they keep their order."""
        first_open = min(self._open, default=None)
        for index in sorted(self._blocks.keys() - self._called):
            if first_open is not None and index > first_open:
                return
            self._called.add(index)
            for block in self._blocks[index]:
                if isinstance(block, ToolCall):
                    yield StreamEvent("tool_use", block=block)


def _index(event: Any) -> int:
    index = event.get("output_index")
    return index if isinstance(index, int) else 0
