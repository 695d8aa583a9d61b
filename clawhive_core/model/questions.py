"""Questions that somebody other than ClawHive puts to a person, and their answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any, Literal

from clawhive_core.model.late import dataclass


@dataclass(frozen=True, slots=True)
class Question:
    """A question to the person at the terminal, by a form of fields or by an address to open."""

    source: str
    """The asker, such as "the MCP server `git`": the provider's own words, never the asker's."""
    message: str
    """The asker's words."""
    fields: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]])
    """The JSON Schema of each value that is asked for, by its name."""
    required: tuple[str, ...] = ()
    """The names that must have a value."""
    url: str | None = None
    """The http or https address to open; what happens there goes past ClawHive."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer of a person."""

    action: Literal["accept", "decline", "cancel"]
    """`cancel`: nobody is there, or said anything."""
    values: Mapping[str, Any] = field(default_factory=dict[str, Any])
