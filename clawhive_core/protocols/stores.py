"""The seams for subscriptions and for further skills."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from clawhive_core.model.late import dataclass


@dataclass(frozen=True, slots=True)
class Subscription:
    """That a user may use what a skill does not give for free."""

    user_id: str
    skill_id: str
    since: str
    """RFC 3339, UTC."""


class SubscriptionStore(Protocol):
    """The store of subscriptions to skills; a shop or an account server may keep it."""

    async def has(self, user_id: str, skill_id: str) -> bool:
        """Whether a user has subscribed to a skill; asked at each call that needs it."""
        ...

    async def add(self, user_id: str, skill_id: str) -> bool:
        """Subscribe a user to a skill; return whether that is new."""
        ...

    async def remove(self, user_id: str, skill_id: str) -> bool:
        """End a subscription; return whether there was one."""
        ...

    async def list(
        self, user_id: str | None = None, skill_id: str | None = None
    ) -> Sequence[Subscription]:
        """Return the subscriptions of a user, to a skill, or all of them, by skill and user."""
        ...


class SkillSource(Protocol):
    """A further place of skills: folders with SKILL.md or a manifest."""

    @property
    def name(self) -> str:
        """The source's name in `skills list`."""
        ...

    def folders(self) -> Sequence[str]:
        """Return absolute paths of directories that hold skills."""
        ...
