"""Answering a call that the log has, or making it again where that does no harm."""

from __future__ import annotations

from dataclasses import replace

from clawhive_core.catalog.store import CatalogStore
from clawhive_core.execution.approvals.approval import Approvals
from clawhive_core.execution.door import Door, Outcome
from clawhive_core.execution.nested.recorded import RecordedCall
from clawhive_core.execution.nested.required import tool_of
from clawhive_core.execution.pending import PendingCall
from clawhive_core.execution.scope import CallScope
from clawhive_core.model.canonical import canonical_text
from clawhive_core.model.late import dataclass
from clawhive_core.model.refusal import Refusal
from clawhive_core.model.tools import ToolCall, ToolResult
from clawhive_core.protocols.ledger import Ledger


@dataclass(frozen=True, slots=True)
class Repeater:
    """Brings a recorded call to its end."""

    log: Ledger
    catalog: CatalogStore
    approvals: Approvals | None
    door: Door

    async def repeat(self, recorded: RecordedCall, call: ToolCall, scope: CallScope) -> Outcome:
        """Return what the call came to, or comes to now.

        A parked one is begun again, and so is one that was broken off if its tool is idempotent; of
        any other that was broken off nobody knows whether it did its work. A right that was asked
        for midway is decided again: what the tool does with it, it does again too.

        Raises:
            NeedHumanApproval: A person must answer it, or a call of its tool.
            ClawHiveError: The log lost what it came to.
        """
        outcome = recorded.outcome(self.log, call.id)
        decided_again = scope.midway is not None and recorded.attempts > 0
        if outcome is not None and not decided_again:
            return outcome
        if not recorded.attempts:
            return await self.door.invoke(call, scope)  # it was only asked for
        tool = tool_of(self.catalog.current, call, scope)
        contract = recorded.asked.event.body["contract_hash"]
        same = tool is not None and tool.meta.contract_hash == contract
        harmless = tool is not None and same and tool.meta.idempotent
        if not (recorded.is_parked or harmless):
            last = replace(scope, attempt=recorded.attempts)
            return await self._unknown(PendingCall(call, last, tool))
        if recorded.is_parked and self.approvals is not None and scope.parent_invocation_id is None:
            await self.approvals.settle(scope)
        approved = self._approved(scope) if same else None
        again = replace(scope, attempt=recorded.attempts + 1, approved=approved)
        return await self.door.invoke(call, again)

    def _approved(self, scope: CallScope) -> str | None:
        """Return the approval that an earlier attempt of the call used."""
        if self.approvals is None:
            return None
        approval = self.approvals.book.of_step(scope.run.run_id, scope.step_id)
        if approval is None or approval.state != "consumed":
            return None
        return approval.approval_id

    async def _unknown(self, pending: PendingCall) -> Outcome:
        """Record that nobody knows whether a call did its work."""
        refusal = Refusal(
            "unknown_outcome",
            f"`{pending.call.name}` was broken off; whether it did its work is not known, and it "
            "may not be done twice",
            {"action": "ask_user"},
        )
        value = refusal.to_dict()
        result = ToolResult(pending.call.id, canonical_text(value), is_error=True, structured=value)
        error = {"code": refusal.error, "message": refusal.message}
        ended = pending.ended("unknown", result, error)
        await self.log.append(ended, expects=pending.scope.run.owned)
        return result
