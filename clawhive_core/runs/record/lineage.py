"""Lineage: the runs above a run, and those that it started."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from clawhive_core.model.events import StoredEvent
from clawhive_core.model.late import dataclass
from clawhive_core.model.messages import Usage
from clawhive_core.model.principal import Principal
from clawhive_core.protocols.ledger import Ledger, RunsWhere, Window

OLDEST_FIRST = Window(reverse=True)


@dataclass(frozen=True, slots=True)
class ChildRun:
    """A run that another one started."""

    run_id: str
    principal: str
    title: str
    status: str


def ancestry(log: Ledger, run_id: str) -> list[tuple[str, Principal]]:
    """Return a run after those above it, the first of all at the beginning, each with its agent."""
    above = log.find(RunsWhere(above=run_id), OLDEST_FIRST)
    return [(each.run_id, Principal.parse(each.principal)) for each in above]


def children_of(log: Ledger, run_id: str) -> list[ChildRun]:
    """Return the runs that a run started, oldest first."""
    children = log.find(RunsWhere(parent_run_id=run_id), OLDEST_FIRST)
    return [ChildRun(each.run_id, each.principal, each.title, each.status) for each in children]


def descendants_json(log: Ledger, run_id: str) -> list[dict[str, Any]]:
    """Return the runs that a run started as JSON, each with those that it started."""
    return [
        {
            "run_id": each.run_id,
            "principal": each.principal,
            "title": each.title,
            "status": each.status,
            "children": descendants_json(log, each.run_id),
        }
        for each in children_of(log, run_id)
    ]


def descendants(log: Ledger, run_id: str) -> list[str]:
    """Return the ids of every run below a run, at whatever depth."""
    return [each.run_id for each in log.find(RunsWhere(below=run_id), OLDEST_FIRST)]


def child_of_step(log: Ledger, run_id: str, step_id: str) -> str | None:
    """Return the id of the run that a step of a run started, None where it started none."""
    for child in children_of(log, run_id):
        if start_of(log, child.run_id).get("parent_step_id") == step_id:
            return child.run_id
    return None


def start_of(log: Ledger, run_id: str) -> Mapping[str, Any]:
    """Return the body of a run's start."""
    return next(
        stored.event.body
        for stored in log.events(run_id=run_id, limit=1)
        if stored.event.kind == "run.start"
    )


def end_of(log: Ledger, run_id: str) -> StoredEvent | None:
    """Return the end of a run, None where it has not ended."""
    ends = [*log.events(run_id=run_id, kinds=("run.end",))]
    return ends[-1] if ends else None


def children_usage(log: Ledger, run_id: str) -> Usage:
    """Return what the runs that a run started had used when it ended, or have used by now."""
    if not (children := children_of(log, run_id)):
        return Usage()
    own, used = end_of(log, run_id), Usage()
    for child in children:
        end = end_of(log, child.run_id)
        if end is not None and (own is None or end.seq < own.seq):
            used += Usage.from_dict(end.event.body["usage"])
    return used


def own_usage(log: Ledger, run_id: str) -> Usage:
    """Return what the model calls of a run used up to now, those of the runs below it left out."""
    used = Usage()
    for stored in log.events(run_id=run_id, kinds=("model.end", "embedding.end")):
        used += Usage.from_dict(stored.event.body["usage"])
    return used


def total_usage(log: Ledger, run_id: str, *, but: str | None = None) -> Usage:
    """Return what a run and all below it used up to now, one of those that it started left out."""
    used = own_usage(log, run_id)
    for child in children_of(log, run_id):
        if child.run_id != but:
            used += total_usage(log, child.run_id)
    return used
