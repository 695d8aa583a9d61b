"""Approvals as rows: asked for, answered by a person, used once, in the log's own transactions."""

from __future__ import annotations

import builtins
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from clawhive_core.errors import ClawHiveError, RunError, StorageError, UnknownId, UsageError
from clawhive_core.events.grants import issued
from clawhive_core.model.approvals import Approval, ApprovalState
from clawhive_core.model.canonical import canonical_text, preview
from clawhive_core.model.events import Blob, Event
from clawhive_core.model.grants import CapabilityGrant
from clawhive_core.model.late import dataclass
from clawhive_core.model.tools import ToolCall
from clawhive_core.policy.grants import is_live
from clawhive_core.policy.persistent import PersistentGrant, drop, keep, read_persistent, settle
from clawhive_core.protocols.ledger import (
    TOO_LATE,
    ApprovalIs,
    ApprovalsWhere,
    Expectation,
    HasEvidence,
    Ledger,
    RightsWhere,
    RunOwnedBy,
    Unmet,
    Window,
)

if TYPE_CHECKING:
    from clawhive_core.policy.answers import Answer, AnswerOptions, Edited, Verdict


EXPIRY = timedelta(hours=24)
_PENDING = frozenset({"pending"})
_APPROVED = frozenset({"approved"})
_OPEN = _PENDING | _APPROVED


def now() -> str:
    """Return the present as rows hold it."""
    return _text(datetime.now(UTC))


def expiry(after: timedelta = EXPIRY) -> str:
    """Return when an approval asked for now expires."""
    return _text(datetime.now(UTC) + after)


def _text(moment: datetime) -> str:
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")


