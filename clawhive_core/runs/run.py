"""One run: what it is started with, and how it ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

from clawhive_core.execution.scope import RunScope
from clawhive_core.model.events import Blob
from clawhive_core.model.grants import CapabilityGrant
from clawhive_core.model.late import dataclass
from clawhive_core.model.messages import LlmMessage
from clawhive_core.model.principal import Principal
from clawhive_core.model.runs import RunStatus, Task
from clawhive_core.model.tools import Artifact, ToolDef
from clawhive_core.policy.grounding import SkillGrounds
from clawhive_core.protocols.ledger import Expectation, RunFree, SessionAt
from clawhive_core.runs.budget import BudgetLimits
from clawhive_core.runs.conversation import History
from clawhive_core.runs.plans.elevation import Declared
from clawhive_core.runs.record.ownership import admits
from clawhive_core.runs.toolsets import SkillTools


@dataclass(frozen=True, slots=True)
class RunRequest:
    """Everything that one run is started with."""

    task: Task
    scope: RunScope
    principal: Principal
    catalog_revision: str
    tools: tuple[ToolDef, ...] = ()
    """What a model is offered."""
    task_type: Mapping[str, Any] | None = None
    """The manifest's entry, for a task of a skill."""
    model: str | None = None
    max_tool_rounds: int = 25
    budget: BudgetLimits = field(default_factory=BudgetLimits)
    polling: frozenset[str] = frozenset()
    """The offered tools that may well answer the same call differently."""
    max_tokens: int = 8192
    """The longest answer of a model."""
    compact_at_tokens: int = 150_000
    before: tuple[LlmMessage, ...] = ()
    """What was said in the conversation before, up to the end of the run `continues`."""
    continues: str | None = None
    turn: SessionAt | None = None
    """The last answered turn of its conversation, as `before` was read."""
    history: History | None = None
    """What the log holds of `before`; None where that is to be recorded with its own requests."""
    planner: str = "procedure"
    grants: tuple[CapabilityGrant, ...] = ()
    parent_run_id: str | None = None
    title: str = ""
    instructions: str = ""
    """What the loop's system prompt says beside its own words: the skills."""
    replays: Mapping[str, str] | None = None
    """`run_id` and `mode`, where this run repeats another one."""
    declared: Declared | None = None
    """What the skill of the task type says of rights; None where a skill has no part in it."""
    words: Sequence[str] | None = None
    """What the user said, where the task is not in the user's own words."""
    grounds: SkillGrounds | None = None
    """What the skill of its task reads on from."""
    persona: str = ""
    """What the loop's system prompt begins with."""
    parent_step_id: str | None = None
    """The step of the parent that started it."""
    delegates: tuple[str, ...] = ()
    """The agents that rules start with it."""
    skills: SkillTools = field(default_factory=SkillTools)
    """What skills have to do with its tools."""
    most_agents: int = 0
    """How many sub-agents its task may start in all, where it is one."""

    @property
    def takes(self) -> tuple[Expectation, ...]:
        """The expectations of its start."""
        run = self.scope
        if self.parent_run_id is None:
            free = RunFree(run.run_id)
            return (free,) if self.turn is None else (free, self.turn)
        return admits(run.run_id, run.trace_id, self.most_agents)

    @property
    def rest(self) -> dict[str, Any]:
        """The facts that its start records only where there are any."""
        facts: dict[str, Any] = {}
        if self.replays is not None:
            facts["replays"] = self.replays
        if self.words is not None:
            facts["words"] = Blob(list(self.words))
        if self.persona:
            facts["persona"] = Blob(self.persona)
        if self.parent_step_id is not None:
            facts["parent_step_id"] = self.parent_step_id
        if self.delegates:
            facts["delegates"] = list(self.delegates)
        if self.history is not None:
            facts["answers"] = self.history.answers
        if self.skills != SkillTools():
            facts["skills"] = Blob(self.skills.to_dict())
        return facts

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
    """What a reader of the output should know of it, each with `code` and `message`."""
