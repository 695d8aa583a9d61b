"""Repeating a recorded run, and recording what that found."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from clawhive_core.errors import NotReplayable
from clawhive_core.model.events import Event
from clawhive_core.protocols.planner import Planner
from clawhive_core.runs.loop.compaction import Compaction
from clawhive_core.runs.orchestrator import Orchestrator
from clawhive_core.runs.record.lineage import used_below
from clawhive_core.runs.replays.replay import (
    Diverged,
    Record,
    RecordedDoor,
    RecordedJournal,
    RecordedModels,
    RecordedOffers,
    ReplayReport,
)
from clawhive_core.runs.replays.replay_live import RecordedTools, tools_of
from clawhive_core.runs.run import RunRequest


async def repeat(
    record: Record,
    request: RunRequest,
    planners: Mapping[str, Planner],
    compaction: Compaction | None = None,
) -> ReplayReport:
    """Run today's planner, loop and orchestrator on a run's recorded answers.

    Raises:
        NotReplayable: The run was a session's calls.
    """
    run_id = record.run_id
    if request.is_session:
        raise NotReplayable(
            f"run {run_id} is a session's calls: nothing planned them", place=run_id
        )
    tools = tools_of(record)
    again = Orchestrator(
        RecordedDoor(record) if tools is record else RecordedTools(tools),
        RecordedModels(record),
        RecordedJournal(record),
        planners,
        compaction,
        partial(used_below, record.log),
        RecordedOffers(record),
    )
    try:
        await again.run(request)
        difference = record.left_over() if record.finished else None
    except Diverged as parted:
        difference = parted.difference
    report = ReplayReport(run_id, "exact", record.compared, difference, record.finished)
    await note(record, report)
    return report


async def note(record: Record, report: ReplayReport) -> None:
    """Record what a replay found."""
    event = Event(
        "replay.end",
        report.to_dict(),
        trace_id=record.start.event.trace_id,
        run_id=record.run_id,
        status="succeeded" if report.ok else "failed",
    )
    await record.log.append(event)
