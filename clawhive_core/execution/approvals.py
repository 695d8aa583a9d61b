"""Asking a person about one exact call: waiting for the answer, or letting the run park."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from stat import S_ISREG
from typing import Any, cast

import anyio

from clawhive_core.capabilities import parse
from clawhive_core.errors import NeedHumanApproval
from clawhive_core.execution.effects import provenance
from clawhive_core.execution.pending import PendingCall
from clawhive_core.execution.refusals import approval_required, suspended, unapproved
from clawhive_core.execution.scope import NESTED, Ask, CallScope, RunScope
from clawhive_core.model.approvals import Approval
from clawhive_core.model.canonical import digest
from clawhive_core.model.events import Blob
from clawhive_core.model.identity import ToolIdentity
from clawhive_core.model.ids import new_id
from clawhive_core.model.late import dataclass
from clawhive_core.model.sinks import names_of
from clawhive_core.model.tools import ToolMeta
from clawhive_core.policy.approvals import ApprovalBook, expiry

_POLL_SECONDS = 0.25
_MAX_DIFF = 256 * 1024


@dataclass(frozen=True, slots=True)
class Approvals:
    """Obtains a person's answer for calls that must ask."""

    book: ApprovalBook

    def recall(self, pending: PendingCall) -> None:
        """Take what a person answered about this very call before its run stopped."""
        scope = pending.scope
        approval = self.book.of_step(scope.run.run_id, scope.step_id)
        if approval is None:
            return
        if approval.state in {"approved", "denied"}:
            pending.answer = approval
        if approval.state == "approved" or approval.approval_id == scope.approved:
            self._apply_edit(pending, approval)

    async def obtain(self, pending: PendingCall) -> bool:
        """Set `answer` to what a person says about this call; wait where somebody is here to ask.

        Returns:
            Whether the person edited the call, so that its effects are to be found anew.

        Raises:
            Refused: Nobody may be asked.
            NeedHumanApproval: Nobody is here to answer; the call is recorded as pending.
        """
        scope = pending.scope
        if scope.approved is not None or pending.answer is not None:
            return False
        if scope.run.approve == "deny":
            raise approval_required(pending)
        self.book.expire()
        approval = self.book.of_step(scope.run.run_id, scope.step_id)
        if approval is None:
            wanted = await anyio.to_thread.run_sync(call_digest, pending)
            approval = self._asked_before(pending, wanted) or await self._request(pending, wanted)
        if approval.state == "pending":
            # A nested call that waited here would use up the time of the tool that makes it.
            if scope.parent_invocation_id is not None:
                raise _waiting(approval)
            approval = await self._wait(approval, scope.run)
        pending.answer = approval
        return approval.state == "approved" and self._apply_edit(pending, approval)

    def _asked_before(self, pending: PendingCall, wanted: str) -> Approval | None:
        """Return the approval of a client's identical call: it is used by whoever repeats it.

        A denial holds for the session in which the call was asked for.
        """
        scope = pending.scope
        if scope.principal.kind != "client":
            return None
        found = self.book.of_call(wanted, str(scope.principal))
        if found is None or found.state in {"pending", "approved"}:
            return found
        return found if (found.state, found.run_id) == ("denied", scope.run.run_id) else None

    def _apply_edit(self, pending: PendingCall, approval: Approval) -> bool:
        if not approval.edited or pending.asked_input is not None:
            return False
        pending.edit(self.book.input_of(approval))
        return True

    async def use(self, pending: PendingCall) -> None:
        """Let the call happen by its answer, where that is yes and for exactly this call.

        Raises:
            Refused: The answer was no, or came too late, or what it was bound to changed.
        """
        approved, approval = pending.scope.approved, pending.answer
        if approved is not None:
            self._reuse(pending, approved)
        elif approval is not None and await self._matches(approval, pending):
            self._extend_rules(approval, pending)
            pending.approval_id, pending.approval = approval.approval_id, "approved"

    async def _matches(self, approval: Approval, pending: PendingCall) -> bool:
        """Whether the answer is yes to this very call; False where rights allow it without."""
        state = approval.state
        digests = await anyio.to_thread.run_sync(self._digests, approval, pending)
        if state == "approved" and approval.digest not in digests:
            state = "drifted"
            reason = "what it was bound to changed after it was asked for"
            self.book.close(approval, state, reason, pending.scope.run.owned)
            decision, edited = pending.decision, pending.asked_input is not None
            if decision is not None and decision.verdict == "allow" and not edited:
                return False
        if state in {"drifted", "consumed"} and not self._is_unchanged(approval, pending):
            pending.approval = state
            raise suspended(approval.tool)
        if state != "approved":
            pending.approval = state
            raise unapproved(approval.tool, state, approval.reason)
        return True

    def _digests(self, approval: Approval, pending: PendingCall) -> set[str]:
        """Return what the answer may be bound to; one of before code was known, to no code."""
        asked = self.book.tool_of(approval)
        identity = None if asked is None else ToolIdentity.read(asked)
        found = {call_digest(pending)}
        if identity is not None and not identity.code_hash:
            found.add(call_digest(pending, with_code=False))
        return found

    def _is_unchanged(self, approval: Approval, pending: PendingCall) -> bool:
        """Whether the tool is what it was when a person was asked."""
        asked, meta = self.book.tool_of(approval), pending.meta
        if asked is None or meta is None:
            return True
        identity = ToolIdentity.read(asked)
        return identity is not None and identity.is_still(meta)

    def _reuse(self, pending: PendingCall, approval_id: str) -> None:
        """Let a used approval count for another attempt, where the call still touches the same."""
        approval = self.book.find(approval_id)
        if not self._is_unchanged(approval, pending):
            pending.approval = "drifted"
            raise suspended(approval.tool)
        if approval.state != "consumed" or set(approval.capabilities) != set(pending.capabilities):
            pending.approval = "drifted"
            raise unapproved(approval.tool, "drifted", None)
        pending.approval_id, pending.approval = approval_id, "approved"

    async def _request(self, pending: PendingCall, wanted: str) -> Approval:
        approval_id = new_id("appr")
        more = {
            "approval_id": approval_id,
            "digest": wanted,
            "sinks": sinks_of(pending),
            "destinations": provenance(pending),
            "diff": diff_of(pending),
            "grant_step": pending.scope.step,
            "expires_at": expiry(),
            "tool": Blob(None if pending.meta is None else ToolIdentity.of(pending.meta).text),
        }
        await self.book.log.append(pending.asked(more), expects=pending.scope.run.owned)
        return self.book.find(approval_id)

    async def settle_nested(self, scope: CallScope, elsewhere: Sequence[str] = ()) -> None:
        """Have the calls answered for which the tool of a step was parked.

        Args:
            scope: The call of the tool.
            elsewhere: Approvals of other runs, for which it was parked too.

        Raises:
            NeedHumanApproval: Nobody is here to answer one of them.
        """
        if scope.run.approve == "deny":
            return  # each is refused when it is made again
        self.book.expire()
        asked = self.book.pending_below(scope.run.run_id, f"{scope.step_id}{NESTED}")
        for approval_id in (*(each.approval_id for each in asked), *elsewhere):
            approval = self.book.find(approval_id)  # one answer may have followed another
            if approval.state == "pending":
                await self._wait(approval, scope.run)

    async def _wait(self, approval: Approval, run: RunScope) -> Approval:
        if run.approve == "ask" and run.ask is not None:
            approval = await self._ask_here(approval, run.ask)
        if approval.state == "pending":
            raise _waiting(approval)
        return approval

    async def _ask_here(self, approval: Approval, ask: Ask) -> Approval:
        """Ask here, and notice an answer that is given elsewhere meanwhile."""

        async def asking() -> None:
            await ask(approval)
            group.cancel_scope.cancel()

        found = approval
        async with anyio.create_task_group() as group:
            group.start_soon(asking)
            while found.state == "pending":
                await anyio.sleep(_POLL_SECONDS)
                self.book.expire()
                found = self.book.find(approval.approval_id)
            group.cancel_scope.cancel()
        return self.book.find(approval.approval_id)

    def _extend_rules(self, approval: Approval, pending: PendingCall) -> None:
        """Let the grants of an answer with a wider scope count for the run's further calls."""
        if approval.grants:
            pending.scope.run.rules.extend(self.book.standing(approval))


