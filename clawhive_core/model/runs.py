"""Work and its records: Task, Run, Plan, Step, Action, Invocation and their states."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any, Literal

from clawhive_core.model.late import dataclass

RunStatus = Literal[
    "pending", "running", "waiting_approval", "interrupted", "succeeded", "failed", "cancelled"
]
StepStatus = Literal[
    "pending",
    "running",
    "waiting_approval",
    "succeeded",
    "failed",
    "skipped",
    "cancelled",
    "unknown",
]
InvocationStatus = Literal[
    "intended", "running", "succeeded", "failed", "refused", "parked", "unknown", "abandoned"
]
Action = Literal["respond", "tool_call", "finish"]
"""The end of a step."""

ENDED: frozenset[RunStatus] = frozenset({"succeeded", "failed", "cancelled"})


@dataclass(frozen=True, slots=True)
class Task:
    """The wish of a user: a prompt, or a task type of a skill with its input."""

    task_id: str
    task_type: str | None = None
    """`SKILL.TASK`, None for a prompt."""
    input: Mapping[str, Any] = field(default_factory=dict[str, Any])
    prompt: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the task as JSON."""
        return {
            "task_id": self.task_id,
            "task_type": self.task_type,
            "input": self.input,
            "prompt": self.prompt,
        }


@dataclass(frozen=True, slots=True)
class PlannedStep:
    """One step of a plan; strings in `input` may hold references: `${steps.NAME.output}`."""

    name: str
    tool: str
    input: Any = field(default_factory=dict[str, Any])
    needs: tuple[str, ...] = ()
    """Names of the steps that must have succeeded before."""
    for_each: str | None = None
    """A reference to a list: the step runs once an item, as `${item}`."""
    when: str | None = None
    """A reference that must be true, or `always`: run although a needed step failed."""
    permissions: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the step as JSON."""
        return {
            "name": self.name,
            "tool": self.tool,
            "input": self.input,
            "needs": list(self.needs),
            "for_each": self.for_each,
            "when": self.when,
            "permissions": list(self.permissions),
        }


@dataclass(frozen=True, slots=True)
class Plan:
    """The ordered steps that a planner made, and a reference to the task's output."""

    planner: str
    steps: tuple[PlannedStep, ...]
    output: Any = None

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as JSON."""
        return {
            "planner": self.planner,
            "steps": [step.to_dict() for step in self.steps],
            "output": self.output,
        }
