"""What surrounds a call: the run it belongs to, who calls, and at which step."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from clawhive_core.model.approvals import Approval
from clawhive_core.model.principal import Principal
from clawhive_core.policy.rules import Rules

ApproveMode = Literal["ask", "park", "deny"]
"""What happens with a call that a person must answer: somebody is asked here, the run waits for an
answer from elsewhere, or the call is refused."""

Ask = Callable[[Approval], Awaitable[None]]
"""Shows an approval to a person and resolves it; one that returns without doing so lets the run
park."""


@dataclass(frozen=True, slots=True)
class Signal:
    """Something a running call lets its listeners know at once; not part of the log."""

    kind: Literal["progress", "output"]
    step_id: str
    tool: str
    stream: str = ""
    data: bytes = b""
    done: float = 0
    total: float | None = None
    text: str = ""


@dataclass(frozen=True, slots=True)
class RunScope:
    """What every call of one run shares."""

    trace_id: str
    task_id: str
    run_id: str
    conversation_id: str
    user_id: str
    root: str
    """The project root, absolute."""
    artifacts: str
    """The run's artifacts folder, absolute; created on first use."""
    rules: Rules
    command: str = "clawhive run"
    """The command line that refusals extend by `--grant`."""
    profile: Mapping[str, Any] = field(default_factory=dict[str, Any])
    secrets: Callable[[str], str | None] = lambda _: None
    signal: Callable[[Signal], None] = lambda _: None
    approve: ApproveMode = "deny"
    ask: Ask | None = None
    asked: frozenset[str | None] = frozenset()
    """The steps whose call waited for a person before the run stopped."""

    @property
    def variables(self) -> dict[str, str]:
        """What effects may name: the project's folder and the run's."""
        return {"workspace": self.root, "run": self.artifacts}


@dataclass(frozen=True, slots=True)
class CallScope:
    """One call's surroundings: its run, its principal, its step."""

    run: RunScope
    principal: Principal
    step_id: str
    label: str = ""
    """The plan's name for the step."""
    ordinal: int = 0
    attempt: int = 1
    depth: int = 0
    parent_invocation_id: str | None = None
    deadline: float | None = None
    """On the monotonic clock, in seconds; a nested call never outlives its parent."""
    approved: str | None = None
    """The approval that an unfinished attempt of this very call used: it counts once more."""
    planned: str = ""
    """The planned step, whose items and nested calls share its grants; else a call is a step."""

    @property
    def invocation_id(self) -> str:
        """The id of this execution: equal runs give equal ids, which replay relies on."""
        return f"{self.step_id}#{self.attempt}"

    @property
    def step(self) -> str:
        """The id of the step that the call belongs to, whose grants it has."""
        return self.planned or self.step_id.partition("#")[0]

    @property
    def rules(self) -> Rules:
        """The rules of the run, with the grants of this step."""
        return self.run.rules.of_step(self.step)
