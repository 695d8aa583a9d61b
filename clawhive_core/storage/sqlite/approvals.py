"""Approvals as rows: the projection of the log that tells what waits and how it was answered."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence

from clawhive_core.model.canonical import canonical_text
from clawhive_core.model.events import StoredEvent
from clawhive_core.storage.sqlite.evidence import ProjectedRights, require_unaltered
from clawhive_core.storage.sqlite.migrations import RoomSchema
from clawhive_core.storage.sqlite.seals import NO_SEALS, Seals
from clawhive_core.storage.sqlite.writer import Projections

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
        """
        ALTER TABLE approvals ADD COLUMN step TEXT;
        ALTER TABLE approvals ADD COLUMN scope TEXT;
        ALTER TABLE approvals ADD COLUMN grants TEXT NOT NULL DEFAULT '[]';
        ALTER TABLE approvals ADD COLUMN edited_seq INTEGER;
        DROP VIEW v_approvals;
        CREATE VIEW v_approvals AS SELECT approval_id, state, run_id, step_id, tool, risk,
          principal, capabilities, sinks, preview, diff, created_at, expires_at, resolved_at,
          resolved_by, reason, scope, grants, edited_seq IS NOT NULL AS edited FROM approvals;
        """,
        """
        ALTER TABLE approvals ADD COLUMN destinations TEXT NOT NULL DEFAULT '[]';
        DROP VIEW v_approvals;
        CREATE VIEW v_approvals AS SELECT approval_id, state, run_id, step_id, tool, risk,
          principal, capabilities, sinks, preview, diff, created_at, expires_at, resolved_at,
          resolved_by, reason, scope, grants, edited_seq IS NOT NULL AS edited, destinations
          FROM approvals;
        """,
    ),
)


def _on_requested(connection: sqlite3.Connection, stored: StoredEvent) -> None:
    event, body = stored.event, stored.event.body
    connection.execute(
        "INSERT INTO approvals(approval_id, digest, state, run_id, trace_id, task_id,"
        " conversation_id, step_id, tool, risk, principal, capabilities, sinks, preview, diff,"
        " created_at, expires_at, seq, step, destinations)"
        " VALUES(?, ?, 'pending', ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
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
            body.get("grant_step"),
            canonical_text(body.get("destinations", [])),
        ),
    )


def _on_edited(connection: sqlite3.Connection, stored: StoredEvent) -> None:
    body = stored.event.body
    connection.execute(
        "UPDATE approvals SET digest = ?, capabilities = ?, sinks = ?, preview = ?, diff = ?,"
        " edited_seq = ?, destinations = ? WHERE approval_id = ?",
        (
            body["digest"],
            canonical_text(body["requested_capabilities"]),
            canonical_text(body["sinks"]),
            body["input_preview"],
            body["diff"],
            stored.seq,
            canonical_text(body.get("destinations", [])),
            body["approval_id"],
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
        "UPDATE approvals SET state = ?, resolved_at = ?, resolved_by = ?, reason = ?,"
        " scope = coalesce(?, scope), grants = coalesce(?, grants) WHERE approval_id = ?",
        (
            stored.event.status,
            stored.ts,
            body["by"],
            body["reason"],
            body.get("scope"),
            canonical_text(body["grants"]) if "grants" in body else None,
            body["approval_id"],
        ),
    )


def _on_run_end(connection: sqlite3.Connection, stored: StoredEvent) -> None:
    """Expire what nobody can use any more; a client repeats its call in its next session."""
    connection.execute(
        "UPDATE approvals SET state = 'expired', resolved_at = ?, resolved_by = 'clawhive',"
        " reason = 'its run ended' WHERE run_id = ? AND state IN ('pending', 'approved')"
        " AND principal NOT LIKE 'client:%'",
        (stored.ts, stored.event.run_id),
    )


PROJECTIONS: Projections = {
    "approval.requested": (_on_requested,),
    "approval.edited": (_on_edited,),
    "approval.resolved": (_on_resolved,),
    "run.end": (_on_run_end,),
}

_OPEN = "state IN ('pending', 'approved')"
_KINDS = ", ".join(f"'{kind}'" for kind in PROJECTIONS)
_COLUMNS = (
    "approval_id, digest, state, run_id, trace_id, task_id, conversation_id, step_id, tool, risk,"
    " principal, capabilities, sinks, destinations, preview, diff, created_at, expires_at, step,"
    " scope, grants, seq, edited_seq"
)
"""All that a person is shown before an answer, and all that an answer binds."""
RIGHTS = (
    ProjectedRights(
        "approvals",
        _COLUMNS,
        _OPEN,
        f"run_id IN (SELECT run_id FROM approvals WHERE {_OPEN}) AND kind IN ({_KINDS})",  # noqa: S608 - constants
        PROJECTIONS,
    ),
)
"""The approvals that can still be answered or used, as they are compared at opening."""


def open_of(run_id: str) -> ProjectedRights:
    """Return the approvals of one run that can still be answered or used, and its own events."""
    return ProjectedRights(
        "approvals",
        _COLUMNS,
        f"run_id = :run AND {_OPEN}",
        f"run_id = :run AND kind IN ({_KINDS})",
        PROJECTIONS,
        {"run": run_id},
    )


def require_given(
    connection: sqlite3.Connection, approval_ids: Sequence[str], seals: Seals = NO_SEALS
) -> None:
    """Raise where what the table says of approvals is not what the events of their runs say.

    Raises:
        StorageError: `forged_rights`; `foreign_database`: somebody else wrote such an event.
    """
    ids = json.dumps(list(approval_ids))
    runs = (
        "SELECT DISTINCT run_id FROM approvals"
        " WHERE approval_id IN (SELECT value FROM json_each(?))"
    )
    for (run_id,) in connection.execute(runs, (ids,)).fetchall():
        require_unaltered(connection, open_of(run_id), seals)
