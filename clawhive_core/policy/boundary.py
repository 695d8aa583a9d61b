"""A task's boundary: the meet of what the user's side gives and what its skill permits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from clawhive_core.capabilities import Capability, meet, normalise, parse
from clawhive_core.model.grants import CapabilityGrant
from clawhive_core.model.ids import new_id
from clawhive_core.policy.protected import protection_of


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
    """Yield what each grant and each bound (a canonical pattern) have in common; ids stay."""
    patterns = [parse(bound) for bound in bounds]
    for grant in grants:
        given = parse(grant.capability)
        for pattern in patterns:
            common = meet(given, pattern)
            if common is not None and (common == given or not _is_sensitive(common)):
                yield replace(grant, capability=common.text)


def _is_sensitive(capability: Capability) -> bool:
    """Whether only a grant of exactly this path counts: a bound must not name it for a person."""
    if not capability.verb.startswith("fs."):
        return False
    return protection_of(capability.parts[0]) == "sensitive"
