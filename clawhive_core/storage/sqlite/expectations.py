"""The expectations of an append, read from the tables in its own transaction."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from clawhive_core.errors import StorageError
from clawhive_core.model.records import goes_on
from clawhive_core.protocols.ledger import (
    TOO_LATE,
    AgentsBelow,
    ApprovalIs,
    Expectation,
    GrantIs,
    GrantsUsable,
    HasEvidence,
    InvocationHas,
    QuotaLeft,
    RunFree,
    RunIs,
    RunOwnedBy,
    SessionAt,
    SubscriptionIs,
    Unmet,
)

EvidenceCheck = Callable[[sqlite3.Connection, Sequence[str]], None]
"""Compares what a table says of ids with the log's own events; raises `forged_rights`."""

_LINE = """
    WITH RECURSIVE line(id) AS (
      SELECT value FROM json_each(?)
      UNION SELECT parent_grant FROM grants JOIN line ON grant_id = line.id
      WHERE parent_grant IS NOT NULL
    )
"""
TURNS = (
    "SELECT run_id FROM runs WHERE conversation_id = ? AND status = 'succeeded' "
    "AND task_type IS NULL AND parent_run_id IS NULL ORDER BY started_seq DESC"
)
"""The answered runs of prompts of a conversation, newest first."""
_QUOTA = "SELECT since, used FROM quotas WHERE user_id = ? AND tool = ? AND seconds = ?"
_SUBSCRIPTION = "SELECT 1 FROM subscriptions WHERE user_id = ? AND skill_id = ?"


def require(
    connection: sqlite3.Connection,
    expects: Sequence[Expectation],
    evidence_checks: Mapping[str, EvidenceCheck],
) -> None:
    """Return where everything expected holds.

    Args:
        connection: The writing one, within the append's transaction.
        expects: What is expected.
        evidence_checks: By table, what compares it with the log.

    Raises:
        Unmet: The first that does not hold.
        StorageError: `forged_rights`.
    """
    for each in expects:
        if isinstance(each, HasEvidence):
            _require_evidence(connection, each, evidence_checks)
        else:
            _CHECKS[type(each)](connection, each)


def _require_evidence(
    connection: sqlite3.Connection,
    expected: HasEvidence,
    evidence_checks: Mapping[str, EvidenceCheck],
) -> None:
    if (check := evidence_checks.get(expected.table)) is None:
        raise StorageError(
            f"Nothing here compares the table `{expected.table}` with the log.",
            fix="Open the log with the tables of every room.",
        )
    check(connection, expected.ids)


def _run_free(connection: sqlite3.Connection, expected: RunFree) -> None:
    row = connection.execute("SELECT status FROM runs WHERE run_id = ?", (expected.run_id,))
    if (found := row.fetchone()) is not None:
        raise Unmet(expected, found[0])


def _agents_below(connection: sqlite3.Connection, expected: AgentsBelow) -> None:
    sql = "SELECT count(*) FROM runs WHERE trace_id = ? AND parent_run_id IS NOT NULL"
    found = connection.execute(sql, (expected.trace_id,)).fetchone()[0]
    if found >= expected.most:
        raise Unmet(expected, found)


def _run_is(connection: sqlite3.Connection, expected: RunIs) -> None:
    row = connection.execute(
        "SELECT status, fence, worker FROM runs WHERE run_id = ?", (expected.run_id,)
    ).fetchone()
    if row is None:
        raise Unmet(expected, (None, None))
    status, fence, worker = row
    if status not in expected.states or fence != expected.fence:
        raise Unmet(expected, (status, fence))
    if expected.worker is not None and worker != expected.worker:
        raise Unmet(expected, (status, fence))


def _run_owned_by(connection: sqlite3.Connection, expected: RunOwnedBy) -> None:
    row = connection.execute("SELECT fence FROM runs WHERE run_id = ?", (expected.run_id,))
    found = row.fetchone()
    if found is None or found[0] != expected.fence:
        raise Unmet(expected, None if found is None else found[0])


def _session_at(connection: sqlite3.Connection, expected: SessionAt) -> None:
    row = connection.execute(f"{TURNS} LIMIT 1", (expected.conversation_id,)).fetchone()
    found = None if row is None else row[0]
    if found != expected.last:
        raise Unmet(expected, found)


def _grants_usable(connection: sqlite3.Connection, expected: GrantsUsable) -> None:
    gone = [each for each in expected.grant_ids if not _has_use(connection, each)]
    if gone:
        raise Unmet(expected, gone)


def _has_use(connection: sqlite3.Connection, grant_id: str) -> bool:
    """Whether a grant stands, and it and all that it derives from have a use left."""
    sql = f"{_LINE} SELECT grant_id, uses_left FROM grants JOIN line ON grant_id = line.id"  # noqa: S608 - a constant
    left = {row[0]: row[1] for row in connection.execute(sql, (json.dumps([grant_id]),))}
    return grant_id in left and all(each != 0 for each in left.values())


def _grant_is(connection: sqlite3.Connection, expected: GrantIs) -> None:
    found = connection.execute(
        "SELECT 1 FROM grants WHERE grant_id = ? AND uses_left IS ?",
        (expected.grant_id, expected.uses_left),
    ).fetchone()
    if found is None:
        raise Unmet(expected)


def _quota_left(connection: sqlite3.Connection, expected: QuotaLeft) -> None:
    key = (expected.user_id, expected.tool, expected.seconds)
    for since, used in connection.execute(_QUOTA, key).fetchall():
        if used >= expected.limit and goes_on(since, expected.since, expected.seconds):
            raise Unmet(expected, since)


def _approval_is(connection: sqlite3.Connection, expected: ApprovalIs) -> None:
    row = connection.execute(
        "SELECT state, expires_at FROM approvals WHERE approval_id = ?", (expected.approval_id,)
    ).fetchone()
    if row is None or row[0] not in expected.states:
        raise Unmet(expected, None if row is None else row[0])
    if expected.at is not None and row[1] < expected.at:
        raise Unmet(expected, TOO_LATE)


def _invocation_has(connection: sqlite3.Connection, expected: InvocationHas) -> None:
    kinds = connection.execute(
        "SELECT kind FROM events WHERE run_id = ? AND invocation_id = ?",
        (expected.run_id, expected.invocation_id),
    )
    found = {kind for (kind,) in kinds}
    if found.isdisjoint(expected.any_of) or not found.isdisjoint(expected.none_of):
        raise Unmet(expected, sorted(found))


def _subscription_is(connection: sqlite3.Connection, expected: SubscriptionIs) -> None:
    row = connection.execute(_SUBSCRIPTION, (expected.user_id, expected.skill_id)).fetchone()
    if (row is not None) != expected.there:
        raise Unmet(expected, row is not None)


_CHECKS: Mapping[type, Callable[[sqlite3.Connection, Any], None]] = {
    RunFree: _run_free,
    AgentsBelow: _agents_below,
    RunIs: _run_is,
    RunOwnedBy: _run_owned_by,
    SessionAt: _session_at,
    GrantsUsable: _grants_usable,
    GrantIs: _grant_is,
    QuotaLeft: _quota_left,
    ApprovalIs: _approval_is,
    InvocationHas: _invocation_has,
    SubscriptionIs: _subscription_is,
}
