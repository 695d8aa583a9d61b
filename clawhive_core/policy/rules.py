"""The rules of one task: its grants and denies, ready to be asked."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from clawhive_core.capabilities import Capability, matches, overlaps, parse
from clawhive_core.model.grants import CapabilityGrant
from clawhive_core.policy.protected import as_rules, is_own, is_sensitive
from clawhive_core.protocols.check import Verdict

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
        self._denies = _by_verb(denies)
        self._asks = _by_verb(asks)
        self.extend(grants)

    def extend(self, grants: Iterable[CapabilityGrant]) -> None:
        """Let further grants count from now on; those that are known change nothing."""
        known = {grant.grant_id for grant in (*self.grants, *self._step_grants)}
        new = tuple(grant for grant in grants if not known or grant.grant_id not in known)
        self._of_step = {}
        self._step_grants += tuple(grant for grant in new if grant.scope == "step")
        new = tuple(grant for grant in new if grant.scope != "step")
        self.grants += new
        for grant in new:
            pattern = parse(grant.capability)
            self._grants.setdefault(pattern.verb, []).append((pattern, grant))
        every = (*self.grants, *self._step_grants)
        ends = [grant.expires_at for grant in every if grant.expires_at is not None]
        self._next_end = min(ends, default=None)

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
        hit = matches if capability.verb in _HANDLED else overlaps
        for pattern in self._denies.get(capability.verb, ()):
            if hit(pattern, capability):
                return Authority("deny", f"deny:{pattern}")
        found = [
            grant
            for pattern, grant in self._grants.get(capability.verb, ())
            if matches(pattern, capability)
        ]
        if (protection := _protection(capability, found)) is not None:
            return Authority("deny", protection)
        if not found:
            return Authority("deny", "no-grant")
        allowing = [grant for grant in found if grant.mode == "allow"]
        if not allowing:
            return Authority("ask", found[0].grant_id, found[0])
        given = next((grant for grant in allowing if grant.by_person), None)
        best = given or allowing[0]
        if given is None and self._asks_for(capability):
            return Authority("ask", "policy.ask", best)
        return Authority("allow", best.grant_id, best, by_person=given is not None)

    def _asks_for(self, capability: Capability) -> bool:
        return any(overlaps(pattern, capability) for pattern in self._asks.get(capability.verb, ()))

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


def _protection(capability: Capability, grants: Sequence[CapabilityGrant]) -> str | None:
    """Return the rule that protects a path whatever was granted, or None."""
    if not capability.verb.startswith("fs."):
        return None
    segments = capability.parts[0]
    if is_own(segments):
        return "protected:own"
    if not is_sensitive(segments):
        return None
    exact = any(grant.by_person and parse(grant.capability) == capability for grant in grants)
    return None if exact else SENSITIVE_RULE
