"""One run: what it is started with, and how it ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

from clawhive_core.execution.scope import RunScope
from clawhive_core.model.grants import CapabilityGrant
from clawhive_core.model.late import dataclass
from clawhive_core.model.messages import LlmMessage
from clawhive_core.model.principal import Principal
from clawhive_core.model.runs import RunStatus, Task
from clawhive_core.model.tools import Artifact
from clawhive_core.policy.grounding import SkillGrounds
from clawhive_core.protocols.ledger import AgentsBelow, Expectation, RunFree, SessionAt
from clawhive_core.runs.budget import BudgetLimits
from clawhive_core.runs.conversation import History
from clawhive_core.runs.plans.elevation import DeclaredRights
from clawhive_core.runs.toolsets import Offer


@dataclass(frozen=True, slots=True)
class Contract:
    """The part of a run that the skill of its task type declares; empty without one."""

    task_type: Mapping[str, Any] | None = None
    """The manifest's entry."""
    rights: DeclaredRights | None = None
    grounds: SkillGrounds | None = None
    """The grounds of the skill's own calls."""


REACT = "react"
"""The planner of prompts that plans nothing: the loop goes from turn to turn."""
CODE = "code"
"""The same loop, whose model calls its tools from programs that it writes."""


@dataclass(frozen=True, slots=True)
class ModelSetup:
    """The model of a run, and what plans for it."""

    model: str | None = None
    """`PROVIDER:NAME`; None where no model has a part in the run."""
    planner: str = "procedure"
    persona: str = ""
    """The beginning of the loop's system prompt."""


@dataclass(frozen=True, slots=True)
class RunLimits:
    """The bounds of one run."""

    max_tool_rounds: int = 25
    max_tokens: int = 8192
    """The longest answer of a model."""
    compact_at_tokens: int = 150_000
    budget: BudgetLimits = field(default_factory=BudgetLimits)


@dataclass(frozen=True, slots=True)
class Continuation:
    """The conversation that a run goes on with; empty where it begins one."""

    run_id: str | None = None
    """The last run of it, up to whose end `messages` go."""
    messages: tuple[LlmMessage, ...] = ()
    history: History | None = None
    """The messages as the log holds them; None where that is to be recorded with the run's own
    requests."""
    turn: SessionAt | None = None
    """The last answered turn, as the messages were read."""


@dataclass(frozen=True, slots=True)
class SpawnedBy:
    """The step of another run that a sub-agent's run was started by."""

    step_id: str | None = None
    agents_total: int = 0
    """The number of sub-agents that the task may start in all."""


@dataclass(frozen=True, slots=True)
class RunRequest:
    """Everything that one run is started with."""

    task: Task
    scope: RunScope
    principal: Principal
    title: str = ""
    words: Sequence[str] | None = None
    """The user's words, where the task is not in them."""
    grants: tuple[CapabilityGrant, ...] = ()
    contract: Contract = field(default_factory=Contract)
    setup: ModelSetup = field(default_factory=ModelSetup)
    offer: Offer = field(default_factory=Offer)
    limits: RunLimits = field(default_factory=RunLimits)
    continuation: Continuation = field(default_factory=Continuation)
    spawned_by: SpawnedBy = field(default_factory=SpawnedBy)
    delegates: tuple[str, ...] = ()
    """The agents that rules start with it."""
    replays: Mapping[str, str] | None = None
    """`run_id` and `mode`, where this run repeats another one."""

    @property
    def start_expects(self) -> tuple[Expectation, ...]:
        """The expectations of its start."""
        run = self.scope
        if run.parent_run_id is not None:
            return RunFree(run.run_id), AgentsBelow(run.trace_id, self.spawned_by.agents_total)
        turn = self.continuation.turn
        return (RunFree(run.run_id),) if turn is None else (RunFree(run.run_id), turn)

    @property
    def is_session(self) -> bool:
        """Whether it is a caller's own calls, which nothing planned."""
        return self.task.prompt is None and self.task.task_type is None


@dataclass(slots=True)
class RunResult:
    """The end of a run."""

    status: RunStatus
    output: Any = None
    error: Mapping[str, Any] | None = None
    artifacts: list[Artifact] = field(default_factory=list[Artifact])
    warnings: Sequence[Mapping[str, Any]] = ()
    """Notes for a reader of the output, each with `code` and `message`."""
