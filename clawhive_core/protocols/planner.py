"""The seam for planners, which turn a task into steps."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import field
from typing import Any, Protocol

from clawhive_core.model.late import dataclass
from clawhive_core.model.messages import LlmMessage, LlmRequest, LlmResponse
from clawhive_core.model.runs import Plan, Task
from clawhive_core.model.tools import ToolDef


@dataclass(frozen=True, slots=True)
class PlanContext:
    """The knowledge and means of a planner, which executes nothing."""

    tools: Sequence[ToolDef]
    """The tools that the task's principal may see."""
    task_type: Mapping[str, Any] | None
    """The manifest's entry of the task type: input_schema, steps, output."""
    complete: Callable[[LlmRequest], Awaitable[LlmResponse]]
    failed: Mapping[str, str]
    """On re-planning: failed step names and their error codes."""
    results: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """On re-planning: the outputs of the steps that succeeded; they are kept, by their names."""
    earlier: tuple[Plan, ...] = ()
    """On re-planning: the plans so far, as they were answered."""
    before: tuple[LlmMessage, ...] = ()
    """The messages of the conversation before the task."""
    model: str | None = None
    """The task's model, `PROVIDER:NAME`, for `complete`; None where the task has none."""
    instructions: str = ""
    """The words that the task's agent is told at the beginning: its persona, the skills."""


class Planner(Protocol):
    """Decomposes a task; asked again, twice at most, when a step failed and `replans` is true.

    The answer to a prompt is the plan's `output`; where the plan has none, the task's model writes
    it from what the steps came to.
    """

    @property
    def name(self) -> str:
        """The planner's name in configuration and log."""
        ...

    @property
    def replans(self) -> bool:
        """Whether it wants to be asked again after a failure."""
        ...

    async def plan(self, task: Task, ctx: PlanContext) -> Plan:
        """Return the steps.

        Raises:
            RunError: `cannot_plan`, with what is missing.
        """
        ...
