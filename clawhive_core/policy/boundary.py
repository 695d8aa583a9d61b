"""A task's boundary: the meet of what the user's side gives and what its skill permits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from clawhive_core.capabilities import Capability, meet, normalise, parse, verb_of
from clawhive_core.model.grants import CapabilityGrant
from clawhive_core.model.ids import new_id
from clawhive_core.policy.protected import protection_in
from clawhive_core.policy.terms import on_terms, refuse_counting


def within(
    grants: Sequence[CapabilityGrant], permissions: Sequence[str], variables: Mapping[str, str]
) -> list[CapabilityGrant]:
    """Return the grants cut down to a skill's permissions; no permissions, nothing cut.

    Raises:
        CapabilityError: A permission cannot be used.
    """
    if not permissions:
        return list(grants)
    found: dict[CapabilityGrant, CapabilityGrant] = {}
    for each in cut(grants, [normalise(text, variables) for text in permissions]):
        found.setdefault(replace(each, grant_id=""), replace(each, grant_id=new_id("grant")))
    return list(found.values())


def cut(grants: Iterable[CapabilityGrant], bounds: Sequence[str]) -> Iterator[CapabilityGrant]:
    """Yield what each grant and each bound (a canonical pattern) have in common; ids stay.

    Raises:
        CapabilityError: A bound counts uses.
    """
    patterns = _patterns(bounds)
    for grant in grants:
        for found in _cut(grant, parse(grant.capability), patterns):
            yield _delegating(found) if found.delegate else found


def attenuate(
    grants: Iterable[CapabilityGrant], bounds: Sequence[str]
) -> Iterator[CapabilityGrant]:
    """Yield what a child gets of its parent's grants: the meet of delegate faces and bounds.

    The ids stay, and what the child gets it may give on.

    Args:
        grants: The parent's.
        bounds: Canonical patterns of what the child asks for.

    Raises:
        CapabilityError: A bound counts uses.
    """
    patterns = _patterns(bounds)
    for grant in grants:
        face = delegate_of(grant)
        if face is not None:
            yield from _cut(replace(grant, capability=face.text, delegate=None), face, patterns)


def handed_on(grants: Iterable[CapabilityGrant]) -> Iterator[CapabilityGrant]:
    """Yield what a child gets of its parent's grants where it asks for all; the ids stay."""
    for grant in grants:
        face = delegate_of(grant)
        if face is not None:
            yield on_terms(replace(grant, delegate=None), face)


def delegate_of(grant: CapabilityGrant) -> Capability | None:
    """Return what children may get of a grant: what it says, within its use; None for nothing."""
    use = parse(grant.capability)
    if grant.delegate is None:
        verb = verb_of(use.verb)
        return None if verb is not None and verb.unsafe else use
    return meet(use, parse(grant.delegate)) if grant.delegate else None


def _patterns(bounds: Sequence[str]) -> list[Capability]:
    patterns = [parse(bound) for bound in bounds]
    for pattern in patterns:
        refuse_counting(pattern, "a bound")
    return patterns


def _cut(
    grant: CapabilityGrant, given: Capability, patterns: Sequence[Capability]
) -> Iterator[CapabilityGrant]:
    for pattern in patterns:
        common = meet(given, pattern)
        if common is None:
            continue
        # A bound must not name a protected file for the person who granted its folder.
        protection = None if common == given else protection_in(common)
        if protection == "asks":
            yield on_terms(replace(grant, mode="ask"), common)
        elif protection != "sensitive":
            yield on_terms(grant, common)


def _delegating(grant: CapabilityGrant) -> CapabilityGrant:
    """Return a grant whose delegate face is within its use."""
    face = delegate_of(grant)
    return replace(grant, delegate="" if face is None else face.text)
