"""Where runs and subscriptions live, so that several machines can share them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from clawhive_core.model.events import Event, StoredEvent
from clawhive_core.model.late import dataclass


class RunStore(Protocol):
    """The append-only log of runs and the owner rows beside it; one conformance suite for all."""

    async def append(self, *events: Event, sync: bool = False) -> list[int]:
        """Commit events in order and return their sequence numbers.

        They are then durable against a killed process, with `sync` against a power cut.

        Raises:
            LogWriteFailed: Nothing of the batch was kept.
        """
        ...

    async def events(self, run_id: str) -> list[StoredEvent]:
        """Return a run's events in order."""
        ...

    async def claim(self, run_id: str, owner: Mapping[str, Any]) -> bool:
        """Take a run that has no living owner, by compare-and-swap."""
        ...


@dataclass(frozen=True, slots=True)
class Subscription:
    """That a user may use what a skill does not give for free."""

    user_id: str
    skill_id: str
    since: str
    """RFC 3339, UTC."""


class SubscriptionStore(Protocol):
    """Who has subscribed to which skill; a shop or an account server may keep it."""

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


class Channel(Protocol):
    """A way in for messages of people, such as a chat service."""

    @property
    def name(self) -> str:
        """The channel's name."""
        ...

    async def serve(self, hive: Any) -> None:
        """Receive messages, run tasks and reply until cancelled."""
        ...
