"""The rules of one task: its grants and denies, ready to be asked."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from clawhive_core.capabilities import Capability, contains, overlaps, parse
from clawhive_core.model.grants import CapabilityGrant
from clawhive_core.policy.boundary import cut
from clawhive_core.policy.protected import as_rules, protection_of
from clawhive_core.protocols.check import Verdict

OWN_RULE = "protected:own"
"""Denies ClawHive's own files and git's, whoever grants."""

SENSITIVE_RULE = "protected:sensitive"
"""Denies a sensitive name until a person grants exactly it."""

_HANDLED = frozenset(("fs.read", "fs.write"))
"""The verbs of the workspace handle, which asks again for each path."""


@dataclass(frozen=True, slots=True)
class Authority:
    """What the rules say of one capability, and which rule says it."""

    verdict: Verdict
    rule: str
    """The id of the grant or deny, `protected:...`, or `no-grant`."""
    grant: CapabilityGrant | None = None
    by_person: bool = False
    """Whether a grant that a person gave allows it."""


class Rules:
    """Grants and denies by verb; order, grouping and duplicates change nothing.

    Args:
        grants: Every grant that counts for this principal and task; those of one step count in
            `of_step` only.
        denies: Patterns of `[policy] deny`.
        asks: Patterns of `[policy] ask`.
    """

    def __init__(
        self,
        grants: Iterable[CapabilityGrant],
        denies: Sequence[str] = (),
        asks: Sequence[str] = (),
    ) -> None:
        self.grants: tuple[CapabilityGrant, ...] = ()
        self.denies = tuple(denies)
        self.asks = tuple(asks)
        self._of_step: dict[str, Rules] = {}
        self._step_grants: tuple[CapabilityGrant, ...] = ()
        self._grants: dict[str, list[tuple[Capability, CapabilityGrant]]] = {}
        self._next_end: str | None = None
        self._bounded: dict[tuple[str, ...], Rules] = {}
        self._denies = _by_verb(denies)
        self._asks = _by_verb(asks)
        self.extend(grants)

    def extend(self, grants: Iterable[CapabilityGrant]) -> None:
        """Let further grants count from now on; those that are known change nothing."""
        known = {grant.grant_id for grant in (*self.grants, *self._step_grants)}
        added = tuple(grant for grant in grants if not known or grant.grant_id not in known)
        self._of_step = {}
        self._step_grants += tuple(grant for grant in added if grant.scope == "step")
        new = tuple(grant for grant in added if grant.scope != "step")
        self.grants += new
        for grant in new:
            pattern = parse(grant.capability)
            self._grants.setdefault(pattern.verb, []).append((pattern, grant))
        for held in self._grants.values():
            held.sort(key=_weakness)
        every = (*self.grants, *self._step_grants)
        ends = [grant.expires_at for grant in every if grant.expires_at is not None]
        self._next_end = min(ends, default=None)
        for bounds, rules in self._bounded.items():
            rules.extend(cut(added, bounds))

    def bounded(self, bounds: Sequence[str]) -> Rules:
        """Return rules that allow no more than these and no more than `bounds`.

        The grants keep their ids. Equal bounds give the same rules, which later grants of these
        reach too.

        Args:
            bounds: Canonical patterns; what none of them covers is denied.
        """
        key = tuple(bounds)
        if key not in self._bounded:
            every = (*self.grants, *self._step_grants)
            self._bounded[key] = Rules(cut(every, key), self.denies, self.asks)
        return self._bounded[key]

    @property
    def may_expire(self) -> bool:
        """Whether any of the grants ends at some time."""
        return self._next_end is not None

    def of_step(self, step: str) -> Rules:
        """Return these rules with the grants of one step."""
        if not self._step_grants:
            return self
        if (found := self._of_step.get(step)) is None:
            own = [
                replace(each, scope="task") for each in self._step_grants if each.scope_id == step
            ]
            found = Rules((*self.grants, *own), self.denies, self.asks) if own else self
            self._of_step[step] = found
        return found

    def end_step(self, step: str) -> tuple[CapabilityGrant, ...]:
        """Let the grants of a step that has ended count no longer; return them."""
        ended = tuple(each for each in self._step_grants if each.scope_id == step)
        if ended:
            self._step_grants = tuple(each for each in self._step_grants if each not in ended)
            self._of_step = {}
        for rules in self._bounded.values():
            rules.end_step(step)
        return ended

    def expire(self, now: str) -> None:
        """Let the grants whose time is over count no longer.

        Args:
            now: The present as the log writes it: RFC 3339, microseconds, UTC.
        """
        if self._next_end is None or now < self._next_end:
            return
        every = (*self.grants, *self._step_grants)
        left = [each for each in every if each.expires_at is None or each.expires_at > now]
        self.grants, self._step_grants, self._grants = (), (), {}
        self.extend(left)

    def authority(self, capability: Capability) -> Authority:
        """Return deny where a deny matches, else the least verdict of its grants, else deny."""
        # A folder's capability may hold denied paths: the workspace handle leaves those out one by
        # one. Nothing stands behind other verbs, so there an overlap with a deny is a deny.
        hit = contains if capability.verb in _HANDLED else overlaps
        for pattern in self._denies.get(capability.verb, ()):
            if hit(pattern, capability):
                return Authority("deny", f"deny:{pattern}")
        if (protection := self._protection(capability)) is not None:
            return Authority("deny", protection)
        for pattern, grant in self._grants.get(capability.verb, ()):
            if contains(pattern, capability):
                return self._granted(capability, grant)
        return Authority("deny", "no-grant")

    def _granted(self, capability: Capability, best: CapabilityGrant) -> Authority:
        """Return what a capability gets from the strongest grant that covers it."""
        if best.mode != "allow":
            return Authority("ask", best.grant_id, best)
        by_person = best.by_person
        if self._asks and not by_person and self._asks_for(capability):
            return Authority("ask", "policy.ask", best)
        return Authority("allow", best.grant_id, best, by_person)

    def _asks_for(self, capability: Capability) -> bool:
        return any(overlaps(pattern, capability) for pattern in self._asks.get(capability.verb, ()))

    def _protection(self, capability: Capability) -> str | None:
        """Return the rule that protects a path whatever was granted, or None."""
        if not capability.verb.startswith("fs."):
            return None
        protection = protection_of(capability.parts[0])
        if protection != "sensitive":
            return None if protection is None else OWN_RULE
        grants = self._grants.get(capability.verb, ())
        exact = any(grant.by_person and pattern == capability for pattern, grant in grants)
        return None if exact else SENSITIVE_RULE

    def counts(self) -> tuple[int, int, int]:
        """Return how many rules allow, ask and deny."""
        allow = sum(1 for grant in self.grants if grant.mode == "allow")
        ask = len(self.grants) - allow + len(self.asks)
        return allow, ask, len(self.denies) + len(as_rules())


def _by_verb(patterns: Iterable[str]) -> dict[str, list[Capability]]:
    table: dict[str, list[Capability]] = {}
    for text in patterns:
        pattern = parse(text)
        table.setdefault(pattern.verb, []).append(pattern)
    return table


def _weakness(held: tuple[Capability, CapabilityGrant]) -> int:
    """Order grants: a person's, then others that allow, then those that ask."""
    grant = held[1]
    return 2 if grant.mode != "allow" else int(not grant.by_person)
