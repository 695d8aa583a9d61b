"""Grants as rows: the projection of the log that tells who holds what."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from typing import Any

from clawhive_core.errors import RunError
from clawhive_core.events.founded import Standing
from clawhive_core.events.log import EventLog, Projections
from clawhive_core.model.events import Event, StoredEvent
from clawhive_core.model.grants import CapabilityGrant
from clawhive_core.storage.schema import RoomSchema

SCHEMA = RoomSchema(
    "policy",
    (
        """
        CREATE TABLE grants(
          grant_id TEXT PRIMARY KEY, capability TEXT NOT NULL, subject TEXT NOT NULL,
          scope TEXT NOT NULL, scope_id TEXT NOT NULL, issuer TEXT NOT NULL, mode TEXT NOT NULL,
          expires_at TEXT, parent_grant TEXT, issued_at TEXT NOT NULL, ended_at TEXT
        );
        CREATE INDEX grants_scope ON grants(scope, scope_id);
        CREATE VIEW v_grants AS SELECT * FROM grants;
        """,
        """
        CREATE INDEX grants_standing ON grants(grant_id) WHERE ended_at IS NULL;
        DROP VIEW v_grants;
        CREATE VIEW v_grants AS SELECT grant_id, capability, subject, scope, scope_id, issuer, mode,
          expires_at, parent_grant, issued_at, ended_at FROM grants;
        """,
        """
        ALTER TABLE grants ADD COLUMN uses INTEGER;
        ALTER TABLE grants ADD COLUMN uses_left INTEGER;
        ALTER TABLE grants ADD COLUMN delegate TEXT;
        DROP VIEW v_grants;
        CREATE VIEW v_grants AS SELECT grant_id, capability, subject, scope, scope_id, issuer, mode,
          expires_at, parent_grant, uses, uses_left, delegate, issued_at, ended_at FROM grants;
        """,
        "ALTER TABLE grants ADD COLUMN tool TEXT;",
        # One index for two: it finds what stands, and among that what a scope has. Grants that have
        # ended are found by their ids alone.
        """
        DROP INDEX grants_scope;
        DROP INDEX grants_standing;
        CREATE INDEX grants_standing ON grants(scope, scope_id) WHERE ended_at IS NULL;
        """,
    ),
)


_LINE = """
    WITH RECURSIVE line(id) AS (
      SELECT value FROM json_each(?)
      UNION SELECT parent_grant FROM grants JOIN line ON grant_id = line.id
      WHERE parent_grant IS NOT NULL
    )
"""


_ISSUED = (
    "grant_id",
    "capability",
    "subject",
    "scope",
    "scope_id",
    "issuer",
    "mode",
    "expires_at",
    "parent_grant",
    "uses",
    "delegate",
    "tool",
)
"""What an event says of each grant; those of older versions say nothing of the last three."""

_INSERT = (
    f"INSERT INTO grants({', '.join(_ISSUED)}, issued_at, uses_left)"
    f" VALUES({'?, ' * len(_ISSUED)}?, ?)"
)


def issued(grants: Sequence[CapabilityGrant], **ids: Any) -> Event:
    """Return the event that issues grants."""
    return Event(
        "grant.issued", {"grants": [each.to_dict() for each in grants]}, **ids, prechecked=True
    )


def steps_of(run_id: str) -> tuple[str, str]:
    """Return the bounds between which the ids of a run's steps lie."""
    return f"{run_id}/", f"{run_id}0"  # the character after the slash


def line_of(log: EventLog, grant_ids: Sequence[str]) -> list[str]:
    """Return grants and all that they derive from, which never changes once they are issued."""
    given = (json.dumps(list(grant_ids)),)
    rows = log.read(f"{_LINE} SELECT id FROM line ORDER BY id", given)  # noqa: S608 - a constant
    return [str(row[0]) for row in rows]


def used(grant_ids: Sequence[str], **columns: Any) -> Event:
    """Return the event that counts a call as a use of grants, with all that they derive from."""
    return Event("grant.used", {"grant_ids": list(grant_ids)}, **columns)


def returned(grant_ids: Sequence[str], **columns: Any) -> Event:
    """Return the event that gives a use back, as its call never started."""
    return Event("grant.returned", {"grant_ids": list(grant_ids)}, **columns)


def used_up(grant_ids: Sequence[str]) -> RunError:
    """Return the error `grant_used_up` of grants without a use left; `data` names them."""
    return RunError(
        "every use of the right was made, or it was revoked",
        code="grant_used_up",
        fix="clawhive grants issue CAP --uses N",
        data={"grant_ids": list(grant_ids)},
    )


