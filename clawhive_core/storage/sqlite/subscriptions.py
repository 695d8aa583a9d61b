"""Subscriptions as rows: which user may use what a skill does not give for free."""

from __future__ import annotations

import sqlite3

from clawhive_core.events.kinds import SUBSCRIPTION_ADDED, SUBSCRIPTION_REMOVED
from clawhive_core.model.events import StoredEvent
from clawhive_core.storage.sqlite.evidence import ProjectedRights
from clawhive_core.storage.sqlite.migrations import RoomSchema
from clawhive_core.storage.sqlite.reader import Readers
from clawhive_core.storage.sqlite.seals import SEALED
from clawhive_core.storage.sqlite.writer import Projections

TABLE = "subscriptions"
_KINDS = f"kind IN ('{SUBSCRIPTION_ADDED}', '{SUBSCRIPTION_REMOVED}')"
SCHEMA = RoomSchema(
    TABLE,
    (
        f"""
        CREATE TABLE subscriptions(
          user_id TEXT NOT NULL, skill_id TEXT NOT NULL, since TEXT NOT NULL,
          PRIMARY KEY(user_id, skill_id)
        ) WITHOUT ROWID;
        CREATE INDEX events_of_subscriptions ON events (seq) WHERE {_KINDS};
        CREATE VIEW v_subscriptions AS SELECT user_id, skill_id, since FROM subscriptions;
        """,  # noqa: S608 - constants
    ),
)


def _on_added(connection: sqlite3.Connection, stored: StoredEvent) -> None:
    body = stored.event.body
    connection.execute(
        "INSERT OR IGNORE INTO subscriptions(user_id, skill_id, since) VALUES(?, ?, ?)",
        (body["user_id"], body["skill_id"], stored.ts),
    )


def _on_removed(connection: sqlite3.Connection, stored: StoredEvent) -> None:
    body = stored.event.body
    connection.execute(
        "DELETE FROM subscriptions WHERE user_id = ? AND skill_id = ?",
        (body["user_id"], body["skill_id"]),
    )


PROJECTIONS: Projections = {SUBSCRIPTION_ADDED: (_on_added,), SUBSCRIPTION_REMOVED: (_on_removed,)}

_NEWEST = (
    f"{SEALED} WHERE {_KINDS} AND json_extract(body, '$.user_id') = ?"
    " AND json_extract(body, '$.skill_id') = ? ORDER BY seq DESC"
)


def is_given(readers: Readers, user_id: str, skill_id: str) -> bool:
    """Whether the newest of this user's own events gives a subscription that the table has."""
    rows = readers.read(_NEWEST, (user_id, skill_id))
    newest = next(filter(readers.seals.is_own, rows), None)
    return newest is not None and newest["kind"] == SUBSCRIPTION_ADDED


RIGHTS = (ProjectedRights(TABLE, "skill_id, user_id", "true", _KINDS, PROJECTIONS),)
"""The subscriptions that there are: each must be in the log too."""
