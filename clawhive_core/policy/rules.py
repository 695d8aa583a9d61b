"""The rules of one task: its grants and denies, ready to be asked."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from clawhive_core.capabilities import Capability, PatternIndex, contains, parse
from clawhive_core.model.grants import CapabilityGrant
from clawhive_core.model.identity import ToolIdentity
from clawhive_core.model.late import dataclass, per_call
from clawhive_core.model.tools import ToolMeta
from clawhive_core.policy.boundary import attenuate
from clawhive_core.policy.protected import Protection, as_rules, protection_in
from clawhive_core.policy.terms import refuse_counting
from clawhive_core.protocols.check import Verdict

OWN_RULE = "protected:own"
"""Denies ClawHive's own files and git's configuration, whoever grants."""

CLOSED_RULE = "protected:closed"
"""Denies a change of git's files and of what runs by itself, whoever grants."""

ASKS_RULE = "protected:asks"
"""Asks for a change of such a file until a person grants exactly it."""

SENSITIVE_RULE = "protected:sensitive"
"""Denies a sensitive name until a person grants exactly it."""

NO_GRANT = "no-grant"
"""Denies what no grant covers."""

_SHUT: Mapping[Protection | None, str] = {"own": OWN_RULE, "closed": CLOSED_RULE}
"""The rules that no grant lifts."""

_KNOWN = 4096
"""The number of answers that are kept."""

_HANDLED = frozenset(("fs.read", "fs.write"))
"""The verbs of the workspace handle, which asks again for each path."""


@dataclass(frozen=True, slots=True)
class Authority:
    """The verdict of the rules on one capability, and the rule that gives it."""

    verdict: Verdict
    rule: str
    """The id of the grant or deny, `protected:...`, or `no-grant`."""
    grant: CapabilityGrant | None = None
    by_person: bool = False
    """Whether a grant that a person gave allows it."""


