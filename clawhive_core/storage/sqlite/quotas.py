"""Quotas as rows: how many calls of a tool a user has made in the window of the last one."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from typing import Any

from clawhive_core.events.kinds import QUOTA_RESERVED, QUOTA_RETURNED
from clawhive_core.model.events import StoredEvent
from clawhive_core.model.records import goes_on
from clawhive_core.storage.sqlite.migrations import RoomSchema
from clawhive_core.storage.sqlite.writer import Projections

TABLE = "quotas"
SCHEMA = RoomSchema(
    TABLE,
    (
        """
        CREATE TABLE quotas(
          user_id TEXT NOT NULL, tool TEXT NOT NULL, seconds INTEGER NOT NULL,
          since INTEGER NOT NULL, used INTEGER NOT NULL, PRIMARY KEY(user_id, tool, seconds)
        ) WITHOUT ROWID;
        CREATE VIEW v_quotas AS SELECT user_id, tool, seconds,
          strftime('%Y-%m-%dT%H:%M:%SZ', since, 'unixepoch') AS since, used FROM quotas;
        """,
    ),
)

FIND = "SELECT since, used FROM quotas WHERE user_id = ? AND tool = ? AND seconds = ?"
"""The query for the beginning and the use of the last call's window."""


def _on_reserved(connection: sqlite3.Connection, stored: StoredEvent) -> None:
    body = stored.event.body
    row = connection.execute(FIND, _key(body)).fetchone()
    since, used = int(body["since"]), 0
    if row is not None and goes_on(int(row[0]), since, int(body["seconds"])):
        since, used = int(row[0]), int(row[1])
    connection.execute(
        "INSERT INTO quotas(user_id, tool, seconds, since, used) VALUES(?, ?, ?, ?, ?)"
        " ON CONFLICT DO UPDATE SET since = excluded.since, used = excluded.used",
        (*_key(body), since, used + 1),
    )


def _on_returned(connection: sqlite3.Connection, stored: StoredEvent) -> None:
    connection.execute(
        "UPDATE quotas SET used = used - 1"
        " WHERE user_id = ? AND tool = ? AND seconds = ? AND since = ? AND used > 0",
        (*_key(stored.event.body), stored.event.body["since"]),
    )


def _key(body: Mapping[str, Any]) -> tuple[str, str, int]:
    return body["user_id"], body["tool"], body["seconds"]


PROJECTIONS: Projections = {QUOTA_RESERVED: (_on_reserved,), QUOTA_RETURNED: (_on_returned,)}
