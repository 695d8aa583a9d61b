"""Dry runs: decisions about calls that are not made, as they stand or as a person edited them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Protocol, cast

import anyio

from clawhive_core.catalog.catalog import Tool
from clawhive_core.catalog.store import CatalogStore
from clawhive_core.errors import ClawHiveError, InvalidInput, RunError, ToolError, UnknownId
from clawhive_core.execution.approvals import call_digest, diff_of, sinks_of
from clawhive_core.execution.effects import provenance
from clawhive_core.execution.executor import Executor
from clawhive_core.execution.outcomes import Refused, error_of
from clawhive_core.execution.pending import MAX_INPUT, PendingCall
from clawhive_core.execution.refusals import approval_required, denied
from clawhive_core.execution.scope import CallScope, RunScope
from clawhive_core.model.approvals import Approval, changed
from clawhive_core.model.canonical import canonical_text
from clawhive_core.model.ids import new_id
from clawhive_core.model.json_values import json_object
from clawhive_core.model.late import dataclass
from clawhive_core.model.principal import Principal
from clawhive_core.model.refusal import Refusal
from clawhive_core.model.tools import ToolCall
from clawhive_core.policy.answers import Edited
from clawhive_core.policy.approvals import ApprovalBook
from clawhive_core.policy.explain import why


class Decider(Protocol):
    """The executor, as far as it takes a call up to its decision."""

    async def decide(self, pending: PendingCall) -> None:
        """Decide a call; raises Refused where it is denied, or cannot be made at all."""
        ...


async def explain(call: ToolCall, scope: CallScope, executor: Decider) -> dict[str, Any]:
    """Return the verdict on a call and each reason for it; nothing is executed or recorded.

    Raises:
        UnknownId: There is no such tool.
        InvalidInput: The input fails the tool's schema, or names nothing that can be normalised.
        ToolError: No call can be made: the tool declares an effect that cannot be used, perhaps.
    """
    pending = PendingCall(call, scope)
    refusal = await _refusal_of(pending, executor)
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


async def decide(call: ToolCall, scope: CallScope, executor: Decider) -> PendingCall:
    """Return a call with what it would touch and what would be decided; see `explain`."""
    pending = PendingCall(call, scope)
    refusal = await _refusal_of(pending, executor)
    if pending.decision is None:
        raise _error(call.name, refusal)
    return pending


async def _refusal_of(pending: PendingCall, executor: Decider) -> Refusal | None:
    try:
        await executor.decide(pending)
    except Refused as error:
        return error.refusal
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


_PROPOSAL = "proposal"


@dataclass(frozen=True, slots=True)
class CallEditor:
    """Takes a person's changes of a call through the stages before an approval."""

    executor: Executor
    catalog: CatalogStore
    book: ApprovalBook

    async def check(
        self,
        approval: Approval,
        input: Mapping[str, Any],
        run: RunScope,
        before: Edited | None = None,
    ) -> Edited | None:
        """Return the call with this input, ready to be approved; None where nothing changed.

        Args:
            approval: A pending one.
            input: The arguments instead of those that were asked for.
            run: The run of the call, with the rights that it has now.
            before: An earlier change, where the person went on from that.

        Raises:
            RunError: `already_resolved`: it was answered; `tool_changed`: the tool is another one
                now; `denied`: policy denies the changed call.
            InvalidInput: The input fails the tool's schema, or names nothing that can be
                normalised, or is no proposal that the confirmed tool would make.
        """
        _require_pending(approval)
        asked, contract = self.book.asked(approval)
        given, original = _copy_input(input), canonical_text(asked.input)
        if canonical_text(given) == original:
            return None
        tool = self._tool(approval, contract)
        who = Principal.parse(approval.principal)
        scope = CallScope(run, who, approval.step_id, planned=approval.step)
        base = asked.input if before is None else before.input
        given = await self._propose_again(tool, base, given, scope)
        if canonical_text(given) == original:
            return None
        run.grounds.say(changed(asked.input, given))
        pending = await decide(replace(asked, input=given), scope, self.executor)
        decision = pending.decision
        if decision is None or decision.verdict == "deny":
            refusal = denied(pending).refusal
            raise RunError(
                f"the changed call cannot be approved: {refusal.message}",
                code="denied",
                place=approval.approval_id,
                fix=refusal.next.get("command") or "change it otherwise, or deny it",
            )
        return Edited(
            approval.approval_id,
            given,
            await anyio.to_thread.run_sync(call_digest, pending),
            pending.capabilities,
            sinks_of(pending),
            diff_of(pending),
            decision.verdict,
            decision.rules,
            tuple(provenance(pending)),
        )

    def _tool(self, approval: Approval, contract: str | None) -> Tool:
        tool = self.catalog.current.find(approval.tool)
        if tool is None or tool.meta.contract_hash != contract:
            raise RunError(
                f"`{approval.tool}` is not the tool any more that a person was asked about",
                code="tool_changed",
                place=approval.approval_id,
                fix=f"deny it: clawhive approvals deny {approval.approval_id}",
            )
        return tool

    async def _propose_again(
        self, tool: Tool, base: Mapping[str, Any], given: dict[str, Any], scope: CallScope
    ) -> dict[str, Any]:
        """Return the input with a proposal as the confirmed tool makes it of what was changed.

        A proposal holds what follows from the rest, such as digests and a diff; nobody writes
        those by hand, and the tool that takes the proposal checks them.
        """
        before, after = base.get(_PROPOSAL), given.get(_PROPOSAL)
        confirmed = self.catalog.current.find(tool.meta.confirms or "")
        if confirmed is None or not isinstance(before, dict) or not isinstance(after, dict):
            return given
        old, new = cast("dict[str, Any]", before), cast("dict[str, Any]", after)
        takes: Mapping[str, Any] = confirmed.meta.input_schema.get("properties", {})
        moved = _synchronised((base, given), (old, new), takes)
        wanted = {**{name: new[name] for name in new if name in takes}, **moved}
        made = await self._propose(confirmed.meta.name, wanted, scope)
        for name, mine in sorted({**new, **moved}.items()):
            if mine != old.get(name) and mine != made.get(name):
                raise InvalidInput(
                    f"`{confirmed.meta.name}` makes `{name}` of the rest: it cannot be edited",
                    place=f"/{_PROPOSAL}/{name}",
                    fix=f"edit one of: {', '.join(sorted({*old} & {*takes}))}",
                )
        return {**given, **moved, _PROPOSAL: made}

    async def _propose(
        self, name: str, input: Mapping[str, Any], scope: CallScope
    ) -> Mapping[str, Any]:
        """Ask the confirmed tool, as a call within the one that waits."""
        waiting = scope.invocation_id
        nested = replace(
            scope,
            step_id=f"{waiting}>{new_id('edit')}",
            depth=scope.depth + 1,
            parent_invocation_id=waiting,
        )
        outcome = await self.executor.invoke(ToolCall(new_id("call"), name, input), nested)
        if isinstance(outcome, Refusal):
            raise InvalidInput(outcome.message, place=f"/{_PROPOSAL}", fix=_fix(outcome))
        error = error_of(outcome)
        if error is not None or not isinstance(outcome.value, dict):
            why = outcome.output if error is None else error["message"]
            raise InvalidInput(
                f"`{name}` makes no proposal of it: {why}",
                place=f"/{_PROPOSAL}",
                fix="change it otherwise, or deny it",
            )
        return cast("dict[str, Any]", outcome.value)


