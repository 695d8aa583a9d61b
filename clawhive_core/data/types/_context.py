"""The context that every handler of a skill gets beside its input, and the refusal of a call."""

# Written by `clawhive skills types` from the contract: do not edit.
# ruff: noqa

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NotRequired, Protocol

from typing_extensions import TypedDict


class Refusal(TypedDict):
    """The answer of a call that was refused or failed; a handler may answer one itself."""

    error: str
    "The code: `clawhive explain CODE`."
    message: str
    reason: NotRequired[str | None]
    next: NotRequired[dict[str, Any]]
    skill_id: NotRequired[str]
    "With `subscription_required`: the skill to subscribe to."
    action: NotRequired[str]
    retry_after: NotRequired[float]
    "With `rate_limited`: the seconds to wait."


class SkillContext(Protocol):
    """The second argument of a handler, without `call`, which differs from skill to skill."""

    @property
    def skill_id(self) -> str: ...
    @property
    def user_id(self) -> str: ...
    @property
    def profile(self) -> Mapping[str, Any]: ...
    @property
    def run_id(self) -> str: ...
    @property
    def conversation_id(self) -> str: ...

    async def read(self, path: str) -> Any:
        """Return what was saved under `skills.SKILL.KEY`, None where nothing was."""
        ...

    async def save(self, path: str, data: Any) -> None:
        """Keep a JSON value of at most 1 MiB under `skills.SKILL.KEY`."""
        ...

    async def show(self, card_type: str, data: Mapping[str, Any] | None = None) -> None:
        """Show the user a card at once."""
        ...
