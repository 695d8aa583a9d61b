"""The sources of a run's destinations: at its start, and again when it goes on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from clawhive_core.catalog.catalog import Catalog
from clawhive_core.execution.recorded import CALL_KINDS, RecordedCall
from clawhive_core.model.approvals import changed
from clawhive_core.model.runs import Task
from clawhive_core.model.tools import ToolMeta, ToolResult
from clawhive_core.policy.grounding import CONTRACT, Grounds
from clawhive_core.policy.skill_grounds import SkillGrounds

if TYPE_CHECKING:
    from clawhive_core.runs.replays.replay import Record


def grounds_of(
    task: Task, task_type: Mapping[str, Any] | None, words: Sequence[str] | None
) -> Grounds:
    """Return what a run starts with: the user's words, and what the steps of its contract name.

    Args:
        task: What the run is for; its prompt and input are the user's unless `words` are given.
        task_type: The contract's entry.
        words: What the user said instead.
    """
    grounds = Grounds(*((task.prompt, task.input) if words is None else words))
    for step in (task_type or {}).get("steps", ()):
        grounds.say(step.get("input"), CONTRACT)
    return grounds


def remember(grounds: Grounds, record: Record, catalog: Catalog) -> None:
    """Add what the calls of a recorded run came to, its tools' own calls too.

    A call counts as what its tool is today only where the tool's contract is the recorded one;
    else its output is nobody's record.
    """
    calls: dict[str | None, RecordedCall] = {}
    for stored in record.log.events(run_id=record.run_id):
        if stored.event.kind in CALL_KINDS:
            step = stored.event.step_id
            call = calls.pop(step, None) or RecordedCall(stored)
            call.take(stored)
            calls[step] = call  # last where it ended last: what it returned was known since then
    for call in calls.values():
        remember_call(grounds, call, record, catalog)


def remember_call(grounds: Grounds, call: RecordedCall, record: Record, catalog: Catalog) -> None:
    """Add what one call of a recorded run came to."""
    asked = call.asked.event.body
    given = record.full(asked["tool_call"]["input"])
    if "asked_input" in asked:
        grounds.say(changed(record.full(asked["asked_input"]), given))
    tool = catalog.find(str(call.first.event.tool))
    outcome = call.outcome(record.log, "")
    if tool is None or not isinstance(outcome, ToolResult):
        return
    meta = tool.meta
    by = _lent(meta, asked.get("grounds"))
    if meta.contract_hash != asked["contract_hash"]:
        meta, by = replace(meta, records=(), output_trust="untrusted"), None
    grounds.learn(meta, given, outcome, by, str(call.first.event.step_id))


def _lent(meta: ToolMeta, row: Mapping[str, Any] | None) -> SkillGrounds | None:
    """Return what the skill's contract said of a call when it was made."""
    return None if row is None else SkillGrounds(row["skill"], {meta.name: tuple(row["places"])})
