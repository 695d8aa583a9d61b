"""Values that tools and skills keep, as rows made by the events of the log."""

from __future__ import annotations

import sqlite3

from clawhive_core.model.canonical import canonical_text
from clawhive_core.model.events import StoredEvent
from clawhive_core.storage.sqlite.migrations import RoomSchema
from clawhive_core.storage.sqlite.writer import Projections

SCHEMA = RoomSchema(
    "execution",
    (
        """
        CREATE TABLE stored_values(
          user_id TEXT NOT NULL, namespace TEXT NOT NULL, key TEXT NOT NULL, value TEXT NOT NULL,
          stored_at TEXT NOT NULL, PRIMARY KEY(user_id, namespace, key)
        ) WITHOUT ROWID;
        """,
    ),
)
TABLE = "stored_values"


def _on_put(connection: sqlite3.Connection, stored: StoredEvent) -> None:
    body = stored.event.body
    connection.execute(
        "INSERT INTO stored_values VALUES(?, ?, ?, ?, ?)"
        " ON CONFLICT DO UPDATE SET value = excluded.value, stored_at = excluded.stored_at",
        (
            body["user_id"],
            body["namespace"],
            body["key"],
            canonical_text(body["value"]),  # where a long value stands, not the value
            stored.ts,
        ),
    )


def _on_delete(connection: sqlite3.Connection, stored: StoredEvent) -> None:
    body = stored.event.body
    connection.execute(
        "DELETE FROM stored_values WHERE user_id = ? AND namespace = ? AND key = ?",
        (body["user_id"], body["namespace"], body["key"]),
    )


PROJECTIONS: Projections = {"store.put": (_on_put,), "store.delete": (_on_delete,)}
