"""Terms: how often and how long a grant counts, taken out of its capability's constraints."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from clawhive_core.capabilities import Capability
from clawhive_core.capabilities.constraints import MAX_USES
from clawhive_core.errors import CapabilityError, UsageError
from clawhive_core.model.grants import CapabilityGrant


def on_terms(grant: CapabilityGrant, capability: Capability) -> CapabilityGrant:
    """Return the grant with this capability; its `uses` and `until` narrow the grant's own."""
    said = capability.constraints
    if said.uses is None and said.until is None:
        same = grant.capability == capability.text
        return grant if same else replace(grant, capability=capability.text)
    ends = [each for each in (utc(grant.expires_at), said.until) if each is not None]
    counts = [each for each in (grant.uses, said.uses) if each is not None]
    return replace(
        grant,
        capability=replace(capability, constraints=said.of_arguments()).text,
        expires_at=min(ends, default=None),
        uses=min(counts, default=None),
    )


def refuse_counting(capability: Capability, what: str) -> None:
    """Refuse `uses` where nothing is counted.

    Raises:
        CapabilityError: The capability has it.
    """
    if capability.constraints.uses is not None:
        raise CapabilityError(
            f"`uses` counts the calls of a grant; {what} counts nothing.",
            place=f"`{capability.text}`",
            fix=f"Write `{replace(capability, constraints=capability.constraints.of_arguments())}`,"
            " and give the counted right by `clawhive grants issue CAP --uses N`.",
        )


def utc(moment: str | None) -> str | None:
    """Return a moment in the one form in which texts compare as times do."""
    return None if moment is None else written(datetime.fromisoformat(moment))


def written(moment: datetime) -> str:
    """Return a moment as the log writes it: RFC 3339, microseconds, UTC."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def is_live(grant: CapabilityGrant, now: datetime) -> bool:
    """Whether a grant has not expired; an expiry that cannot be read is over."""
    if grant.expires_at is None:
        return grant.scope != "persistent"
    try:
        return datetime.fromisoformat(grant.expires_at) > now
    except (ValueError, TypeError):
        return False


def usable(grant: CapabilityGrant, now: datetime) -> CapabilityGrant:
    """Return a new grant.

    Raises:
        UsageError: It is over already, or its uses could not be counted.
    """
    if not is_live(grant, now):
        raise UsageError(
            f"the right ended at {grant.expires_at}", place="CAP", fix="write a later `until`"
        )
    if grant.uses is not None and not 0 < grant.uses <= MAX_USES:
        raise UsageError(
            f"{grant.uses} is no number of uses", place="--uses", fix=f"1 to {MAX_USES}"
        )
    if grant.uses is not None and grant.scope == "persistent":
        raise UsageError(
            "uses are counted in a project's log, and a right for every project is not in it",
            place="--uses",
            fix="give it to a session (`--session S`) or a task (`--task T`)",
        )
    return grant