@dataclass(frozen=True, slots=True)
class ApprovalBook:
    """Reads and answers approvals; every change is an event."""

    log: Ledger
    user_dir: Path
    """The user's own directory, for the rights that an answer gives for good."""
    variables: Mapping[str, str] = field(default_factory=dict[str, str])
    """The variables of rights: `workspace` and `home`."""

    def pending(self) -> list[Approval]:
        """Return what waits for a person, oldest first."""
        return self.list("pending")

    def list(self, state: ApprovalState | None = None) -> list[Approval]:
        """Return approvals, oldest first; those whose time is over are expired before."""
        self.expire()
        return [*self.log.find(ApprovalsWhere(state))]

    def find(self, text: str) -> Approval:
        """Return the approval of an id, a unique prefix, or `last`.

        Raises:
            UnknownId: It names none, or several.
        """
        if text == "last":
            found = self.log.find(ApprovalsWhere(), Window(1, reverse=True)).items
        else:
            wanted = text if text.startswith("appr_") else f"appr_{text}"
            found = self.log.find(ApprovalsWhere(prefix=wanted), Window(2)).items
        if len(found) == 1:
            return found[0]
        what = "names no approval" if not found else "names several approvals; write more of it"
        raise UnknownId(f"`{text}` {what}", place=text, fix="clawhive approvals list --all")

    def input_of(self, approval: Approval) -> Mapping[str, Any]:
        """Return the whole input of the call: as it was asked for, or as a person edited it."""
        body = self._body(approval, edited=True)
        return self.log.load(body["tool_call"]["input"])

    def asked(self, approval: Approval) -> tuple[ToolCall, str | None]:
        """Return the call as it was asked for, and the contract hash of its tool then."""
        body = self._body(approval, edited=False)
        call = body["tool_call"]
        return ToolCall(call["id"], call["name"], self.log.load(call["input"])), body[
            "contract_hash"
        ]

    def tool_of(self, approval: Approval) -> str | None:
        """Return what the call's tool was when it was asked for, as `ToolIdentity.text`."""
        return self.log.load(self._body(approval, edited=False).get("tool"))

    def _body(self, approval: Approval, *, edited: bool) -> Mapping[str, Any]:
        (approval,) = self.log.find(ApprovalsWhere(approval_id=approval.approval_id))
        seq = approval.edited_seq if edited and approval.edited else approval.seq
        assert seq is not None  # noqa: S101 - it was edited
        (found,) = self.log.events(since=seq - 1, limit=1)
        return found.event.body

    def of_step(self, run_id: str, step_id: str) -> Approval | None:
        """Return the newest approval of a step, None where nothing was asked."""
        query = ApprovalsWhere(run_id=run_id, step_id=step_id)
        return next(iter(self.log.find(query, Window(1, reverse=True))), None)

    def of_call(self, digest: str, principal: str) -> Approval | None:
        """Return the newest approval of exactly this call, whichever run asked for it."""
        query = ApprovalsWhere(digest=digest, principal=principal)
        return next(iter(self.log.find(query, Window(1, reverse=True))), None)

    def pending_below(self, run_id: str, prefix: str) -> list[Approval]:
        """Return what waits in the steps whose ids start like this, oldest first."""
        return [*self.log.find(ApprovalsWhere("pending", run_id, step_prefix=prefix))]

    def equals(self, approval: Approval) -> builtins.list[Approval]:
        """Return what waits in the same run for exactly the same call, oldest first: one question.

        A pending approval is among its own equals.
        """
        query = ApprovalsWhere(
            "pending",
            approval.run_id,
            approval.tool,
            digest=approval.digest,
            principal=approval.principal,
        )
        return [*self.log.find(query)]

    def resolve_each(
        self,
        approvals: Sequence[Approval],
        answer: Verdict,
        *,
        by: str,
        reason: str | None = None,
    ) -> builtins.list[Approval]:
        """Answer each of several approvals for its own call; return those that this answered.

        What somebody else answered meanwhile is left as it is.

        Raises:
            UsageError: Several calls of an unsafe tool would be approved at once.
            RunError: `already_resolved`: every one was answered before.
            StorageError: One could not be written; those before it are answered.
        """
        if answer == "approve" and len(approvals) > 1 and approvals[0].risk == "unsafe":
            raise UsageError(
                f"`{approvals[0].tool}` is unsafe: a person approves each call of it",
                place="--all",
                fix="approve this call alone: leave --all out",
            )
        done: builtins.list[Approval] = []
        late: RunError | None = None
        for each in approvals:
            try:
                done.append(self.resolve(each.approval_id, answer, by=by, reason=reason))
            except RunError as error:
                late = error
        if late is not None and not done:
            raise late
        return done

    def resolve(
        self, approval_id: str, answer: Verdict, *, by: str, **more: Unpack[AnswerOptions]
    ) -> Approval:
        """Answer a pending approval, once.

        Args:
            approval_id: The approval, or a unique prefix of its id, or `last`.
            answer: `approve` or `deny`.
            by: Who answered, such as `user:ana`.
            **more: `scope` (`once`; `step`, `task`, `session` and `always` also give the call's
                rights for that long), `grants` (less of these rights), `life` (a timedelta that
                they last at most), `edited` (from `Hive.edited`) and `reason`.

        Raises:
            UnknownId: No such approval.
            UsageError: An unknown answer, or a wider scope for a denial or an unsafe tool, or more
                rights than the call needs.
            RunError: `already_resolved`: somebody was quicker, or it expired.
            StorageError: It could not be written, and nothing was answered; `forged_rights`: what
                is shown is not what the log says.
        """
        from clawhive_core.policy.answers import Answer

        self.expire()
        approval = self.find(approval_id)
        self.log.require_rights(approval.approval_id)
        given = Answer(answer, by, **more)
        given.check(approval)
        changed = given.edited
        rights = given.rights(
            approval.capabilities if changed is None else changed.capabilities, self.variables
        )
        self._settle(approval, "approved" if answer == "approve" else "denied", given, rights)
        return self.find(approval.approval_id)

    def standing(self, approval: Approval) -> list[CapabilityGrant]:
        """Return the grants that came with an answer and that nobody ended since.

        Raises:
            StorageError: `forged_rights`: the log gives fewer.
        """
        given = [CapabilityGrant.from_dict(each) for each in approval.grants]
        query = RightsWhere(grant_ids=tuple([each.grant_id for each in given]))
        ids = {each.grant.grant_id for each in self.log.find(query)}
        ids |= {each.grant.grant_id for each in read_persistent(self.user_dir).entries}
        present = datetime.now(UTC)
        return [each for each in given if each.grant_id in ids and is_live(each, present)]

    def close(
        self,
        approval: Approval,
        state: ApprovalState,
        reason: str,
        expects: Sequence[RunOwnedBy] = (),
    ) -> bool:
        """End an unused approval as `expired` or `drifted`; whether nobody was quicker."""
        from clawhive_core.policy.answers import Answer

        answer = Answer("deny", "clawhive", reason=reason)
        try:
            self._settle(approval, state, answer, expects=expects)
        except RunError:
            return False
        return True

    def expire(self) -> None:
        """Expire what nobody answered in time; nothing happens in a log of somebody else."""
        try:
            for late in self.log.find(ApprovalsWhere("pending", expires_before=now())):
                self.close(late, "expired", "nobody answered in time")
        except StorageError as error:
            if error.code != "foreign_database":
                raise

    def _settle(
        self,
        approval: Approval,
        state: ApprovalState,
        answer: Answer,
        rights: Sequence[str] = (),
        expects: Sequence[RunOwnedBy] = (),
    ) -> None:
        (approval,) = self.log.find(ApprovalsWhere(approval_id=approval.approval_id))
        grants = answer.issue(rights, approval, self.tool_of(approval)) if rights else []
        body = {"approval_id": approval.approval_id, "by": answer.by, "reason": answer.reason}
        if state in {"approved", "denied"}:
            given = [each.to_dict() for each in grants]
            body = {**body, "scope": answer.scope, "grants": given}
        event = Event(
            "approval.resolved",
            body,
            trace_id=approval.trace_id,
            run_id=approval.run_id,
            task_id=approval.task_id,
            step_id=approval.step_id,
            conversation_id=approval.conversation_id,
            principal=answer.by,
            tool=approval.tool,
            status=state,
        )
        before = [] if answer.edited is None else [_edited(answer.edited, event)]
        kept = [each for each in grants if each.scope == "persistent"]
        after = [_issued_by_answer(grants, event)] if grants and not kept else []
        at = now() if state in {"approved", "denied"} else None
        allowed = _OPEN if state == "drifted" else _PENDING
        expected = ApprovalIs(approval.approval_id, allowed, at)
        with self._keeping(approval.approval_id, kept):
            try:
                self.log.append_now(*before, event, *after, expects=(*expects, expected))
            except Unmet as error:
                raise _resolved(approval.approval_id, error.found) from None

    @contextmanager
    def _keeping(self, approval_id: str, grants: Sequence[CapabilityGrant]) -> Generator[None]:
        """Keep grants for good that count once the answer is written, and none where it is not."""
        if not grants:
            yield
            return
        at, ids = now(), [each.grant_id for each in grants]
        keep(self.user_dir, *(PersistentGrant(each, at, approval_id) for each in grants))
        try:
            yield
        except ClawHiveError:
            drop(self.user_dir, *ids)
            raise
        with suppress(StorageError):  # the answer stands: whoever opens the log next finishes it
            settle(self.user_dir, approval_id, ids)

    def finish(self) -> None:
        """Let grants for good count whose answer was written, and drop those whose was not.

        A process that ended in between left them; those of other projects' answers stay.
        """
        for approval_id in {each.approval_id for each in read_persistent(self.user_dir).pending}:
            if approval_id is None:
                continue
            for found in self.log.find(ApprovalsWhere(approval_id=approval_id)):
                if found.state != "pending" and self._is_own(approval_id):
                    ids = [each["grant_id"] for each in found.grants]
                    settle(self.user_dir, approval_id, ids)

    def _is_own(self, approval_id: str) -> bool:
        try:
            self.log.require_rights(approval_id)
        except StorageError:  # opening and answering say what is wrong with it
            return False
        return True


