"""Conversation with a model: content blocks, messages, requests, responses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any, Literal

from clawhive_core.model.late import dataclass, per_call
from clawhive_core.model.tools import Artifact, JsonSchema, ToolCall, ToolDef, ToolResult

Role = Literal["user", "assistant"]
StopReason = Literal[
    "end_turn",
    "tool_use",
    "max_tokens",
    "stop_sequence",
    "pause_turn",
    "refusal",
    "content_filter",
    "malformed_call",
    "other",
]
"""The reason of a model to stop: `tool_use` where it asks for calls; after `pause_turn` it goes on
when its own message is sent back; `malformed_call` where it wrote a call that its provider could
not read and keeps; `other` is what no adapter knows (see `raw_stop_reason`)."""

Effort = Literal["off", "low", "medium", "high"]
"""The amount of reasoning before a model answers."""

Native = Mapping[str, Any]
"""Data that a provider needs back with its block, by adapter name: `{"gemini": {...}}`. An adapter
reads its own key only, so that a conversation may move from one provider to another."""


@per_call
class TextBlock:
    """Text."""

    text: str
    native: Native | None = None


@dataclass(frozen=True, slots=True)
class ThinkingBlock:
    """A model's reasoning, with the signature that must go back untouched.

    Its adapter names itself in `native`; another provider's adapter leaves the block out.
    """

    text: str
    signature: str | None = None
    redacted: bool = False
    native: Native | None = None


@dataclass(frozen=True, slots=True)
class ProviderBlock:
    """A block that only its provider understands: kept, logged and sent back untouched.

    A call of a tool that runs at the provider, and its result, are such blocks.
    """

    provider: str
    """The adapter's name."""
    value: Mapping[str, Any]
    """The block as the provider sent it."""


@dataclass(frozen=True, slots=True)
class MediaBlock:
    """An image or a document: inline bytes in base64, or a URL."""

    kind: Literal["image", "document"]
    media_type: str
    data: str | None = None
    url: str | None = None


ContentBlock = TextBlock | ToolCall | ToolResult | ThinkingBlock | MediaBlock | ProviderBlock
"""One piece of a message: text, tool_use, tool_result, thinking, image or document, and what is a
provider's own."""


@per_call
class LlmMessage:
    """One message: a role and its content blocks, which may mix kinds."""

    role: Role
    content: tuple[ContentBlock, ...]

    @classmethod
    def text(cls, role: Role, content: str) -> LlmMessage:
        """Return a message of one text block."""
        return cls(role, (TextBlock(content),))