@per_call
class Decision:
    """The verdict on a call, and the reasons."""

    verdict: Verdict
    rules: tuple[str, ...]
    """The rules that made it, for the log and for `policy explain`, never for a model."""
    granted: tuple[tuple[str, str], ...]
    """Each allowed capability and the id of its grant."""
    missing: tuple[str, ...]
    """Capabilities that no grant covers."""
    asked: tuple[str, ...]
    """Capabilities whose grants ask."""
    needed: tuple[str, ...] = ()
    """Capabilities that a person would have to grant, so that no right and no risk asks."""
    final: bool = False
    """Whether it is denied by what no grant lifts: a stored deny, an own file, a check."""
    each_time: bool = False
    """Whether it asks, whatever is granted: an unsafe tool, or a check."""
    floor: bool = False
    """Whether the tool's own risk asks, although every right is there."""
    counted: tuple[str, ...] = ()
    """The grants that it uses and whose uses are counted."""
    suspended: tuple[str, ...] = ()
    """The grants that would count, had the tool not changed since a person gave them."""


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
        self._grants: dict[str, PatternIndex[CapabilityGrant]] = {}
        """By verb; made when it is first asked for, since a task asks for few of its verbs."""
        self._of_tools: dict[str, list[tuple[ToolIdentity, CapabilityGrant]]] = {}
        self._next_end: str | None = None
        self.is_derived = False
        """Whether any grant comes from another one, such as a person's, that may be revoked."""
        self._watched: dict[Callable[[], object], Collection[str]] = {}
        self._gone: frozenset[str] = frozenset()
        """The ids of the grants that were revoked."""
        self._bounded: dict[tuple[str, ...], Rules] = {}
        self._known: dict[str, Authority] = {}
        self._decided: dict[tuple[str, ...], Decision] = {}
        self._is_constrained = any(map(_is_constrained, (*denies, *asks)))
        self._denies = _by_verb(self.denies)
        self._asks = _by_verb(self.asks)
        self.extend(grants)

    def extend(self, grants: Iterable[CapabilityGrant]) -> None:
        """Let further grants count from now on; those that are known change nothing."""
        known = {grant.grant_id for grant in self.every}
        added = [grant for grant in grants if grant.grant_id not in known]
        self._of_step, self._known, self._decided = {}, {}, {}
        self._step_grants += tuple([grant for grant in added if grant.scope == "step"])
        new = [grant for grant in added if grant.scope != "step"]
        self.grants += tuple(new)
        for grant in new:
            if grant.tool is not None:
                identity = ToolIdentity.read(grant.tool)
                if identity is None:
                    continue  # nobody can say what it was given for: it counts for nothing
                self._of_tools.setdefault(identity.name, []).append((identity, grant))
            if _is_constrained(parse(grant.capability).text):
                self._is_constrained = True
        self._grants = {}  # after the grants, and a new one: whoever still fills the old is unheard
        every = self.every
        self._next_end = min([each.expires_at for each in every if each.expires_at], default=None)
        self.is_derived = any(each.parent_grant is not None for each in every)
        self._known, self._decided = {}, {}  # once more: a tool's thread may have asked meanwhile
        for bounds, rules in self._bounded.items():
            rules.extend(attenuate(added, bounds))

    def bounded(self, bounds: Sequence[str]) -> Rules:
        """Return rules that allow no more than these and no more than `bounds`.

        A child's rights: the delegate faces of the grants, met with the bounds. The grants keep
        their ids. Equal bounds give the same rules, which later grants of these reach too.

        Args:
            bounds: Canonical patterns; what none of them covers is denied.
        """
        key = tuple(bounds)
        if key not in self._bounded:
            self._bounded[key] = Rules(attenuate(self.every, key), self.denies, self.asks)
        return self._bounded[key]

    @property
    def may_expire(self) -> bool:
        """Whether any of the grants ends at some time."""
        return self._next_end is not None

    @property
    def differ_by_step(self) -> bool:
        """Whether any of the grants is one step's own."""
        return bool(self._step_grants)

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
        ended = tuple([each for each in self._step_grants if each.scope_id == step])
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
        self._keep(each for each in self.every if each.expires_at is None or each.expires_at > now)

    @property
    def every(self) -> tuple[CapabilityGrant, ...]:
        """Every grant, those of steps too."""
        return (*self.grants, *self._step_grants)

    def revoke(self, gone: Iterable[str], *, used_up: bool = False) -> tuple[CapabilityGrant, ...]:
        """Let grants count no longer, nor what was derived from them; cut what uses them.

        Args:
            gone: Ids of grants, held here or further up.
            used_up: Whether their uses are over: what was begun with one goes on.

        Returns:
            Those that were held here.
        """
        ids, before = set(gone), -1
        while before != len(ids):
            before = len(ids)
            ids |= {each.grant_id for each in self.every if each.parent_grant in ids}
        ended = tuple(each for each in self.every if each.grant_id in ids)
        if ended:
            self._keep(each for each in self.every if each.grant_id not in ids)
            if not used_up:
                self._cut(frozenset([each.grant_id for each in ended]))
        for rules in self._bounded.values():
            rules.revoke(ids, used_up=used_up)
        return ended

    def watch(self, rights: Collection[str], cut: Callable[[], object]) -> None:
        """Have work under way cut when `revoke` ends a grant that allowed it, or has ended it.

        What a person approved as this one call needs no grant, and goes on.

        Args:
            rights: The ids of the grants.
            cut: What ends it, now or soon: a tool and all it opened, a model's turn. It is called
                before the next decision, perhaps more than once, until `unwatch`.
        """
        self._watched[cut] = rights
        if not self._gone.isdisjoint(rights):
            cut()

    def unwatch(self, cut: Callable[[], object]) -> None:
        """Let work that has ended be watched no longer."""
        self._watched.pop(cut, None)

    def _cut(self, gone: frozenset[str]) -> None:
        self._gone |= gone
        for cut, rights in tuple(self._watched.items()):
            if not gone.isdisjoint(rights):
                cut()

    def _keep(self, left: Iterable[CapabilityGrant]) -> None:
        kept = tuple(left)
        self.grants, self._step_grants, self._of_tools = (), (), {}
        self.extend(kept)

    def suspended(self, tool: ToolMeta) -> tuple[CapabilityGrant, ...]:
        """Return the grants that were given for a tool which is no longer what it was then."""
        if (given := self._of_tools.get(tool.name)) is None:
            return ()
        return tuple(grant for identity, grant in given if not identity.is_still(tool))

    def authority(
        self,
        capability: Capability,
        input: Mapping[str, Any] | None = None,
        without: Sequence[CapabilityGrant] = (),
    ) -> Authority:
        """Return deny where a deny matches, else the least verdict of its grants, else deny.

        Args:
            capability: What a call needs.
            input: The call's arguments, which constraints speak of; without them none is satisfied.
            without: Grants that do not count for it: see `suspended`.
        """
        if self._is_constrained or without:
            return self._weighed(capability, input, without)
        # A call asks at least twice: when it is decided, and by each access of its tool.
        known = self._known
        if (found := known.get(capability.text)) is None:
            if len(known) >= _KNOWN:
                known.clear()
            found = known[capability.text] = self._weighed(capability, input, ())
        return found

    @property
    def decided(self) -> dict[tuple[str, ...], Decision] | None:
        """The cache of decisions about capabilities, until these rules change.

        It is another dict from then on, and None where a call's arguments count too.
        """
        if len(self._decided) >= _KNOWN:
            self._decided.clear()
        return None if self._is_constrained else self._decided

    def _weighed(
        self,
        capability: Capability,
        input: Mapping[str, Any] | None,
        without: Sequence[CapabilityGrant],
    ) -> Authority:
        verb = capability.verb
        if (denies := self._denies.get(verb)) is not None:
            # A folder's capability may hold denied paths: the workspace handle leaves those out one
            # by one. Nothing stands behind other verbs: there an overlap with a deny is a deny.
            hits = denies.covering if verb in _HANDLED else denies.meeting
            for pattern, _ in hits(capability):
                if pattern.constraints.admit(input):
                    return Authority("deny", f"deny:{pattern}")
        protection = protection_in(capability)
        if protection in _SHUT:
            return Authority("deny", _SHUT[protection])
        best = self._best(capability, protection, input, without)
        if best is None:
            return Authority("deny", SENSITIVE_RULE if protection == "sensitive" else NO_GRANT)
        if protection == "asks" and not _names(best, parse(best.capability), capability):
            return Authority("ask", ASKS_RULE, best)
        return self._granted(capability, best, input)

    def _best(
        self,
        capability: Capability,
        protection: Protection | None,
        input: Mapping[str, Any] | None,
        without: Sequence[CapabilityGrant],
    ) -> CapabilityGrant | None:
        """Return the strongest grant that covers a capability for a call."""
        best: CapabilityGrant | None = None
        for pattern, grant in self._covering(capability, protection):
            if protection == "asks" and best is not None:
                is_exact = _names(grant, pattern, capability)
                if not is_exact and _names(best, parse(best.capability), capability):
                    break  # what was given for the folder lifts nothing that this file asks
            if grant not in without and (
                not pattern.constraints or pattern.constraints.admit(input)
            ):
                best = grant if best is None else _stronger(best, grant)
        return best

    def _granted(
        self, capability: Capability, best: CapabilityGrant, input: Mapping[str, Any] | None
    ) -> Authority:
        """Return what a capability gets from the strongest grant that covers it."""
        if best.mode != "allow":
            return Authority("ask", best.grant_id, best)
        by_person = best.by_person
        if self._asks and not by_person and self._asks_for(capability, input):
            return Authority("ask", "policy.ask", best)
        return Authority("allow", best.grant_id, best, by_person)

    def _asks_for(self, capability: Capability, input: Mapping[str, Any] | None) -> bool:
        held = self._asks.get(capability.verb)
        return held is not None and any(
            pattern.constraints.admit(input) for pattern, _ in held.meeting(capability)
        )

    def covering(
        self, capability: Capability, input: Mapping[str, Any] | None
    ) -> Iterator[CapabilityGrant]:
        """Yield the grants that cover a capability for a call."""
        for pattern, grant in self._covering(capability, protection_in(capability)):
            if pattern.constraints.admit(input):
                yield grant

    def unmet(
        self, capability: Capability, input: Mapping[str, Any] | None
    ) -> Iterator[tuple[CapabilityGrant, tuple[str, ...]]]:
        """Yield the grants that would cover a capability, and what the call does not satisfy."""
        for pattern, grant in self._covering(capability, protection_in(capability)):
            if lacking := tuple(pattern.constraints.unmet(input)):
                yield grant, lacking

    def _covering(
        self, capability: Capability, protection: Protection | None
    ) -> Iterable[tuple[Capability, CapabilityGrant]]:
        """Return the grants that speak of a capability, whatever their constraints say."""
        if protection in _SHUT:
            return ()
        found = self._of_verb(capability.verb).covering(capability)
        if protection is None:
            return found
        if protection == "asks":
            return sorted(found, key=lambda each: not _names(each[1], each[0], capability))
        return [each for each in found if _names(each[1], each[0], capability)]

    def _of_verb(self, verb: str) -> PatternIndex[CapabilityGrant]:
        """Return the grants of a verb; one for a tool that nobody can name counts for nothing."""
        table = self._grants
        if (index := table.get(verb)) is None:
            index = table[verb] = PatternIndex()
            for grant in self.grants:
                pattern = parse(grant.capability)
                if pattern.verb == verb and _is_for_known_tool(grant):
                    index.add(pattern, grant)
        return index

    def counts(self) -> tuple[int, int, int]:
        """Return how many rules allow, ask and deny."""
        allow = [grant.mode for grant in self.grants].count("allow")
        ask = len(self.grants) - allow + len(self.asks)
        return allow, ask, len(self.denies) + len(as_rules())