def _waiting(approval: Approval) -> NeedHumanApproval:
    return NeedHumanApproval(
        f"`{approval.tool}` waits for a person",
        place=approval.approval_id,
        fix=f"clawhive approvals show {approval.approval_id}",
        data={"approval_id": approval.approval_id},
    )


def call_digest(pending: PendingCall, *, with_code: bool = True) -> str:
    """Return the digest of exactly this call: what a person's answer is bound to.

    It covers the tool's contract and code, the arguments (RFC 8785), the capabilities, the
    principal, and the content of each single file that the call may change.
    """
    meta = pending.meta
    return digest(
        [
            None if meta is None else _identity(meta, with_code=with_code),
            pending.call.name,
            pending.call.input,
            list(pending.capabilities),
            str(pending.scope.principal),
            bound_files(pending.capabilities),
        ]
    )


def _identity(meta: ToolMeta, *, with_code: bool) -> str | list[str]:
    text = [meta.text_hash] if meta.text_counts else []
    code = [meta.code_hash] if with_code and meta.code_hash else []
    return [meta.contract_hash, *text, *code] if text or code else meta.contract_hash


def bound_files(capabilities: tuple[str, ...]) -> dict[str, str]:
    """Return the content hash of every single file that a call may change."""
    found: dict[str, str] = {}
    for text in capabilities:
        capability = parse(text)
        if capability.verb in {"fs.write", "fs.delete"} and capability.is_concrete:
            path = "/" + "/".join(capability.parts[0])
            found[path] = _content_hash(path)
    return found


def _content_hash(path: str) -> str:
    """Return what a file holds; what cannot be read is told from what can."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return "absent"
    except OSError as error:
        return f"unreadable:{error.errno}"
    if not S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)  # a folder cannot be made a file object
        return "no file"
    with os.fdopen(descriptor, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sinks_of(pending: PendingCall) -> dict[str, Any]:
    """Return the arguments that say where data or money goes."""
    meta = pending.meta
    names = () if meta is None else names_of(meta.sinks)
    return {name: pending.call.input[name] for name in names if name in pending.call.input}


def diff_of(pending: PendingCall) -> str:
    """Return the diff that a confirming tool is given, so that a person sees what will be done."""
    proposal: Any = pending.call.input.get("proposal")
    if not isinstance(proposal, dict):
        return ""
    value = cast("dict[str, Any]", proposal).get("diff")
    return value[:_MAX_DIFF] if isinstance(value, str) else ""
