"""What goes to a model and comes back: content blocks, messages, requests, responses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from clawhive_core.model.tools import Artifact, JsonSchema, ToolCall, ToolDef, ToolResult

Role = Literal["user", "assistant"]
StopReason = Literal[
    "end_turn", "tool_use", "max_tokens", "stop_sequence", "refusal", "content_filter", "other"
]


@dataclass(frozen=True, slots=True)
class TextBlock:
    """Text."""

    text: str


@dataclass(frozen=True, slots=True)
class ThinkingBlock:
    """A model's reasoning, with the signature that must go back untouched."""

    text: str
    signature: str | None = None
    redacted: bool = False


@dataclass(frozen=True, slots=True)
class MediaBlock:
    """An image or a document: inline bytes in base64, or a URL."""

    kind: Literal["image", "document"]
    media_type: str
    data: str | None = None
    url: str | None = None


ContentBlock = TextBlock | ToolCall | ToolResult | ThinkingBlock | MediaBlock
"""One piece of a message: text, tool_use, tool_result, thinking, image or document."""


@dataclass(frozen=True, slots=True)
class LlmMessage:
    """One message: a role and its content blocks, which may mix kinds."""

    role: Role
    content: tuple[ContentBlock, ...]

    @classmethod
    def text(cls, role: Role, content: str) -> LlmMessage:
        """Return a message of one text block."""
        return cls(role, (TextBlock(content),))


@dataclass(frozen=True, slots=True)
class LlmRequest:
    """One question to a model."""

    model: str
    messages: tuple[LlmMessage, ...]
    system: str | None = None
    tools: tuple[ToolDef, ...] = ()
    max_tokens: int = 4096
    tool_choice: Literal["auto", "none", "required"] | str = "auto"  # noqa: PYI051 - a tool's name is the fourth choice
    response_schema: JsonSchema | None = None
    cache_hints: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
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


def _sum(a: Any, b: Any) -> Any:
    if a is None:
        return b
    return a if b is None else a + b


@dataclass(frozen=True, slots=True)
class LlmResponse:
    """A model's answer: blocks, why it stopped, what it used."""

    content: tuple[ContentBlock, ...]
    stop_reason: StopReason = "end_turn"
    usage: Usage = field(default_factory=Usage)

    @property
    def text(self) -> str:
        """All text blocks, joined."""
        return "".join(block.text for block in self.content if isinstance(block, TextBlock))

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """The calls that the model asks for, in order."""
        return tuple(block for block in self.content if isinstance(block, ToolCall))


def block_to_json(block: ContentBlock) -> dict[str, Any]:
    """Return one content block as JSON, `type` first."""
    match block:
        case TextBlock():
            return {"type": "text", "text": block.text}
        case ThinkingBlock():
            return {
                "type": "thinking",
                "text": block.text,
                "signature": block.signature,
                "redacted": block.redacted,
            }
        case ToolCall():
            return {"type": "tool_use", "id": block.id, "name": block.name, "input": block.input}
        case ToolResult():
            return {
                "type": "tool_result",
                "tool_call_id": block.tool_call_id,
                "output": block.output,
                "is_error": block.is_error,
                "structured": block.structured,
                "artifacts": [artifact.to_dict() for artifact in block.artifacts],
            }
        case MediaBlock():
            return {
                "type": block.kind,
                "media_type": block.media_type,
                "data": block.data,
                "url": block.url,
            }


def block_from_json(value: Mapping[str, Any]) -> ContentBlock:
    """Return the content block that `block_to_json` wrote.

    Raises:
        ValueError: The type is none of the known ones.
    """
    match value["type"]:
        case "text":
            return TextBlock(value["text"])
        case "thinking":
            return ThinkingBlock(value["text"], value["signature"], value["redacted"])
        case "tool_use":
            return ToolCall(value["id"], value["name"], value["input"])
        case "tool_result":
            return ToolResult(
                value["tool_call_id"],
                value["output"],
                value["is_error"],
                value["structured"],
                tuple(Artifact(**artifact) for artifact in value["artifacts"]),
            )
        case "image" | "document" as kind:
            return MediaBlock(kind, value["media_type"], value["data"], value["url"])
        case other:
            raise ValueError(f"unknown content block type {other!r}")


def message_to_json(message: LlmMessage) -> dict[str, Any]:
    """Return a message as JSON."""
    return {"role": message.role, "content": [block_to_json(block) for block in message.content]}
