"""Subscriptions: which user may use what a skill does not give for free."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from clawhive_core.errors import PluginError
from clawhive_core.events.kinds import SUBSCRIPTION_ADDED, SUBSCRIPTION_REMOVED
from clawhive_core.model.events import Event, StoredEvent
from clawhive_core.model.principal import LOCAL_USER
from clawhive_core.protocols.ledger import SubscriptionIs, Unmet
from clawhive_core.protocols.stores import Subscription
from clawhive_core.storage.sqlite.founded import Standing
from clawhive_core.storage.sqlite.log import EventLog, Projections
from clawhive_core.storage.sqlite.migrations import RoomSchema

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

_ONE = "SELECT 1 FROM subscriptions WHERE user_id = ? AND skill_id = ?"
_SOME = (
    "SELECT user_id, skill_id, since FROM subscriptions WHERE user_id = coalesce(?, user_id)"
    " AND skill_id = coalesce(?, skill_id) ORDER BY skill_id, user_id"
)


class SubscriptionBook:
    """The subscriptions of one project (`clawhive_core.SubscriptionStore`).

    Args:
        log: The project's log, which holds them; None where nothing is recorded yet.
    """

    def __init__(self, log: EventLog | None) -> None:
        self._log = log

    async def has(self, user_id: str, skill_id: str) -> bool:
        """Whether a user has subscribed to a skill."""
        return bool(self._log and self._log.read(_ONE, (user_id, skill_id)))

    async def add(self, user_id: str, skill_id: str) -> bool:
        """Subscribe a user to a skill; return whether that is new."""
        return await self._change(SUBSCRIPTION_ADDED, user_id, skill_id)

    async def remove(self, user_id: str, skill_id: str) -> bool:
        """End a subscription; return whether there was one."""
        return await self._change(SUBSCRIPTION_REMOVED, user_id, skill_id)

    async def list(
        self, user_id: str | None = None, skill_id: str | None = None
    ) -> Sequence[Subscription]:
        """Return the subscriptions of a user, to a skill, or all of them."""
        if self._log is None:
            return []
        return [Subscription(*row) for row in self._log.read(_SOME, (user_id, skill_id))]

    async def _change(self, kind: str, user_id: str, skill_id: str) -> bool:
        if self._log is None:
            return False
        body = {"user_id": user_id, "skill_id": skill_id}
        event = Event(kind, body, principal=str(LOCAL_USER))
        before = SubscriptionIs(user_id, skill_id, there=kind == SUBSCRIPTION_REMOVED)
        try:
            await self._log.append(event, sync=True, expects=(before,))
        except Unmet:
            return False
        return True


class FailedSubscriptions:
    """Stands for the store of a plugin that failed to load: nobody is taken for a subscriber."""

    def __init__(self, plugin_id: str) -> None:
        self._plugin_id = plugin_id

    async def has(self, user_id: str, skill_id: str) -> bool:
        """Fail; so do the others.

        Raises:
            PluginError: Always.
        """
        raise self._error(user_id, skill_id)

    async def add(self, user_id: str, skill_id: str) -> bool:
        """Fail."""
        raise self._error(user_id, skill_id)

    async def remove(self, user_id: str, skill_id: str) -> bool:
        """Fail."""
        raise self._error(user_id, skill_id)

    async def list(
        self, user_id: str | None = None, skill_id: str | None = None
    ) -> Sequence[Subscription]:
        """Fail."""
        raise self._error(user_id, skill_id)

    def _error(self, *_: str | None) -> PluginError:
        return PluginError(
            f"the subscriptions are kept by the plugin `{self._plugin_id}`, which failed to load",
            fix="clawhive plugins",
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

STANDING = Standing(TABLE, "skill_id, user_id", "true", _KINDS, PROJECTIONS)
"""The subscriptions that there are: each must be in the log too."""
