"""What changed of who may call a skill's tools, and how often."""

from __future__ import annotations

from collections.abc import Iterator

from clawhive_core.skills.changes.change import Change
from clawhive_core.skills.contracts.skill import Rate, Skill


def changed_access(old: Skill, new: Skill) -> Iterator[Change]:
    """Yield what changed of the access to the tools that both versions export."""
    before, after = old.exports.access, new.exports.access
    kept = set(old.exports.names())
    for tool in new.exports.tools:
        if tool.name not in kept:
            continue
        was, now = before.needs_subscription(tool.name), after.needs_subscription(tool.name)
        if was != now:
            impact = "breaking" if now else "additive"
            message = f"`{tool.name}` is {'for subscribers only' if now else 'free'} now"
            yield Change("subscription", tool.name, impact, message, tool.place)
        one, other = before.rate_of(tool.name), after.rate_of(tool.name)
        if one != other:
            impact = "additive" if allows(other, one) else "breaking"
            message = f"rate_limit of `{tool.name}`: {_rate(one)}, now {_rate(other)}"
            yield Change("rate_limit", tool.name, impact, message, tool.place)


def allows(rate: Rate | None, calls: Rate | None) -> bool:
    """Whether a rate lets every call through that another one lets through.

    Windows lie inside each other: a longer one may hold the calls of each shorter one in it, and
    all calls of a longer one may fall into one shorter one.
    """
    if rate is None or calls is None:
        return rate is None
    return rate.count >= calls.count * max(1, rate.seconds // calls.seconds)


def _rate(rate: Rate | None) -> str:
    return "unlimited" if rate is None else str(rate)
