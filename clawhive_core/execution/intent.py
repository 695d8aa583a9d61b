"""The intent of a call that uses something up: its approval, the uses of its grants."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from clawhive_core.errors import ClawHiveError, RunError
from clawhive_core.events.log import EventLog, Within
from clawhive_core.execution.pending import PendingCall
from clawhive_core.execution.refusals import unapproved
from clawhive_core.policy.approvals import consume
from clawhive_core.policy.ledger import line_of, returned, spend, used

_USED_UP = "grant_used_up"


async def append_intent(pending: PendingCall, log: EventLog) -> None:
    """Write the intent and, in the same transaction, use up what the call uses.

    Raises:
        RunError: The approval or a use is gone; nothing was written.
        LogWriteFailed: It could not be written.
    """
    events, checks = [pending.started()], list[Within]()
    if pending.counted:
        events.insert(0, used(line_of(log, pending.counted), **pending.ids))
        checks.append(spend(pending.counted))
    if pending.is_newly_approved:
        approval_id = str(pending.approval_id)
        events.insert(0, pending.consumed(approval_id))
        checks.append(consume(approval_id))
    await log.append(*events, sync=pending.leaves_the_run, within=_all(checks))


def give_back(pending: PendingCall, log: EventLog) -> None:
    """Give the uses of a call back that never started, where its intent was written."""
    if not pending.counted:
        return
    try:
        event = returned(line_of(log, pending.counted), **pending.ids)
        log.append_now(
            event, within=_only_if_used(pending.scope.run.run_id, pending.scope.invocation_id)
        )
    except ClawHiveError:
        return  # its intent was not written, or nothing can be: the uses stand as they are


def unwritten(pending: PendingCall, error: RunError) -> Exception:
    """Return what ends the attempt of a call whose intent was not written."""
    if error.code == _USED_UP:
        return error
    pending.approval = "consumed"
    return unapproved(pending.call.name, "consumed", None)


def used_up(error: RunError) -> set[str]:
    """Return the grants that an intent found used up.

    Raises:
        RunError: The error itself, where it says something else.
    """
    if error.code != _USED_UP:
        raise error
    return set(error.data["grant_ids"])


def _all(checks: Sequence[Within]) -> Within:
    def check(connection: sqlite3.Connection) -> None:
        for each in checks:
            each(connection)

    return check


def _only_if_used(run_id: str, invocation_id: str) -> Within:
    def check(connection: sqlite3.Connection) -> None:
        kinds = connection.execute(
            "SELECT kind FROM events WHERE run_id = ? AND invocation_id = ?",
            (run_id, invocation_id),
        )
        if [kind for (kind,) in kinds if kind.startswith("grant.")] != ["grant.used"]:
            raise RunError("no use was counted", place=invocation_id)

    return check
