"""Approvals as rows: asked for, answered by a person, used once, in the log's own transactions."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from clawhive_core.errors import RunError, UnknownId, UsageError
from clawhive_core.events.founded import Standing, require_founded, require_founded_in
from clawhive_core.events.log import EventLog, Projections
from clawhive_core.model.approvals import Approval, ApprovalState
from clawhive_core.model.canonical import canonical_text
from clawhive_core.model.events import Event, StoredEvent
from clawhive_core.model.grants import CapabilityGrant
from clawhive_core.model.ids import new_id
from clawhive_core.policy.ledger import STANDING as GRANTS
from clawhive_core.policy.ledger import issued
from clawhive_core.storage.schema import RoomSchema

Answer = Literal["approve", "deny"]
AnswerScope = Literal["once", "task", "session"]

EXPIRY = timedelta(hours=24)

SCHEMA = RoomSchema(
    "approvals",
    (
        """
        CREATE TABLE approvals(
          approval_id TEXT PRIMARY KEY, digest TEXT NOT NULL, state TEXT NOT NULL,
          run_id TEXT NOT NULL, trace_id TEXT NOT NULL, task_id TEXT NOT NULL,
          conversation_id TEXT NOT NULL, step_id TEXT NOT NULL, tool TEXT NOT NULL,
          risk TEXT NOT NULL, principal TEXT NOT NULL, capabilities TEXT NOT NULL,
          sinks TEXT NOT NULL, preview TEXT NOT NULL, diff TEXT NOT NULL,
          created_at TEXT NOT NULL, expires_at TEXT NOT NULL, resolved_at TEXT, resolved_by TEXT,
          reason TEXT, seq INTEGER NOT NULL
        );
        CREATE INDEX approvals_step ON approvals(run_id, step_id);
        CREATE INDEX approvals_state ON approvals(state);
        CREATE VIEW v_approvals AS SELECT approval_id, state, run_id, step_id, tool, risk,
          principal, capabilities, sinks, preview, diff, created_at, expires_at, resolved_at,
          resolved_by, reason FROM approvals;
        """,
    ),
)


def now() -> str:
    """Return the present as rows hold it."""
    return _text(datetime.now(UTC))


def expiry(after: timedelta = EXPIRY) -> str:
    """Return when an approval asked for now expires."""
    return _text(datetime.now(UTC) + after)


def _text(moment: datetime) -> str:
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")


def _on_requested(connection: sqlite3.Connection, stored: StoredEvent) -> None:
    event, body = stored.event, stored.event.body
    connection.execute(
        "INSERT INTO approvals VALUES(?, ?, 'pending', ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?,"
        " NULL, NULL, NULL, ?)",
        (
            body["approval_id"],
            body["digest"],
            event.run_id,
            event.trace_id,
            event.task_id,
            event.conversation_id,
            event.step_id,
            event.tool,
            body["risk"],
            event.principal,
            canonical_text(body["requested_capabilities"]),
            canonical_text(body["sinks"]),
            body["input_preview"],
            body["diff"],
            stored.ts,
            body["expires_at"],
            stored.seq,
        ),
    )


def _on_resolved(connection: sqlite3.Connection, stored: StoredEvent) -> None:
    body = stored.event.body
    if stored.event.status == "consumed":  # who approved it, and when, stays
        connection.execute(
            "UPDATE approvals SET state = 'consumed' WHERE approval_id = ?",
            (body["approval_id"],),
        )
        return
    connection.execute(
        "UPDATE approvals SET state = ?, resolved_at = ?, resolved_by = ?, reason = ?"
        " WHERE approval_id = ?",
        (stored.event.status, stored.ts, body["by"], body["reason"], body["approval_id"]),
    )


def _on_run_end(connection: sqlite3.Connection, stored: StoredEvent) -> None:
    connection.execute(
        "UPDATE approvals SET state = 'expired', resolved_at = ?, resolved_by = 'clawhive',"
        " reason = 'its run ended' WHERE run_id = ? AND state IN ('pending', 'approved')",
        (stored.ts, stored.event.run_id),
    )


PROJECTIONS: Projections = {
    "approval.requested": (_on_requested,),
    "approval.resolved": (_on_resolved,),
    "run.end": (_on_run_end,),
}

_OPEN = "state IN ('pending', 'approved')"
_KINDS = ", ".join(f"'{kind}'" for kind in PROJECTIONS)
STANDING = Standing(
    "approvals",
    "approval_id, digest, state, run_id, task_id, conversation_id, step_id, tool, risk, principal,"
    " capabilities, expires_at",
    _OPEN,
    f"run_id IN (SELECT run_id FROM approvals WHERE {_OPEN}) AND kind IN ({_KINDS})",  # noqa: S608 - constants
    PROJECTIONS,
)
"""The approvals that can still be answered or used."""


@dataclass(frozen=True, slots=True)
class ApprovalBook:
    """Reads and answers approvals; every change is an event."""

    log: EventLog

    def pending(self) -> list[Approval]:
        """Return what waits for a person, oldest first."""
        return self.list("pending")

    def list(self, state: ApprovalState | None = None) -> list[Approval]:
        """Return approvals, oldest first; those whose time is over are expired before."""
        self.expire()
        where, params = ("", ()) if state is None else (" WHERE state = ?", (state,))
        rows = self.log.read(f"SELECT * FROM approvals{where} ORDER BY seq", params)  # noqa: S608 - the clause is one of two literals
        return [_approval(row) for row in rows]

    def find(self, text: str) -> Approval:
        """Return the approval of an id, a unique prefix, or `last`.

        Raises:
            UnknownId: It names none, or several.
        """
        if text == "last":
            rows = self.log.read("SELECT * FROM approvals ORDER BY seq DESC LIMIT 1")
        else:
            wanted = text if text.startswith("appr_") else f"appr_{text}"
            rows = self.log.read(
                "SELECT * FROM approvals WHERE substr(approval_id, 1, ?) = ? LIMIT 2",
                (len(wanted), wanted),
            )
        if len(rows) == 1:
            return _approval(rows[0])
        what = "names no approval" if not rows else "names several approvals; write more of it"
        raise UnknownId(f"`{text}` {what}", place=text, fix="clawhive approvals list --all")

    def input_of(self, approval: Approval) -> Mapping[str, Any]:
        """Return the whole input of the call, as it was asked for."""
        rows = self.log.read(
            "SELECT seq FROM approvals WHERE approval_id = ?", (approval.approval_id,)
        )
        (asked,) = self.log.events(since=rows[0][0] - 1, limit=1)
        return self.log.load(asked.event.body["tool_call"]["input"])

    def of_step(self, run_id: str, step_id: str) -> Approval | None:
        """Return the newest approval of a step, None where nothing was asked."""
        rows = self.log.read(
            "SELECT * FROM approvals WHERE run_id = ? AND step_id = ? ORDER BY seq DESC LIMIT 1",
            (run_id, step_id),
        )
        return _approval(rows[0]) if rows else None

    def resolve(
        self,
        approval_id: str,
        answer: Answer,
        *,
        by: str,
        scope: AnswerScope = "once",
        reason: str | None = None,
    ) -> Approval:
        """Answer a pending approval, once.

        Args:
            approval_id: The approval, or a unique prefix of its id, or `last`.
            answer: `approve` or `deny`.
            by: Who answered, such as `user:ana`.
            scope: `once` approves this call; `task` and `session` also give its capabilities until
                the task or the session ends.
            reason: Why, for the log and for whoever asked.

        Raises:
            UnknownId: No such approval.
            UsageError: An unknown answer, or a wider scope for a denial or an unsafe tool.
            RunError: `already_resolved`: somebody was quicker, or it expired.
            StorageError: `forged_rights`: what is shown is not what the log says.
        """
        require_founded(self.log, STANDING)
        self.expire()
        approval = self.find(approval_id)
        if answer not in {"approve", "deny"} or scope not in {"once", "task", "session"}:
            raise UsageError(
                f"`{answer}` for `{scope}` is no answer", fix="approve or deny; once, task, session"
            )
        if scope != "once":
            _refuse_wide(approval, answer)
        self._settle(approval, "approved" if answer == "approve" else "denied", by, reason, scope)
        return self.find(approval.approval_id)

    def close(self, approval: Approval, state: ApprovalState, reason: str) -> bool:
        """End an unused approval as `expired` or `drifted`; whether nobody was quicker."""
        try:
            self._settle(approval, state, "clawhive", reason, "once")
        except RunError:
            return False
        return True

    def expire(self) -> None:
        """Expire what nobody answered in time."""
        rows = self.log.read(
            "SELECT * FROM approvals WHERE state = 'pending' AND expires_at < ?", (now(),)
        )
        for row in rows:
            self.close(_approval(row), "expired", "nobody answered in time")

    def _settle(
        self,
        approval: Approval,
        state: ApprovalState,
        by: str,
        reason: str | None,
        scope: AnswerScope,
    ) -> None:
        row = self.log.read(
            "SELECT * FROM approvals WHERE approval_id = ?", (approval.approval_id,)
        )[0]
        ids = {key: row[key] for key in ("trace_id", "run_id", "task_id", "conversation_id")}
        body = {"approval_id": approval.approval_id, "by": by, "reason": reason}
        event = Event(
            "approval.resolved",
            body,
            step_id=approval.step_id,
            principal=by,
            tool=approval.tool,
            status=state,
            **ids,
        )
        more = [] if scope == "once" else [issued(_grants(row, scope), principal=by, **ids)]
        self.log.append_now(event, *more, within=_only_if(approval.approval_id, state))


def _refuse_wide(approval: Approval, answer: Answer) -> None:
    if answer == "deny":
        raise UsageError("a denial is for this call", place="--scope", fix="leave --scope out")
    if approval.risk == "unsafe":
        raise UsageError(
            f"`{approval.tool}` is unsafe: a person approves each call of it",
            place="--scope",
            fix="leave --scope out",
        )


def _grants(row: sqlite3.Row, scope: Literal["task", "session"]) -> list[CapabilityGrant]:
    """Return what a wider scope gives: the capabilities of this call, to whoever made it."""
    scope_id = row["task_id"] if scope == "task" else row["conversation_id"]
    return [
        CapabilityGrant(new_id("grant"), text, row["principal"], scope, scope_id, "approval")
        for text in json.loads(row["capabilities"])
    ]


def _only_if(approval_id: str, state: ApprovalState) -> Callable[[sqlite3.Connection], None]:
    """Return the compare of a compare-and-swap: it is still to be answered."""
    allowed = ("pending", "approved") if state == "drifted" else ("pending",)

    def check(connection: sqlite3.Connection) -> None:
        row = connection.execute(
            "SELECT state, expires_at FROM approvals WHERE approval_id = ?", (approval_id,)
        ).fetchone()
        if row[0] not in allowed:
            raise RunError(
                f"the approval is {row[0]} already",
                code="already_resolved",
                place=approval_id,
                fix=f"clawhive approvals show {approval_id}",
            )
        if state in {"approved", "denied"} and row[1] < now():
            raise RunError(
                "the approval expired",
                code="already_resolved",
                place=approval_id,
                fix="start the run again",
            )

    return check


def consume(approval_id: str) -> Callable[[sqlite3.Connection], None]:
    """Return the part of an intent's transaction that uses an approval exactly once.

    Raises:
        RunError: (when it runs) `already_resolved`: it is not approved any more.
        StorageError: (when it runs) `forged_rights`: no event of the log approved it.
    """

    def take(connection: sqlite3.Connection) -> None:
        require_founded_in(connection, STANDING)
        row = connection.execute(
            "SELECT state FROM approvals WHERE approval_id = ?", (approval_id,)
        ).fetchone()
        if row is None or row[0] != "approved":
            raise RunError(
                "the approval was used or withdrawn meanwhile",
                code="already_resolved",
                place=approval_id,
            )

    return take


def held(log: EventLog, scope: Literal["task", "session"], scope_id: str) -> list[CapabilityGrant]:
    """Return the grants of a task or session that have not ended or expired, oldest first.

    Raises:
        StorageError: `forged_rights`: the log gives fewer.
    """
    require_founded(log, GRANTS)
    rows = log.read(
        "SELECT * FROM grants WHERE scope = ? AND scope_id = ? AND ended_at IS NULL"
        " AND (expires_at IS NULL OR expires_at > ?) ORDER BY rowid",
        (scope, scope_id, now()),
    )
    return [
        CapabilityGrant(**{name: row[name] for name in CapabilityGrant.__dataclass_fields__})
        for row in rows
    ]


def _approval(row: sqlite3.Row) -> Approval:
    facts: dict[str, Any] = {name: row[name] for name in Approval.__dataclass_fields__}
    facts.update(
        capabilities=tuple(json.loads(row["capabilities"])), sinks=json.loads(row["sinks"])
    )
    return Approval(**facts)
