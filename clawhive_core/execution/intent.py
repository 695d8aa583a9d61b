"""The intent of a call that uses something up: its approval, the uses of its grants, a quota."""

from __future__ import annotations

from clawhive_core.errors import ClawHiveError, RunError
from clawhive_core.events.kinds import (
    GRANT_RETURNED,
    GRANT_USED,
    QUOTA_RESERVED,
    QUOTA_RETURNED,
)
from clawhive_core.execution.pending import PendingCall
from clawhive_core.execution.refusals import rate_limited, unapproved
from clawhive_core.model.events import Event
from clawhive_core.policy.approvals import usable, withdrawn
from clawhive_core.policy.ledger import returned, used
from clawhive_core.policy.ledger import used_up as grants_used_up
from clawhive_core.policy.quotas import USED_UP
from clawhive_core.protocols.ledger import (
    DescentOf,
    Expectation,
    GrantsUsable,
    InvocationHas,
    Ledger,
    QuotaLeft,
    RunOwnedBy,
    Unmet,
)

_USED_UP = "grant_used_up"
_COUNTS = frozenset((GRANT_USED, QUOTA_RESERVED))
_RETURNS = frozenset((GRANT_RETURNED, QUOTA_RETURNED))


async def append_intent(pending: PendingCall, log: Ledger) -> None:
    """Write the intent and, in the same transaction, use up what the call uses.

    That of a call which only reads is queued: it is committed before all that follows the call.

    Raises:
        RunError: The approval, a use or the quota is gone; nothing was written.
        LogWriteFailed: It could not be written.
    """
    if pending.only_reads:
        pending.is_queued = True
        await log.post_or_wait(pending.started(), expects=pending.scope.run.owned)
    elif pending.uses_up:
        await _append_with_uses(pending, log)
    else:
        owned = pending.scope.run.owned
        await log.append(pending.started(), sync=pending.leaves_the_run, expects=owned)


async def _append_with_uses(pending: PendingCall, log: Ledger) -> None:
    events, expects = [pending.started()], list[Expectation](pending.scope.run.owned)
    if pending.counted:
        events.insert(0, used(list(log.find(DescentOf(tuple(pending.counted)))), **pending.ids))
        expects.append(GrantsUsable(tuple(pending.counted)))
    if pending.quota is not None:
        events.insert(0, pending.quota.reserved(**pending.ids))
        expects.append(pending.quota.left)
    if pending.is_newly_approved:
        approval_id = str(pending.approval_id)
        events.insert(0, pending.consumed(approval_id))
        expects.extend(usable(approval_id))
    try:
        await log.append(*events, sync=pending.leaves_the_run, expects=expects)
    except Unmet as error:
        raise _worded(pending, error) from None


def _worded(pending: PendingCall, error: Unmet) -> RunError:
    """Return what an intent says where the uses that it makes are gone."""
    if isinstance(error.expectation, RunOwnedBy):
        return error
    if isinstance(error.expectation, GrantsUsable):
        return grants_used_up(error.found)
    if isinstance(error.expectation, QuotaLeft) and pending.quota is not None:
        return pending.quota.used_up(error.found)
    return withdrawn(str(pending.approval_id))


def give_back(pending: PendingCall, log: Ledger) -> None:
    """Give back what a call used that never started, where its intent was written."""
    events = list[Event]()
    if pending.counted:
        events.append(returned(list(log.find(DescentOf(tuple(pending.counted)))), **pending.ids))
    if pending.quota is not None:
        events.append(pending.quota.returned(**pending.ids))
    if not events:
        return
    try:
        scope = pending.scope
        counted = _counted(scope.run.run_id, scope.invocation_id)
        log.append_now(*events, expects=(*scope.run.owned, counted))
    except ClawHiveError:
        return  # its intent was not written, or nothing can be: the uses stand as they are


def unwritten(pending: PendingCall, error: RunError) -> Exception:
    """Return what ends the attempt of a call whose intent was not written."""
    if error.code == _USED_UP:
        return error
    if error.code == USED_UP:
        return rate_limited(pending.call.name, error)
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


def _counted(run_id: str, invocation_id: str) -> InvocationHas:
    """Return what giving back expects: that its use was counted, and not given back before."""
    return InvocationHas(run_id, invocation_id, _COUNTS, _RETURNS)
