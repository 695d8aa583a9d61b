"""Quotas: how often a user may call a tool, counted in the log for all processes together.

A window is one second, minute, hour or day of UTC, from its start to its end; a call counts in the
window in which its intent is written. The count is exact: it is taken and checked in the
transaction of the intent, where nobody else can write.
"""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Mapping
from typing import Any

from clawhive_core.errors import RunError
from clawhive_core.events.kinds import QUOTA_RESERVED, QUOTA_RETURNED
from clawhive_core.model.events import Event, StoredEvent
from clawhive_core.model.late import dataclass
from clawhive_core.protocols.ledger import QuotaLeft
from clawhive_core.storage.sqlite.expectations import goes_on
from clawhive_core.storage.sqlite.log import EventLog, Projections
from clawhive_core.storage.sqlite.migrations import RoomSchema

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

USED_UP = "rate_limited"

_FIND = "SELECT since, used FROM quotas WHERE user_id = ? AND tool = ? AND seconds = ?"


@dataclass(frozen=True, slots=True)
class Quota:
    """One call's claim: one of so many calls in a window."""

    user_id: str
    tool: str
    limit: int
    seconds: int
    """The length of the window."""
    now: float
    """When it is claimed, in Unix seconds."""

    @property
    def since(self) -> int:
        """When the window began, in Unix seconds."""
        return int(self.now // self.seconds * self.seconds)

    def reserved(self, **ids: Any) -> Event:
        """Return the event that counts the call."""
        return Event(QUOTA_RESERVED, self._body(), **ids)

    def returned(self, **ids: Any) -> Event:
        """Return the event that gives it back, as the call never started."""
        return Event(QUOTA_RETURNED, self._body(), **ids)

    @property
    def left(self) -> QuotaLeft:
        """What its intent expects: that a call is left."""
        return QuotaLeft(self.user_id, self.tool, self.limit, self.seconds, self.since)

    def require_left(self, log: EventLog) -> None:
        """Raise where no call is left now; nothing is counted.

        Raises:
            RunError: As `used_up`.
        """
        for row in log.read(_FIND, self._key):
            since, used = int(row["since"]), int(row["used"])
            if used >= self.limit and goes_on(since, self.since, self.seconds):
                raise self.used_up(since)

    def used_up(self, since: int) -> RunError:
        """Return the error `rate_limited`; `data` has `retry_after`, in seconds.

        Args:
            since: When the window that is full began.
        """
        seconds = max(1, math.ceil(since + self.seconds - self.now))
        return RunError(
            f"all {self.limit} calls of `{self.tool}` in this time were made",
            place=self.tool,
            fix=f"wait {seconds} seconds",
            code=USED_UP,
            data={"retry_after": seconds},
        )

    @property
    def _key(self) -> tuple[str, str, int]:
        return self.user_id, self.tool, self.seconds

    def _body(self) -> dict[str, Any]:
        return {
            "user_id": self.user_id,
            "tool": self.tool,
            "limit": self.limit,
            "seconds": self.seconds,
            "since": self.since,
        }


def _on_reserved(connection: sqlite3.Connection, stored: StoredEvent) -> None:
    body = stored.event.body
    row = connection.execute(_FIND, _key(body)).fetchone()
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
