"""The decisions of today's policy on calls that nobody makes; nothing is executed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from clawhive_core.catalog.catalog import Catalog
from clawhive_core.diagnostics.suggestions import nearest
from clawhive_core.errors import ClawHiveError, UsageError
from clawhive_core.execution.dry_run import Decider, explain
from clawhive_core.execution.recorded import RecordedCall, asked_call
from clawhive_core.execution.scope import CallScope
from clawhive_core.model.events import StoredEvent
from clawhive_core.model.grants import CapabilityGrant
from clawhive_core.model.late import dataclass
from clawhive_core.model.principal import Principal
from clawhive_core.policy.explain import in_force
from clawhive_core.runs.replays.recorded_run import (
    Difference,
    RecordedRun,
    add_recorded_call,
    recorded_calls,
)
from clawhive_core.runs.replays.replay import ReplayReport
from clawhive_core.runs.requests import RequestMaker, RunOptions
from clawhive_core.runs.run import RunRequest


@dataclass(frozen=True, slots=True)
class HypotheticalCall:
    """The place of a call that nobody makes: a run with options, of a task type, and its step."""

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
        request = maker.hypothetical(self.options, self.task)
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
        request = maker.hypothetical(self.options, self.task)
        run = request.scope
        if self.step is None:
            return CallScope(run, request.principal, f"{run.run_id}/explain")
        known = _of_steps(request)
        if self.step not in known:
            raise _no_step(self.step, self.task, list(known))
        run.rules.extend(known[self.step])
        return CallScope(run, request.principal, f"{run.run_id}/{self.step}", label=self.step)


def _of_steps(request: RunRequest) -> dict[str, list[CapabilityGrant]]:
    contract = request.contract
    if contract.rights is None or contract.task_type is None:
        return {}
    run_id, principal = request.scope.run_id, request.principal
    return contract.rights.of_each(contract.task_type, run_id, principal)


def _no_step(step: str, task: str | None, known: list[str]) -> UsageError:
    if task is None:
        return UsageError(
            "a step is one of a task type", place="--step", fix="name its task type: --task TASK"
        )
    close = nearest(step, known)
    fix = f"did you mean `{close}`?" if close else f"it has: {', '.join(known) or 'none'}"
    return UsageError(f"`{task}` has no step `{step}`", place="--step", fix=fix)


NOT_ENABLED = "tool_not_enabled"
"""The refusal of what a model was not offered, which policy had no part in."""


async def what_if(
    record: RecordedRun, request: RunRequest, catalog: Catalog, executor: Decider
) -> ReplayReport:
    """Take every recorded call through today's stages up to the decision.

    Args:
        record: The recorded run.
        request: The same task as it would be started now, with today's rights.
        catalog: Today's tools.
        executor: What decides.
    """
    found: list[Difference] = []
    calls = recorded_calls(record)
    for call in calls:
        before = _decided(call.first)
        now, why = await _decision(record, call, request, executor)
        if before not in {now, NOT_ENABLED}:
            event = call.first.event
            tool = str(event.tool or event.body["tool_call"]["name"])
            said = f"{now} ({why})" if why else now
            place = (call.first.seq, "decision", event.step_id)
            found.append(Difference(*place, f"{tool} {before}", said))
        add_recorded_call(request.scope.grounds, call, record, catalog)
    first = found[0] if found else None
    return ReplayReport(
        record.run_id, "policy", len(calls), first, record.finished, differences=tuple(found)
    )


def _decided(stored: StoredEvent) -> str:
    """Return the recorded verdict; for what was never decided the code of its refusal."""
    body: Mapping[str, Any] = stored.event.body
    refusal = body.get("refusal")
    if refusal is not None and refusal["error"] not in {"denied", "approval_required"}:
        return str(refusal["error"])
    return str(body["decision"] or "deny")


async def _decision(
    record: RecordedRun, call: RecordedCall, request: RunRequest, executor: Decider
) -> tuple[str, str]:
    event = call.first.event
    step_id = f"{request.scope.run_id}{str(event.step_id)[len(record.run_id) :]}"
    scope = CallScope(request.scope, Principal.parse(str(event.principal)), step_id)
    try:
        decided = await explain(asked_call(record.log, call.first), scope, executor)
    except ClawHiveError as error:
        return _code(error), error.message
    return decided["verdict"], "" if decided["verdict"] == "allow" else decided["message"]


def _code(error: ClawHiveError) -> str:
    return "tool_not_found" if error.code == "unknown_id" else error.code