def _synchronised(
    input: tuple[Mapping[str, Any], Mapping[str, Any]],
    proposal: tuple[Mapping[str, Any], Mapping[str, Any]],
    takes: Mapping[str, Any],
) -> dict[str, Any]:
    """Return what was changed of that which stands in the input and in its proposal too.

    Writing another path once is enough: it counts in both places.
    """
    found: dict[str, Any] = {}
    for name in sorted({*input[1]} & {*proposal[1]} & {*takes}):
        pairs = ((each[0].get(name), each[1][name]) for each in (input, proposal))
        changed = [after for before, after in pairs if after != before]
        if any(value != changed[0] for value in changed):
            raise InvalidInput(
                f"`{name}` and the proposal's `{name}` were changed to two values",
                place=f"/{name}",
                fix="write the same value in both places, or change one of them",
            )
        if changed:
            found[name] = changed[0]
    return found


def _fix(refusal: Refusal) -> str:
    return str(refusal.next.get("command") or "change it otherwise, or deny it")


def _require_pending(approval: Approval) -> None:
    if approval.state != "pending":
        raise RunError(
            f"the approval is {approval.state} already, so its call cannot be edited",
            code="already_resolved",
            place=approval.approval_id,
            fix=f"clawhive approvals show {approval.approval_id}",
        )


def _copy_input(input: Any) -> dict[str, Any]:
    try:
        return json_object(input, MAX_INPUT)[0]
    except InvalidInput as error:
        where = error.place or "/"
        raise InvalidInput(
            f"the arguments cannot be used: {error.message}",
            place=where,
            fix="give one JSON object of at most 16 MiB",
        ) from None
