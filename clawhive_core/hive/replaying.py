"""Repeating recorded runs, in four modes named after what runs live."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from typing import Any, Literal, cast, get_args

from clawhive_core.catalog.store import CatalogStore
from clawhive_core.errors import NotReplayable, UsageError
from clawhive_core.execution.executor import Executor
from clawhive_core.model.late import dataclass
from clawhive_core.protocols.ledger import Ledger
from clawhive_core.runs.orchestrator import Orchestrator
from clawhive_core.runs.record.view import find_run
from clawhive_core.runs.replays.recorded_run import RecordedRun
from clawhive_core.runs.replays.replay import (
    RecordedTools,
    ReplayReport,
    record_report,
    replay_exactly,
    tools_of,
)
from clawhive_core.runs.replays.replay_live import (
    ObservedCalls,
    ObservedInvoker,
    RecordedModelTurns,
)
from clawhive_core.runs.requests import RequestMaker, RunOptions
from clawhive_core.runs.run import RunRequest
from clawhive_core.runs.what_if import what_if

ReplayMode = Literal["exact", "tools", "model", "policy"]
"""The part that is done anew: nothing but our own code, the tools, the model, or the decisions."""


@dataclass(frozen=True, slots=True)
class Replayer:
    """The parts of a hive that repeat a run."""

    log: Ledger
    catalog: CatalogStore
    executor: Executor
    requests: RequestMaker
    orchestrator: Orchestrator
    owned: Callable[[RunRequest], AbstractAsyncContextManager[None]]


async def replayed(
    parts: Replayer, run: str, mode: ReplayMode, options: RunOptions | None
) -> ReplayReport:
    """Repeat a run and record what that found; see `Hive.replay`.

    Raises:
        NotReplayable: The run was a session's calls, without plan or prompt, or made none.
        UnknownId: No such run.
        UsageError: No such mode.
    """
    if mode not in get_args(ReplayMode):
        modes = ", ".join(f"`{each}`" for each in get_args(ReplayMode))
        raise UsageError(f"there is no replay mode `{mode}`", place="mode", fix=f"give {modes}")
    record = RecordedRun.load(parts.log, find_run(parts.log, run))
    recorded = parts.requests.recorded(record)
    if mode == "exact":
        today = parts.orchestrator
        return await replay_exactly(record, recorded, today.planners, today.compaction)
    _require_calls(record, mode)
    if mode == "policy" and recorded.is_session:
        request = parts.requests.assemble(recorded.task, _given(record, options))
        request = replace(request, principal=recorded.principal)
    else:
        request = _anew(parts, record, recorded, options, mode)
    if mode == "policy":
        report = await what_if(record, request, parts.catalog.current, parts.executor)
    else:
        report = await _live(parts, record, request, mode)
    await record_report(record, report)
    return report


def _require_calls(record: RecordedRun, mode: ReplayMode) -> None:
    """Refuse to check calls against a run that made none: the model was asked anew in it."""
    source = tools_of(record)
    if source is not record:
        raise NotReplayable(
            f"run {record.run_id} is a replay (model): its tools were not called",
            place=record.run_id,
            fix=f"clawhive runs replay {source.run_id} --mode {mode}",
        )


def _anew(
    parts: Replayer,
    record: RecordedRun,
    recorded: RunRequest,
    options: RunOptions | None,
    mode: str,
) -> RunRequest:
    """Return the request of a recorded run's task as it would be started now."""
    if recorded.is_session:
        raise NotReplayable(
            f"run {record.run_id} is a session's calls: nothing planned them",
            place=record.run_id,
            fix=f"clawhive runs replay {record.run_id} --mode policy",
        )
    chosen = _given(record, options)
    task = recorded.task
    agent = recorded.principal.name if recorded.principal.kind == "agent" else None
    chosen = replace(chosen, agent=agent)
    if task.prompt is None:
        request = parts.requests.task(str(task.task_type), task.input, chosen)
    else:
        planner = chosen.planner or recorded.setup.planner
        chosen = replace(chosen, model=chosen.model or recorded.setup.model, planner=planner)
        chosen = replace(chosen, skills=chosen.skills or recorded.offer.skills.active)
        request = parts.requests.prompt(task.prompt, chosen, recorded)
    scope = replace(request.scope, allow=recorded.scope.allow)
    title = f"replay ({mode}) of {recorded.title}"
    return replace(
        request, scope=scope, title=title, replays={"run_id": record.run_id, "mode": mode}
    )


def _given(record: RecordedRun, options: RunOptions | None) -> RunOptions:
    """Return options that give the task what the user gave the recorded one."""
    chosen = options or RunOptions(approve="deny")
    given = [
        str(grant["capability"])
        for stored in record.log.events(run_id=record.run_id)
        if stored.event.kind == "grant.issued"
        for grant in cast("list[dict[str, Any]]", stored.event.body["grants"])
        if grant["issuer"] == "user" and grant["scope"] == "task" and not grant["parent_grant"]
    ]
    words = record.start.event.body.get("words")
    return replace(
        chosen,
        grants=(*chosen.grants, *given),
        words=chosen.words if words is None else record.resolve_blobs(words),
    )


async def _live(
    parts: Replayer, record: RecordedRun, request: RunRequest, mode: ReplayMode
) -> ReplayReport:
    seen, today = ObservedCalls(), parts.orchestrator
    if mode == "tools":
        invoker = ObservedInvoker(parts.executor, seen)
        models = RecordedModelTurns(record, today.models, parts.log)
    else:
        invoker, models = ObservedInvoker(RecordedTools(record), seen), today.models
    again = Orchestrator(invoker, models, parts.log, today.planners, today.compaction)
    async with parts.owned(request):
        result = await again.run(request)
    found = seen.differences(record, result.output, result.status)
    return ReplayReport(
        record.run_id,
        mode,
        len(seen.calls),
        found[0] if found else None,
        record.finished,
        differences=tuple(found),
        new_run_id=request.scope.run_id,
    )