@per_call
class LlmRequest:
    """One question to a model."""

    model: str
    messages: tuple[LlmMessage, ...]
    system: str | None = None
    tools: tuple[ToolDef, ...] = ()
    max_tokens: int = 4096
    tool_choice: Literal["auto", "none", "required"] | str = "auto"  # noqa: PYI051 - a tool's name is the fourth choice
    response_schema: JsonSchema | None = None
    """A JSON Schema that the answer's text must satisfy as JSON."""
    cache_hints: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Empty where nothing should be cached, else `key`: what requests with an equal beginning have
    in common (a conversation's id); adapters mark the end of system prompt, tools and messages."""
    temperature: float | None = None
    reasoning: Effort | None = None
    """None leaves it to the provider."""
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Further parameters of the provider's API, sent as they are."""
    answered: int | None = None
    """The number of answers before it in its conversation, with those that the messages do not hold
    any more; None where nobody counts. For models that play a script; it is not sent."""

    def to_model(self, model: str, answered: int | None = None) -> LlmRequest:
        """Return the same request to a model by another name, with a count where one is given."""
        # `dataclasses.replace` takes five times as long, and every turn passes here.
        return LlmRequest(
            model,
            self.messages,
            self.system,
            self.tools,
            self.max_tokens,
            self.tool_choice,
            self.response_schema,
            self.cache_hints,
            self.temperature,
            self.reasoning,
            self.options,
            self.answered if answered is None else answered,
        )


@per_call
class Usage:
    """Tokens and cost of model calls; None where the provider does not say."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    cost: float | None = None
    """US dollars."""

    def __add__(self, other: Usage) -> Usage:
        """Return the sum, in which None counts as nothing."""
        if other == _NONE:  # what a model in the process says
            return self
        return Usage(
            _sum(self.input_tokens, other.input_tokens),
            _sum(self.output_tokens, other.output_tokens),
            _sum(self.cache_read_tokens, other.cache_read_tokens),
            _sum(self.cache_write_tokens, other.cache_write_tokens),
            _sum(self.cost, other.cost),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the usage as JSON."""
        return {
            "input_tokens": self.input_tokens,
            "output_tokens": self.output_tokens,
            "cache_read_tokens": self.cache_read_tokens,
            "cache_write_tokens": self.cache_write_tokens,
            "cost": self.cost,
        }

    @classmethod
    def from_dict(cls, row: Mapping[str, Any] | None) -> Usage:
        """Return what `to_dict` wrote; nothing for None."""
        if row is None:
            return _NONE
        return cls(
            row.get("input_tokens"),
            row.get("output_tokens"),
            row.get("cache_read_tokens"),
            row.get("cache_write_tokens"),
            row.get("cost"),
        )


_NONE = Usage()


def _sum(a: Any, b: Any) -> Any:
    if a is None:
        return b
    return a if b is None else a + b


@per_call
class LlmResponse:
    """A model's answer: blocks, why it stopped, what it used."""

    content: tuple[ContentBlock, ...]
    stop_reason: StopReason = "end_turn"
    usage: Usage = field(default_factory=Usage)
    model: str | None = None
    """The model that answered, as the provider names it."""
    response_id: str | None = None
    raw_stop_reason: str | None = None
    """The provider's word for why it stopped."""

    @property
    def text(self) -> str:
        """All text blocks, joined."""
        return "".join([block.text for block in self.content if isinstance(block, TextBlock)])

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """The calls that the model asks for, in order."""
        return tuple([block for block in self.content if isinstance(block, ToolCall)])


def block_to_json(block: ContentBlock) -> dict[str, Any]:
    """Return one content block as JSON, `type` first."""
    match block:  # the most frequent first
        case ToolResult():
            return {
                "type": "tool_result",
                "tool_call_id": block.tool_call_id,
                "output": block.output,
                "is_error": block.is_error,
                "structured": block.structured,
                "artifacts": [artifact.to_dict() for artifact in block.artifacts],
            }
        case ToolCall():
            return _call_to_json(block)
        case TextBlock():
            return _with_native({"type": "text", "text": block.text}, block.native)
        case ThinkingBlock():
            thinking = {
                "type": "thinking",
                "text": block.text,
                "signature": block.signature,
                "redacted": block.redacted,
            }
            return _with_native(thinking, block.native)
        case ProviderBlock():
            return {"type": "provider", "provider": block.provider, "value": block.value}
        case MediaBlock():
            return {
                "type": block.kind,
                "media_type": block.media_type,
                "data": block.data,
                "url": block.url,
            }


def _with_native(value: dict[str, Any], native: Native | None) -> dict[str, Any]:
    if native:
        value["native"] = native
    return value


def _call_to_json(call: ToolCall) -> dict[str, Any]:
    value = {"type": "tool_use", "id": call.id, "name": call.name, "input": call.input}
    if call.malformed is not None:
        value["malformed"] = call.malformed
    return _with_native(value, call.native)


def block_from_json(value: Mapping[str, Any]) -> ContentBlock:
    """Return the content block that `block_to_json` wrote.

    Raises:
        ValueError: The type is none of the known ones.
    """
    match value["type"]:
        case "text":
            return TextBlock(value["text"], value.get("native"))
        case "thinking":
            return ThinkingBlock(
                value["text"], value["signature"], value["redacted"], value.get("native")
            )
        case "tool_use":
            return ToolCall(
                value["id"],
                value["name"],
                value["input"],
                malformed=value.get("malformed"),
                native=value.get("native"),
            )
        case "provider":
            return ProviderBlock(value["provider"], value["value"])
        case "tool_result":
            return ToolResult(
                value["tool_call_id"],
                value["output"],
                value["is_error"],
                value["structured"],
                tuple(
                    Artifact(each["path"], each["media_type"], each["bytes"], each["sha256"])
                    for each in value["artifacts"]
                ),
            )
        case "image" | "document" as kind:
            return MediaBlock(kind, value["media_type"], value["data"], value["url"])
        case other:
            raise ValueError(f"unknown content block type {other!r}")


def message_to_json(message: LlmMessage) -> dict[str, Any]:
    """Return a message as JSON."""
    return {"role": message.role, "content": [block_to_json(block) for block in message.content]}
