"""Keeping a long conversation within a model's context."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Protocol

from clawhive_core.model.late import dataclass
from clawhive_core.model.messages import ContentBlock, LlmMessage, LlmRequest, LlmResponse, Usage
from clawhive_core.model.tools import ToolResult

Complete = Callable[[LlmRequest], Awaitable[LlmResponse]]


class Compaction(Protocol):
    """Shortens a conversation; asked before each turn but the first."""

    async def compact(
        self, messages: Sequence[LlmMessage], usage: Usage, complete: Complete
    ) -> Sequence[LlmMessage]:
        """Return the messages to go on with: the same object where nothing is to be done.

        What it does must follow from its arguments and from the answers of `complete`, which are
        recorded, so that a replay finds the same.

        Args:
            messages: The conversation so far; results follow the calls that they answer.
            usage: What the last turn used; `input_tokens` is how long the conversation was.
            complete: Asks a model, under the run's budget, rights and log.
        """
        ...


@dataclass(frozen=True, slots=True)
class ClearOldResults:
    """Replaces long results of tools by a note once a conversation is long, oldest first.

    What a model read early it has used or can ask for again; the log keeps all of it.
    """

    at_tokens: int
    """How long the conversation may be before anything is cleared, in tokens."""
    kept: int = 6
    """The last messages, which stay as they are."""
    long: int = 400
    """Characters of a result that is worth clearing."""

    async def compact(
        self, messages: Sequence[LlmMessage], usage: Usage, complete: Complete
    ) -> Sequence[LlmMessage]:
        """Return the messages with old results cleared, the same object below the bound."""
        del complete
        if (usage.input_tokens or 0) <= self.at_tokens or len(messages) <= self.kept:
            return messages
        old = [
            replace(message, content=tuple(map(self._cleared, message.content)))
            for message in messages[: -self.kept]
        ]
        if all(new == before for new, before in zip(old, messages, strict=False)):
            return messages
        return [*old, *messages[-self.kept :]]

    def _cleared(self, block: ContentBlock) -> ContentBlock:
        if not isinstance(block, ToolResult) or len(block.output) <= self.long:
            return block
        note = f"[cleared: {len(block.output)} characters, to keep the conversation short]"
        return replace(block, output=note, structured=None)
