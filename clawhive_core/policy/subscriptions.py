"""Subscriptions: which user may use what a skill does not give for free."""

from __future__ import annotations

from collections.abc import Sequence

from clawhive_core.errors import PluginError
from clawhive_core.events.kinds import SUBSCRIPTION_ADDED, SUBSCRIPTION_REMOVED
from clawhive_core.model.events import Event
from clawhive_core.model.principal import LOCAL_USER
from clawhive_core.protocols.ledger import Ledger, SubscriptionIs, SubscriptionsWhere, Unmet
from clawhive_core.protocols.stores import Subscription


class SubscriptionBook:
    """The subscriptions of one project (`clawhive_core.SubscriptionStore`).

    Args:
        log: The project's log, which holds them; None where nothing is recorded yet.
    """

    def __init__(self, log: Ledger | None) -> None:
        self._log = log

    async def has(self, user_id: str, skill_id: str) -> bool:
        """Whether a user has subscribed to a skill."""
        return bool(await self.list(user_id, skill_id))

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
        return self._log.find(SubscriptionsWhere(user_id, skill_id)).items

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