def _on_issued(connection: sqlite3.Connection, stored: StoredEvent) -> None:
    grants = stored.event.body["grants"]
    rows = [(*map(each.get, _ISSUED), stored.ts, each.get("uses")) for each in grants]
    connection.executemany(_INSERT, rows)


def _on_used(connection: sqlite3.Connection, stored: StoredEvent) -> None:
    _count(connection, stored, "uses_left - 1")


def _on_returned(connection: sqlite3.Connection, stored: StoredEvent) -> None:
    _count(connection, stored, "min(uses, uses_left + 1)")


def _count(connection: sqlite3.Connection, stored: StoredEvent, left: str) -> None:
    connection.execute(
        f"UPDATE grants SET uses_left = {left}"  # noqa: S608 - one of two literals
        " WHERE uses_left IS NOT NULL AND grant_id IN (SELECT value FROM json_each(?))",
        (json.dumps(stored.event.body["grant_ids"]),),
    )


def _on_revoked(connection: sqlite3.Connection, stored: StoredEvent) -> None:
    connection.execute(
        "WITH RECURSIVE gone(id) AS (SELECT ? UNION SELECT grant_id FROM grants, gone"
        " WHERE parent_grant = gone.id) UPDATE grants SET ended_at = ?"
        " WHERE ended_at IS NULL AND grant_id IN (SELECT id FROM gone)",
        (stored.event.body["grant_id"], stored.ts),
    )


def _on_run_end(connection: sqlite3.Connection, stored: StoredEvent) -> None:
    connection.execute(
        "UPDATE grants SET ended_at = ? WHERE ended_at IS NULL AND scope = 'task' AND scope_id = ?",
        (stored.ts, stored.event.task_id),
    )
    connection.execute(
        "UPDATE grants SET ended_at = ? WHERE ended_at IS NULL AND scope = 'step'"
        " AND scope_id BETWEEN ? AND ?",
        (stored.ts, *steps_of(str(stored.event.run_id))),
    )


def _on_run_status(connection: sqlite3.Connection, stored: StoredEvent) -> None:
    """End what steps had of their skill, where a run stops; they get it anew when it goes on."""
    if stored.event.status == "running":
        return
    connection.execute(
        "UPDATE grants SET ended_at = ? WHERE ended_at IS NULL AND scope = 'step'"
        " AND issuer = 'skill' AND scope_id BETWEEN ? AND ?",
        (stored.ts, *steps_of(str(stored.event.run_id))),
    )


PROJECTIONS: Projections = {
    "grant.issued": (_on_issued,),
    "grant.revoked": (_on_revoked,),
    "grant.used": (_on_used,),
    "grant.returned": (_on_returned,),
    "run.status": (_on_run_status,),
    "run.end": (_on_run_end,),
}

# The index `events_of_grants` is used only where its own condition is repeated word for word.
_OF_GRANTS = "kind IN ('grant.issued', 'grant.revoked')"

STANDING = Standing(
    "grants",
    "grant_id, capability, subject, scope, scope_id, issuer, mode, expires_at, parent_grant,"
    " issued_at, uses, uses_left, delegate, tool",
    "ended_at IS NULL",
    f"""seq IN (
      WITH RECURSIVE line(grant_id, parent_grant, scope, scope_id, issued_at) AS (
        SELECT grant_id, parent_grant, scope, scope_id, issued_at FROM grants
        WHERE ended_at IS NULL
        UNION
        SELECT g.grant_id, g.parent_grant, g.scope, g.scope_id, g.issued_at
        FROM line JOIN grants AS g ON g.grant_id = line.parent_grant
      )
      SELECT seq FROM events WHERE {_OF_GRANTS} AND ts IN (SELECT issued_at FROM line)
      UNION
      SELECT seq FROM events WHERE {_OF_GRANTS} AND kind = 'grant.revoked'
      UNION
      SELECT seq FROM events WHERE kind IN ('grant.used', 'grant.returned')
        AND EXISTS (SELECT 1 FROM grants WHERE ended_at IS NULL AND uses IS NOT NULL)
      UNION
      SELECT seq FROM events
      WHERE kind = 'run.end' AND task_id IN (SELECT scope_id FROM line WHERE scope = 'task')
    )""",  # noqa: S608 - constants
    PROJECTIONS,
)
"""The grants that give rights now; what they were derived from may have been revoked."""
