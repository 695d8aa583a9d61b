"""A skill, as its manifest declares it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from clawhive_core.model.tools import JsonSchema


@dataclass(frozen=True, slots=True)
class TaskType:
    """A kind of task that a skill offers: its input, its steps, its output."""

    name: str
    description: str
    input_schema: JsonSchema
    steps: tuple[Mapping[str, Any], ...]
    output: Any = None

    def to_dict(self) -> dict[str, Any]:
        """Return the task type as planners see it."""
        return {
            "name": self.name,
            "description": self.description,
            "input_schema": self.input_schema,
            "steps": list(self.steps),
            "output": self.output,
        }


@dataclass(frozen=True, slots=True)
class Skill:
    """Knowledge and task types in a folder."""

    id: str
    version: str
    folder: Path
    source: str
    """Which part of the search path it comes from."""
    description: str = ""
    permissions: tuple[str, ...] = ()
    """The most that its handlers and tasks may ever be granted."""
    tasks: Mapping[str, TaskType] = field(default_factory=dict[str, TaskType])
