"""What is under way ends with a revoked right: a tool, its sandbox, its handler, its sub-agents."""

from __future__ import annotations

from collections.abc import Callable

from clawhive_core.execution.pending import PendingCall
from clawhive_core.model.grants import CapabilityGrant


def ends_with_its_rights(pending: PendingCall, cut: Callable[[], None]) -> Callable[[], object]:
    """Have an execution cut when a grant that allowed it is revoked; the result ends the watch.

    What a person approved as this one call needs no grant, and goes on.
    """
    rights = () if pending.decision is None else pending.decision.granted

    def tell(ended: tuple[CapabilityGrant, ...]) -> None:
        gone = {each.grant_id for each in ended}
        if any(grant_id in gone for _, grant_id in rights):
            cut()

    return pending.scope.run.rules.on_revoked(tell)
