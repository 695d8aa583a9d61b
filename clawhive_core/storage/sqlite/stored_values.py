"""Values that tools and skills keep, as rows made by the events of the log."""

from __future__ import annotations

import sqlite3

from clawhive_core.events.rows import body_of
from clawhive_core.model.canonical import canonical_text
from clawhive_core.model.events import StoredEvent
from clawhive_core.model.records import ValueRecord
from clawhive_core.storage.sqlite.migrations import RoomSchema
from clawhive_core.storage.sqlite.reader import Readers
from clawhive_core.storage.sqlite.seals import SEALED
from clawhive_core.storage.sqlite.writer import Projections

_KINDS = "kind IN ('store.delete', 'store.put')"
SCHEMA = RoomSchema(
    "execution",
    (
        """
        CREATE TABLE stored_values(
          user_id TEXT NOT NULL, namespace TEXT NOT NULL, key TEXT NOT NULL, value TEXT NOT NULL,
          stored_at TEXT NOT NULL, PRIMARY KEY(user_id, namespace, key)
        ) WITHOUT ROWID;
        """,
        # What a value is its own events say.
        f"""
        CREATE INDEX events_of_values ON events (
          json_extract(body, '$.user_id'), json_extract(body, '$.namespace'),
          json_extract(body, '$.key')
        ) WHERE {_KINDS};
        """,
    ),
)
TABLE = "stored_values"
_NEWEST = (
    f"{SEALED} WHERE {_KINDS} AND json_extract(body, '$.user_id') = ?"
    " AND json_extract(body, '$.namespace') = ? AND json_extract(body, '$.key') = ?"
    " ORDER BY seq DESC"
)


def value_of(readers: Readers, user_id: str, namespace: str, key: str) -> ValueRecord | None:
    """Return a value as the newest of this user's own events gives it; None where none does."""
    for row in readers.read(_NEWEST, (user_id, namespace, key)):
        if readers.seals.is_own(row):
            body = body_of(row["body"])
            return ValueRecord(key, body["value"], row["ts"]) if "value" in body else None
    return None


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