def _is_for_known_tool(grant: CapabilityGrant) -> bool:
    return grant.tool is None or ToolIdentity.read(grant.tool) is not None


def speaks_of(grant: CapabilityGrant, pattern: Capability, capability: Capability) -> bool:
    """Whether a grant of this pattern can count for a capability, whatever its constraints say."""
    protection = protection_in(capability)
    if protection is None or protection == "asks":
        return contains(pattern.unconstrained, capability)
    return protection == "sensitive" and _names(grant, pattern, capability)


def _names(grant: CapabilityGrant, pattern: Capability, capability: Capability) -> bool:
    """Whether a person gave just this: a broad right never covers a sensitive name."""
    return grant.by_person and pattern.unconstrained == capability


def _is_constrained(text: str) -> bool:
    """Whether a pattern has constraints: `?` stands nowhere else in one."""
    return "?" in text


@lru_cache(maxsize=64)
def _by_verb(patterns: tuple[str, ...]) -> Mapping[str, PatternIndex[None]]:
    """Return patterns by verb: the same for each run of a project, and never added to."""
    table: dict[str, PatternIndex[None]] = {}
    for text in patterns:
        pattern = parse(text)
        refuse_counting(pattern, "a deny or an ask")
        table.setdefault(pattern.verb, PatternIndex()).add(pattern, None)
    return table


def _stronger(mine: CapabilityGrant, other: CapabilityGrant) -> CapabilityGrant:
    return other if _weakness(other) < _weakness(mine) else mine


def _weakness(grant: CapabilityGrant) -> tuple[int, int, str]:
    """Order grants: a person's, then others that allow, then those that ask; uncounted first."""
    kind = 2 if grant.mode != "allow" else int(not grant.by_person)
    return kind, int(grant.uses is not None), grant.grant_id
