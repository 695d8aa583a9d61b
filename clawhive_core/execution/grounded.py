"""A call's destinations held against what its run may take them from, and what its result adds."""

from __future__ import annotations

import os

from clawhive_core.capabilities import parse
from clawhive_core.execution.pending import PendingCall
from clawhive_core.model.tools import ToolResult
from clawhive_core.policy.grounding import weigh_sinks
from clawhive_core.protocols.check import CheckResult


def sinks_weighed(pending: PendingCall) -> tuple[CheckResult, ...]:
    """Return what the destinations of a call say of it."""
    meta = pending.meta
    if meta is None or not meta.sinks:
        return ()
    grounds, inside = pending.scope.run.grounds, _stays_inside(pending)
    return weigh_sinks(meta, pending.call.input, grounds, inside=inside)


def learnt(pending: PendingCall, result: ToolResult) -> ToolResult:
    """Return a call's result, taken as what later calls may name."""
    if (meta := pending.meta) is not None:
        pending.scope.run.grounds.learn(meta, pending.call.input, result)
    return result


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