def _issued_by_answer(grants: Sequence[CapabilityGrant], resolved: Event) -> Event:
    return issued(
        grants,
        trace_id=resolved.trace_id,
        run_id=resolved.run_id,
        task_id=resolved.task_id,
        conversation_id=resolved.conversation_id,
        principal=resolved.principal,
    )


def _edited(changed: Edited, resolved: Event) -> Event:
    """Return that the call was changed before it was approved."""
    body = {
        "approval_id": changed.approval_id,
        "by": resolved.principal,
        "digest": changed.digest,
        "tool_call": {"input": Blob(changed.input)},
        "input_preview": preview(canonical_text(changed.input)),
        "requested_capabilities": changed.capabilities,
        "sinks": changed.sinks,
        "destinations": changed.destinations,
        "diff": changed.diff,
        "decision": changed.verdict,
        "rules": changed.rules,
    }
    return replace(resolved, kind="approval.edited", body=body, status="edited")


def _resolved(approval_id: str, found: str) -> RunError:
    """Return the error of whoever answers an approval that is not to be answered any more."""
    if found == TOO_LATE:
        return RunError(
            "the approval expired",
            code="already_resolved",
            place=approval_id,
            fix="start the run again",
        )
    return RunError(
        f"the approval is {found} already",
        code="already_resolved",
        place=approval_id,
        fix=f"clawhive approvals show {approval_id}",
    )


def usable(approval_id: str) -> tuple[Expectation, ...]:
    """Return what an intent expects that uses an approval, exactly once."""
    return HasEvidence("approvals", (approval_id,)), ApprovalIs(approval_id, _APPROVED)


def withdrawn(approval_id: str) -> RunError:
    """Return the error of an intent whose approval is not approved any more."""
    return RunError(
        "the approval was used or withdrawn meanwhile",
        code="already_resolved",
        place=approval_id,
    )
