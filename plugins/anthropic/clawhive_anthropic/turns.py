"""A conversation as the API takes it: turns that alternate, results first in theirs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from clawhive_anthropic.blocks import CONTAINER, NAME, Value, write_block
from clawhive_core import LlmMessage, MediaBlock, ProviderBlock, TextBlock

CACHED = {"type": "ephemeral"}
"""A cache breakpoint of five minutes, which each reading renews."""

_AT_PROVIDER = frozenset({"server_tool_use", "mcp_tool_use"})
_MARKABLE = frozenset({"text", "tool_result", "image", "document"})


@dataclass(slots=True)
class Turns:
    """The messages of a request, and the container in which its code ran before."""

    messages: list[Value] = field(default_factory=list[Value])
    container: str | None = None


def write_turns(messages: Iterable[LlmMessage], *, cache: bool) -> Turns:
    """Return the conversation; messages of one role in a row become one.

    Args:
        messages: The conversation.
        cache: Whether a cache breakpoint marks its end.
    """
    turns = Turns()
    for message in messages:
        content = _written(message, turns)
        if not content:
            continue
        if turns.messages and turns.messages[-1]["role"] == message.role:
            content = [*turns.messages.pop()["content"], *content]
        if message.role == "user":
            # The API wants a turn's results right behind the calls; the sort is stable.
            content.sort(key=lambda block: block["type"] != "tool_result")
        turns.messages.append({"role": message.role, "content": content})
    turns.messages = _without_unanswered(turns.messages)
    if cache:
        _mark_end(turns.messages)
    return turns


def _without_unanswered(messages: list[Value]) -> list[Value]:
    """Return the conversation without calls at the provider that it will never answer.

    A call that the limit cut, or a pause after which the user said something else, has no result;
    the API refuses a conversation with one. Where the client's own results follow, it may still
    come: such a call waits for them.
    """
    answered = {str(each.get("tool_use_id")) for at in messages for each in at["content"]}
    kept: list[Value] = []
    for message, after in zip(messages, [*messages[1:], None], strict=True):
        content = message["content"]
        if message["role"] == "assistant" and after is not None and not _has_results(after):
            content = [each for each in content if not _waits(each, answered)]
        if content:
            kept.append({**message, "content": content})
    return kept


def _has_results(message: Value) -> bool:
    return message["content"][0]["type"] == "tool_result"


def _waits(block: Value, answered: set[str]) -> bool:
    return block["type"] in _AT_PROVIDER and str(block.get("id")) not in answered


def _written(message: LlmMessage, turns: Turns) -> list[Value]:
    content: list[Value] = []
    for block in message.content:
        if isinstance(block, ProviderBlock) and block.provider == NAME and _is_container(block):
            turns.container = _alive(block.value)
        elif isinstance(block, MediaBlock) and message.role == "assistant":
            continue  # another provider's model drew it; this API takes none from a model
        elif isinstance(block, TextBlock) and message.role == "user" and block.text.strip():
            content.append({"type": "text", "text": block.text})  # citations are the model's only
        else:
            value = write_block(block)
            content.extend([] if value is None else [value])
    return content


def _is_container(block: ProviderBlock) -> bool:
    return block.value.get("type") == CONTAINER


def _alive(container: Mapping[str, Any]) -> str | None:
    """Return a container's id, None once it has expired: naming it would be an error for good."""
    from datetime import UTC, datetime

    try:
        expires = datetime.fromisoformat(str(container.get("expires_at")))
    except ValueError:
        return container.get("id")
    moment = expires if expires.tzinfo else expires.replace(tzinfo=UTC)
    return container.get("id") if moment > datetime.now(UTC) else None


def _mark_end(messages: list[Value]) -> None:
    """Put a breakpoint behind the last block that may carry one; a model's own stay untouched."""
    for message in reversed(messages):
        if message["role"] == "user":
            last = message["content"][-1]
            if last["type"] in _MARKABLE:
                message["content"][-1] = {**last, "cache_control": CACHED}
            return
