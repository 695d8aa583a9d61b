"""A run that is only thought of: what rights it would have, in which step of it a call is made."""

from __future__ import annotations

from typing import Any

from clawhive_core.diagnostics.suggestions import nearest
from clawhive_core.errors import UsageError
from clawhive_core.execution.scope import CallScope
from clawhive_core.model.grants import CapabilityGrant
from clawhive_core.model.late import dataclass
from clawhive_core.policy.explain import in_force
from clawhive_core.runs.requests import RequestMaker, RunOptions
from clawhive_core.runs.run import RunRequest


@dataclass(frozen=True, slots=True)
class Situation:
    """The place of a considered call: a run with options, of a task type, and its step."""

    options: RunOptions
    task: str | None = None
    """`SKILL.TASK`, or TASK where one loaded skill has it; None for a call of its own."""
    step: str | None = None
    """A step of that task type, whose own rights count."""

    def rules(self, maker: RequestMaker) -> dict[str, Any]:
        """Return the rules that such a run would have, and those of its steps.

        Raises:
            UnknownTaskType: No loaded skill has the task type.
            UsageError: There is no such agent.
        """
        request = maker.considered(self.options, self.task)
        of_steps = [grant for grants in _of_steps(request).values() for grant in grants]
        return in_force(
            request.principal, request.scope.rules, maker.catalog.current.meta_of, of_steps
        )

    def scope(self, maker: RequestMaker) -> CallScope:
        """Return what would surround the call.

        Raises:
            UnknownTaskType: No loaded skill has the task type.
            UsageError: There is no such agent or step.
        """
        request = maker.considered(self.options, self.task)
        run = request.scope
        if self.step is None:
            return CallScope(run, request.principal, f"{run.run_id}/explain")
        known = _of_steps(request)
        if self.step not in known:
            raise _no_step(self.step, self.task, list(known))
        run.rules.extend(known[self.step])
        return CallScope(run, request.principal, f"{run.run_id}/{self.step}", label=self.step)


def _of_steps(request: RunRequest) -> dict[str, list[CapabilityGrant]]:
    if request.declared is None or request.task_type is None:
        return {}
    run_id, principal = request.scope.run_id, request.principal
    return request.declared.of_each(request.task_type, run_id, principal)


def _no_step(step: str, task: str | None, known: list[str]) -> UsageError:
    if task is None:
        return UsageError(
            "a step is one of a task type", place="--step", fix="name its task type: --task TASK"
        )
    close = nearest(step, known)
    fix = f"did you mean `{close}`?" if close else f"it has: {', '.join(known) or 'none'}"
    return UsageError(f"`{task}` has no step `{step}`", place="--step", fix=fix)
