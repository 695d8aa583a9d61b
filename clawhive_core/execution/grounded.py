"""A call's destinations held against what its run may take them from, and what its result adds."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from clawhive_core.capabilities import parse
from clawhive_core.execution.pending import PendingCall
from clawhive_core.model.tools import ToolMeta, ToolResult
from clawhive_core.policy.grounding import Destination, destinations, weigh_sinks
from clawhive_core.protocols.check import CheckResult

MAX_SHOWN = 100
"""Values of a call that a person is told the origin of."""


def sinks_weighed(pending: PendingCall) -> tuple[CheckResult, ...]:
    """Return what the destinations of a call say of it."""
    meta = pending.meta
    if meta is None or not meta.sinks:
        return ()
    return weigh_sinks(_destinations(meta, pending), meta.risk)


def provenance(pending: PendingCall) -> list[dict[str, Any]]:
    """Return where each destination of a call comes from; what nothing grounds comes first."""
    meta = pending.meta
    if meta is None or not meta.sinks:
        return []
    found = sorted(_destinations(meta, pending), key=lambda each: each.source is not None)
    return [each.to_dict() for each in found[:MAX_SHOWN]]


def learnt(pending: PendingCall, result: ToolResult) -> ToolResult:
    """Return a call's result, taken as what later calls may name."""
    if (meta := pending.meta) is not None and pending.scope.midway is None:
        scope = pending.scope
        asked = pending.call.input
        scope.run.grounds.learn(meta, asked, result, scope.grounds, scope.step_id)
    return result


def _destinations(meta: ToolMeta, pending: PendingCall) -> Iterator[Destination]:
    given, grounds = pending.call.input, pending.scope.run.grounds
    inside = _stays_inside(pending)
    return destinations(meta, given, grounds, inside=inside, skill=_skill(pending))


def _skill(pending: PendingCall) -> str:
    """Return the skill whose own call it is, where its contract grounds what it reads."""
    return "" if pending.scope.grounds is None else pending.scope.grounds.skill_id


def _stays_inside(pending: PendingCall) -> bool:
    """Whether each file that a call touches is the project's or the run's, or a person named it."""
    scope = pending.scope
    folders = [os.path.realpath(folder) for folder in (scope.run.root, scope.run.artifacts)]
    touched = [each for each in map(parse, pending.capabilities) if each.verb.startswith("fs.")]
    suspended = () if pending.meta is None else scope.rules.suspended(pending.meta)
    for each in touched:
        path = "/" + "/".join(each.parts[0])
        within = any(path == folder or path.startswith(f"{folder}/") for folder in folders)
        if not within and not scope.rules.authority(each, None, suspended).by_person:
            return False
    return bool(touched)
