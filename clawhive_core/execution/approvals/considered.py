"""The decision about a call, without making it."""

from __future__ import annotations

from typing import Any, Protocol

from clawhive_core.errors import ClawHiveError, InvalidInput, ToolError, UnknownId
from clawhive_core.execution.pending import PendingCall
from clawhive_core.execution.refusals import Refused, approval_required
from clawhive_core.execution.scope import CallScope
from clawhive_core.model.refusal import Refusal
from clawhive_core.model.tools import ToolCall
from clawhive_core.policy.explain import why


class Weigher(Protocol):
    """The executor, as far as it takes a call up to its decision."""

    async def weigh(self, pending: PendingCall) -> None:
        """Decide a call; raises Refused where it is denied, or cannot be made at all."""
        ...


async def consider(call: ToolCall, scope: CallScope, weigher: Weigher) -> dict[str, Any]:
    """Return the verdict on a call and each reason for it; nothing is executed or recorded.

    Raises:
        UnknownId: There is no such tool.
        InvalidInput: The input fails the tool's schema, or names nothing that can be normalised.
        ToolError: No call can be made: the tool declares an effect that cannot be used, perhaps.
    """
    pending = PendingCall(call, scope)
    refusal = await _weighed(pending, weigher)
    meta, decision = pending.meta, pending.decision
    if meta is None or decision is None:
        raise _error(call.name, refusal)
    if decision.verdict == "ask":
        refusal = approval_required(pending).refusal
    return {
        "tool": meta.name,
        "provider_id": meta.provider_id,
        **why(pending.request(meta), scope.rules, pending.checked, decision),
        "message": "the call would be made" if refusal is None else refusal.message,
        "next": None if refusal is None else dict(refusal.next),
    }


async def weigh(call: ToolCall, scope: CallScope, weigher: Weigher) -> PendingCall:
    """Return a call with what it would touch and what would be decided; see `consider`."""
    pending = PendingCall(call, scope)
    refusal = await _weighed(pending, weigher)
    if pending.decision is None:
        raise _error(call.name, refusal)
    return pending


async def _weighed(pending: PendingCall, weigher: Weigher) -> Refusal | None:
    try:
        await weigher.weigh(pending)
    except Refused as exit_:
        return exit_.refusal
    return None


def _error(name: str, refusal: Refusal | None) -> ClawHiveError:
    """Return the error of a call that could not be decided, as whoever typed it wants it."""
    if refusal is None:
        return ToolError(f"`{name}` was not decided")
    if refusal.error == "tool_not_found":
        return UnknownId(refusal.message, place=name, fix="clawhive tools list")
    if refusal.error == "invalid_input":
        place = next(iter(refusal.next["paths"]), "") or "the input"
        return InvalidInput(refusal.message, place=place, fix=f"clawhive tools show {name}")
    fix = "clawhive doctor"
    if "provider_id" in refusal.next:
        fix = f"report it to the author of the provider `{refusal.next['provider_id']}`"
    return ToolError(refusal.message, code=refusal.error, fix=fix)
