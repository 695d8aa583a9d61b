"""Access to what skills export, and how often: the contract of the exporting skill says.

A skill's calls of its own tools are its own affair: they need no subscription and count nowhere.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from clawhive_core.errors import ClawHiveError, RunError
from clawhive_core.execution.outcomes import Refused
from clawhive_core.execution.pending import PendingCall
from clawhive_core.execution.refusals import refuse
from clawhive_core.model.late import dataclass
from clawhive_core.model.principal import Principal
from clawhive_core.model.tools import ToolMeta
from clawhive_core.policy.quotas import Quota
from clawhive_core.protocols.ledger import Ledger
from clawhive_core.protocols.stores import SubscriptionStore
from clawhive_core.skills.contracts.skill import Access, Skill

_PREFIX = "skill_"


@dataclass(frozen=True, slots=True)
class SkillAccess:
    """Holds calls against the access of the skill that exports the tool."""

    skills: Callable[[], Sequence[Skill]]
    """The loaded skills."""
    subscriptions: SubscriptionStore
    log: Ledger
    """The log in which quotas are counted."""
    clock: Callable[[], float] = time.time
    """The present, in Unix seconds."""

    def concerns(self, meta: ToolMeta) -> bool:
        """Whether a tool is a skill's, so that its calls may need anything."""
        return meta.provider_id.startswith(_PREFIX)

    async def admit(self, pending: PendingCall, meta: ToolMeta) -> None:
        """Let a call pass, with the quota that it will use.

        Raises:
            Refused: `subscription_required`; `rate_limited`; `denied` where nobody can tell who
                has subscribed.
        """
        skill = self._exporter(meta)
        if skill is None or pending.scope.principal == Principal("skill", skill.id):
            return
        tool, access = meta.name.removeprefix(f"{skill.id}."), skill.exports.access
        if access.needs_subscription(tool):
            await self._require_subscription(pending, skill)
        pending.quota = self._quota(pending, meta, access)
        if pending.quota is not None:
            try:
                pending.quota.require_left(self.log)
            except RunError as error:
                raise rate_limited(meta.name, error) from None

    def _exporter(self, meta: ToolMeta) -> Skill | None:
        """Return the skill that exports a tool; its task types are tools too, and not exported."""
        if not self.concerns(meta):
            return None
        skill_id, _, tool = meta.name.rpartition(".")
        for skill in self.skills():
            if f"{_PREFIX}{skill.id}" == meta.provider_id:
                return skill if skill.id == skill_id and tool in skill.exports.names() else None
        return None

    async def _require_subscription(self, pending: PendingCall, skill: Skill) -> None:
        user = pending.scope.run.user_id
        try:
            has = await self.subscriptions.has(user, skill.id)
        except Exception as error:
            what = error.message if isinstance(error, ClawHiveError) else type(error).__name__
            message = f"nobody can tell who has subscribed to `{skill.id}`: {what}"
            raise refuse("denied", message, {"action": "ask_user"}) from error
        if not has:
            raise subscription_required(pending.call.name, skill.id, user)

    def _quota(self, pending: PendingCall, meta: ToolMeta, access: Access) -> Quota | None:
        """Return what a call uses; one that is restarted uses nothing more."""
        rate = access.rate_of(meta.name.rpartition(".")[2])
        if rate is None or pending.scope.attempt > 1:
            return None
        user = pending.scope.run.user_id
        return Quota(user, meta.name, rate.count, rate.seconds, self.clock())


def subscription_required(name: str, skill_id: str, user_id: str) -> Refused:
    """The tool is for subscribers of the skill that exports it."""
    import shlex

    command = shlex.join(["clawhive", "subscriptions", "add", skill_id, "--user", user_id])
    return refuse(
        "subscription_required",
        f"`{name}` is for subscribers of the skill `{skill_id}`, and `{user_id}` is none",
        {"action": "ask_user", "command": command},
        {"skill_id": skill_id, "action": "show_subscribe_card"},
    )


def rate_limited(name: str, error: RunError) -> Refused:
    """The user made all the calls of the tool that its skill allows for now."""
    seconds = error.data["retry_after"]
    return refuse(
        "rate_limited",
        f"{error.message}: `{name}` can be called again in {seconds} seconds",
        {"action": "wait", "seconds": seconds},
        {"retry_after": seconds},
    )
